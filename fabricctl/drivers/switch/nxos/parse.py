"""What to ask NX-OS, and how to read the answers: settings from the configuration, facts from what it shows.

Operational values are used where a configuration does not say what holds: the default MTU, the default
queues, and whether PFC in mode ``auto`` is on. A configuration counts only if it came whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from fabricctl.drivers.switch.nxos import config, policies, shown, terms
from fabricctl.drivers.switch.nxos.config import Config, Interface
from fabricctl.drivers.switch.nxos.policies import Classifier, Mark, NetworkQos, Queuing
from fabricctl.model import facts, settings
from fabricctl.model.fabric import Port
from fabricctl.model.names import PortId
from fabricctl.model.reading import Entry, Missing, PortReading, Value
from fabricctl.plugin.answers import Unread, entry, text
from fabricctl.plugin.protocols import Answers, Query

RUNNING = "show running-config"
STARTUP = "show startup-config"
_COUNTED = "[a-z]"
"""What a line holds that is counted: a device's empty lines at the ends are not always passed on."""


def count_of(key: str) -> str:
    """Return the question how many lines a configuration has."""
    return f"{key} | include {_COUNTED} | count"


def queries(ports: Sequence[Port]) -> tuple[Query, ...]:
    """Return everything to ask a switch with these ports.

    Raises
    ------
    RefusedError
        A port's name is not NX-OS's own in full (``Ethernet1/1``, ``Ethernet1/1/2``).
    """
    for port in ports:
        terms.checked_port(port)
    lines = (
        RUNNING,
        count_of(RUNNING),
        STARTUP,
        count_of(STARTUP),
        shown.INTERFACE,
        shown.PFC,
        shown.QUEUES,
        shown.WATCHDOG,
        shown.NEIGHBOURS,
        shown.VERSION,
        shown.UPTIME,
    )
    return tuple(Query(line, tuple(line.split()), counts=line in shown.COUNTING) for line in lines)


def parse(
    ports: Sequence[Port], answers: Answers
) -> tuple[Mapping[PortId, PortReading], Mapping[str, Entry]]:
    """Return the reading of each port and the facts of the switch."""
    running, startup = _configuration(answers, RUNNING), _configuration(answers, STARTUP)
    said = shown.Said(answers)
    known = {
        terms.OBJECTS: entry(lambda: _known(running).objects()),
        terms.TIMERS: entry(lambda: _known(running).timers),
    }
    of_device = {
        facts.BOOT_ID: entry(lambda: shown.boot_mark(said)),
        facts.KERNEL: Missing("NX-OS shows no kernel release"),
        # Nothing on the device sets QoS by itself; what sets a port from elsewhere is a fact of the port.
        facts.RIVALS: entry(lambda: _no_rivals(running)),
    }
    return {
        port.id: _port(port.id, _Port(port.id.port, running, startup, said), known) for port in ports
    }, of_device


def _port(port: PortId, read: _Port, of_device: Mapping[str, Entry]) -> PortReading:
    return PortReading(
        port,
        settings={**{name: entry(reader) for name, reader in read.readers()}, **of_device},
        facts={
            **shown.read_facts(read.name, read.said),
            facts.HEADROOM: entry(lambda: shown.headroom(read.name, read.said, read.strict)),
            facts.PLANE: entry(lambda: f"NX-OS {shown.version(read.said)}"),
            facts.RIVALS: entry(lambda: read.interface.others),
        },
        counters=_counters(read),
    )


def _counters(read: _Port) -> dict[str, Entry]:
    try:
        strict = read.strict
    except Unread:
        strict = terms.USUAL
    return shown.read_counters(read.name, read.said, strict)


