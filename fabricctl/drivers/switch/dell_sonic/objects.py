"""The maps and policies that ports share: what each holds, in one word, and the lines that make it.

What an object of ours holds is in its name, in short: a change makes a new one, binds it, and what nobody
uses any more goes when the change is kept or taken back. None is edited in place, so two policies on one
switch never fight. An object of others is bound where it holds just what is wanted, and never touched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fabricctl.drivers.switch.dell_sonic import terms
from fabricctl.model.reading import Value
from fabricctl.plugin.answers import Unread

DSCP_TC, DOT1P_TC, TC_QUEUE, TC_PG = "map dscp-tc", "map dot1p-tc", "map tc-queue", "map tc-pg"
PFC_QUEUE, PFC_PG = "map pfc-priority-queue", "map pfc-priority-pg"
SCHEDULER, WRED = "scheduler-policy", "wred-policy"
SINGLE = frozenset({PFC_QUEUE, PFC_PG})
"""Of these a switch takes one alone."""

ODD = "?"
"""The content of an object that holds more than can be said."""
_NONE = "-"
"""What stands for a class that an object does not name."""

# By map: the word and the highest number of its keys, and the words of its values (spellings of releases).
_MAPS: dict[str, tuple[str, int, tuple[str, ...]]] = {
    DSCP_TC: ("dscp", terms.DSCPS - 1, ("traffic-class",)),
    DOT1P_TC: ("dot1p", 7, ("traffic-class",)),
    TC_QUEUE: ("traffic-class", 7, ("queue",)),
    TC_PG: ("traffic-class", 7, ("priority-group", "pg")),
    PFC_QUEUE: ("pfc-priority", 7, ("queue",)),
    PFC_PG: ("pfc-priority", 7, ("pg", "priority-group")),
}
KINDS = (*_MAPS, SCHEDULER, WRED)
_GREEN = re.compile(
    r"green minimum-threshold ([0-9.]{1,12}) maximum-threshold ([0-9.]{1,12}) drop-probability ([0-9]{1,3})"
)


def short(kind: str) -> str:
    """Return a kind as one word."""
    return kind.removeprefix("map ")


def content(kind: str, lines: Sequence[str]) -> str:
    """Return what an object with these lines holds, as a word; :data:`ODD` if that is more than can be said.

    Raises
    ------
    Unread
        A line is odd.
    """
    if kind in _MAPS:
        return _map_content(kind, lines)
    if kind == SCHEDULER:
        return _scheduler_content(lines)
    if kind == WRED:
        return _wred_content(lines)
    return ODD


def _map_content(kind: str, lines: Sequence[str]) -> str:
    key, highest, values = _MAPS[kind]
    # A DSCP or a dot1p without an entry is traffic class 0; where a class without one goes is not documented.
    found = ["0" if kind in {DSCP_TC, DOT1P_TC} else _NONE] * (highest + 1)
    for line in lines:
        match = re.fullmatch(rf"{key} ([0-9,-]+) (?:{'|'.join(values)}) ([0-7])", line)
        if not match:
            raise Unread(f"unparsable: {line!r} in a qos {kind}")
        for number in terms.numbers(match[1], highest):
            found[number] = match[2]
    return "".join(found)


def _scheduler_content(lines: Sequence[str]) -> str:
    queues: dict[int, dict[str, str]] = {}
    here: dict[str, str] | None = None
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "queue":
            here = queues.setdefault(terms.numbers(rest, 47)[0], {})
        elif here is None or word not in {"type", "weight", "meter-type"}:
            return ODD  # a shaper, of the port or of a queue
        else:
            here[word] = rest
    words = [_NONE] * terms.CLASSES
    for number, said in queues.items():
        if number >= terms.CLASSES or said.get("meter-type", "bytes") != "bytes":
            return ODD
        words[number] = _queue_word(said)
    return ",".join(words)


def _queue_word(said: dict[str, str]) -> str:
    kind = said.get("type", "")
    if kind == "strict":
        return "s"
    if kind not in {"dwrr", "wrr"}:
        raise Unread(f"unparsable: a queue's scheduler has the type {kind!r}")
    (weight,) = terms.numbers(said.get("weight", "1"), 100)
    return f"{kind[0]}{weight}"


def _wred_content(lines: Sequence[str]) -> str:
    marks, limits = "none", ""
    for line in lines:
        green = _GREEN.fullmatch(line)
        if green:
            limits = ":".join([*(_threshold(green[number]) for number in (1, 2)), str(int(green[3]))])
        elif line.startswith("ecn "):
            marks = line.removeprefix("ecn ")
        else:
            return ODD  # another colour
    return f"{marks}:{limits}" if limits else f"{marks}:"


def _threshold(said: str) -> str:
    # A release prints "153.6" where another prints "153".
    try:
        return str(round(float(said) * terms.KILOBYTE))
    except ValueError as exc:
        raise Unread(f"unparsable: {said!r} is no threshold") from exc


@dataclass(frozen=True, slots=True)
class Mark:
    """A WRED policy: whether it marks, its thresholds in bytes, and the probability in percent.

    Without thresholds they are None, and nothing is marked or dropped.
    """

    marks: bool
    kmin_bytes: int | None
    kmax_bytes: int | None
    pmax_percent: int | None


def mark(held: str) -> Mark:
    """Return what the content of a WRED policy says; Unread if that is more than can be said."""
    if held == ODD:
        raise Unread("the WRED policy has other colours than green")
    how, _, limits = held.partition(":")
    if not limits:
        return Mark(marks=False, kmin_bytes=None, kmax_bytes=None, pmax_percent=None)
    kmin, kmax, pmax = (int(number) for number in limits.split(":"))
    # The packets of a port without a policer are green.
    return Mark(how in {"green", "all"}, kmin, kmax, pmax)


def eight(held: str) -> tuple[int, ...]:
    """Return the content of a map of classes as numbers; Unread if it leaves one out."""
    if _NONE in held:
        raise Unread(f"the map says nothing of {held.index(_NONE)}")
    return tuple(int(digit) for digit in held)


def schedules(held: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return of each queue its type (``vendor`` is packet by packet) and its share in percent."""
    if held == ODD:
        raise Unread("the scheduler policy has a shaper, or counts in packets")
    words = held.split(",")
    kinds = tuple({"s": "strict", "w": "vendor"}.get(word[0], "ets") for word in words)
    return kinds, shares([int(word[1:]) if word[1:] else 0 for word in words])


