"""Read classes and pauses of a Broadcom NIC with ``niccli``, where ``dcb`` cannot speak to it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from fabricctl.drivers import sections
from fabricctl.model import settings
from fabricctl.model.fabric import Port
from fabricctl.model.reading import Entry
from fabricctl.plugin.answers import Unread, entry
from fabricctl.plugin.protocols import Answers, Query

_KEY = "niccli"
_DSCPS = 64
_CLASSES = 8
_PERCENT = 100
_ETS = re.compile(r"^\s*PRIO_MAP:", re.MULTILINE)
_APP = re.compile(
    r"^\s*Priority:\s*(\d+)\s*\n\s*Sel:\s*(\d+)\s*\n\s*(?:DSCP|UDP|Ethertype|TCP)[^:\n]*:\s*(\w+)",
    re.MULTILINE,
)
_DSCP_SELECTOR, _UDP_SELECTOR = "5", "3"
# It is slow, so that it is asked only where it is needed.
_ASK = """\
    dcb -j pfc show dev "$1" >/dev/null 2>&1 && return
    pci=$(sed -n 's/^PCI_SLOT_NAME=//p' "/sys/class/net/$1/device/uevent") || return
    niccli --dev "$pci" qos --ets --show
"""


def query(ports: Sequence[Port]) -> Query:
    """Ask for the classes of all functions to which ``dcb`` cannot speak."""
    return sections.query(_KEY, ports, _ASK)


def answers_for(name: str, answers: Answers) -> bool:
    """Say whether niccli showed the classes of function `name`."""
    try:
        return bool(_ETS.search(sections.of(_KEY, name, answers)))
    except Unread:
        return False


def read_settings(name: str, answers: Answers) -> dict[str, Entry]:
    """Return what niccli shows; a class that it does not show is one that the NIC does not have."""
    return {
        settings.TRUST: entry(lambda: "dscp" if _entries(name, answers, _DSCP_SELECTOR) else "pcp"),
        settings.DSCP_PRIORITY: entry(lambda: _dscp_priority(name, answers)),
        settings.PRIORITY_TC: entry(lambda: _priority_tc(name, answers)),
        settings.TC_SCHEDULER: entry(lambda: _schedulers(name, answers)),
        settings.TC_BANDWIDTH: entry(lambda: _shares(name, answers)),
        settings.PFC: entry(lambda: _pfc(name, answers)),
    }


def port_priorities(name: str, answers: Answers, port: int) -> tuple[int, ...]:
    """Return the priorities that application entries give a UDP port."""
    return tuple(
        sorted(priority for value, priority in _entries(name, answers, _UDP_SELECTOR) if value == port)
    )


def _line(name: str, answers: Answers, label: str) -> str:
    found = re.search(rf"^\s*{label}:(.*)$", sections.of(_KEY, name, answers), re.MULTILINE)
    if not found:
        raise Unread(f"niccli shows no {label}")
    return found[1].strip()


def _numbered(name: str, answers: Answers, label: str) -> list[str]:
    """Return the words of a line like ``0:ets 1:strict``, which must be numbered from 0."""
    pairs = [word.split(":") for word in _line(name, answers, label).split()]
    if [number for number, _ in pairs] != [str(number) for number in range(len(pairs))]:
        raise Unread(f"unparsable: {label} is not numbered from 0")
    if not 1 <= len(pairs) <= _CLASSES:
        raise Unread(f"unparsable: {label} has {len(pairs)} entries")
    return [value for _, value in pairs]


def _priority_tc(name: str, answers: Answers) -> tuple[int, ...]:
    found = tuple(int(value) for value in _numbered(name, answers, "PRIO_MAP"))
    if len(found) != _CLASSES or not all(0 <= value < _CLASSES for value in found):
        raise Unread(f"unparsable: {found} are no classes of 8 priorities")
    return found


def _schedulers(name: str, answers: Answers) -> tuple[str, ...]:
    found = _numbered(name, answers, "TSA_MAP")
    if not set(found) <= {"ets", "strict"}:
        raise Unread(f"unparsable: {found} are no schedulers")
    return tuple(found + ["strict"] * (_CLASSES - len(found)))


def _shares(name: str, answers: Answers) -> tuple[int, ...]:
    found = [int(word.removesuffix("%")) for word in _line(name, answers, "TC Bandwidth").split()]
    if len(found) != len(_numbered(name, answers, "TSA_MAP")) or not all(
        0 <= share <= _PERCENT for share in found
    ):
        raise Unread(f"unparsable: {found} are no shares of these classes")
    return tuple(found + [0] * (_CLASSES - len(found)))


def _pfc(name: str, answers: Answers) -> tuple[int, ...]:
    said = _line(name, answers, "PFC enabled")
    if said == "none":
        return ()
    found = sorted(int(word) for word in re.split(r"[\s,]+", said))
    if not all(0 <= priority < _CLASSES for priority in found):
        raise Unread(f"unparsable: {said} are no priorities")
    return tuple(found)


def _entries(name: str, answers: Answers, selector: str) -> list[tuple[int, int]]:
    """Return value and priority of the application entries of one selector."""
    said = sections.of(_KEY, name, answers)
    found = _APP.findall(said)
    if len(found) != len(re.findall(r"^\s*APP#", said, re.MULTILINE)):
        raise Unread("unparsable: niccli's application entries")
    pairs = [(int(value, 0), int(priority)) for priority, kind, value in found if kind == selector]
    if not all(0 <= priority < _CLASSES for _, priority in pairs):
        raise Unread(f"unparsable: {pairs} have no such priorities")
    return pairs


def _dscp_priority(name: str, answers: Answers) -> tuple[int, ...]:
    by_dscp: dict[int, set[int]] = defaultdict(set)
    for dscp, priority in _entries(name, answers, _DSCP_SELECTOR):
        by_dscp[dscp].add(priority)
    for dscp, priorities in sorted(by_dscp.items()):
        if dscp >= _DSCPS:
            raise Unread(f"unparsable: DSCP {dscp}")
        if len(priorities) > 1:
            raise Unread(f"DSCP {dscp} has several priorities at once: {sorted(priorities)}")
    return tuple(min(by_dscp.get(dscp, {0})) for dscp in range(_DSCPS))
