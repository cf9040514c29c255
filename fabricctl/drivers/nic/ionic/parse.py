"""What to ask a node with ionic ports, and how to read the answers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

from fabricctl.drivers import ethtool, files, functions, host, keeper, lldp, netdev, verbs
from fabricctl.drivers.nic.ionic import nicctl
from fabricctl.drivers.nic.ionic.steps import CNP_LABEL, LABELS, PAUSE, STRICT_RATE
from fabricctl.model import facts, settings
from fabricctl.model.fabric import Port
from fabricctl.model.names import PortId
from fabricctl.model.reading import Entry, PortReading, Value
from fabricctl.plugin.answers import Unread, entry, text
from fabricctl.plugin.protocols import Answers, Query

_KEY = "roce devices"
_DEVICES = """\
for port; do
    for name in $(functions_of "$port"); do
        echo "$name" $(ls "/sys/class/net/$name/device/infiniband" 2>/dev/null)
    done
done
"""
_STATES = {"enabled": True, "disabled": False}
_TRUST = {"DSCP": "dscp", "PCP": "pcp"}
_SCHEDULERS = {"dwrr": "ets", "strict": "strict"}
_PRIORITIES = range(8)
_DSCP_MAX = 63


def queries(ports: Sequence[Port]) -> tuple[Query, ...]:
    """Return everything to ask a node with these ports; RefusedError if a port has an impossible name."""
    netdev.check_names(ports)
    paths = [path for port in ports for path in (*netdev.paths(port.id.port), *verbs.paths(port))]
    names = [port.id.port for port in ports]
    return (
        functions.query(ports),
        files.query_of_functions([*host.paths(), *paths], dict.fromkeys(names, netdev.PER_FUNCTION)),
        Query(_KEY, ("sh", "-c", f"{functions.SHELL}{_DEVICES}", "sh", *names)),
        ethtool.query(ports),
        *nicctl.queries(),
        *host.queries(ports),
        *keeper.queries(ports),
        *lldp.queries(),
        *(query for port in ports for query in verbs.queries(port)),
    )


def parse(
    ports: Sequence[Port], answers: Answers
) -> tuple[Mapping[PortId, PortReading], Mapping[str, Entry]]:
    """Return the reading of each port and the facts of the node."""
    return {port.id: _port(port, answers) for port in ports}, host.read_facts(answers)


def _port(port: Port, answers: Answers) -> PortReading:
    name = port.id.port
    return PortReading(
        port.id,
        settings={
            **netdev.read_settings(name, answers),
            **functions.merged(name, answers, lambda each: _function(each, port, answers)),
            **verbs.read_settings(port, answers),
            **keeper.read_settings(name, answers),
            **host.read_boot(name, answers),
        },
        facts={
            **netdev.read_facts(name, answers),
            **functions.read_facts(name, answers),
            **verbs.read_facts(port, answers),
            **keeper.read_facts(name, answers),
            **lldp.read_facts(name, answers),
            **ethtool.read_facts(name, answers),
            facts.PLANE: entry(lambda: "nicctl" if nicctl.cards(answers) else ""),
        },
        counters={
            **netdev.read_counters(name, answers),
            **ethtool.read_counters(name, answers),
            **verbs.read_counters(port, answers),
        },
    )


def _function(name: str, port: Port, answers: Answers) -> dict[str, Entry]:
    """Return what nicctl says of one physical function: of the card's only port, and of its RoCE device."""

    def device() -> str:
        return _device(name, port, answers)

    def card() -> str:
        return nicctl.card(device(), answers)

    readers: dict[str, Callable[[], Value]] = {
        settings.PAUSE: lambda: _paused(_pause(nicctl.port(card(), answers))),
        PAUSE: lambda: _pause(nicctl.port(card(), answers)),
        settings.TRUST: lambda: _TRUST[nicctl.classes(card(), answers)["Classification type"]],
        settings.DSCP_PRIORITY: lambda: nicctl.dscp_priority(card(), answers),
        settings.TC_SCHEDULER: lambda: _schedulers(nicctl.scheduling(card(), answers)),
        settings.TC_BANDWIDTH: lambda: _shares(nicctl.scheduling(card(), answers)),
        STRICT_RATE: lambda: _strict_rate(nicctl.scheduling(card(), answers)),
        settings.PFC: lambda: _pfc(nicctl.classes(card(), answers)),
        settings.DCQCN: lambda: _on(nicctl.profiles(device(), answers)),
        settings.CNP_DSCP: lambda: _value(device, CNP_LABEL, answers),
    }
    readers |= {
        setting: functools.partial(_value, device, label, answers) for setting, (label, _) in LABELS.items()
    }
    return {setting: entry(reader) for setting, reader in readers.items()}


