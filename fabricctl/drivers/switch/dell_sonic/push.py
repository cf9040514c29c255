"""The lines that set ports, and those that take them back to what was read."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fabricctl.drivers.switch.dell_sonic import objects, slots, steps, terms
from fabricctl.drivers.switch.dell_sonic.objects import Objects
from fabricctl.model import settings
from fabricctl.model.fabric import Port
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.reading import Value
from fabricctl.plugin.answers import Unread
from fabricctl.plugin.protocols import PortGoal

_MARKING = (
    settings.ECN,
    settings.ECN_KMIN,
    settings.ECN_KMAX,
    settings.ECN_PMAX,
    terms.WRED_QUEUES,
)
_WATCHING = (
    settings.WATCHDOG,
    settings.WATCHDOG_DETECT,
    settings.WATCHDOG_RESTORE,
    settings.WATCHDOG_ACTION,
)
_ANY = PortId("-", "Eth1/1")
_EMPTY: Mapping[str, Value] = {terms.LINES: (), terms.OBJECTS: ()}
_UNREAD = "it could not be read, so that nothing could restore it"
_ACTIONS = frozenset({"drop", "forward", "alert"})


class Refusal(Exception):  # noqa: N818  it is said to the user as it is
    """The switch cannot hold what is wanted."""

    def __init__(self, setting: str, why: str) -> None:
        super().__init__(f"{setting}: {why}")
        self.setting = setting
        self.why = why


@dataclass(frozen=True, slots=True)
class Change:
    """What is told to a switch.

    Parameters
    ----------
    lines
        From configuration mode on.
    undo
        By port: the lines that take it back, in interface mode.
    common_undo
        Those that take back what all ports share, in configuration mode.
    refused
        By port: why nothing may be told to the switch.
    """

    lines: tuple[str, ...]
    undo: Mapping[str, tuple[str, ...]]
    common_undo: tuple[str, ...]
    refused: Mapping[str, str] = field(default_factory=dict)


def change(goals: Sequence[PortGoal]) -> Change:
    """Return what sets the ports; what is not to be set stays as it was read."""
    told = next((goal.before[terms.OBJECTS] for goal in goals if terms.OBJECTS in goal.before), None)
    known = Objects(told)
    refused: dict[str, str] = {}
    ports: list[_Port] = []
    for goal in goals:
        port = _Port(goal)
        if terms.OBJECTS not in goal.before:
            refused[port.name] = str(Refusal("configuration", _UNREAD))
            continue
        try:
            port.fill(known)
        except Refusal as no:
            refused[port.name] = str(no)
        ports.append(port)
    common_old: dict[str, str] = {}
    common_new: dict[str, str] = {}
    for port in ports:
        common_old |= {slot: line for slot, line in port.old.items() if slot in slots.OF_ALL}
        for slot in port.touched & set(slots.OF_ALL):
            line = port.new.get(slot, "")
            if common_new.setdefault(slot, line) != line:
                refused[port.name] = (
                    f"{settings.WATCHDOG_POLL}: the ports of a switch have one polling-interval"
                )
    after = {slot: line for slot, line in common_new.items() if line}
    return Change(
        lines=(
            *known.definitions(),
            *slots.common_way(common_old, after, sorted(common_new)),
            *(line for port in ports for line in port.block()),
        ),
        undo={port.name: tuple(slots.way(port.new, port.old, sorted(port.touched))) for port in ports},
        common_undo=tuple(slots.common_way(after, common_old, sorted(common_new))),
        refused=refused,
    )


def refused(intent: PortIntent) -> Mapping[str, str]:
    """Return by setting why the switch cannot hold what is meant for a port, whatever it holds now."""
    return _refused(frozenset(steps.wanted(intent).items()))


@functools.lru_cache(maxsize=256)
def _refused(wanted: frozenset[tuple[str, Value]]) -> Mapping[str, str]:
    """Set each setting by itself on a port that holds nothing; the ports of a fabric want few things."""
    values = dict(wanted)
    found: dict[str, str] = {}
    for name in sorted(values):
        goal = PortGoal(Port(_ANY), (name,), values, _EMPTY)
        try:
            _Port(goal).fill(Objects(None))
        except Refusal as no:
            found.setdefault(no.setting, no.why)
    return found


class _Port:
    """One port: what it holds, what it is to hold, and which of its slots may change."""

    def __init__(self, goal: PortGoal) -> None:
        self.goal = goal
        self.name = goal.port.id.port
        named = {name: goal.wanted[name] for name in goal.names if name in goal.wanted}
        self.values: Mapping[str, Value] = {**goal.wanted, **goal.before, **named}
        self.old: dict[str, str] = {}
        self.new: dict[str, str] = {}
        self.touched: set[str] = set()

    def fill(self, known: Objects) -> None:
        """Work out what the port is to hold; Refusal if the switch cannot hold it."""
        lines = self.goal.before.get(terms.LINES)
        if not isinstance(lines, tuple):
            raise Refusal("configuration", _UNREAD)
        try:
            self.old = slots.read(str(line) for line in lines)
        except Unread as exc:
            raise Refusal("configuration", str(exc)) from exc
        mtu = self.goal.before.get(settings.MTU)
        if slots.MTU not in self.old and isinstance(mtu, int):
            self.old[slots.MTU] = f"{slots.MTU} {mtu}"
        self.new = dict(self.old)
        self._mtu()
        self._classes(known)
        self._buffers(known)
        self._pfc(known)
        self._marks(known)
        self._watchdog()

    def block(self) -> Iterator[str]:
        """Walk the lines that set the port, from configuration mode and back."""
        lines = slots.way(self.old, self.new, sorted(self.touched))
        if lines:
            yield f"interface {self.name}"
            yield from lines
            yield "exit"

    def sets(self, *names: str) -> bool:
        return any(name in self.goal.names for name in names)

    def put(self, slot: str, value: str | None) -> None:
        """Fill a slot with a line that ends in `value`, or empty it."""
        self.touched.add(slot)
        if value is None:
            self.new.pop(slot, None)
        else:
            self.new[slot] = f"{slot} {value}" if value else slot

    def tuple_of(self, name: str) -> tuple[int, ...]:
        found = self.values.get(name)
        return tuple(int(str(number)) for number in found) if isinstance(found, tuple) else ()

    def number(self, name: str, known: range) -> int:
        found = self.values.get(name)
        if not isinstance(found, int) or isinstance(found, bool) or found not in known:
            raise Refusal(name, f"the switch takes {known.start}..{known.stop - 1}, not {found!r:.40}")
        return found

    def _bound(self, kind: str) -> str:
        return self.old.get(kind, "").rpartition(" ")[2]

    def bind(self, known: Objects, kind: str, held: str, slot: str, setting: str) -> None:
        """Bind an object that holds just this."""
        try:
            self.put(slot, known.name_of(kind, held, self._bound(slot)))
        except Unread as exc:
            raise Refusal(setting, str(exc)) from exc

    def _mtu(self) -> None:
        if self.sets(settings.MTU):
            self.put(slots.MTU, str(self.number(settings.MTU, terms.MTUS)))

    def _classes(self, known: Objects) -> None:
        if self.sets(settings.TRUST, settings.DSCP_PRIORITY):
            self._trust(known)
        if self.sets(settings.PRIORITY_TC):
            held = _digits(self.tuple_of(settings.PRIORITY_TC), terms.CLASSES, settings.PRIORITY_TC)
            self.bind(known, objects.TC_QUEUE, held, "qos-map tc-queue", settings.PRIORITY_TC)
        if self.sets(settings.TC_SCHEDULER, settings.TC_BANDWIDTH):
            kinds, percents = self.values.get(settings.TC_SCHEDULER), self.tuple_of(settings.TC_BANDWIDTH)
            if not isinstance(kinds, tuple) or len(kinds) != len(percents):
                raise Refusal(
                    settings.TC_SCHEDULER, "what the other of schedulers and shares is, is not known"
                )
            held = objects.scheduler_of(kinds, percents)
            self.bind(known, objects.SCHEDULER, held, slots.SCHEDULER, settings.TC_SCHEDULER)

    def _trust(self, known: Objects) -> None:
        trust = self.values.get(settings.TRUST) if self.sets(settings.TRUST) else "dscp"
        if trust == "dscp":
            held = _digits(self.tuple_of(settings.DSCP_PRIORITY), terms.DSCPS, settings.DSCP_PRIORITY)
            self.bind(known, objects.DSCP_TC, held, "qos-map dscp-tc", settings.DSCP_PRIORITY)
        elif trust in {"pcp", "none"}:
            self.put("qos-map dscp-tc", None)
            self.put("qos-map dot1p-tc", None)
            if trust == "pcp":
                self.bind(known, objects.DOT1P_TC, "01234567", "qos-map dot1p-tc", settings.TRUST)
        else:
            raise Refusal(settings.TRUST, f"there is no {trust!r:.40}")

    def _buffers(self, known: Objects) -> None:
        if self.sets(settings.CABLE_LENGTH):
            length_m = self.values.get(settings.CABLE_LENGTH)
            if length_m not in terms.CABLES_M:
                have = ", ".join(map(str, terms.CABLES_M))
                raise Refusal(
                    settings.CABLE_LENGTH, f"the switch has headroom for {have} m, not {length_m!r:.40}"
                )
            self.put(slots.CABLE, f"{length_m}m")
        if self.sets(settings.LOSSLESS_BUFFERS, terms.TC_GROUP):
            self.bind(known, objects.TC_PG, self._groups(known), "qos-map tc-pg", settings.LOSSLESS_BUFFERS)

    def _groups(self, known: Objects) -> str:
        """Return the priority group of every class: one with headroom only for those that are lossless."""
        base = known.content(objects.TC_PG, self._bound("qos-map tc-pg"))
        there = [
            int(digit) if digit.isdigit() else None for digit in base.ljust(terms.CLASSES)[: terms.CLASSES]
        ]
        given = dict(zip(self.tuple_of(settings.PFC), self.tuple_of(terms.TC_GROUP), strict=False))
        with_headroom = self.tuple_of(terms.GROUPS) or tuple(given.values())
        lossless = {*self.tuple_of(settings.LOSSLESS_BUFFERS), *given}
        lossy = there[0] if there[0] is not None and there[0] not in with_headroom else terms.LOSSY_GROUP
        found = []
        for number, group in enumerate(there):
            if number in lossless:
                keeps = group is not None and group in with_headroom
                found.append(given.get(number, group if keeps and group is not None else number))
            else:
                found.append(lossy if group is None or group in with_headroom else group)
        return _digits(found, terms.CLASSES, settings.LOSSLESS_BUFFERS)

    def _pfc(self, known: Objects) -> None:
        priorities = self.tuple_of(settings.PFC)
        if self.sets(settings.PFC):
            if len(priorities) > terms.LOSSLESS_MOST:
                raise Refusal(settings.PFC, f"a switch has PFC on {terms.LOSSLESS_MOST} priorities at most")
            for number in range(terms.CLASSES):
                self.put(slots.priority(number), "" if number in priorities else None)
        for kind, setting in ((objects.PFC_QUEUE, terms.PFC_QUEUE), (objects.PFC_PG, terms.PFC_GROUP)):
            if self.sets(setting) and priorities:
                self._single(known, kind, setting, priorities)
        if self.sets(terms.ASYMMETRIC):
            self.put(slots.ASYMMETRIC, "" if self.values.get(terms.ASYMMETRIC) is True else None)

    def _single(self, known: Objects, kind: str, setting: str, priorities: Sequence[int]) -> None:
        """Bind the one map of its kind if it leads the priorities with PFC where they are to go."""
        slot = f"qos-{kind}"
        goals = dict(zip(priorities, self.tuple_of(setting), strict=False))
        there = known.single(kind)
        if there and all(there[1][number : number + 1] == str(goal) for number, goal in goals.items()):
            self.put(slot, there[0])
            return
        held = _digits([goals.get(number, number) for number in range(terms.CLASSES)], terms.CLASSES, setting)
        self.bind(known, kind, held, slot, setting)

    def _marks(self, known: Objects) -> None:
        if not self.sets(*_MARKING):
            return
        marks = self.values.get(settings.ECN) is True
        queues = self.tuple_of(terms.WRED_QUEUES)
        limits = [self.values.get(name) for name in (settings.ECN_KMIN, settings.ECN_KMAX, settings.ECN_PMAX)]
        # Without marks a policy drops: that is only ever restored.
        drops = not marks and None not in limits
        for number in range(terms.CLASSES):
            self.put(slots.queue(number), None)
        for number in queues if marks or drops else ():
            self.bind(known, objects.WRED, self._mark(marks=marks), slots.queue(number), settings.ECN)

    def _mark(self, *, marks: bool) -> str:
        limits = [self.number(name, terms.THRESHOLDS) for name in (settings.ECN_KMIN, settings.ECN_KMAX)]
        probability = self.number(settings.ECN_PMAX, range(101))
        kmin, kmax = (terms.kilobytes(limit) for limit in limits)
        return f"{'green' if marks else 'none'}:{kmin}:{kmax}:{probability}"

    def _watchdog(self) -> None:
        if self.sets(*_WATCHING):
            on = bool(self.tuple_of(settings.WATCHDOG))
            action = self.values.get(settings.WATCHDOG_ACTION)
            if on and action is not None and action not in _ACTIONS:
                raise Refusal(settings.WATCHDOG_ACTION, f"there is no {action!r:.40}")
            self.put(slots.ACTION, str(action) if on and action is not None else None)
            self._time(slots.ON, settings.WATCHDOG_DETECT, terms.DETECT_MS, on=on)
            if on and settings.WATCHDOG_RESTORE not in self.values:
                self.put(slots.RESTORE, None)
            else:
                self._time(slots.RESTORE, settings.WATCHDOG_RESTORE, terms.RESTORE_MS, on=on)
        if self.sets(settings.WATCHDOG_POLL):
            self.put(slots.POLL, str(self.number(settings.WATCHDOG_POLL, terms.POLL_MS)))
        if self.sets(terms.COUNTER_POLL):
            self.touched.add(slots.COUNTERS)
            self.new.pop(slots.COUNTERS, None)
            if self.values.get(terms.COUNTER_POLL) is False:
                self.new[slots.COUNTERS] = f"no {slots.COUNTERS}"

    def _time(self, slot: str, setting: str, known: range, *, on: bool) -> None:
        self.put(slot, str(self.number(setting, known)) if on else None)


def _digits(found: Sequence[int], length: int, setting: str) -> str:
    if len(found) != length or not all(0 <= number < terms.CLASSES for number in found):
        raise Refusal(setting, f"{len(found)} numbers are no {length} of 0..7")
    return "".join(map(str, found))
