"""What to ask a Linux switch, and how to read the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fabricctl.drivers import dcb, files, host, lldp, netdev
from fabricctl.model import settings
from fabricctl.model.fabric import Port
from fabricctl.model.names import PortId
from fabricctl.model.reading import Entry, Known, PortReading
from fabricctl.plugin.answers import Unread, entries, entry, parsed, whole_number
from fabricctl.plugin.protocols import Answers, Query

_RED_COUNTERS = ("marked", "early", "pdrop", "other", "drops", "overlimits", "backlog")


def queries(ports: Sequence[Port]) -> tuple[Query, ...]:
    """Return everything to ask a switch with these ports; RefusedError if a port has an impossible name."""
    netdev.check_names(ports)
    paths = [path for port in ports for path in netdev.paths(port.id.port)]
    return (
        files.query([*host.paths(), *paths]),
        *host.queries(ports),
        *lldp.queries(),
        *dcb.queries(ports),
        Query("tc", ("tc", "-j", "-s", "-d", "qdisc", "show"), counts=True),
    )


def parse(
    ports: Sequence[Port], answers: Answers
) -> tuple[Mapping[PortId, PortReading], Mapping[str, Entry]]:
    """Return the reading of each port and the facts of the switch."""
    every = {**answers, **dcb.split(ports, answers)}
    return {port.id: _port(port, every) for port in ports}, host.read_facts(answers)


def _port(port: Port, answers: Answers) -> PortReading:
    name = port.id.port
    return PortReading(
        port.id,
        settings={
            **netdev.read_settings(name, answers),
            **dcb.read_settings(name, answers),
            **_marking(name, answers),
            **host.read_boot(name, answers),
        },
        facts={**netdev.read_facts(name, answers), **lldp.read_facts(name, answers)},
        counters={
            **netdev.read_counters(name, answers),
            **dcb.read_counters(name, answers),
            **entries(lambda: _red_counters(name, answers)),
        },
    )


def _marking(name: str, answers: Answers) -> dict[str, Entry]:
    return {
        settings.ECN: entry(lambda: _marks(name, answers)),
        settings.ECN_KMIN: entry(lambda: whole_number(_red(name, answers)["options"]["min"])),
        settings.ECN_KMAX: entry(lambda: whole_number(_red(name, answers)["options"]["max"])),
        settings.ECN_PMAX: entry(lambda: round(100 * _red(name, answers)["options"]["probability"])),
    }


def _marks(name: str, answers: Answers) -> bool:
    root = _root(name, answers)
    if root.get("kind") != "red":
        return False
    marks = root["options"]["ecn"]
    if not isinstance(marks, bool):
        raise Unread(f"unparsable: ecn is {marks!r:.40}")
    return marks


def _red(name: str, answers: Answers) -> dict[str, Any]:
    root = _root(name, answers)
    if root.get("kind") != "red":
        raise Unread(f"the port does not mark: its root qdisc is {root.get('kind', 'none')}, not red")
    return root


def _root(name: str, answers: Answers) -> dict[str, Any]:
    """Return the root qdisc of a netdev, empty if it has none; Unread if there is no such netdev."""
    netdev.exists(name, answers)
    for qdisc in parsed(answers, "tc"):
        if qdisc.get("dev") == name and qdisc.get("root") is True:
            return dict(qdisc)
    return {}


def _red_counters(name: str, answers: Answers) -> Mapping[str, Entry]:
    red = _red(name, answers)
    return {f"red.{key}": Known(whole_number(red[key])) for key in _RED_COUNTERS if key in red}
