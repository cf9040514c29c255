"""Both ends of every cable agree.

Passes if the two ports of a link mean the same trust, DSCP map, traffic classes and PFC priorities, and no
packet that one end may send is too long for the other. Fails if they differ in one of them. Unknown if
there is no link to look at, or if a node's port has no cable in the inventory: then nobody knows its other
end.
"""

from __future__ import annotations

from collections.abc import Mapping

from fabricctl.model.fabric import Fabric, Link, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.policy import Policy
from fabricctl.model.reading import DeviceReading
from fabricctl.model.verdict import Finding, Outcome

_SAME = (
    "link_layer",
    "speed_gbps",
    "trust",
    "dscp_priority",
    "priority_tc",
    "pfc_priorities",
    "rdma_mtu_bytes",
)


class Agreement:
    """Compares the intents of both ends of each link."""

    name = "agreement"

    def judge(
        self,
        fabric: Fabric,
        policy: Policy,  # noqa: ARG002  part of the protocol
        intents: Mapping[PortId, PortIntent],
        readings: Mapping[str, DeviceReading] | None,  # noqa: ARG002  judged before anything is read
    ) -> tuple[Finding, ...]:
        """Return one finding a link, and one a node port without a link."""
        loose = tuple(self._loose(port.id) for port in fabric.node_ports() if fabric.link(port.id) is None)
        found = (*(self._link(link, intents) for link in fabric.links), *loose)
        if found:
            return found
        what = "the inventory has no links: nothing was compared"
        return (Finding(self.name, "fabric", Outcome.UNKNOWN, what, next_step="add link to fabric_ports"),)

    def _loose(self, port: PortId) -> Finding:
        what = "the inventory names no cable in this port, so its other end is not known"
        advice = "add link: {switch: ..., port: ...} to the port"
        return Finding(self.name, str(port), Outcome.UNKNOWN, what, next_step=advice)

    def _link(self, link: Link, intents: Mapping[PortId, PortIntent]) -> Finding:
        subject = f"{link.a} - {link.b}"
        a, b = intents.get(link.a), intents.get(link.b)
        if a is None or b is None:
            what = f"there is no intent for {link.a if a is None else link.b}"
            return Finding(self.name, subject, Outcome.UNKNOWN, what)
        differing = [_difference(name, a, b) for name in _SAME if getattr(a, name) != getattr(b, name)]
        differing += _mtu(a, b)
        if differing:
            advice = "give both ends the same intent"
            return Finding(self.name, subject, Outcome.FAIL, "; ".join(differing), next_step=advice)
        pfc = ", ".join(map(str, a.pfc_priorities)) or "none"
        what = f"both ends agree: PFC priorities {pfc}, MTU {a.mtu_bytes} and {b.mtu_bytes} bytes"
        return Finding(self.name, subject, Outcome.PASS, what)


def _difference(name: str, a: PortIntent, b: PortIntent) -> str:
    one, other = getattr(a, name), getattr(b, name)
    if name == "dscp_priority" and len(one) == len(other):
        first = next(dscp for dscp, (x, y) in enumerate(zip(one, other, strict=True)) if x != y)
        return f"DSCP {first} is priority {one[first]} on {a.port} and {other[first]} on {b.port}"
    return f"{name} is {one} on {a.port} and {other} on {b.port}"


def _mtu(a: PortIntent, b: PortIntent) -> list[str]:
    if a.role is b.role:
        same = a.mtu_bytes == b.mtu_bytes
        return [] if same else [f"MTU is {a.mtu_bytes} on {a.port} and {b.mtu_bytes} bytes on {b.port}"]
    node, switch = (a, b) if a.role is Role.NODE else (b, a)
    if switch.mtu_bytes >= node.mtu_bytes:
        return []
    return [f"{node.port} may send {node.mtu_bytes} bytes, {switch.port} takes only {switch.mtu_bytes}"]


PLUGIN = Agreement()
