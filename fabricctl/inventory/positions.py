"""Where in a YAML file a value stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from fabricctl.inventory.problems import Problems

Step = str | int
"""A key of a mapping or an index of a list."""

MOST_VALUES = 10_000_000
"""A file whose aliases stand for more than this is no description of anything: it would fill the memory."""

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TEXT = "tag:yaml.org,2002:str"


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
        The file cannot be read, is no YAML, or has aliases without an end; with its line.
    """
    problems = Problems()
    try:
        text = path.read_text(encoding="utf-8")
        node = parse(text)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark or exc.context_mark
        line = mark.line + 1 if mark else 1
        problems.add(f"{shown}:{line}", f"not valid YAML: {exc.problem or exc.context}")
    except (yaml.YAMLError, UnicodeDecodeError) as exc:
        problems.add(f"{shown}:1", f"not valid YAML: {' '.join(str(exc).split())}")
    except OSError as exc:
        problems.add(shown, f"cannot be read: {exc.strerror}")
    else:
        refuse_endless(node, text, shown)
        return node
    problems.raise_if_any()
    return None


def parse(text: str) -> yaml.Node | None:
    """Return the node tree of a YAML text, None if it is empty; YAMLError if it is none."""
    try:
        return yaml.compose(text, Loader=_Loader)
    except RecursionError:
        raise yaml.YAMLError("it is nested too deeply") from None


def refuse_endless(node: yaml.Node | None, text: str, shown: str) -> None:
    """Refuse aliases that stand within what they name, and aliases of aliases that stand for too much.

    Raises
    ------
    InventoryFileError
        There is such an alias; with the line of what it names.
    """
    problems = Problems()
    if node is not None and "*" in text:
        _check_aliases(node, shown, problems)
    problems.raise_if_any()


def _check_aliases(root: yaml.Node, shown: str, problems: Problems) -> None:
    sizes: dict[int, int] = {}
    opened: set[int] = set()
    waiting = [(root, False)]
    while waiting:
        node, below_done = waiting.pop()
        where = f"{shown}:{node.start_mark.line + 1}"
        if below_done:
            opened.discard(id(node))
            sizes[id(node)] = 1 + sum(sizes[id(part)] for part in _below(node))
            if sizes[id(node)] > MOST_VALUES:
                problems.add(where, f"its aliases stand for more than {MOST_VALUES:,} values")
                return
        elif id(node) in opened:
            problems.add(where, "an alias of this stands within itself: it has no end", "write the value out")
            return
        elif id(node) not in sizes:
            opened.add(id(node))
            waiting.append((node, True))
            waiting.extend((part, False) for part in _below(node))


def _below(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def scalars(node: yaml.Node | None) -> Iterator[yaml.ScalarNode]:
    """Walk the scalars below `node`, each once, however many aliases name it."""
    for each in _nodes(node):
        if isinstance(each, yaml.ScalarNode):
            yield each


def _nodes(root: yaml.Node | None) -> Iterator[yaml.Node]:
    """Walk `root` and all nodes below it in the order of the file, each once."""
    seen: set[int] = set()
    waiting = [] if root is None else [root]
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            waiting.extend(reversed(_below(node)))


def meant(key: yaml.Node) -> str:
    """Return what a key is once it is read, as text: 3 for ``3``, ``0x3``, ``3.0`` and ``"3"`` alike."""
    if not isinstance(key, yaml.ScalarNode):
        return ""
    text = str(key.value)
    if key.tag == _TEXT:
        return text
    try:
        value = yaml.constructor.SafeConstructor().construct_object(key)
    except (yaml.YAMLError, ValueError):
        return text  # a tag of Ansible's, or no value of its kind: whoever reads the value says so
    if isinstance(value, bool) or (isinstance(value, float) and value.is_integer()):
        value = int(value)  # the same key to Python
    return str(value)


def entries(node: yaml.Node | None) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
    """Walk a mapping's (key, key node, value node), those of ``<<`` merges after its own."""
    waiting = [] if node is None else [node]
    while waiting:
        part = waiting.pop()
        if not isinstance(part, yaml.MappingNode):
            continue
        merged: list[yaml.Node] = []
        for key, value in part.value:
            if key.value == "<<":
                merged.extend(value.value if isinstance(value, yaml.SequenceNode) else [value])
            else:
                yield (key.value if isinstance(key.value, str) else ""), key, value
        waiting.extend(reversed(merged))


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
        if str(step) in {name, meant(key)}:
            return key.start_mark.line + 1, value
    return None


def repeated_keys(node: yaml.Node | None) -> Iterator[tuple[str, int, int]]:
    """Walk keys that stand twice in one mapping: (key, line of the first, line of the second).

    The same number in another spelling is the same key: the last of them would count.
    """
    for each in _nodes(node):
        if isinstance(each, yaml.MappingNode):
            yield from _repeated_in(each)


def _repeated_in(node: yaml.MappingNode) -> Iterator[tuple[str, int, int]]:
    first: dict[str, int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.value == "<<":
            continue
        name, line = meant(key), key.start_mark.line + 1
        if name in first:
            yield key.value, first[name], line
        first.setdefault(name, line)
