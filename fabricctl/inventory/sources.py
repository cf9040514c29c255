"""The files behind an inventory, and where in them a host's variable stands."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

import yaml

from fabricctl.inventory.positions import (
    Step,
    child,
    compose,
    entries,
    parse,
    refuse_endless,
    repeated_keys,
    spot,
)
from fabricctl.inventory.problems import Problems, suggestion

YAML = {".yml", ".yaml", ".json"}
_NO_INVENTORY = {"group_vars", "host_vars"}
_IGNORED = (
    ".pyc",
    ".pyo",
    ".swp",
    ".bak",
    "~",
    ".rpm",
    ".md",
    ".txt",
    ".rst",
    ".orig",
    ".ini",
    ".cfg",
    ".retry",
)
"""What Ansible skips in an inventory folder."""
_GROUP_KEYS = ("vars", "children", "hosts")
_RANGES = "["
"""In place of a host's name: the entries of ranges, which many hosts share."""


@dataclass(frozen=True)
class Place:
    """Where a variable stands.

    Parameters
    ----------
    where
        ``file:line``, or the file and a word on what is known of it.
    owner
        The host or the group whose entry it is.
    depth
        How many steps of the path were found there.
    secret
        Whether its value must not be shown.
    """

    where: str
    owner: str
    depth: int = 0
    secret: bool = False


@dataclass(frozen=True)
class _HostEntry:
    """One place in a YAML file where a host, or a range of hosts, has an entry."""

    order: int
    name: str
    shown: str
    line: int
    mapping: yaml.Node


