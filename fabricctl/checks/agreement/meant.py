"""Compare what is meant for the two ends of a link."""

from __future__ import annotations

from collections.abc import Mapping

from fabricctl.checks.agreement.sentences import HEADERS, blame, difference, frame, too_long
from fabricctl.errors import UsageError
from fabricctl.model import settings
from fabricctl.model.fabric import Fabric, Link, LinkLayer, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.policy import DscpMap, Policy
from fabricctl.model.reading import Value
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.holding import DSCPS, PRIORITIES, driver_of, said

_CHECK = "agreement"


def link(cable: Link, fabric: Fabric, policy: Policy, intents: Mapping[PortId, PortIntent]) -> Finding:
    """Return the finding on one link."""
    subject = f"{cable.a} - {cable.b}"
    a, b = intents.get(cable.a), intents.get(cable.b)
    if a is None or b is None:
        what = f"there is no intent for {cable.a if a is None else cable.b}"
        return Finding(_CHECK, subject, Outcome.UNKNOWN, what)
    differing = [*_differing(a, b, policy), *_mtu(a, b, fabric)]
    if differing:
        advice = "give both ends the same intent"
        return Finding(_CHECK, subject, Outcome.FAIL, "; ".join(differing), next_step=advice)
    pfc = said(a.pfc_priorities)
    what = f"both ends agree: PFC priorities {pfc}, MTU {a.mtu_bytes} and {b.mtu_bytes} bytes"
    return Finding(_CHECK, subject, Outcome.PASS, what)


def _differing(a: PortIntent, b: PortIntent, policy: Policy) -> list[str]:
    found = []
    if a.link_layer is not b.link_layer:
        found.append(_plain("link layer", str(a.link_layer), str(b.link_layer), a, b, str(policy.link_layer)))
    if a.speed_gbps != b.speed_gbps:
        found.append(
            f"the speed is {a.speed_gbps} Gb/s on {a.port} and {b.speed_gbps} Gb/s on {b.port}:"
            " the inventory contradicts itself"
        )
    if a.rdma_mtu_bytes != b.rdma_mtu_bytes:
        right = policy.mtu.rdma_bytes
        found.append(_plain("RDMA MTU", a.rdma_mtu_bytes, b.rdma_mtu_bytes, a, b, right))
    for name, value in _means(policy, a).items():
        one, other = getattr(a, name), getattr(b, name)
        if one != other:
            found.append(difference(name, (a.port, one, value), (b.port, other, value)))
    return found


def _plain(label: str, one: Value, other: Value, a: PortIntent, b: PortIntent, right: Value) -> str:
    wrong = blame((a.port, one == right, said(right)), (b.port, other == right, said(right)))
    return f"the {label} is {said(one)} on {a.port} and {said(other)} on {b.port}: {wrong}"


def _means(policy: Policy, intent: PortIntent) -> dict[str, Value]:
    """Return what the policy says of the settings that both ends share."""
    if intent.link_layer is not LinkLayer.ETHERNET:
        return dict.fromkeys((settings.TRUST, settings.DSCP_PRIORITY, settings.PRIORITY_TC, settings.PFC), ())
    named = [named for named in (policy.lossless, policy.cnp) if named]
    own = {*policy.pfc_priorities, *(each.priority for each in named)}
    shift = policy.dscp_map is DscpMap.SHIFT
    dscps = {each.dscp: each.priority for each in named}
    return {
        settings.TRUST: "dscp",
        settings.DSCP_PRIORITY: tuple(dscps.get(d, d >> 3 if shift else 0) for d in range(DSCPS)),
        settings.PRIORITY_TC: tuple(p if p in own else 0 for p in range(PRIORITIES)),
        settings.PFC: policy.pfc_priorities,
    }


def _mtu(a: PortIntent, b: PortIntent, fabric: Fabric) -> list[str]:
    if a.role is b.role:
        same = a.mtu_bytes == b.mtu_bytes
        return [] if same else [f"MTU is {a.mtu_bytes} on {a.port} and {b.mtu_bytes} bytes on {b.port}"]
    node, switch = (a, b) if a.role is Role.NODE else (b, a)
    passes = switch.mtu_bytes + HEADERS - _counted(switch, fabric)
    if passes >= frame(node.mtu_bytes):
        return []
    return [too_long(node.port, node.mtu_bytes, switch.port, passes)]


def _counted(switch: PortIntent, fabric: Fabric) -> int:
    device = fabric.device(switch.port.device)
    try:
        return driver_of(device).mtu_headers_bytes if device.driver else 0
    except UsageError:
        return 0  # the capability check names it
