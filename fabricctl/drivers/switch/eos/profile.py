"""What a ``qos profile``, or an interface by itself, says about queues, PFC, ECN and the PFC watchdog.

A :class:`Profile` is the meaning of such lines: reading what was rendered gives the same one again, whatever
defaults the switch leaves out and in whatever order it prints. None is "not said".
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from fabricctl.drivers.switch.eos.tree import Node
from fabricctl.plugin.answers import Unread

PREFIX = "fabricctl-"
"""Profiles of ours have this before a digest of what they say: equal ones are one, none is ever changed."""
UNICAST = "uc-tx-queue"
SHARED = "tx-queue"
"""How the switch calls its queues: ``uc-tx-queue`` on Trident and Tomahawk, ``tx-queue`` on Jericho."""
GUARANTEED = "percent 1"
"""The bandwidth that we guarantee a queue so that the watchdog watches it: EOS watches no others."""

_WATCHDOG = "priority-flow-control pause watchdog"
_PRIORITY = re.compile(r"priority-flow-control priority ([0-7]) (no-drop|drop)")
_THRESHOLDS = re.compile(
    r"minimum-threshold (\d+) (\w+) maximum-threshold (\d+) (\w+)"
    r"(?: max-mark-probability (\d+))?(?: weight (\d+))?"
)
_UNITS = {"bytes": 1, "kbytes": 1000, "mbytes": 1_000_000}
_DIGEST_CHARS = 10
_BETWEEN = " > "


@dataclass(frozen=True, slots=True)
class Ecn:
    """Marking thresholds in bytes, probability at the upper one in percent."""

    kmin_bytes: int
    kmax_bytes: int
    pmax_percent: int


@dataclass(frozen=True, slots=True)
class Queue:
    """One transmit queue.

    Parameters
    ----------
    guaranteed
        What stands after ``bandwidth guaranteed``.
    ecn
        What stands after ``random-detect ecn``, thresholds in bytes where they can be.
    count
        Whether its marks are counted.
    """

    number: int
    strict: bool | None = None
    percent: int | None = None
    guaranteed: str | None = None
    ecn: str | None = None
    count: bool | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """All that is said.

    Parameters
    ----------
    trust
        ``dscp``, ``cos`` or ``disabled``.
    no_drop
        By priority whether it is ``no-drop``.
    timer
        What stands after ``pause watchdog port timer``.
    action
        ``drop`` or ``notify-only``.
    queues
        In the order of their numbers.
    rest
        Lines that mean something else, each with the section it is in before it.
    """

    trust: str | None = None
    pfc: bool | None = None
    no_drop: tuple[tuple[int, bool], ...] = ()
    watchdog: bool | None = None
    timer: str | None = None
    action: str | None = None
    queues: tuple[Queue, ...] = ()
    rest: tuple[str, ...] = ()

    @property
    def lossless(self) -> tuple[int, ...]:
        """The priorities that are ``no-drop``, ascending."""
        return tuple(sorted(priority for priority, no_drop in self.no_drop if no_drop))

    def queue(self, number: int) -> Queue:
        """Return a queue; one of which nothing is said if there is none."""
        return next((queue for queue in self.queues if queue.number == number), Queue(number))


_Said = TypeVar("_Said", Profile, Queue)


def read(nodes: Sequence[Node], mode: str) -> Profile:
    """Return what the lines of a profile or an interface mean; queues of another name are the rest."""
    found = Profile()
    queues: dict[int, Queue] = {}
    rest: list[str] = []
    for node in nodes:
        number = node.line.removeprefix(f"{mode} ")
        if number != node.line and number.isdecimal() and int(number) < 8:  # noqa: PLR2004  queues are eight
            queue, other = _read_queue(int(number), node)
            queues[queue.number] = queue
            rest += [f"{node.line}{_BETWEEN}{line}" for line in other]
            continue
        said = _read_line(found, node.line)
        if said is None:
            rest += _flat(node)
        else:
            found = said
    return replace(
        found,
        no_drop=tuple(sorted(dict(found.no_drop).items())),
        queues=tuple(queues[number] for number in sorted(queues)),
        rest=tuple(rest),
    )


def own_lines(nodes: Sequence[Node], mode: str) -> tuple[str, ...]:
    """Return the lines that :func:`read` makes something of, each with the queue it is in before it."""
    ours = read(nodes, mode)
    return tuple(line for node in nodes for line in _flat(node) if line not in ours.rest)


def over(lower: Profile, upper: Profile) -> Profile:
    """Return what holds if `upper` is said on an interface that has the profile `lower`."""
    numbers = sorted({queue.number for queue in (*lower.queues, *upper.queues)})
    merged = _merged(lower, upper, ("trust", "pfc", "watchdog", "timer", "action"))
    return replace(
        merged,
        no_drop=tuple(sorted({**dict(lower.no_drop), **dict(upper.no_drop)}.items())),
        queues=tuple(
            _merged(lower.queue(n), upper.queue(n), ("strict", "percent", "guaranteed", "ecn", "count"))
            for n in numbers
        ),
    )


def plain(profile: Profile) -> Profile:
    """Return the same meaning with every default left out; only the interface's default trust stays None."""
    queues = (
        Queue(
            queue.number,
            strict=None if queue.strict is not False else False,
            percent=queue.percent or None,
            guaranteed=queue.guaranteed or None,
            ecn=queue.ecn or None,
            count=queue.count or None,
        )
        for queue in profile.queues
    )
    return replace(
        profile,
        pfc=profile.pfc or None,
        no_drop=tuple((priority, True) for priority in profile.lossless),
        watchdog=profile.watchdog or None,
        timer=profile.timer if profile.watchdog else None,
        action=profile.action if profile.watchdog else None,
        queues=tuple(queue for queue in queues if queue != Queue(queue.number)),
        rest=tuple(sorted(profile.rest)),
    )


