"""Both ends of every cable agree, and hold what the policy says.

Offline, passes if the two ports of a link mean the same trust, DSCP map, traffic classes and PFC priorities,
and no frame that one end may send is too long for the other. Fails if they differ in one of them. Unknown if
there is no link to look at, or if a node's port has no cable in the inventory: then nobody knows its other
end.

With readings, passes if both ends of a link were read and hold what the policy means: trust, DSCP map,
classes, PFC, pause; MTU with headers; between switches also ECN and the watchdog; and if their speed is that
of the inventory, their FEC the same where both name it, and the node's RDMA MTU no smaller than the policy's.
Fails if one of these was read and differs, and says which end is wrong. Unknown if an end was not read, or a
value of it is missing. Links of which neither end was read are left out; if that leaves none, unknown.
"""

from __future__ import annotations

from collections.abc import Mapping

from fabricctl.checks.agreement import meant, read
from fabricctl.model.fabric import Fabric
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.policy import Policy
from fabricctl.model.reading import DeviceReading
from fabricctl.model.verdict import Finding, Outcome

NAME = "agreement"


class Agreement:
    """Compares both ends of each link: what is meant, or what was read."""

    name = NAME

    def judge(
        self,
        fabric: Fabric,
        policy: Policy,
        intents: Mapping[PortId, PortIntent],
        readings: Mapping[str, DeviceReading] | None,
    ) -> tuple[Finding, ...]:
        """Return the findings of each link, and one for each node port without a link."""
        if readings is None:
            linked = [meant.link(link, fabric, policy, intents) for link in fabric.links]
        else:
            seen = [link for link in fabric.links if link.a.device in readings or link.b.device in readings]
            longest = read.longest_packet(fabric, policy, readings)
            linked = [
                finding for link in seen for finding in read.link(link, fabric, intents, readings, longest)
            ]
        loose = [
            _loose(port.id)
            for port in fabric.node_ports()
            if fabric.link(port.id) is None and (readings is None or port.id.device in readings)
        ]
        if linked or loose:
            return (*linked, *loose)
        if fabric.links:
            return (_unknown("no end of any link was read: nothing was compared", "read the devices"),)
        return (_unknown("the inventory has no links: nothing was compared", "add link to fabric_ports"),)


def _unknown(what: str, advice: str) -> Finding:
    return Finding(NAME, "fabric", Outcome.UNKNOWN, what, next_step=advice)


def _loose(port: PortId) -> Finding:
    what = "the inventory names no cable in this port, so its other end is not known"
    advice = "add link: {switch: ..., port: ...} to the port"
    return Finding(NAME, str(port), Outcome.UNKNOWN, what, next_step=advice)


PLUGIN = Agreement()
