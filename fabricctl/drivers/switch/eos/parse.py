"""What to ask an EOS switch, and how to read the answers."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fabricctl.drivers import lines
from fabricctl.drivers.switch.eos import profile, shown, steps, terms, tree
from fabricctl.drivers.switch.eos.platform import queue_mode
from fabricctl.drivers.switch.eos.profile import Ecn, Profile
from fabricctl.drivers.switch.eos.tree import Tree
from fabricctl.model import facts, settings
from fabricctl.model.fabric import Port
from fabricctl.model.names import PortId
from fabricctl.model.reading import Entry, Missing, PortReading, Value
from fabricctl.plugin.answers import Unread, entry, parsed, text, whole_number
from fabricctl.plugin.protocols import Answers, Query

_RUNNING = "running"
_STARTUP = "startup"
_ALL_OFF = "priority-flow-control all off"
_COUNTING = "hardware counter feature ecn out"
_OVERRIDE = "priority-flow-control pause watchdog override action drop"
_ACTION = "priority-flow-control pause watchdog action "
_DEFAULT = "priority-flow-control pause watchdog default "
_GLOBAL = ("qos map ", "priority-flow-control ", "hardware counter feature ecn ")
_TIMER = re.compile(
    r"timeout (\d+(?:\.\d+)?) polling-interval (auto|\d+(?:\.\d+)?) recovery-time (\d+(?:\.\d+)?)(?: forced)?"
)
_SECONDS = re.compile(r"\d+(?:\.\d+)?")
_MTU = "mtu "
_PROFILE = "service-profile "
_FLOW = re.compile(r"flowcontrol (?:send|receive) (?:on|desired)")


def queries(ports: Sequence[Port]) -> tuple[Query, ...]:
    """Return everything to ask a switch with these ports; RefusedError if a port has an impossible name."""
    lines.check_names(ports)
    return (
        *shown.QUERIES,
        Query(_RUNNING, ("show", "running-config")),
        Query(_STARTUP, ("show", "startup-config")),
    )


def parse(
    ports: Sequence[Port], answers: Answers
) -> tuple[Mapping[PortId, PortReading], Mapping[str, Entry]]:
    """Return the reading of each port and the facts of the switch."""
    switch = Switch(answers)
    return {port.id: _port(port, switch) for port in ports}, {
        facts.BOOT_ID: entry(lambda: f"{parsed(answers, shown.VERSION)['bootupTimestamp']:.0f}"),
        facts.KERNEL: entry(lambda: f"EOS {parsed(answers, shown.VERSION)['version']}"),
        facts.RIVALS: entry(switch.rivals),
    }


@dataclass(frozen=True)
class Switch:
    """What holds for all ports. Its members raise Unread."""

    answers: Answers

    @functools.cached_property
    def running(self) -> Tree:
        """The configuration that holds."""
        return self._configuration(_RUNNING)

    @functools.cached_property
    def startup(self) -> Tree:
        """The configuration that a reboot brings."""
        return self._configuration(_STARTUP)

    @functools.cached_property
    def mode(self) -> str:
        """What the switch calls its queues."""
        return queue_mode(str(parsed(self.answers, shown.VERSION)["modelName"]), text(self.answers, _RUNNING))

    @functools.cached_property
    def profiles(self) -> Mapping[str, Profile]:
        """What each QoS profile says."""
        found = tree.under(self.running, "qos profile ")
        return {name: profile.read(nodes, self.mode) for name, nodes in found.items()}

    @functools.cached_property
    def classes(self) -> tuple[int, ...]:
        """The queue of every traffic class."""
        return shown.queue_map(self.answers)[1]

    @functools.cached_property
    def users(self) -> Mapping[str, tuple[str, ...]]:
        """The interfaces of each profile that has some."""
        found: dict[str, tuple[str, ...]] = {}
        for name, nodes in tree.under(self.running, "interface ").items():
            for used in tree.under(nodes, _PROFILE):
                found[used] = (*found.get(used, ()), name)
        return found

    def holds(self, line: str) -> bool:
        """Say whether a line of the configuration is there."""
        return any(node.line == line for node in self.running)

    def rivals(self) -> tuple[str, ...]:
        """Return the line that keeps PFC off on all ports whatever they say, if it is there."""
        return (_ALL_OFF,) if self.holds(_ALL_OFF) else ()

    def default(self, name: str) -> str:
        """Return a default of the whole switch for the watchdog, empty if none is set."""
        return next(iter(tree.under(self.running, f"{_DEFAULT}{name} ")), "")

    def saved(self, port: str) -> str:
        """Say whether the startup-config sets a port as the running-config does."""
        same = _all_of(self.startup, port) == _all_of(self.running, port)
        return settings.SAVED if same else settings.NOT_KEPT

    def _configuration(self, key: str) -> Tree:
        found = tree.parse(text(self.answers, key))
        if not found or found[-1].line != "end":
            raise Unread(f"{key}: the configuration does not come to its end")
        return found


@dataclass(frozen=True)
class _Interface:
    """One port. Its members raise Unread."""

    name: str
    switch: Switch

    @functools.cached_property
    def nodes(self) -> Tree:
        head = f"interface {self.name}"
        if not self.switch.holds(head):
            # A port at its defaults may have no section, but it is shown.
            shown.interface(self.name, self.switch.answers)
        return tree.section(self.switch.running, head)

    @functools.cached_property
    def profile(self) -> str:
        return next(iter(tree.under(self.nodes, _PROFILE)), terms.NONE)

    @functools.cached_property
    def own(self) -> Profile:
        return profile.read(self.nodes, self.switch.mode)

    @functools.cached_property
    def holds(self) -> Profile:
        """What holds: what the interface says itself, else what its profile says."""
        if self.profile != terms.NONE and self.profile not in self.switch.profiles:
            raise Unread(f"its profile {self.profile} is not there")
        given = self.switch.profiles.get(self.profile, Profile())
        return profile.plain(profile.over(given, self.own))

    def mtu(self) -> int:
        explicit = next(iter(tree.under(self.nodes, _MTU)), "")
        return (
            int(explicit)
            if explicit
            else whole_number(shown.interface(self.name, self.switch.answers)["mtu"])
        )

    def trust(self) -> str:
        if self.holds.trust is not None:
            return {"dscp": "dscp", "cos": "pcp"}.get(self.holds.trust, terms.NONE)
        return self.default_trust()

    def default_trust(self) -> str:
        # Without a word on it, routed ports trust DSCP and switched ports trust CoS.
        model = shown.interface(self.name, self.switch.answers)["forwardingModel"]
        if model not in {"routed", "bridged"}:
            raise Unread(f"unparsable: its forwarding model is {model!r:.40}")
        return "dscp" if model == "routed" else "pcp"

    def pfc(self) -> tuple[int, ...]:
        on = self.holds.pfc and not self.switch.rivals()
        return self.holds.lossless if on else ()

    def scheduling(self) -> tuple[tuple[str, ...], tuple[int, ...]]:
        queues = [self.holds.queue(number) for number in range(terms.QUEUES)]
        # A queue that takes turns makes all lower ones take turns, whatever they say.
        highest = max((queue.number for queue in queues if queue.strict is False), default=-1)
        kinds = ["ets" if queue.number <= highest else "strict" for queue in queues]
        shares = [0 if kind == "strict" else q.percent or 0 for kind, q in zip(kinds, queues, strict=True)]
        return steps.scheduling(self.switch.classes, kinds, shares)

    def marking(self) -> tuple[int, ...]:
        return tuple(queue.number for queue in self.holds.queues if queue.ecn)

    def thresholds(self) -> Ecn:
        found = {queue.number: profile.thresholds(queue.ecn) for queue in self.holds.queues if queue.ecn}
        if not found:
            raise Unread("no queue of the port marks")
        if len(set(found.values())) > 1:
            raise Unread(f"the queues {', '.join(map(str, found))} mark at different thresholds")
        return next(iter(found.values()))

    def counted(self) -> bool:
        every = all(queue.count for queue in self.holds.queues if queue.ecn)
        return every and (self.switch.mode == profile.UNICAST or self.switch.holds(_COUNTING))

    def watched(self) -> tuple[int, ...]:
        """Return the priorities under the watchdog: only of queues with guaranteed bandwidth."""
        if not self.holds.watchdog:
            return ()
        queues = self.switch.classes
        return tuple(p for p in self.holds.lossless if self.holds.queue(queues[p]).guaranteed)

    def watched_queues(self) -> tuple[int, ...]:
        return tuple(sorted({self.switch.classes[priority] for priority in self.watched()}))

    def timer_ms(self, place: int, name: str) -> int:
        """Return a time of the watchdog: the port's own, else the switch's."""
        if self.holds.timer is None:
            given = self.switch.default(name)
            if not given:
                raise Unread("neither the port nor the switch sets it: EOS's default holds")
            return _milliseconds(given)
        match = _TIMER.fullmatch(self.holds.timer)
        if match is None:
            raise Unread(f"unparsable: timer {self.holds.timer}")
        if match[place] == "auto":
            return min(_milliseconds(match[1]), _milliseconds(match[3])) // 2
        return _milliseconds(match[place])

    def action(self) -> str:
        if self.switch.holds(_OVERRIDE):
            return "drop"
        if self.holds.action is not None:
            return self.holds.action
        return next(iter(tree.under(self.switch.running, _ACTION)), "errdisable")

    def guaranteed(self) -> tuple[str, ...]:
        return tuple(f"{q.number} {q.guaranteed}" for q in self.holds.queues if q.guaranteed)


def _port(port: Port, switch: Switch) -> PortReading:
    here = _Interface(port.id.port, switch)
    return PortReading(
        port.id,
        settings={**_settings(here), **_means(here)},
        facts={
            **shown.read_facts(here.name, switch.answers),
            facts.PLANE: entry(
                lambda: f"EOS {parsed(switch.answers, shown.VERSION)['version']}, {switch.mode}"
            ),
            facts.HEADROOM: Missing("EOS shows no headroom"),
        },
        counters=shown.read_counters(here.name, switch.answers, _watched(here)),
    )


def _settings(here: _Interface) -> dict[str, Entry]:
    switch = here.switch
    readers: dict[str, Callable[[], Value]] = {
        settings.MTU: here.mtu,
        settings.PAUSE: lambda: any(_FLOW.fullmatch(node.line) for node in here.nodes),
        settings.TRUST: here.trust,
        settings.DSCP_PRIORITY: lambda: shown.dscp_map(switch.answers),
        settings.PRIORITY_TC: lambda: switch.classes,
        settings.TC_SCHEDULER: lambda: here.scheduling()[0],
        settings.TC_BANDWIDTH: lambda: here.scheduling()[1],
        settings.LOSSLESS_BUFFERS: lambda: here.holds.lossless,
        settings.PFC: here.pfc,
        settings.ECN: lambda: bool(here.marking()),
        settings.ECN_KMIN: lambda: here.thresholds().kmin_bytes,
        settings.ECN_KMAX: lambda: here.thresholds().kmax_bytes,
        settings.ECN_PMAX: lambda: here.thresholds().pmax_percent,
        settings.WATCHDOG: here.watched,
        settings.WATCHDOG_DETECT: lambda: here.timer_ms(1, "timeout"),
        settings.WATCHDOG_POLL: lambda: here.timer_ms(2, "polling-interval"),
        settings.WATCHDOG_RESTORE: lambda: here.timer_ms(3, "recovery-time"),
        settings.WATCHDOG_ACTION: here.action,
        settings.BOOT: lambda: switch.saved(here.name),
        terms.ECN_QUEUES: here.marking,
        terms.ECN_COUNTED: here.counted,
    }
    return {name: entry(reader) for name, reader in readers.items()}


def _means(here: _Interface) -> dict[str, Entry]:
    """Return what a push has to know to change the port."""
    switch = here.switch
    readers: dict[str, Callable[[], Value]] = {
        terms.QUEUE_MODE: lambda: switch.mode,
        terms.MAP_MODE: lambda: shown.queue_map(switch.answers)[0],
        terms.PROFILE: lambda: here.profile,
        terms.DEFAULT_TRUST: here.default_trust,
        terms.GUARANTEED: here.guaranteed,
        terms.REST: lambda: switch.profiles.get(here.profile, Profile()).rest,
        terms.OWN_LINES: lambda: profile.own_lines(here.nodes, switch.mode),
        terms.PROFILES: lambda: tuple(
            f"{name} {profile.digest(one)} {','.join(switch.users.get(name, ()))}".rstrip()
            for name, one in sorted(switch.profiles.items())
        ),
    }
    return {name: entry(reader) for name, reader in readers.items()}


def _all_of(config: Tree, port: str) -> tuple[object, ...]:
    """Return all of a configuration that bears on a port."""
    nodes = tree.section(config, f"interface {port}")
    used = next(iter(tree.under(nodes, _PROFILE)), "")
    of_switch = sorted(node.line for node in config if node.line.startswith(_GLOBAL))
    return nodes, tree.section(config, f"qos profile {used}"), of_switch


def _milliseconds(seconds: str) -> int:
    if not _SECONDS.fullmatch(seconds):
        raise Unread(f"unparsable: {seconds} s")
    return round(float(seconds) * 1000)


def _watched(here: _Interface) -> tuple[int, ...]:
    """Return the queues under the watchdog, none if that is not known."""
    found: list[int] = []

    def read() -> bool:
        found.extend(here.watched_queues())
        return True

    entry(read)
    return tuple(found)