def shares(weights: Sequence[int]) -> tuple[int, ...]:
    """Return weights as whole percents that sum to 100; all 0 if there are none."""
    total = sum(weights)
    if not total:
        return tuple(0 for _ in weights)
    found = [weight * 100 // total for weight in weights]
    lost = sorted(range(len(weights)), key=lambda at: (-(weights[at] * 100 % total), at))
    for at in lost[: 100 - sum(found)]:
        found[at] += 1
    return tuple(found)


def scheduler_of(kinds: Sequence[object], percents: Sequence[object]) -> str:
    """Return the content of a policy with these types and shares; a queue without a share is left out."""
    words = []
    for kind, percent in zip(kinds, percents, strict=True):
        weight = int(str(percent))
        letter = {"strict": "s", "vendor": "w"}.get(str(kind), "d")
        words.append("s" if letter == "s" else f"{letter}{weight}" if weight else _NONE)
    return ",".join(words)


def lines_of(kind: str, name: str, held: str) -> Iterator[str]:
    """Walk the lines that make an object, from configuration mode and back to it."""
    yield f"qos {kind} {name}"
    yield from _inside(kind, held)
    yield "exit"


def _inside(kind: str, held: str) -> Iterator[str]:
    if kind == SCHEDULER:
        for number, word in enumerate(held.split(",")):
            if word != _NONE:
                yield f"queue {number}"
                yield f"type {'strict' if word == 's' else 'wrr' if word[0] == 'w' else 'dwrr'}"
                yield from [f"weight {word[1:]}"] if word[1:] else []
                yield "exit"
    elif kind == WRED:
        how, kmin, kmax, pmax = held.split(":")
        limits = [str(int(number) // terms.KILOBYTE) for number in (kmin, kmax)]
        yield f"green minimum-threshold {limits[0]} maximum-threshold {limits[1]} drop-probability {pmax}"
        yield f"ecn {how}"
    else:
        yield from _entries(kind, held)


def _entries(kind: str, held: str) -> Iterator[str]:
    key, _, values = _MAPS[kind]
    for value in sorted(set(held) - {_NONE}):
        keys = [number for number, digit in enumerate(held) if digit == value]
        # Lists are documented for DSCPs; a class has a line of its own.
        for text in [terms.listed(keys)] if kind == DSCP_TC else map(str, keys):
            yield f"{key} {text} {values[0]} {value}"


class Objects:
    """The objects of a switch while a change is composed."""

    def __init__(self, told: Value | None) -> None:
        self._held: dict[tuple[str, str], str] = {}
        self.made: dict[tuple[str, str], str] = {}
        by_short = {short(kind): kind for kind in KINDS}
        for row in told if isinstance(told, tuple) else ():
            word, name, held = str(row).split(maxsplit=2)
            if word in by_short:
                self._held[by_short[word], name] = held

    def content(self, kind: str, name: str) -> str:
        """Return what an object holds; :data:`ODD` if that is not known."""
        return self._held.get((kind, name), ODD)

    def single(self, kind: str) -> tuple[str, str] | None:
        """Return name and content of the object of a kind of which a switch has one alone; None without."""
        return next(((name, held) for (other, name), held in self._held.items() if other == kind), None)

    def name_of(self, kind: str, held: str, current: str = "") -> str:
        """Return the name of an object that holds just this: one that is there, else a new one of ours.

        Parameters
        ----------
        current
            The name that is bound now: it is preferred.

        Raises
        ------
        Unread
            A switch takes one object of this kind, and the one that is there holds something else.
        """
        there = sorted(name for (other, name), found in self._held.items() if other == kind)
        equal = [name for name in there if self._held[kind, name] == held]
        ours = f"{terms.OURS}{terms.digest(held)}"
        if equal:
            return next((name for name in (current, ours) if name in equal), equal[0])
        if kind in SINGLE and there:
            raise Unread(
                f"the switch takes one qos {kind}, and {there[0]} holds something else: change it by hand"
            )
        self._held[kind, ours] = self.made[kind, ours] = held
        return ours

    def definitions(self) -> Iterator[str]:
        """Walk the lines that make what is new."""
        for (kind, name), held in self.made.items():
            yield from lines_of(kind, name, held)