@dataclass
class Sources:
    """The inventory's files, and the ``group_vars`` and ``host_vars`` beside it and in the working folder."""

    path: Path
    trees: dict[str, yaml.Node] = field(default_factory=dict)
    texts: dict[str, list[str]] = field(default_factory=dict)
    vaulted: bool = False
    _vars_cache: dict[Path, list[tuple[str, yaml.Node]]] = field(default_factory=dict)
    _entries: dict[str, list[_HostEntry]] | None = None

    @property
    def base(self) -> Path:
        """The folder that relative paths in the inventory start from."""
        return self.path if self.path.is_dir() else self.path.parent

    @classmethod
    def scan(cls, path: Path) -> Sources:
        """Read the static files of the inventory at `path`.

        Raises
        ------
        InventoryFileError
            A YAML file that cannot be parsed, a key that stands twice, or a group key that Ansible would
            skip with everything below it.
        """
        sources = cls(path)
        for file in static_files(path):
            sources._take(file)
        problems = Problems()
        for shown, node in sources.trees.items():
            for key, first, line in repeated_keys(node):
                problems.add(
                    f"{shown}:{line}", f"{key}: stands here for the second time", f"first: line {first}"
                )
            _check_groups(shown, node, problems)
        sources._check_vars(problems)
        problems.raise_if_any()
        return sources

    def _take(self, file: Path) -> None:
        shown = display(file)
        if _is_program(file):
            return
        if file.suffix in YAML:
            node = compose(file, shown)
        else:
            text = file.read_text(encoding="utf-8", errors="replace")
            self.texts[shown] = text.splitlines()
            node = _try_parse(text)
            refuse_endless(node, text, shown)
        if isinstance(node, yaml.MappingNode) and child(node, "plugin") is None:
            self.texts.pop(shown, None)
            self.trees[shown] = node

    def _check_vars(self, problems: Problems) -> None:
        """Note ``fabric_`` keys that stand twice in a group_vars or host_vars file: the last would count."""
        for folder in sorted(_NO_INVENTORY):
            beside = self.base / folder
            for entry in sorted(beside.iterdir()) if beside.is_dir() else ():
                for shown, node in self._read_vars(entry):
                    for key, first, line in _repeated_ours(node):
                        what = f"{key}: stands here for the second time"
                        problems.add(f"{shown}:{line}", what, f"first: line {first}")

    def locate(self, host: str, groups: Sequence[str], path: Sequence[Step]) -> Place:
        """Return where the variable ``path[0]`` of `host`, and what is below it, stands.

        Parameters
        ----------
        groups
            The host's groups, the most specific first.
        """
        for owner, shown, mapping in self._candidates(host, groups):
            if child(mapping, str(path[0])) is not None:
                found = spot(mapping, path)
                return Place(f"{shown}:{found.line}", owner, found.depth, found.secret)
        return self._locate_in_text(host, groups, str(path[0])) or self.host(host)

    def host(self, host: str) -> Place:
        """Return where the entry of `host` stands."""
        if found := self._host_entries(host):
            return Place(f"{found[0].shown}:{found[0].line}", host, secret=self.vaulted)
        for shown, lines in self.texts.items():
            for number, text in enumerate(lines, 1):
                if text.split() and _matches(text.split()[0], host):
                    return Place(f"{shown}:{number}", host, secret=self.vaulted)
        return Place(f"{display(self.path)} (a dynamic source, no line known)", host, secret=self.vaulted)

    def odd_range(self) -> Place | None:
        """Return where a host's name has brackets that are no range of Ansible's, such as ``node[1-4]``."""
        for shown, node in self.trees.items():
            for name, line, _ in _hosts(node):
                if _has_odd_range(name):
                    return Place(f"{shown}:{line}", name)
        for shown, lines in self.texts.items():
            for number, text in enumerate(lines, 1):
                first = text.split()[0] if text.split() else ""
                if not first.startswith(("[", "#", ";")) and _has_odd_range(first):
                    return Place(f"{shown}:{number}", first)
        return None

    def _locate_in_text(self, host: str, groups: Sequence[str], key: str) -> Place | None:
        """Find a host's or a group's ``key=value`` in INI files; a host's own line counts first."""
        setting = re.compile(rf"(?:^|\s){re.escape(key)}\s*=")
        by_group: dict[str, Place] = {}
        for shown, lines in self.texts.items():
            section = ""
            for number, line in enumerate(lines, 1):
                if line.startswith("["):
                    section = line.strip().strip("[]").removesuffix(":vars")
                elif setting.search(line):
                    first = line.split()[0]
                    if _matches(first, host):
                        return Place(f"{shown}:{number}", host)
                    if setting.match(line):
                        by_group[section] = Place(f"{shown}:{number}", section)
        return next((by_group[group] for group in groups if group in by_group), None)

    def _candidates(self, host: str, groups: Sequence[str]) -> Iterator[tuple[str, str, yaml.Node]]:
        """Walk the mappings that may set a variable of `host`, in Ansible's order of precedence."""
        for shown, mapping in self._vars_files("host_vars", host):
            yield host, shown, mapping
        for entry in self._host_entries(host):
            yield host, entry.shown, entry.mapping
        for group in groups:
            for shown, mapping in self._vars_files("group_vars", group):
                yield group, shown, mapping
        for group in groups:
            for shown, mapping in self._group_entries(group):
                yield group, shown, mapping

    def _host_entries(self, host: str) -> list[_HostEntry]:
        """Return the entries that may be those of `host`, in the order of the files.

        They are sorted by name once: walking thousands of hosts anew for each of them takes minutes.
        """
        if self._entries is None:
            self._entries = {}
            found = ((shown, *entry) for shown, node in self.trees.items() for entry in _hosts(node))
            for order, (shown, name, line, mapping) in enumerate(found):
                entry = _HostEntry(order, name, shown, line, mapping)
                self._entries.setdefault(_RANGES if _RANGES in name else name, []).append(entry)
        ranges = [entry for entry in self._entries.get(_RANGES, ()) if _matches(entry.name, host)]
        return sorted([*self._entries.get(host, ()), *ranges], key=lambda entry: entry.order)

    def _group_entries(self, group: str) -> Iterator[tuple[str, yaml.Node]]:
        for shown, node in self.trees.items():
            bodies = (child(body, "vars") for name, body in _groups(node) if name == group)
            yield from ((shown, mapping) for mapping in bodies if mapping is not None)

    def _vars_files(self, folder: str, name: str) -> Iterator[tuple[str, yaml.Node]]:
        for base in dict.fromkeys((Path.cwd(), self.base.resolve())):
            stem = base / folder / name
            if stem not in self._vars_cache:
                self._vars_cache[stem] = list(self._read_vars(stem))
            yield from self._vars_cache[stem]

    def _read_vars(self, stem: Path) -> Iterator[tuple[str, yaml.Node]]:
        for candidate in (stem, *(stem.with_name(stem.name + suffix) for suffix in sorted(YAML))):
            files = sorted(candidate.rglob("*")) if candidate.is_dir() else [candidate]
            for file in files:
                if not file.is_file() or file.name.endswith(_IGNORED):
                    continue
                if file.read_bytes().startswith(b"$ANSIBLE_VAULT"):
                    self.vaulted = True
                elif (node := compose(file, display(file))) is not None:
                    yield display(file), node