def digest(profile: Profile) -> str:
    """Return a digest of the meaning."""
    return hashlib.sha256(repr(plain(profile)).encode()).hexdigest()[:_DIGEST_CHARS]


def render(profile: Profile, mode: str) -> tuple[str, ...]:
    """Return the lines of a profile, without its head; each section in it is closed by ``exit``."""
    return (*_head_lines(profile), *_sections(profile, mode))


def _head_lines(profile: Profile) -> Iterator[str]:
    if profile.trust is not None:
        yield "no qos trust" if profile.trust == "disabled" else f"qos trust {profile.trust}"
    yield from (line for line in profile.rest if _BETWEEN not in line)
    if profile.pfc:
        yield "priority-flow-control on"
    yield from (f"priority-flow-control priority {priority} no-drop" for priority in profile.lossless)
    if profile.watchdog:
        yield _WATCHDOG
        if profile.timer is not None:
            yield f"{_WATCHDOG} port timer {profile.timer}"
        if profile.action is not None:
            yield f"{_WATCHDOG} port action {profile.action}"


def _sections(profile: Profile, mode: str) -> Iterator[str]:
    sections: dict[str, list[str]] = {f"{mode} {q.number}": list(_queue_lines(q)) for q in profile.queues}
    for line in profile.rest:
        head, between, inner = line.rpartition(_BETWEEN)
        if between:
            sections.setdefault(head, []).append(inner)
    for head, lines in sections.items():
        if lines:
            path = head.split(_BETWEEN)
            yield from (*path, *lines, *("exit" for _ in path))


def _queue_lines(queue: Queue) -> Iterator[str]:
    if queue.strict is not None:
        yield "priority strict" if queue.strict else "no priority"
    if queue.percent:
        yield f"bandwidth percent {queue.percent}"
    if queue.guaranteed:
        yield f"bandwidth guaranteed {queue.guaranteed}"
    if queue.ecn:
        yield f"random-detect ecn {queue.ecn}"
    if queue.count:
        yield "random-detect ecn count"