@dataclass
class _Port:
    """One port while it is read; its members raise Unread where there is nothing to read."""

    name: str
    running: Config | Unread
    startup: Config | Unread
    said: shown.Said

    def readers(self) -> Iterable[tuple[str, Callable[[], Value]]]:
        """Return how to read each setting."""
        return (
            (settings.MTU, self.mtu),
            (settings.PAUSE, lambda: self.interface.flow_control != "off"),
            (settings.TRUST, lambda: "pcp" if self.classifier.cos else "dscp"),
            (settings.DSCP_PRIORITY, self.dscp_priority),
            (settings.PRIORITY_TC, self.priority_tc),
            (settings.TC_SCHEDULER, self.schedulers),
            (settings.TC_BANDWIDTH, lambda: terms.by_class(self.queuing.percents, self.strict)),
            (settings.LOSSLESS_BUFFERS, self.lossless),
            (settings.PFC, self.pfc),
            (settings.ECN, self.ecn),
            (settings.ECN_KMIN, lambda: self.mark.kmin),
            (settings.ECN_KMAX, lambda: self.mark.kmax),
            (settings.ECN_PMAX, lambda: self.mark.pmax),
            (settings.WATCHDOG, self.watchdog),
            (settings.WATCHDOG_DETECT, self.detect_ms),
            (settings.WATCHDOG_RESTORE, self.restore_ms),
            (settings.WATCHDOG_POLL, lambda: self.config.watchdog.interval_ms),
            (settings.WATCHDOG_ACTION, self.action),
            (terms.PFC_MODE, lambda: self.interface.pfc_mode),
            (terms.CLASS_MTU, lambda: terms.by_class(self.network.mtus, self.strict)),
            (terms.ECN_CLASSES, self.marking),
            (terms.FLOW_CONTROL, lambda: self.interface.flow_control),
            (terms.WATCHDOG_GLOBAL, lambda: self.config.watchdog.on),
            (terms.CLASSIFIER, lambda: self.plain(self.known.classifier(self.name))),
            (terms.QUEUING, lambda: self.plain(self.known.queuing(self.name))),
            (terms.NETWORK_QOS, lambda: self.plain(self.config.network())),
            (settings.BOOT, self.boot),
        )

    @property
    def config(self) -> Config:
        """The running configuration."""
        return _known(self.running)

    @property
    def known(self) -> Config:
        """The running configuration, if it has this port."""
        if self.name not in self.config.interfaces:
            raise Unread(f"NX-OS shows no port {self.name}")
        return self.config

    @property
    def interface(self) -> Interface:
        """What is configured on the port."""
        return self.known.interface(self.name)

    @cached_property
    def classifier(self) -> Classifier:
        """What classifies what comes in."""
        return self.known.classifier(self.name)[1]

    @cached_property
    def queuing(self) -> Queuing:
        """The port's queues; NX-OS's own as they are at work, for no configuration shows them."""
        name, made = self.known.queuing(self.name)
        if name:
            return made
        return Queuing(*shown.default_queuing(self.name, self.said))

    @cached_property
    def network(self) -> NetworkQos:
        """The device's network-qos."""
        return self.config.network()[1]

    @property
    def strict(self) -> int:
        """The policy's class that rides queue 7 at this port."""
        return self.classifier.strict

    @property
    def marks(self) -> dict[int, Mark]:
        """How queues mark, by class."""
        found = self.known.queuing(self.name)[1].marks
        return {terms.swapped(queue, self.strict): mark for queue, mark in enumerate(found) if mark}

    @property
    def mark(self) -> Mark:
        """How the queues that mark do it."""
        found = set(self.marks.values())
        if not found:
            raise Unread("no queue of the port marks")
        if len(found) > 1:
            raise Unread("queues of the port mark at different thresholds")
        return found.pop()

    def mtu(self) -> int:
        """Return the port's MTU: the configured one, or what the port reports where it is the default."""
        return self.interface.mtu or shown.mtu(self.name, self.said)

    def dscp_priority(self) -> tuple[int, ...]:
        """Return the priority of every DSCP."""
        if self.classifier.cos:
            raise Unread("the port classifies by 802.1p priority")
        return self.classifier.priorities

    def priority_tc(self) -> tuple[int, ...]:
        """Return the class of every priority; one without a DSCP has its own if that is special, else 0."""
        made = self.classifier
        special = {*self.lossless(), *(n for n, kind in enumerate(self.schedulers()) if kind == "strict")}
        found = []
        for priority in range(terms.QUEUES):
            queues = {q for p, q in zip(made.priorities, made.queues, strict=True) if p == priority}
            if len(queues) > 1:
                raise Unread(f"DSCPs of priority {priority} go to several queues")
            own = priority if priority in special else 0
            found.append(terms.swapped(queues.pop(), self.strict) if queues else own)
        return tuple(found)

    def schedulers(self) -> tuple[str, ...]:
        """Return the schedulers by class."""
        return terms.by_class(self.queuing.schedulers, self.strict)

    def lossless(self) -> tuple[int, ...]:
        """Return the classes that network-qos pauses instead of dropping from them."""
        queues = [queue for queue, pause in enumerate(self.network.pauses) if pause]
        return tuple(sorted(terms.swapped(queue, self.strict) for queue in queues))

    def pfc(self) -> tuple[int, ...]:
        """Return the priorities that PFC pauses: those of network-qos, if PFC is on at the port."""
        mode = self.interface.pfc_mode
        on = mode == "on" or (mode == "auto" and shown.pfc_works(self.name, self.said))
        return tuple(sorted({cos for pause in self.network.pauses for cos in pause})) if on else ()

    def marking(self) -> tuple[int, ...]:
        """Return the classes whose queues mark."""
        return tuple(sorted(self.marks))

    def ecn(self) -> bool:
        """Return whether every lossless class marks, or any where none is lossless."""
        lossless, marking = self.lossless(), self.marks
        return set(lossless) <= set(marking) if lossless else bool(marking)

    def watchdog(self) -> tuple[int, ...]:
        """Return the classes whose storms end: the lossless ones, if it is on here and for the device."""
        on = self.config.watchdog.on and self.interface.watchdog == "on"
        return self.lossless() if on else ()

    def detect_ms(self) -> int:
        """Return the intervals until a queue is shut down, times their length."""
        watchdog = self.config.watchdog
        return watchdog.interval_ms * (self.interface.multiplier or watchdog.shutdown)

    def restore_ms(self) -> int:
        """Return the intervals until a queue works again, times their length."""
        watchdog = self.config.watchdog
        return watchdog.interval_ms * (watchdog.auto_restore + watchdog.fixed_restore)

    def action(self) -> str:
        """Return what becomes of a stormed queue's packets."""
        if self.interface.watchdog == "disable-action":
            raise Unread("the watchdog of the port only notes storms (disable-action)")
        return "drop"

    @staticmethod
    def plain(found: tuple[str, policies.Policy]) -> str:
        """Return whether a policy-map holds only what the settings say; its name if not."""
        name, made = found
        return name if made.beyond else terms.PLAIN

    def boot(self) -> str:
        """Return whether the saved configuration sets the port as the running one does, and keeps it so.

        A timer of ours that was saved would take back whatever is set when it fires after a boot.
        """
        running = self.known
        if isinstance(self.startup, Unread):
            answer = self.said.answers.get(STARTUP)
            if answer is not None and "no startup configuration" in answer.stdout.lower():
                return settings.NOT_KEPT
            raise self.startup
        same = self.startup.view(self.name) == running.view(self.name) and not self.startup.timers
        return settings.SAVED if same else settings.NOT_KEPT


def _configuration(answers: Answers, key: str) -> Config | Unread:
    try:
        said = text(answers, key)
        _check_whole(said, key, answers)
        return config.read(said)
    except Unread as exc:
        return exc


def _check_whole(said: str, key: str, answers: Answers) -> None:
    """Check that a configuration has as many lines as the device counts: it says nothing at its end.

    What is not shown is the default, so one that ends early would look as if much were.
    """
    counted = text(answers, count_of(key))
    numbers = re.findall(r"\d+", counted)
    if len(numbers) != 1:
        raise Unread(f"{key}: the device does not count its lines: {counted.strip()!r}")
    came = len(re.findall(rf"^.*{_COUNTED}.*$", said, re.MULTILINE))
    if came != int(numbers[0]):
        raise Unread(f"{key} did not come whole: {came} of {numbers[0]} lines; try again")


def _known(running: Config | Unread) -> Config:
    if isinstance(running, Unread):
        raise running
    return running


def _no_rivals(running: Config | Unread) -> tuple[str, ...]:
    _known(running)
    return ()
