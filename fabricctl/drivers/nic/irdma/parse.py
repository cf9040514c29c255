"""What to ask a node with Intel E800 NICs, and how to read the answers.

What the driver ``ice`` makes of classes, from its source (ice_dcb_nl.c, ice_ethtool.c):

- While the firmware's LLDP agent runs, classes are what a link partner says and can only be read.
- The first entry of the DSCP map switches the port to trust in DSCP, the last to go back to PCP; either falls
  back to classes of its own. With trust in DSCP an entry's priority is its class: priority N is class N.
- A DSCP that has an entry takes no other before that is gone. One that never had an entry goes to class
  DSCP/8, one whose entry was deleted to class DSCP%8, and which of the two it is nobody can read.
- Every change takes the interface down and up.
- While PFC is on, pause of the whole link is shown as off and cannot be set.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from fabricctl.drivers import (
    dcb,
    ethtool,
    files,
    functions,
    host,
    keeper,
    lldp,
    netdev,
    pause,
    sections,
    verbs,
)
from fabricctl.drivers.nic.irdma import rdma
from fabricctl.model import facts, settings
from fabricctl.model.fabric import Port
from fabricctl.model.names import PortId
from fabricctl.model.reading import Entry, Known, Missing, PortReading
from fabricctl.plugin.answers import Unread, entry
from fabricctl.plugin.protocols import Answers, Query

_DSCPS = 64
_FLAGS_KEY = "ethtool flags"
_FLAGS = 'ethtool --show-priv-flags "$1"\n'
_AGENT = re.compile(r"^fw-lldp-agent\s*:\s*(on|off)\s*$", re.MULTILINE)


def queries(ports: Sequence[Port]) -> tuple[Query, ...]:
    """Return everything to ask a node with these ports; RefusedError if a port has an impossible name."""
    netdev.check_names(ports)
    paths = [path for port in ports for path in (*netdev.paths(port.id.port), *verbs.paths(port))]
    per_function = (*netdev.PER_FUNCTION, *rdma.PER_FUNCTION)
    return (
        functions.query(ports),
        files.query_of_functions(
            [*host.paths(), *rdma.PATHS, *paths], {port.id.port: per_function for port in ports}
        ),
        *host.queries(ports),
        *keeper.queries(ports),
        *lldp.queries(),
        *dcb.queries(ports),
        sections.query(_FLAGS_KEY, ports, _FLAGS),
        pause.query(ports),
        ethtool.query(ports),
        rdma.query(),
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
    return PortReading(
        port.id,
        settings={
            **netdev.read_settings(name, answers),
            **functions.merged(name, answers, lambda each: _function(each, answers)),
            **rdma.read_module(answers),
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
            facts.PLANE: entry(lambda: _plane(name, answers)),
            facts.RIVALS: entry(lambda: _rivals(name, answers)),
            **rdma.read_pending(answers),
        },
        counters={
            **netdev.read_counters(name, answers),
            **dcb.read_counters(name, answers),
            **ethtool.read_counters(name, answers),
            **verbs.read_counters(port, answers),
        },
    )


def _function(name: str, answers: Answers) -> dict[str, Entry]:
    """Return what is set on one function."""
    found = dcb.read_settings(name, answers)
    shown = found[settings.DSCP_PRIORITY]
    if isinstance(shown, Known) and (lacking := _without_entry(name, answers)):
        found[settings.DSCP_PRIORITY] = Missing(
            f"{lacking} of 64 DSCPs have no entry: ice sends one to class DSCP/8, or to class DSCP%8 if it "
            "ever had an entry, and does not say which"
        )
    return {**found, **pause.read_settings(name, answers), **rdma.read_settings(name, answers)}


def _without_entry(name: str, answers: Answers) -> int:
    """Return how many DSCPs have no entry; none are missing while packets are not sorted by DSCP at all."""
    entries = {dscp for dscp, _ in dcb.applications(name, answers, "dscp_prio")}
    return _DSCPS - len(entries) if entries else 0


def _agent_runs(name: str, answers: Answers) -> bool:
    said = sections.of(_FLAGS_KEY, name, answers)
    found = _AGENT.search(said)
    if not found:
        raise Unread(f"ethtool shows no private flag fw-lldp-agent: {' '.join(said.split())}")
    return found[1] == "on"


def _rivals(name: str, answers: Answers) -> tuple[str, ...]:
    return tuple(
        f"ice firmware LLDP agent: ethtool --set-priv-flags {each} fw-lldp-agent off"
        for each in functions.of(name, answers)
        if _agent_runs(each, answers)
    )


def _plane(name: str, answers: Answers) -> str:
    classes = "firmware LLDP agent, to be read only" if _rivals(name, answers) else "dcb"
    return f"{classes}; {rdma.plane(answers)}"