def _device(name: str, port: Port, answers: Answers) -> str:
    """Return the RoCE device of a function as sysfs names it, else as the inventory does."""
    for line in text(answers, _KEY).splitlines():
        function, *devices = line.split()
        if function == name and len(devices) == 1:
            return devices[0]
        if function == name and devices:
            raise Unread(f"{name} has several verbs devices: {', '.join(devices)}")
    if not port.rdma or functions.of(port.id.port, answers) != (name,):
        raise Unread(f"{name} has no verbs device, so its card is not known")
    return port.rdma


def _pause(spec: Mapping[str, str]) -> str:
    """Return the kind of pause and its directions: ``pfc rx tx``."""
    ways = [way for way in ("rx", "tx") if _STATES[spec[f"{way.upper()} pause"]]]
    return " ".join([spec["Pause type"].lower(), *ways])


def _paused(pause: str) -> bool:
    kind, *ways = pause.split()
    if kind in {"pfc", "none"}:
        return False
    if not kind.startswith("link"):
        raise Unread(f"unparsable: {kind} is no kind of pause")
    return bool(ways)


def _pfc(classes: Mapping[str, str]) -> tuple[int, ...]:
    bitmap = int(classes["PFC priority bitmap"], 16)
    listed = sorted(int(word) for word in classes["PFC no-drop priorities"].split(",") if word.strip())
    if [priority for priority in _PRIORITIES if bitmap >> priority & 1] != listed or bitmap >> len(
        _PRIORITIES
    ):
        raise Unread(f"unparsable: PFC bitmap {bitmap:#x} and no-drop priorities {listed} differ")
    return tuple(listed)


def _schedulers(rows: Mapping[int, tuple[str, int, int]]) -> tuple[str, ...]:
    """Return the scheduler of every priority; one without a queue has a share of nothing."""
    return tuple(_SCHEDULERS[rows[priority][0]] if priority in rows else "ets" for priority in _PRIORITIES)


def _shares(rows: Mapping[int, tuple[str, int, int]]) -> tuple[int, ...]:
    """Return the shares in percent; a queue that has nobody to share with has everything, shown as 0."""
    shares = {priority: share for priority, (kind, share, _) in rows.items() if kind == "dwrr"}
    if len(shares) == 1:
        shares = dict.fromkeys(shares, 100)
    if shares and not any(shares.values()):
        raise Unread(f"nicctl shows no share for any of the priorities {', '.join(map(str, sorted(shares)))}")
    return tuple(shares.get(priority, 0) for priority in _PRIORITIES)


def _strict_rate(rows: Mapping[int, tuple[str, int, int]]) -> int:
    rates = {rate for kind, _, rate in rows.values() if kind == "strict"}
    if not rates:
        raise Unread("no priority is strict")
    if len(rates) > 1:
        raise Unread(f"strict priorities have several rate limits: {', '.join(map(str, sorted(rates)))} Gb/s")
    return rates.pop()


def _on(profiles: tuple[nicctl.Profile, ...]) -> bool:
    states = {profile["Status"] for profile in profiles}
    if len(states) > 1:
        raise Unread(f"DCQCN profiles differ: {', '.join(sorted(states))}")
    state = states.pop()
    if state.lower() not in _STATES:
        raise Unread(f"DCQCN: {state}")
    return _STATES[state.lower()]


def _value(device: Callable[[], str], label: str, answers: Answers) -> int:
    profiles = nicctl.profiles(device(), answers)
    if not _on(profiles):
        raise Unread("DCQCN is off: nicctl shows none of its values")
    values = {int(profile[label]) for profile in profiles}
    if len(values) > 1:
        raise Unread(f"DCQCN profiles differ: {', '.join(map(str, sorted(values)))}")
    return values.pop()
