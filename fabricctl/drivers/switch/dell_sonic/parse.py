"""What to ask Enterprise SONiC, and how to read the answers: settings from its configuration."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fabricctl.drivers.switch.dell_sonic import config, objects, shown, terms
from fabricctl.drivers.switch.dell_sonic.config import Config
from fabricctl.drivers.switch.dell_sonic.objects import Mark
from fabricctl.model import facts, settings
from fabricctl.model.fabric import Port
from fabricctl.model.names import PortId
from fabricctl.model.reading import Entry, Known, PortReading, Value
from fabricctl.plugin.answers import Lacking, Unread, entry, text
from fabricctl.plugin.protocols import Answers, Query

RUNNING = "show running-configuration"
STARTUP = "show startup-configuration"

_NO_BUFFERS = (
    'the switch has no lossless buffers: give it "buffer init lossless" by hand, which reboots it, '
    "with the traffic gone from it"
)
_NOT_YET = 'the switch has its lossless buffers only after the reboot that "buffer init lossless" asks for'
_REBOOT = f"{settings.LOSSLESS_BUFFERS}: reboot the switch"
_UNSEEN = "this release's sonic-cli does not show what is saved"


def queries(ports: Sequence[Port]) -> tuple[Query, ...]:
    """Return everything to ask a switch with these ports; RefusedError if one has an impossible name."""
    terms.check_names(ports)
    lines = (RUNNING, STARTUP, *shown.lines(ports))
    counting = shown.counting_lines(ports)
    return tuple(Query(line, tuple(line.split()), counts=line in counting) for line in lines)


def parse(
    ports: Sequence[Port], answers: Answers
) -> tuple[Mapping[PortId, PortReading], Mapping[str, Entry]]:
    """Return the reading of each port and the facts of the switch."""
    running, startup = _configuration(answers, RUNNING), _configuration(answers, STARTUP)
    of_device = {
        facts.BOOT_ID: entry(lambda: shown.boot_mark(answers)),
        facts.KERNEL: entry(lambda: shown.version(answers, "Kernel")),
    }
    return {
        port.id: _port(port.id, _Port(port.id.port, running, startup, answers)) for port in ports
    }, of_device


def _port(port: PortId, read: _Port) -> PortReading:
    return PortReading(
        port,
        settings={name: entry(reader) for name, reader in read.readers()},
        facts={
            **shown.read_facts(read.name, read.answers),
            facts.HEADROOM: entry(read.headroom),
            facts.PLANE: entry(read.plane),
            **({facts.PENDING: Known((_REBOOT,))} if read.waits_for_reboot() else {}),
        },
        counters=shown.read_counters(read.name, read.answers),
    )


def _configuration(answers: Answers, line: str) -> Config | Unread:
    try:
        return config.read(text(answers, line))
    except Unread as exc:
        refused = line == STARTUP and line in answers and "%" in answers[line].stdout[:200]
        return Lacking(_UNSEEN) if refused else exc


@dataclass
class _Port:
    """One port while it is read; its members raise Unread where there is nothing to read."""

    name: str
    told: Config | Unread
    saved: Config | Unread
    answers: Answers

    @property
    def running(self) -> Config:
        return _there(self.told)

    def readers(self) -> Iterable[tuple[str, Callable[[], Value]]]:
        """Return how to read each setting."""
        return (
            (settings.MTU, self.mtu),
            (settings.TRUST, self.trust),
            (settings.DSCP_PRIORITY, lambda: objects.eight(self.bound(objects.DSCP_TC))),
            (settings.PRIORITY_TC, lambda: objects.eight(self.bound(objects.TC_QUEUE))),
            (settings.TC_SCHEDULER, lambda: self.schedules()[0]),
            (settings.TC_BANDWIDTH, lambda: self.schedules()[1]),
            (settings.CABLE_LENGTH, self.cable_length),
            (settings.LOSSLESS_BUFFERS, self.lossless),
            (settings.PFC, self.pfc),
            (settings.ECN, self.ecn),
            (settings.ECN_KMIN, lambda: _set(self.mark().kmin_bytes)),
            (settings.ECN_KMAX, lambda: _set(self.mark().kmax_bytes)),
            (settings.ECN_PMAX, lambda: _set(self.mark().pmax_percent)),
            (settings.WATCHDOG, lambda: self.pfc() if self.watchdog() else ()),
            (settings.WATCHDOG_DETECT, lambda: self.watchdog_time("detect-time", terms.DETECT_MS)),
            (settings.WATCHDOG_RESTORE, lambda: self.watchdog_time("restore-time", terms.RESTORE_MS)),
            (settings.WATCHDOG_POLL, self.poll),
            (settings.WATCHDOG_ACTION, self.watchdog_action),
            (settings.BOOT, self.boot),
            (terms.WRED_QUEUES, lambda: tuple(self.running.wreds(self.name))),
            (terms.TC_GROUP, lambda: self.of_pfc(objects.TC_PG)),
            (terms.PFC_GROUP, lambda: self.of_pfc(objects.PFC_PG)),
            (terms.PFC_QUEUE, lambda: self.of_pfc(objects.PFC_QUEUE)),
            (terms.ASYMMETRIC, lambda: "priority-flow-control asymmetric" in self.lines()),
            (terms.COUNTER_POLL, self.counter_poll),
            (terms.OBJECTS, lambda: tuple(self.running.told())),
            (terms.LINES, lambda: self.running.own(self.name)),
            (terms.GROUPS, self.groups),
        )

    def lines(self) -> tuple[str, ...]:
        return self.running.interface(self.name)

    def value(self, start: str) -> str | None:
        return self.running.value(self.name, start)

    def bound(self, kind: str) -> str:
        return self.running.bound(self.name, kind)

    def mtu(self) -> int:
        found = self.value("mtu ")
        return shown.mtu(self.name, self.answers) if found is None else int(found)

    def trust(self) -> str:
        # Where both are bound, the DSCP decides for whatever has one.
        if self.value("qos-map dscp-tc ") is not None:
            return "dscp"
        return "none" if self.value("qos-map dot1p-tc ") is None else "pcp"

    def schedules(self) -> tuple[tuple[str, ...], tuple[int, ...]]:
        name = self.value("scheduler-policy ")
        if name is None:
            raise Unread("no scheduler-policy is bound to the port")
        return objects.schedules(self.running.content(objects.SCHEDULER, name))

    def cable_length(self) -> int:
        found = self.value("cable-length ")
        if found is None:
            raise Unread("the port has no cable-length: the platform's own holds")
        match = re.fullmatch(r"([0-9]{1,4})m", found)
        if not match:
            raise Unread(f"unparsable: cable-length {found}")
        return int(match[1])

    def groups(self) -> tuple[int, ...]:
        if not self.running.lossless:
            raise Lacking(_NO_BUFFERS)
        if self.waits_for_reboot():
            raise Lacking(_NOT_YET)
        return tuple(group for group, size in sorted(self.headrooms().items()) if size)

    def headrooms(self) -> dict[int, int]:
        return shown.headrooms(self.name, self.answers)

    def waits_for_reboot(self) -> bool:
        """Say whether lossless buffers are configured and the switch shows none of them."""
        try:
            profiles = text(self.answers, shown.PROFILES)
            configured = self.running.lossless
        except Unread:
            return False
        return configured and "lossless" not in profiles

    def lossless(self) -> tuple[int, ...]:
        groups = self.groups()
        return tuple(
            at for at, group in enumerate(objects.eight(self.bound(objects.TC_PG))) if group in groups
        )

    def headroom(self) -> tuple[int, ...]:
        if not self.running.lossless:
            return (0,) * terms.CLASSES
        sizes = self.headrooms()
        return tuple(sizes.get(group, 0) for group in objects.eight(self.bound(objects.TC_PG)))

    def pfc(self) -> tuple[int, ...]:
        return config.priorities(self.lines())

    def of_pfc(self, kind: str) -> tuple[int, ...]:
        """Return where a map leads each priority with PFC."""
        priorities = self.pfc()
        if not priorities:
            return ()
        held = self.bound(kind)
        if any(not held[priority].isdigit() for priority in priorities):
            raise Unread(f"the qos {kind} says nothing of a priority with PFC")
        return tuple(int(held[priority]) for priority in priorities)

    def marks(self) -> list[Mark]:
        found = self.running.wreds(self.name)
        return [objects.mark(self.running.content(objects.WRED, name)) for name in found.values()]

    def ecn(self) -> bool:
        found = self.marks()
        return bool(found) and all(mark.marks for mark in found)

    def mark(self) -> Mark:
        found = set(self.marks())
        if not found:
            raise Unread("the port does not mark: no queue has a wred-policy")
        if len(found) > 1:
            raise Unread("its queues mark differently")
        return found.pop()

    def watchdog(self) -> dict[str, str]:
        return config.watchdog(self.lines())

    def watchdog_time(self, word: str, known: range) -> int:
        found = self.watchdog()
        if not found:
            raise Unread("the watchdog is off")
        if word not in found:
            raise Unread(f"the watchdog has no {word}: the switch's own holds")
        return _within(found[word], known)

    def watchdog_action(self) -> str:
        found = self.watchdog()
        if not found:
            raise Unread("the watchdog is off")
        return found.get("action", "drop")

    def poll(self) -> int:
        found = self.running.common("priority-flow-control watchdog polling-interval ")
        if found is None:
            raise Unread("the watchdog has no polling-interval: the switch's own holds")
        return _within(found, terms.POLL_MS)

    def counter_poll(self) -> bool:
        self.lines()
        return "no priority-flow-control watchdog counter-poll" not in self.running.top

    def boot(self) -> str:
        running, saved = self.running, _there(self.saved)
        same = sorted(running.own(self.name)) == sorted(saved.own(self.name))
        return settings.SAVED if same and self._bound_alike(running, saved) else settings.NOT_KEPT

    def _bound_alike(self, running: Config, saved: Config) -> bool:
        """Say whether what the port's lines name is the same in both configurations."""
        named = [line.rsplit(maxsplit=1) for line in running.own(self.name)]
        keys = [(_kind(start), name) for start, name in named if _kind(start)]
        return all(running.blocks.get(key) == saved.blocks.get(key) for key in keys)

    def plane(self) -> str:
        lossless = "lossless" if self.running.lossless else "lossy"
        return f"Enterprise SONiC {shown.version(self.answers, 'Software Version')}, {lossless} buffers"


def _kind(start: str) -> str:
    if start.startswith("qos-map "):
        return start.replace("qos-map", "map")
    return objects.SCHEDULER if start == "scheduler-policy" else objects.WRED if "wred" in start else ""


def _there(found: Config | Unread) -> Config:
    if isinstance(found, Unread):
        raise type(found)(str(found))
    return found


def _set(value: int | None) -> int:
    if value is None:
        raise Unread("the wred-policy has no thresholds for green packets: nothing is marked")
    return value


def _within(said: str, known: range) -> int:
    found = int(said)
    if found not in known:
        raise Unread(f"unparsable: {found} is not within {known.start}..{known.stop - 1}")
    return found
