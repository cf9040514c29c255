"""Where in a YAML file a value stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from fabricctl.inventory.problems import Problems

Step = str | int
"""A key of a mapping or an index of a list."""

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Spot:
    """The place of a value, or of the deepest part of its path that is there.

    Parameters
    ----------
    line
        From 1.
    depth
        How many steps of the path were found.
    secret
        Whether the value is vaulted and must not be shown.
    """

    line: int
    depth: int
    secret: bool = False


def compose(path: Path, shown: str) -> yaml.Node | None:
    """Return the node tree of a YAML file, None if it is empty.

    Raises
    ------
    InventoryFileError
        The file cannot be read or is no YAML; with its line.
    """
    problems = Problems()
    try:
        return yaml.compose(path.read_text(encoding="utf-8"), Loader=_Loader)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        line = mark.line + 1 if mark else 1
        problems.add(f"{shown}:{line}", f"not valid YAML: {exc.problem or exc.context}")
    except (yaml.YAMLError, UnicodeDecodeError) as exc:
        problems.add(f"{shown}:1", f"not valid YAML: {exc}")
    except OSError as exc:
        problems.add(shown, f"cannot be read: {exc.strerror}")
    problems.raise_if_any()
    return None


def entries(node: yaml.Node | None) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
    """Walk a mapping's (key, key node, value node), those of ``<<`` merges after its own."""
    if not isinstance(node, yaml.MappingNode):
        return
    merged: list[yaml.Node] = []
    for key, value in node.value:
        if key.value == "<<":
            merged.extend(value.value if isinstance(value, yaml.SequenceNode) else [value])
        else:
            yield (key.value if isinstance(key.value, str) else ""), key, value
    for part in merged:
        yield from entries(part)


def child(node: yaml.Node | None, key: str) -> yaml.Node | None:
    """Return the value node under `key`, None if it is not there."""
    return next((value for name, _, value in entries(node) if name == key), None)


def spot(node: yaml.Node, path: Sequence[Step]) -> Spot:
    """Return where `path` stands below `node`: the line of its key, or of its list item."""
    line, depth = node.start_mark.line + 1, 0
    for step in path:
        found = _step(node, step)
        if found is None:
            break
        line, node = found
        depth += 1
    return Spot(line, depth, secret=node.tag == "!vault")


def _step(node: yaml.Node, step: Step) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        item = node.value[step]
        return item.start_mark.line + 1, item
    for name, key, value in entries(node):
        if name == str(step):
            return key.start_mark.line + 1, value
    return None


def repeated_keys(node: yaml.Node | None) -> Iterator[tuple[str, int, int]]:
    """Walk keys that stand twice in one mapping: (key, line of the first, line of the second)."""
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from repeated_keys(item)
    if not isinstance(node, yaml.MappingNode):
        return
    first: dict[str, int] = {}
    for key, value in node.value:
        name = str(key.value)
        line = key.start_mark.line + 1
        if name in first and name != "<<":
            yield name, first[name], line
        first.setdefault(name, line)
        yield from repeated_keys(value)
