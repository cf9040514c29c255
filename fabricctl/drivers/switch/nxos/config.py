"""What a configuration, running or saved, says of QoS and of the ports."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from fabricctl.drivers.switch.nxos import policies, terms, timers, tree
from fabricctl.drivers.switch.nxos.policies import Classifier, NetworkQos, Policy, Queuing
from fabricctl.drivers.switch.nxos.tree import Section
from fabricctl.plugin.answers import Unread

P = TypeVar("P", bound=Policy)

QOS, QUEUING, NETWORK = "qos", "queuing", "network-qos"
DEFAULTS: Mapping[str, Policy] = {
    QOS: policies.NOTHING,
    QUEUING: policies.DEFAULT_QUEUING,
    NETWORK: policies.DEFAULT_NETWORK,
}
"""By kind: what holds where nothing is bound."""
_BIND = re.compile(r"service-policy type (qos input|queuing output|network-qos) (\S+)(?: no-stats)?")
_OF_A_PORT = re.compile(r"mtu |priority-flow-control |flowcontrol |service-policy |channel-group |inherit ")
_OF_THE_DEVICE = re.compile(r"priority-flow-control ")
_DEFAULT = "default-"
"""What the names of NX-OS's own policy-maps begin with; a configuration does not show what they hold."""


@dataclass(frozen=True, slots=True)
class Interface:
    """What is configured on one port.

    Parameters
    ----------
    mtu
        None where it is the default.
    input_name, output_name
        Policy-maps that are bound to the port itself; empty if none.
    watchdog
        ``on``, ``off``, or ``disable-action``: storms are noticed and not ended.
    multiplier
        After how many intervals its queues count as stormed; 0 if the device's own number holds.
    flow_control
        As the setting of that name.
    others
        Who else sets the port: a port-channel that it is a member of, a port-profile.
    """

    mtu: int | None = None
    input_name: str = ""
    output_name: str = ""
    pfc_mode: str = "auto"
    watchdog: str = "off"
    multiplier: int = 0
    flow_control: str = "off"
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Watchdog:
    """What is set of the PFC watchdog for the device; the defaults are those that Cisco documents."""

    on: bool = False
    interval_ms: int = 100
    shutdown: int = 1
    auto_restore: int = 10
    fixed_restore: int = 0


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration.

    Parameters
    ----------
    maps
        By kind and name: the section of a policy-map.
    class_maps
        By name, those of type qos.
    system
        By kind: the name of the policy-map that is bound under ``system qos``.
    users
        By kind and name: the ports that a policy-map is bound to, and ``system``.
    timers
        As the setting ``nxos.timers`` holds them.
    """

    interfaces: Mapping[str, Section]
    maps: Mapping[tuple[str, str], Section]
    class_maps: Mapping[str, Section]
    system: Mapping[str, str]
    watchdog: Watchdog
    globals: tuple[str, ...]
    users: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    timers: tuple[str, ...] = ()

    def interface(self, name: str) -> Interface:
        """Return what is configured on a port; one that is not shown has the defaults."""
        section = self.interfaces.get(name)
        return Interface() if section is None else _interface(section)

    def classifier(self, port: str) -> tuple[str, Classifier]:
        """Return what classifies the packets that come in at a port, with its name; empty if nothing does."""
        name = self.interface(port).input_name or self.system.get(QOS, "")
        section = self.maps.get((QOS, name))
        if not name or name.startswith(_DEFAULT):
            return "", policies.NOTHING
        return name, _made(section, name, lambda found: policies.classifier(found, self.class_maps))

    def queuing(self, port: str) -> tuple[str, Queuing]:
        """Return the queuing of a port, with its name; empty for NX-OS's default."""
        name = self.interface(port).output_name or self.system.get(QUEUING, "")
        if not name or name.startswith(_DEFAULT):
            return "", policies.DEFAULT_QUEUING
        return name, _made(self.maps.get((QUEUING, name)), name, policies.queuing)

    def network(self) -> tuple[str, NetworkQos]:
        """Return the device's network-qos, with its name; empty for NX-OS's default."""
        name = self.system.get(NETWORK, "")
        if not name or name.startswith(_DEFAULT):
            return "", policies.DEFAULT_NETWORK
        return name, _made(self.maps.get((NETWORK, name)), name, policies.network_qos)

    def objects(self) -> tuple[str, ...]:
        """Return the policy-maps, and our class-maps, as the setting ``nxos.objects`` holds them."""
        found = [
            f"{kind} {name} {self._digest(kind, name)} {_listed(self.users.get((kind, name), ()))}"
            for kind, name in dict.fromkeys((*self.maps, *self.users))
        ]
        for name in self.class_maps:
            if name.startswith(terms.OURS):
                users = [other for (kind, other), s in self.maps.items() if kind == QOS and _refers(s, name)]
                found.append(f"class-map {name} {policies.matched(self.class_maps[name])} {_listed(users)}")
        return tuple(found)

    def view(self, port: str) -> tuple[object, ...]:
        """Return all that sets a port, so that two configurations can be compared."""
        interface = self.interface(port)
        section = self.interfaces.get(port, Section(""))
        maps = [(QOS, interface.input_name), (QUEUING, interface.output_name), *self.system.items()]
        used = {key: self.maps.get(key) for key in maps if key[1]}
        classes = {
            name: found
            for name, found in self.class_maps.items()
            if any(kind == QOS and policy and _refers(policy, name) for (kind, _), policy in used.items())
        }
        return (
            sorted(line for line in section.lines if _OF_A_PORT.match(line)),
            sorted(self.system.items()),
            sorted(self.globals),
            used,
            classes,
        )

    def _digest(self, kind: str, name: str) -> str:
        section = self.maps.get((kind, name))
        if section is None:
            return DEFAULTS[kind].digest if name.startswith(_DEFAULT) else "-"
        try:
            made: Policy
            if kind == QOS:
                made = policies.classifier(section, self.class_maps)
            else:
                made = (policies.queuing if kind == QUEUING else policies.network_qos)(section)
        except ValueError:
            return "-"
        return "-" if made.beyond else made.digest


