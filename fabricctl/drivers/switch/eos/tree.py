"""A running-config of EOS as a tree: a section's lines are those that are indented below it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_HEREDOC_END = "EOF"
_DEEPEST = 16


@dataclass(frozen=True, slots=True)
class Node:
    """A line, stripped, and the lines of its section."""

    line: str
    children: tuple[Node, ...] = ()


Tree = tuple[Node, ...]


def parse(config: str) -> Tree:
    """Return the tree of a configuration, without comments and the text of banners."""
    root = _Open("")
    path = [(-1, root)]
    for indent, line in _lines(config):
        while indent <= path[-1][0]:
            path.pop()
        node = _Open(line)
        path[-1][1].inner.append(node)
        if len(path) < _DEEPEST:
            path.append((indent, node))
    return root.closed().children


def section(tree: Sequence[Node], line: str) -> Tree:
    """Return what is in the section that `line` heads; empty if there is none."""
    return next((node.children for node in tree if node.line == line), ())


def under(tree: Sequence[Node], start: str) -> dict[str, Tree]:
    """Return the sections whose head begins with `start`, by the rest of it."""
    return {node.line.removeprefix(start): node.children for node in tree if node.line.startswith(start)}


def _lines(config: str) -> Iterator[tuple[int, str]]:
    """Walk the lines that count, each with its indentation."""
    text = False
    for line in config.splitlines():
        words = line.strip()
        if text:
            # What a banner says may look like configuration.
            text = words != _HEREDOC_END
        elif words and not words.startswith("!"):
            indent = len(line) - len(line.lstrip())
            text = not indent and words.startswith("banner ")
            yield indent, words


@dataclass
class _Open:
    """A line whose section may still grow."""

    line: str
    inner: list[_Open] = field(default_factory=list)

    def closed(self) -> Node:
        return Node(self.line, tuple(node.closed() for node in self.inner))
