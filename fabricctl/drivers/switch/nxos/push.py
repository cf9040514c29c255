"""The lines that set ports, in the order in which they are safe: buffers before PFC, ECN and the watchdog.

Definitions come first and change nothing by themselves. Of a port's policies the old one is taken off before
the new one is bound, which NX-OS accepts whatever was bound; network-qos is replaced. What nobody uses any
more goes last, in the exact reverse order of making it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fabricctl.drivers import lines
from fabricctl.drivers.switch.nxos import objects, terms
from fabricctl.drivers.switch.nxos.config import NETWORK, QOS, QUEUING
from fabricctl.drivers.switch.nxos.objects import SYSTEM, Objects
from fabricctl.drivers.switch.nxos.policies import Policy
from fabricctl.errors import RefusedError
from fabricctl.model import settings
from fabricctl.model.reading import Value
from fabricctl.plugin.protocols import PortGoal

_OF_CLASSIFIER = frozenset({settings.TRUST, settings.DSCP_PRIORITY, settings.PRIORITY_TC, terms.CLASSIFIER})
_OF_QUEUING = frozenset(
    {
        settings.TC_SCHEDULER,
        settings.TC_BANDWIDTH,
        settings.ECN,
        settings.ECN_KMIN,
        settings.ECN_KMAX,
        settings.ECN_PMAX,
        terms.ECN_CLASSES,
        terms.QUEUING,
    }
)
_OF_NETWORK = frozenset({settings.LOSSLESS_BUFFERS, settings.PFC, terms.CLASS_MTU, terms.NETWORK_QOS})
_TIMES = (settings.WATCHDOG_POLL, settings.WATCHDOG_DETECT, settings.WATCHDOG_RESTORE)
_IF_THERE = lines.allow(".")
"""That something is gone already, or in use after all, is no reason to stop: what holds is read later."""
_STATES = (terms.OBJECTS, terms.TIMERS)
"""What must have been read whatever is set: without it something might go that is in use."""
_MEANS = {
    QOS: (settings.DSCP_PRIORITY, settings.PRIORITY_TC, settings.TC_SCHEDULER),
    QUEUING: (settings.TC_SCHEDULER, settings.TC_BANDWIDTH, settings.ECN, terms.ECN_CLASSES),
    NETWORK: (settings.TC_SCHEDULER, settings.LOSSLESS_BUFFERS, settings.PFC, terms.CLASS_MTU),
}
"""What a new policy takes over unless it is set."""
_MARKS = (settings.ECN_KMIN, settings.ECN_KMAX, settings.ECN_PMAX)
_PORT_BINDS = {QOS: "qos input", QUEUING: "queuing output"}


def configuration(goals: Sequence[PortGoal]) -> list[str]:
    """Return the configuration lines, from ``configure terminal``'s mode on.

    Raises
    ------
    RefusedError
        Two ports want a different network-qos: the device has one. Or a state that a port's change needs was
        not read.
    """
    ports = [_Port(goal) for goal in goals]
    for port in ports:
        port.need(*_needed(port))
    told = next((goal.before[terms.OBJECTS] for goal in goals if terms.OBJECTS in goal.before), ())
    known = Objects.read(told)
    classifying = [_rebinding(port, known, QOS, _OF_CLASSIFIER) for port in ports]
    queuing = [_rebinding(port, known, QUEUING, _OF_QUEUING) for port in ports]
    network = _network(ports, known)
    first: dict[tuple[str, ...], list[str]] = {}
    last: dict[tuple[str, ...], list[str]] = {}
    for port, classifier, queues in zip(ports, classifying, queuing, strict=True):
        name = terms.checked_port(port.goal.port)
        first.setdefault((*_basics(port), *classifier), []).append(name)
        last.setdefault((*_pfc(port), *queues, *_watchdog(port)), []).append(name)
    first.pop((), None)
    watchdog = list(_device_watchdog(ports))
    # The watchdog's line for the device is a port's line too: inside a port it would be that.
    leave = ["exit"] if watchdog else []
    return [
        *known.definitions(),
        *_of_ports(first),
        *network,
        # Ports are named even where all that changes is the device's: a log shows for which ports that was.
        *_of_ports(last),
        *leave,
        *watchdog,
        *(line for gone in known.removals() for line in (gone, _IF_THERE)),
    ]


@dataclass(frozen=True, slots=True)
class _Port:
    """A goal, and what the port is to hold in the end: what is not to be set stays as it was read."""

    goal: PortGoal

    def sets(self, *names: str) -> bool:
        return any(name in self.goal.names for name in names)

    def values(self) -> dict[str, Value]:
        goal = self.goal
        named = {name: goal.wanted[name] for name in goal.names if name in goal.wanted}
        return {**goal.wanted, **goal.before, **named}

    def need(self, *names: str) -> None:
        """RefusedError if one of these was not read and is not set either."""
        goal = self.goal
        unread = [name for name in names if name not in goal.before and name not in goal.names]
        if unread:
            raise RefusedError(
                f"its configuration was not read ({unread[0]}), so that nothing is set",
                device=goal.port.id.device,
                port=goal.port.id.port,
                next_step="try again",
            )

    @property
    def strict(self) -> int:
        schedulers = self.values().get(settings.TC_SCHEDULER)
        return terms.strict_class(schedulers if isinstance(schedulers, tuple) else ())


_MAKERS: Mapping[str, tuple[str, Callable[[Mapping[str, Value], int], Policy]]] = {
    QOS: (terms.CLASSIFIER, objects.classifier_of),
    QUEUING: (terms.QUEUING, objects.queuing_of),
    NETWORK: (terms.NETWORK_QOS, objects.network_of),
}


def _needed(port: _Port) -> Iterator[str]:
    """Walk the settings whose value goes into what is set, or decides what goes."""
    yield from _STATES
    values = port.values()
    for kind, names in ((QOS, _OF_CLASSIFIER), (QUEUING, _OF_QUEUING), (NETWORK, _OF_NETWORK)):
        setting, _ = _MAKERS[kind]
        named = values.get(setting, terms.PLAIN) if port.sets(setting) else terms.PLAIN
        if port.sets(*names) and named == terms.PLAIN:
            yield from _MEANS[kind]
            if kind == QUEUING and values.get(terms.ECN_CLASSES):
                # Where nothing marks yet there are none to be read: then they are those that are wanted.
                yield from (name for name in _MARKS if name not in values)
    if port.sets(settings.PAUSE, terms.FLOW_CONTROL):
        yield terms.FLOW_CONTROL
    if port.sets(settings.WATCHDOG, settings.WATCHDOG_DETECT):
        yield settings.WATCHDOG
    if port.sets(*_TIMES):
        yield from _TIMES


def _goal_of(port: _Port, kind: str) -> tuple[Policy, str]:
    """Return the policy that a port is to have, and the name of the one to use whatever it holds."""
    setting, make = _MAKERS[kind]
    values = port.values()
    named = values.get(setting, terms.PLAIN) if port.sets(setting) else terms.PLAIN
    return make(values, port.strict), str(named)


def _rebinding(port: _Port, known: Objects, kind: str, names: frozenset[str]) -> list[str]:
    if not port.sets(*names):
        return []
    policy, named = _goal_of(port, kind)
    old, new = known.bind(kind, port.goal.port.id.port, policy, named)
    where = f"service-policy type {_PORT_BINDS[kind]}"
    return [*([f"no {where} {old}"] if old else []), *([f"{where} {new}"] if new else [])]


def _network(ports: Sequence[_Port], known: Objects) -> list[str]:
    setting = [port for port in ports if port.sets(*_OF_NETWORK)]
    # Where PFC is off at a port, its priorities say nothing of the device.
    telling = [port for port in setting if port.values().get(settings.PFC)] or setting
    if not telling:
        return []
    goals = {_goal_of(port, NETWORK) for port in telling}
    if len(goals) > 1:
        raise RefusedError(
            "its ports are to differ in lossless classes or class MTUs, which NX-OS has for the whole device",
            device=telling[0].goal.port.id.device,
            next_step="roll back or apply all ports of the device together",
        )
    old, new = known.bind(NETWORK, SYSTEM, *goals.pop())
    bind = "service-policy type network-qos"
    if new:
        return ["system qos", f"{bind} {new}"]
    return ["system qos", f"no {bind} {old}", _IF_THERE] if old else []


def _of_ports(blocks: Mapping[tuple[str, ...], Sequence[str]]) -> Iterator[str]:
    """Walk lines for ports; those with the same lines are told them together, as a range."""
    for block, names in blocks.items():
        for some in terms.port_ranges(names):
            yield f"interface {some}"
            yield from block


def _basics(port: _Port) -> Iterator[str]:
    values = port.values()
    if port.sets(settings.MTU):
        yield f"mtu {values[settings.MTU]}"
    if port.sets(settings.PAUSE, terms.FLOW_CONTROL):
        ways = str(values.get(terms.FLOW_CONTROL, "off"))
        for way in ("receive", "send"):
            yield f"flowcontrol {way} {'on' if ways in {way, 'both'} else 'off'}"


def _pfc(port: _Port) -> Iterator[str]:
    if port.sets(terms.PFC_MODE):
        yield f"priority-flow-control mode {port.values()[terms.PFC_MODE]}"


def _watchdog(port: _Port) -> Iterator[str]:
    if port.sets(settings.WATCHDOG, settings.WATCHDOG_DETECT):
        negated = "" if port.values().get(settings.WATCHDOG) else "no "
        yield f"{negated}priority-flow-control watch-dog-interval on"


def _device_watchdog(ports: Sequence[_Port]) -> Iterator[str]:
    switching = [port.values()[terms.WATCHDOG_GLOBAL] for port in ports if port.sets(terms.WATCHDOG_GLOBAL)]
    if switching:
        yield f"{'' if any(switching) else 'no '}priority-flow-control watch-dog-interval on"
    timing = next((port.values() for port in ports if port.sets(*_TIMES)), {})
    times = [found for name in _TIMES if isinstance(found := timing.get(name), int)]
    if len(times) == len(_TIMES):
        poll_ms, detect_ms, restore_ms = times
        yield f"priority-flow-control watch-dog interval {poll_ms}"
        yield f"priority-flow-control watch-dog shutdown-multiplier {detect_ms // poll_ms}"
        yield f"priority-flow-control auto-restore multiplier {restore_ms // poll_ms}"
        # The two are added. Where there is no such line, there is nothing to be added either.
        yield "priority-flow-control fixed-restore multiplier 0"
        yield _IF_THERE