def read(text: str) -> Config:
    """Return what a configuration says; Unread if it is none."""
    sections = tree.read(text)
    interfaces = dict(tree.after(sections, "interface"))
    if not interfaces:
        raise Unread("the configuration shows no interface")
    maps = {
        (kind, name): section
        for kind in DEFAULTS
        for name, section in tree.after(sections, f"policy-map type {kind}")
    }
    class_maps = {
        rest.split()[-1]: section
        for rest, section in tree.after(sections, "class-map")
        if not rest.startswith(("type queuing", "type network-qos", "type control-plane"))
    }
    lines = tuple(section.line for section in sections if _OF_THE_DEVICE.match(section.line))
    bound = dict(
        _bound(line for section in sections if section.line == "system qos" for line in section.lines)
    )
    users: dict[tuple[str, str], tuple[str, ...]] = dict.fromkeys(bound.items(), ("system",))
    for name, section in interfaces.items():
        for item in _bound(section.lines):
            users[item] = (*users.get(item, ()), name)
    armed = tuple(str(timer) for timer in timers.find(text, sections))
    return Config(interfaces, maps, class_maps, bound, _watchdog(lines), lines, users, armed)


def _made(section: Section | None, name: str, make: Callable[[Section], P]) -> P:
    if section is None:
        raise Unread(f"the policy-map {name} is bound and not shown")
    try:
        return make(section)
    except ValueError as exc:
        raise Unread(f"policy-map {name}: {exc}") from None


def _bound(lines: Iterator[str] | Sequence[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        if found := _BIND.fullmatch(line):
            yield found[1].split()[0], found[2]


def _interface(section: Section) -> Interface:
    bound = dict(_bound(section.lines))
    mtu = _last(section.lines, r"mtu (\d+)")
    watchdog = _last(section.lines, r"priority-flow-control watch-dog-interval (.+)") or "off"
    multiplier = re.search(r"interface-multiplier (\d+)", watchdog)
    flows = [way for way in ("receive", "send") if f"flowcontrol {way} on" in section.lines]
    channel = _last(section.lines, r"channel-group (\d+)(?: .*)?")
    profile = _last(section.lines, r"inherit port-profile (\S+)")
    return Interface(
        mtu=int(mtu) if mtu else None,
        input_name=bound.get(QOS, ""),
        output_name=bound.get(QUEUING, ""),
        pfc_mode=_last(section.lines, r"priority-flow-control mode (auto|on|off)") or "auto",
        watchdog="disable-action" if "disable-action" in watchdog else watchdog.split()[0],
        multiplier=int(multiplier[1]) if multiplier else 0,
        flow_control="both" if len(flows) > 1 else "".join(flows) or "off",
        others=(
            *([f"port-channel{channel}, which the port is a member of"] if channel else []),
            *([f"port-profile {profile}, which the port inherits"] if profile else []),
        ),
    )


def _watchdog(lines: Sequence[str]) -> Watchdog:
    numbers = {
        "interval_ms": _last(lines, r"priority-flow-control watch-dog interval (\d+)"),
        "shutdown": _last(lines, r"priority-flow-control watch-dog shutdown-multiplier (\d+)"),
        "auto_restore": _last(lines, r"priority-flow-control auto-restore multiplier (\d+)"),
        "fixed_restore": _last(lines, r"priority-flow-control fixed-restore multiplier (\d+)"),
    }
    on = _last(lines, r"priority-flow-control watch-dog-interval (on|off).*") == "on"
    return Watchdog(on, **{name: int(text) for name, text in numbers.items() if text})


def _last(lines: Sequence[str], pattern: str) -> str:
    found = [match[1] for line in lines if (match := re.fullmatch(pattern, line))]
    return found[-1] if found else ""


def _refers(policy: Section, class_map: str) -> bool:
    return any(line.split()[-1] == class_map for line in policy.lines)


def _listed(names: Sequence[str]) -> str:
    return ",".join(names) or "-"
