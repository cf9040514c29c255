"""What to ask a node with soft-RoCE ports, and how to read the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fabricctl.drivers import dcb, files, functions, host, keeper, lldp, netdev, pause, verbs
from fabricctl.model import facts
from fabricctl.model.fabric import Port
from fabricctl.model.names import PortId
from fabricctl.model.reading import Entry, Known, PortReading
from fabricctl.plugin.answers import Unread, entry
from fabricctl.plugin.protocols import Answers, Query


def queries(ports: Sequence[Port]) -> tuple[Query, ...]:
    """Return everything to ask a node with these ports; RefusedError if a port has an impossible name."""
    netdev.check_names(ports)
    paths = [path for port in ports for path in (*netdev.paths(port.id.port), *verbs.paths(port))]
    return (
        functions.query(ports),
        files.query_of_functions(
            [*host.paths(), *paths], {port.id.port: netdev.PER_FUNCTION for port in ports}
        ),
        *host.queries(ports),
        *keeper.queries(ports),
        *lldp.queries(),
        *dcb.queries(ports),
        pause.query(ports),
        *(query for port in ports for query in verbs.queries(port)),
    )


def parse(
    ports: Sequence[Port], answers: Answers
) -> tuple[Mapping[PortId, PortReading], Mapping[str, Entry]]:
    """Return the reading of each port and the facts of the node."""
    every = {**answers, **dcb.split(ports, answers)}
    return {port.id: _port(port, every) for port in ports}, host.read_facts(answers)


def _port(port: Port, answers: Answers) -> PortReading:
    name = port.id.port
    found = netdev.read_facts(name, answers)
    return PortReading(
        port.id,
        settings={
            **netdev.read_settings(name, answers),
            **functions.merged(name, answers, lambda each: _classes(each, answers)),
            **verbs.read_settings(port, answers),
            **keeper.read_settings(name, answers),
            **host.read_boot(name, answers),
        },
        facts={
            **found,
            **functions.read_facts(name, answers),
            **verbs.read_facts(port, answers),
            **keeper.read_facts(name, answers),
            **lldp.read_facts(name, answers),
            facts.DRIVER: entry(lambda: _driver(port, answers, found[facts.DRIVER])),
        },
        counters={
            **netdev.read_counters(name, answers),
            **dcb.read_counters(name, answers),
            **verbs.read_counters(port, answers),
        },
    )


def _classes(function: str, answers: Answers) -> dict[str, Entry]:
    return {**dcb.read_settings(function, answers), **pause.read_settings(function, answers)}


def _driver(port: Port, answers: Answers, carrier: Entry) -> str:
    """Return both drivers that a packet passes: rdma_rxe's parent must be the port that we mean."""
    found = verbs.parent(port, answers)
    if found != port.id.port:
        raise Unread(f"{port.rdma} belongs to {found}, not to {port.id.port}")
    return f"rdma_rxe over {carrier.value}" if isinstance(carrier, Known) else "rdma_rxe"
