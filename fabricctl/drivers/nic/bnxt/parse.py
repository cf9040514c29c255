"""What to ask a node with Broadcom NICs, and how to read the answers."""

from __future__ import annotations

import json
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
from fabricctl.drivers.nic.bnxt import control, niccli
from fabricctl.model import facts, settings
from fabricctl.model.fabric import Port
from fabricctl.model.names import PortId
from fabricctl.model.reading import Entry, Known, PortReading
from fabricctl.plugin.answers import Unread, entry
from fabricctl.plugin.protocols import Answers, Query

UDP_PRIORITY = "bnxt.udp_4791_priority"
"""tuple of ints: the priorities that application entries give UDP port 4791; apart from the DSCP map."""

_UDP_PORT = 4791
_TOP = 7
_DCBX = 'dcb -j dcbx show dev "$1"\n'
_DCBX_KEY = "dcb dcbx"
_FIRMWARE_DCBX = (
    "the NIC's firmware LLDP and DCBX agent: disable it in the NIC's NVM (options 155, 255, 269 and 270 of "
    "bnxtnvm or niccli) and reboot"
)


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
        sections.query(_DCBX_KEY, ports, _DCBX),
        niccli.query(ports),
        pause.query(ports),
        ethtool.query(ports),
        *control.queries(ports),
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
            **functions.merged(name, answers, lambda each: _classes(each, answers)),
            **functions.merged(name, answers, lambda each: pause.read_settings(each, answers)),
            **control.read_settings(port, answers),
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
            facts.PLANE: entry(lambda: _plane(port, answers)),
            facts.RIVALS: entry(lambda: _rivals(name, answers)),
        },
        counters={
            **netdev.read_counters(name, answers),
            **dcb.read_counters(name, answers),
            **ethtool.read_counters(name, answers),
            **verbs.read_counters(port, answers),
        },
    )


def _tool(name: str, answers: Answers) -> str:
    """Return which tool sets classes on a function, as the port's script finds it: dcb first."""
    if isinstance(dcb.read_settings(name, answers)[settings.PFC], Known):
        return "dcb"
    return "niccli" if niccli.answers_for(name, answers) else ""


def _classes(name: str, answers: Answers) -> dict[str, Entry]:
    """Return what sorts and pauses packets on one function."""
    if _tool(name, answers) == "niccli":
        found = niccli.read_settings(name, answers)
        return {**found, UDP_PRIORITY: entry(lambda: niccli.port_priorities(name, answers, _UDP_PORT))}
    return {
        **dcb.read_settings(name, answers),
        UDP_PRIORITY: entry(lambda: _udp_priorities(name, answers)),
    }


def _udp_priorities(name: str, answers: Answers) -> tuple[int, ...]:
    found = sorted(
        entry_[1] for entry_ in dcb.applications(name, answers, "dgram_port_prio") if entry_[0] == _UDP_PORT
    )
    if not all(0 <= priority <= _TOP for priority in found):
        raise Unread(f"unparsable: {found} are no priorities")
    return tuple(found)


def _plane(port: Port, answers: Answers) -> str:
    tools = {_tool(name, answers) for name in functions.of(port.id.port, answers)}
    if tools == {""}:
        raise Unread("neither dcb nor niccli can speak to it")
    planes = " and ".join(sorted(tool or "none" for tool in tools))
    return f"{planes}, congestion control: {control.plane(port, answers) or 'none'}"


def _rivals(name: str, answers: Answers) -> tuple[str, ...]:
    found = []
    for each in functions.of(name, answers):
        if _tool(each, answers) != "dcb":
            raise Unread(f"without dcb nobody can say whether the firmware of {each} runs DCBX itself")
        said = sections.of(_DCBX_KEY, each, answers)
        try:
            mode = json.loads(said)
        except ValueError:
            raise Unread(f"dcb: {said or 'printed nothing'}") from None
        if not isinstance(mode, dict):
            raise Unread(f"unparsable: {said}")
        if not mode.get("host"):
            found.append(f"{each}: {_FIRMWARE_DCBX}")
    return tuple(found)
