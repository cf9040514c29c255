"""Read a NIC's own statistics and its FEC with ``ethtool``, one shell for all ports.

Drivers name their statistics as they like, and have one of everything for each ring: those of rings are left
out, for what a port counts is in the others (the kernel's mlx5/counters.rst; ``bnxt_ethtool.c``,
``ice_ethtool.c``, ``ionic_stats.c``).
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterator, Mapping, Sequence

from fabricctl.drivers import functions, sections
from fabricctl.model import facts
from fabricctl.model.fabric import Port
from fabricctl.model.reading import Entry
from fabricctl.plugin.answers import Unread, entries, entry
from fabricctl.plugin.protocols import Answers, Query

_KEY = "ethtool counters"
_ASK = 'ethtool --show-fec "$1"\nethtool -S "$1"\n'
_HEAD = "NIC statistics:"
_LINE = re.compile(r"\s+(\S.*?)\s*:\s*(\S+)\s*")
_OF_RING = re.compile(r"\[\d+\]: |(?:rx|tx|ch|xdp|rxq|txq|rx_queue|tx_queue|rx_xsk|tx_xsk)_?\d+_")
_FEC = re.compile(r"^Active FEC encodings?:\s*(\S.*?)\s*$", re.MULTILINE)
_ABSENT = re.compile(r"\bethtool: (?:command )?not found\s*$", re.MULTILINE)
"""What shells say of a program that is not there: dash and busybox, and bash."""
_FEC_NAMES = {"off": "none", "none": "none", "rs": "rs", "llrs": "llrs", "baser": "fc"}


def query(ports: Sequence[Port]) -> Query:
    """Ask for FEC and statistics of all ports' physical functions."""
    return dataclasses.replace(sections.query(_KEY, ports, _ASK), counts=True)


def read_facts(name: str, answers: Answers) -> dict[str, Entry]:
    """Return the FEC in use, the same on all physical functions of port `name`."""

    def read(each: str) -> dict[str, Entry]:
        return {facts.FEC: entry(lambda: _fec(each, answers))}

    return functions.merged(name, answers, read)


def read_counters(name: str, answers: Answers) -> Mapping[str, Entry]:
    """Return the statistics of port `name` by their own names.

    Those of a bond's member, or of a virtual function's parent, have its name before them:
    ``eth1 rx_crc_errors_phy``.
    """

    def read() -> Mapping[str, Entry]:
        found: dict[str, Entry] = {}
        for each in functions.of(name, answers):
            start = "" if each == name else f"{each} "
            found |= {f"{start}{label}": value for label, value in _statistics(each, answers)}
        return found

    return entries(read)


def _statistics(name: str, answers: Answers) -> Iterator[tuple[str, Entry]]:
    _, head, said = sections.of(_KEY, name, answers).partition(_HEAD)
    if not head:
        return
    for line in said.splitlines():
        found = _LINE.fullmatch(line)
        if found and not _OF_RING.match(found[1]):
            yield found[1], entry(functools.partial(int, found[2]))


def _fec(name: str, answers: Answers) -> str:
    said = sections.of(_KEY, name, answers)
    found = _FEC.search(said)
    if not found and _ABSENT.search(said):
        raise Unread("ethtool: the program is not installed")
    if not found:
        raise Unread("ethtool shows no FEC of it")
    return " ".join(_FEC_NAMES.get(word.lower(), word.lower()) for word in found[1].split())
