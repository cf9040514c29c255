"""Read what ``nicctl show`` prints: cards, in them ports or RoCE devices, in them labels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from fabricctl.plugin.answers import Unread, text
from fabricctl.plugin.protocols import Answers, Query

_CARD = re.compile(r"NIC : (\S+) \((\S+)\)")
_PORT = re.compile(r"Port : (\S+)(?: \(\S+\))?")
_LABEL = re.compile(r"(\S[^:]*?) :(?: (.*))?")
_ROW = re.compile(r"([0-7]) (DWRR|strict) (\d{1,3}|N/A) (\d{1,4}|N/A)", re.IGNORECASE)
_MAPPED = re.compile(r"DSCP : ([\d ,-]+) ==> priority : ([0-7])")
_BITMAP = re.compile(r"DSCP bitmap : (0x[0-9a-fA-F]{1,16}) ==> priority : ([0-7])")

Profile = Mapping[str, str]
"""The labels and values of one DCQCN profile."""


def queries() -> tuple[Query, ...]:
    """Ask for all ports, their classes, and DCQCN of all RoCE devices."""
    return tuple(Query(f"nicctl {what}", ("nicctl", "show", what)) for what in ("port", "qos", "dcqcn"))


def card(device: str, answers: Answers) -> str:
    """Return the id of the card that has the RoCE device."""
    for here, name, _ in _devices(answers):
        if name == device:
            return here
    raise Unread(f"nicctl shows no card with the RoCE device {device}")


def profiles(device: str, answers: Answers) -> tuple[Profile, ...]:
    """Return the DCQCN profiles of a RoCE device; Unread if it has none."""
    for _, name, lines in _devices(answers):
        if name == device:
            found = tuple(_profiles(lines))
            if found:
                return found
    raise Unread(f"nicctl shows no DCQCN profile of {device}")


def port(card_id: str, answers: Answers) -> Mapping[str, str]:
    """Return what is set of the only port of a card, by label."""
    lines = _only_port(card_id, "port", answers)
    if "Spec:" not in lines or "Status:" not in lines:
        raise Unread("unparsable: nicctl shows a port without what is set of it")
    return _labels(lines[lines.index("Spec:") : lines.index("Status:")])


def classes(card_id: str, answers: Answers) -> Mapping[str, str]:
    """Return how the only port of a card classifies and pauses, by label."""
    return _labels(_only_port(card_id, "qos", answers))


def dscp_priority(card_id: str, answers: Answers) -> tuple[int, ...]:
    """Return the priority of every DSCP; Unread unless each has one, the same both ways it is shown."""
    lines = _only_port(card_id, "qos", answers)
    mapped = [match for line in lines if (match := _MAPPED.fullmatch(line))]
    if not mapped:
        raise Unread("nicctl shows no DSCP map")
    pairs = [(dscp, int(match[2])) for match in mapped for dscp in _dscps(match[1])]
    bits = [
        (dscp, int(match[2]))
        for line in lines
        if (match := _BITMAP.fullmatch(line))
        for dscp in range(64)
        if int(match[1], 16) >> dscp & 1
    ]
    if sorted(dscp for dscp, _ in pairs) != list(range(64)):
        raise Unread("unparsable: not every DSCP has one priority")
    if bits and sorted(bits) != sorted(pairs):
        raise Unread("unparsable: the bitmaps contradict the ranges of DSCPs")
    return tuple(priority for _, priority in sorted(pairs))


def scheduling(card_id: str, answers: Answers) -> Mapping[int, tuple[str, int, int]]:
    """Return scheduler, share in percent and rate limit in Gb/s by priority; 0 where there is none."""
    lines = _only_port(card_id, "qos", answers)
    rows = [match for line in lines if (match := _ROW.fullmatch(line))]
    if not rows:
        raise Unread("nicctl shows no scheduling")
    return {int(row[1]): (row[2].lower(), _cell(row[3]), _cell(row[4])) for row in rows}


def cards(answers: Answers) -> tuple[str, ...]:
    """Return the ids of all cards that nicctl reaches; Unread if there are none."""
    return tuple(_blocks("port", answers))


def _blocks(what: str, answers: Answers) -> dict[str, list[str]]:
    """Return the lines of each card, blanks made single; nicctl exits with 0 even if it reaches no card."""
    said = text(answers, f"nicctl {what}")
    found: dict[str, list[str]] = {}
    here: list[str] = []
    for line in (" ".join(line.split()) for line in said.splitlines()):
        begins = _CARD.fullmatch(line)
        if begins:
            here = found.setdefault(begins[1], [])
        elif line:
            here.append(line)
    if not found:
        raise Unread(f"nicctl: {' '.join(said.split()) or 'printed nothing'}")
    return found


def _only_port(card_id: str, what: str, answers: Answers) -> list[str]:
    blocks = _blocks(what, answers)
    if card_id not in blocks:
        raise Unread(f"nicctl show {what} leaves out the card {card_id}")
    ports: list[list[str]] = []
    for line in blocks[card_id]:
        if _PORT.fullmatch(line):
            ports.append([])
        elif ports:
            ports[-1].append(line)
    if len(ports) != 1:
        raise Unread(
            f"the card {card_id} has {len(ports)} ports: which one carries the interface is not known"
        )
    return ports[0]


def _devices(answers: Answers) -> Iterator[tuple[str, str, list[str]]]:
    """Yield card, name and lines of each RoCE device; a function without one is shown as ``-``."""
    for card_id, lines in _blocks("dcqcn", answers).items():
        found: list[tuple[str, list[str]]] = []
        for line in lines:
            label, value = _label(line)
            if label == "Lif id":
                found.append(("-", []))
            elif label == "ROCE device" and found:
                found[-1] = (value, found[-1][1])
            elif found:
                found[-1][1].append(line)
        yield from ((card_id, name, inner) for name, inner in found)


def _profiles(lines: list[str]) -> Iterator[Profile]:
    here: dict[str, str] = {}
    for line in lines:
        label, value = _label(line)
        if label == "DCQCN profile id" and here:
            yield here
            here = {}
        if label and (here or label == "DCQCN profile id"):
            here.setdefault(label, value)
    if here:
        yield here


def _labels(lines: list[str]) -> dict[str, str]:
    return {label: value for label, value in map(_label, lines) if label}


def _cell(said: str) -> int:
    return 0 if said == "N/A" else int(said)


def _label(line: str) -> tuple[str, str]:
    found = _LABEL.fullmatch(line)
    return (found[1], found[2] or "") if found else ("", "")


def _dscps(ranges: str) -> Iterator[int]:
    for word in ranges.split(","):
        first, _, last = word.strip().partition("-")
        # A range that is not within 0..63 is refused by who counts the DSCPs; here it must only not be huge.
        yield from range(int(first), min(int(last or first), 64) + 1)
