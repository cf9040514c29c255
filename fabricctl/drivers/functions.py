"""Find the physical functions that carry a port: what a NIC does with classes and pauses belongs to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from fabricctl import resources
from fabricctl.model import facts
from fabricctl.model.fabric import Port
from fabricctl.model.reading import Entry, Known, Missing
from fabricctl.plugin.answers import Unread, entry, text
from fabricctl.plugin.protocols import Answers, Query

SHELL = (resources.folder("templates") / "shared" / "functions.sh").read_text(encoding="utf-8")
"""Defines the shell function ``functions_of``, the same that a port's script uses."""

_KEY = "functions"
_LIST = 'for port; do echo "$port" $(functions_of "$port"); done\n'


def query(ports: Sequence[Port]) -> Query:
    """Ask for the physical functions of all ports."""
    return Query(_KEY, ("sh", "-c", f"{SHELL}{_LIST}", "sh", *(port.id.port for port in ports)))


def of(name: str, answers: Answers) -> tuple[str, ...]:
    """Return the physical functions of a port; itself where nobody asked. Unread if there are none."""
    if _KEY not in answers:
        return (name,)
    for line in text(answers, _KEY).splitlines():
        port, *found = line.split() or [""]
        if port == name and found:
            return tuple(found)
    raise Unread(f"{name} has no physical function: a bond without members?")


def read_facts(name: str, answers: Answers) -> dict[str, Entry]:
    """Return the physical functions of a port."""
    return {facts.FUNCTIONS: entry(lambda: of(name, answers))}


def merged(
    name: str,
    answers: Answers,
    read: Callable[[str], Mapping[str, Entry]],
    *,
    and_itself: bool = False,
) -> dict[str, Entry]:
    """Return what `read` says of the port's physical functions: a value where all agree, else a Missing.

    Parameters
    ----------
    read
        Reads one function, by its name.
    and_itself
        Whether the bond or the virtual function itself must agree too.
    """
    try:
        names = of(name, answers)
    except Unread as exc:
        return dict.fromkeys(read(name), Missing(str(exc)))
    if and_itself:
        names = tuple(dict.fromkeys((name, *names)))
    readings = {function: read(function) for function in names}
    settings = dict.fromkeys(setting for reading in readings.values() for setting in reading)
    return {setting: _common({f: r.get(setting) for f, r in readings.items()}) for setting in settings}


def _common(entries: Mapping[str, Entry | None]) -> Entry:
    values = list(entries.values())
    first = values[0]
    if first is not None and all(value == first for value in values):
        return first
    said = ", ".join(f"{name} {_say(entry)}" for name, entry in entries.items())
    lacking = [entry for entry in values if isinstance(entry, Missing)]
    return Missing(f"not the same everywhere: {said}", any(entry.impossible for entry in lacking))


def _say(entry: Entry | None) -> str:
    match entry:
        case Known(value):
            return f"has {value}"
        case Missing(reason):
            return f"has none ({reason})"
        case None:
            return "has none"