def thresholds(ecn: str) -> Ecn:
    """Return marking thresholds in bytes; Unread if the switch holds them in another unit."""
    match = _THRESHOLDS.fullmatch(ecn)
    if match is None:
        raise Unread(f"unparsable: random-detect ecn {ecn}")
    for unit in (match[2], match[4]):
        if unit not in _UNITS:
            raise Unread(f"its thresholds are in {unit}, which are no bytes")
    if match[5] is None:
        raise Unread("it marks with the switch's own probability")
    return Ecn(int(match[1]) * _UNITS[match[2]], int(match[3]) * _UNITS[match[4]], int(match[5]))


def ecn_words(ecn: Ecn, mode: str) -> str:
    """Return what stands after ``random-detect ecn``: the instantaneous queue counts, not an average."""
    weight = " weight 0" if mode == UNICAST else ""
    return (
        f"minimum-threshold {ecn.kmin_bytes} bytes maximum-threshold {ecn.kmax_bytes} bytes "
        f"max-mark-probability {ecn.pmax_percent}{weight}"
    )


def _read_line(found: Profile, line: str) -> Profile | None:
    """Return `found` with what a line says; None if it says nothing that we know."""
    match line.split():
        case ["qos", "trust", "dscp" | "cos" as trust]:
            return replace(found, trust=trust)
        case ["no", "qos", "trust"]:
            return replace(found, trust="disabled")
        # Before EOS 4.22 it was written "mode on".
        case ["priority-flow-control", "on"] | ["priority-flow-control", "mode", "on"]:
            return replace(found, pfc=True)
        case ["no", "priority-flow-control"]:
            return replace(found, pfc=False)
        case ["priority-flow-control", "pause", "watchdog"]:
            return replace(found, watchdog=True)
        case ["no", "priority-flow-control", "pause", "watchdog"]:
            return replace(found, watchdog=False)
        case ["priority-flow-control", "pause", "watchdog", "port", "timer", *words] if words:
            return replace(found, timer=" ".join(words))
        case ["priority-flow-control", "pause", "watchdog", "port", "action", action]:
            return replace(found, action=action)
        case _:
            pass
    match = _PRIORITY.fullmatch(line)
    if match is None:
        return None
    return replace(found, no_drop=(*found.no_drop, (int(match[1]), match[2] == "no-drop")))


def _read_queue(number: int, node: Node) -> tuple[Queue, list[str]]:
    queue = Queue(number)
    rest = []
    for child in node.children:
        match child.line.split():
            case ["priority", "strict"]:
                queue = replace(queue, strict=True)
            case ["no", "priority"]:
                queue = replace(queue, strict=False)
            case ["bandwidth", "percent", percent] if percent.isdecimal():
                queue = replace(queue, percent=int(percent))
            case ["bandwidth", "guaranteed", *words] if words:
                queue = replace(queue, guaranteed=" ".join(words))
            case ["random-detect", "ecn", "count"]:
                queue = replace(queue, count=True)
            case ["random-detect", "ecn", *words] if words:
                queue = replace(queue, ecn=_in_bytes(" ".join(words)))
            case _:
                rest += _flat(child)
    return queue, rest


def _in_bytes(ecn: str) -> str:
    """Return the same thresholds in bytes if that can be said of them."""
    match = _THRESHOLDS.fullmatch(ecn)
    if match is None or match[2] not in _UNITS or match[4] not in _UNITS:
        return ecn
    low, high = (int(match[at]) * _UNITS[match[at + 1]] for at in (1, 3))
    return f"minimum-threshold {low} bytes maximum-threshold {high} bytes{ecn[match.end(4) :]}"


def _flat(node: Node) -> list[str]:
    if not node.children:
        return [node.line]
    return [f"{node.line}{_BETWEEN}{line}" for child in node.children for line in _flat(child)]


def _merged(lower: _Said, upper: _Said, names: Iterable[str]) -> _Said:
    said = {name: getattr(upper, name) for name in names if getattr(upper, name) is not None}
    return replace(lower, **said)