def display(path: Path) -> str:
    """Return the path as it is shown: relative to the working folder if it lies below it."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


class Kind(Enum):
    """What a path leads to."""

    FILE = "file"
    FOLDER = "folder"
    OTHER = "a pipe, a socket or a device"
    NONE = "nothing, or nothing that this user may see"


def kind_of(path: Path) -> Kind:
    """Return what `path` leads to, without opening it."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return Kind.NONE
    return Kind.FILE if stat.S_ISREG(mode) else Kind.FOLDER if stat.S_ISDIR(mode) else Kind.OTHER


def static_files(path: Path) -> Iterator[Path]:
    """Walk the files that Ansible reads of an inventory: the file itself, or those in the folder."""
    if not path.is_dir():
        yield path
        return
    for entry in sorted(path.iterdir()):
        if entry.name.startswith(".") or entry.name in _NO_INVENTORY or entry.name.endswith(_IGNORED):
            continue
        yield from static_files(entry)


def variable_files(path: Path) -> Iterator[Path]:
    """Walk what lies in ``group_vars`` and ``host_vars``, beside the inventory and in the working folder."""
    beside = (path if path.is_dir() else path.parent).resolve()
    for base in dict.fromkeys((beside, Path.cwd())):
        for folder in sorted(_NO_INVENTORY):
            yield from sorted((base / folder).rglob("*"))


def total_bytes(path: Path) -> int:
    """Return how much the inventory at `path` has to read, programs and what they print left out."""
    files = [*static_files(path), *variable_files(path)]
    return sum(file.stat().st_size for file in files if kind_of(file) is Kind.FILE)


def _is_program(file: Path) -> bool:
    with file.open("rb") as stream:
        start = stream.read(2)
    return start == b"#!" or (os.access(file, os.X_OK) and file.suffix not in YAML)


def _try_parse(text: str) -> yaml.Node | None:
    try:
        return parse(text)
    except yaml.YAMLError:
        return None


def _groups(node: yaml.Node) -> Iterator[tuple[str, yaml.Node]]:
    waiting = [(name, body) for name, _, body in entries(node)][::-1]
    while waiting:
        name, body = waiting.pop()
        yield name, body
        waiting += [(name, inner) for name, _, inner in entries(child(body, "children"))][::-1]


def _hosts(node: yaml.Node) -> Iterator[tuple[str, int, yaml.Node]]:
    for _, body in _groups(node):
        for name, key, mapping in entries(child(body, "hosts")):
            yield name, key.start_mark.line + 1, mapping


def _repeated_ours(node: yaml.Node) -> Iterator[tuple[str, int, int]]:
    first: dict[str, int] = {}
    for name, key, value in entries(node):
        if name.startswith("fabric_"):
            line = key.start_mark.line + 1
            if name in first:
                yield name, first[name], line
            first.setdefault(name, line)
            yield from repeated_keys(value)


def _matches(pattern: str, host: str) -> bool:
    """Say whether an inventory's host name or range (``node[1:4]``) may mean `host`."""
    if pattern == host:
        return True
    if _RANGES not in pattern:
        return False
    parts = re.split(r"\[[^\]]*\]", pattern)
    return len(parts) > 1 and re.fullmatch(r"[A-Za-z0-9]+".join(map(re.escape, parts)), host) is not None


def _has_odd_range(name: str) -> bool:
    inside = re.findall(r"\[([^\]]*)\]?", name)
    return any(not re.fullmatch(r"[A-Za-z0-9]+:[A-Za-z0-9]+(:[0-9]+)?", text) for text in inside)


def _check_groups(shown: str, node: yaml.Node, problems: Problems) -> None:
    for _, body in _groups(node):
        for key, mark, _ in entries(body):
            if key not in _GROUP_KEYS:
                line = mark.start_mark.line + 1
                what = f"{key}: not a key of a group, Ansible skips it and all below it"
                problems.add(f"{shown}:{line}", what, suggestion(key, _GROUP_KEYS))
