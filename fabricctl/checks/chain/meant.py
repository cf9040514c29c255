"""Follow the chain through what is meant for a port."""

from __future__ import annotations

from collections.abc import Iterator

from fabricctl.model.fabric import LinkLayer, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.policy import Policy
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.holding import listed

_CHECK = "chain"


def port(name: PortId, policy: Policy, intent: PortIntent | None) -> Finding:
    """Return the finding on one port."""
    subject = str(name)
    if intent is None:
        return Finding(_CHECK, subject, Outcome.UNKNOWN, "there is no intent for this port")
    if intent.link_layer is LinkLayer.INFINIBAND:
        what = "InfiniBand: credits keep it lossless, there is no chain to follow"
        return Finding(_CHECK, subject, Outcome.PASS, what)
    broken = [*_classification(policy, intent), *_pfc(policy, intent), *_congestion(policy, intent)]
    if broken:
        advice = f"mend the policy {policy.source or policy.name}"
        return Finding(_CHECK, subject, Outcome.FAIL, "; ".join(broken), next_step=advice)
    if _profile_unknown(policy, intent):
        what = "the port's speed is not known, so neither is its ECN profile"
        advice = "add speed_gbps to the port or ecn: default to the policy"
        return Finding(_CHECK, subject, Outcome.UNKNOWN, what, next_step=advice)
    return Finding(_CHECK, subject, Outcome.PASS, _described(policy, intent))


def _classification(policy: Policy, intent: PortIntent) -> Iterator[str]:
    for label, wanted in (("the lossless class", policy.lossless), ("CNP", policy.cnp)):
        if wanted and intent.dscp_priority[wanted.dscp] != wanted.priority:
            got = intent.dscp_priority[wanted.dscp]
            yield f"DSCP {wanted.dscp} of {label} leads to priority {got}, not {wanted.priority}"
    if policy.lossless and intent.roce_tos is not None and intent.roce_tos >> 2 != policy.lossless.dscp:
        yield f"RoCE is sent with DSCP {intent.roce_tos >> 2}, the lossless class has {policy.lossless.dscp}"


def _pfc(policy: Policy, intent: PortIntent) -> Iterator[str]:
    pfc = intent.pfc_priorities
    if pfc and (policy.lossless is None or policy.lossless.priority not in pfc):
        yield f"PFC is on for priorities {listed(pfc)}, but not for a lossless class"
    for priority in pfc:
        sharing = [p for p, tc in enumerate(intent.priority_tc) if tc == intent.priority_tc[priority]]
        if sharing != [priority]:
            yield f"PFC priority {priority} shares its traffic class with priorities {listed(sharing)}"
        if priority not in intent.dscp_priority:
            yield f"PFC is on for priority {priority}, to which no DSCP leads"


def _congestion(policy: Policy, intent: PortIntent) -> Iterator[str]:
    if policy.ecn and policy.lossless is None:
        yield "ECN is on, but there is no lossless class whose queue could mark"
    if policy.ecn and policy.cnp is None:
        yield "ECN is on, but congestion notification (cnp) has no class"
    if policy.ecn and intent.dcqcn is False:
        yield "switches mark (ecn), but NICs are told not to slow down for it (dcqcn: off): pauses spread"
    if policy.cnp and policy.lossless and policy.cnp.priority == policy.lossless.priority:
        yield f"CNPs ride the lossless class (priority {policy.cnp.priority}) that they are to relieve"
    elif policy.cnp and policy.cnp.priority in intent.pfc_priorities:
        yield f"CNPs ride priority {policy.cnp.priority}, which PFC can pause"
    if intent.ecn and intent.ecn.kmin_bytes >= intent.ecn.kmax_bytes:
        yield f"Kmin {intent.ecn.kmin_bytes} bytes is not below Kmax {intent.ecn.kmax_bytes} bytes"


def _profile_unknown(policy: Policy, intent: PortIntent) -> bool:
    is_switch = intent.role is Role.SWITCH
    return is_switch and bool(policy.ecn) and 0 not in policy.ecn and intent.speed_gbps == 0


def _described(policy: Policy, intent: PortIntent) -> str:
    if policy.lossless is None:
        return "no lossless class, PFC off, ECN off: nothing to follow"
    dscp, priority = policy.lossless.dscp, policy.lossless.priority
    pfc = "PFC" if priority in intent.pfc_priorities else "no PFC"
    ecn = "ECN" if intent.ecn else "ECN (marked by switches)" if policy.ecn else "no ECN"
    if policy.ecn and intent.speed_gbps and policy.ecn_for(intent.speed_gbps) is None:
        ecn = f"no ECN at {intent.speed_gbps} Gb/s"
    return f"DSCP {dscp} -> priority {priority} -> class {intent.priority_tc[priority]} -> {pfc} -> {ecn}"
