"""Compare what was read of the two ends of a link."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fabricctl.checks.agreement.sentences import HEADERS, LABELS, alike, blame, difference, frame, too_long
from fabricctl.model import facts, settings
from fabricctl.model.fabric import Fabric, Link, LinkLayer, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.policy import Policy
from fabricctl.model.reading import DeviceReading, Known
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.holding import Held, look, said

_CHECK = "agreement"
_EVERYWHERE = (
    settings.TRUST,
    settings.DSCP_PRIORITY,
    settings.PRIORITY_TC,
    settings.PFC,
    settings.PAUSE,
)
_BETWEEN_SWITCHES = (
    settings.MTU,
    settings.ECN,
    settings.ECN_KMIN,
    settings.ECN_KMAX,
    settings.ECN_PMAX,
    settings.WATCHDOG,
    settings.WATCHDOG_DETECT,
    settings.WATCHDOG_RESTORE,
    settings.WATCHDOG_POLL,
    settings.WATCHDOG_ACTION,
)
"""What only switches have, and the MTU, which both count in the same way only if both are switches."""

_UP = "up"
_GIGABIT_MBPS = 1000
_FEC = {
    "rs": ("rs", "rs-fec", "rsfec", "reed-solomon", "reedsolomon", "cl91", "rs528", "rs544", "kr4", "kp4"),
    "fc": ("fc", "fc-fec", "firecode", "fire-code", "baser", "base-r", "cl74"),
    "none": ("none", "off", "disabled", "no-fec"),
}
"""The spellings of one FEC on several systems."""


@dataclass(frozen=True, slots=True)
class _Remark:
    """Something that is not as it should be, or (`outcome` PASS) something that was compared and agrees."""

    outcome: Outcome
    what: str
    port: PortId | None = None
    next_step: str = ""


def longest_packet(fabric: Fabric, policy: Policy, readings: Mapping[str, DeviceReading]) -> int:
    """Return the largest MTU of the nodes' Ethernet ports in bytes: every hop must pass such a packet.

    What was not read counts with the policy's MTU; what is larger than that is a matter of its own link.
    """
    found = 0
    for port in fabric.node_ports():
        if port.link_layer is LinkLayer.ETHERNET:
            reading = readings.get(port.id.device)
            of_port = None if reading is None else reading.ports.get(port.id)
            entry = None if of_port is None else of_port.settings.get(settings.MTU)
            value = entry.value if isinstance(entry, Known) else None
            known = isinstance(value, int) and value <= policy.mtu.nic_bytes
            found = max(found, int(value) if known and isinstance(value, int) else policy.mtu.nic_bytes)
    return found


def link(
    cable: Link,
    fabric: Fabric,
    intents: Mapping[PortId, PortIntent],
    readings: Mapping[str, DeviceReading],
    longest: int,
) -> tuple[Finding, ...]:
    """Return what is wrong or not known of one link, else the one finding that it passes.

    Parameters
    ----------
    longest
        As :func:`longest_packet` returns it.
    """
    subject = f"{cable.a} - {cable.b}"
    a, b = (look(fabric, port, intents, readings) for port in (cable.a, cable.b))
    unread = [end for end in (a, b) if isinstance(end, str)]
    if isinstance(a, str) or isinstance(b, str):
        what = "; ".join(dict.fromkeys(unread))
        advice = "both ends have to be read to be compared"
        return (Finding(_CHECK, subject, Outcome.UNKNOWN, what, next_step=advice),)
    remarks = [*_settings(a, b), *_mtu(a, b, longest), *_speed(a, b), *_fec(a, b), *_rdma_mtu(a, b)]
    bad = [remark for remark in remarks if remark.outcome is not Outcome.PASS]
    if bad:
        return tuple(_finding(subject, remark) for remark in bad)
    agreed = [remark.what for remark in remarks]
    if not agreed:
        return (Finding(_CHECK, subject, Outcome.UNKNOWN, "nothing of it could be compared"),)
    return (Finding(_CHECK, subject, Outcome.PASS, f"both ends agree, as read: {', '.join(agreed)}"),)


def _finding(subject: str, remark: _Remark) -> Finding:
    # What is missing is missing on a port: there it is looked for, and many ports may miss the same.
    about = str(remark.port) if remark.outcome is Outcome.UNKNOWN and remark.port else subject
    culprit = str(remark.port) if remark.outcome is Outcome.FAIL and remark.port else ""
    return Finding(_CHECK, about, remark.outcome, remark.what, next_step=remark.next_step, culprit=culprit)


def _settings(a: Held, b: Held) -> Iterator[_Remark]:
    both_switches = a.intent.role is Role.SWITCH and b.intent.role is Role.SWITCH
    common = [
        name
        for name in (*_EVERYWHERE, *(_BETWEEN_SWITCHES if both_switches else ()))
        if name in a.wanted and name in b.wanted
    ]
    shared = []
    for name in common:
        for end in (a, b):
            if name in end.gaps:
                yield _Remark(Outcome.UNKNOWN, f"{name}: {end.gaps[name]}", end.port)
        if name not in a.known or name not in b.known or (a.right(name) and b.right(name)):
            continue
        if a.known[name] == b.known[name] and a.wanted[name] == b.wanted[name]:
            shared.append(alike(name, a.known[name], a.wanted[name]))
            continue
        ends = [(end.port, end.known[name], end.wanted[name]) for end in (a, b)]
        yield _wrong(difference(name, *ends), [end for end in (a, b) if not end.right(name)])
    if shared:
        what = f"both ends agree, but not with the policy (in parentheses): {', '.join(shared)}"
        yield _Remark(Outcome.FAIL, what, next_step="set both as the policy says")
    for name in (settings.TRUST, settings.PFC, settings.ECN, settings.WATCHDOG):
        if name in common and name in a.known:
            label, unit = LABELS[name]
            yield _Remark(Outcome.PASS, f"{label.rsplit(' ', 1)[0]} {said(a.known[name])}{unit}")


def _wrong(what: str, wrong: list[Held]) -> _Remark:
    names = " and ".join(str(end.port) for end in wrong) or "both ends"
    culprit = wrong[0].port if len(wrong) == 1 else None
    return _Remark(Outcome.FAIL, what, culprit, f"set {names} as the policy says")


def _mtu(a: Held, b: Held, longest: int) -> Iterator[_Remark]:
    """Judge whether every frame that may come this way fits: of the link's own node, and of all others."""
    if settings.MTU not in a.wanted or settings.MTU not in b.wanted:
        return
    for end in (a, b):
        if settings.MTU in end.gaps and a.intent.role is not b.intent.role:
            yield _Remark(Outcome.UNKNOWN, f"{settings.MTU}: {end.gaps[settings.MTU]}", end.port)
    values = [_bytes(end) for end in (a, b)]
    if None in values:
        return
    short = list(_too_short(a, b))
    yield from short
    for end in (a, b):
        passes = _passes(end)
        if end.intent.role is Role.SWITCH and not short and passes < frame(longest):
            what = (
                f"{end.port} passes frames of up to {passes} bytes, nodes send up to {frame(longest)}: small"
                f" messages pass, large ones are lost here: {_whose(end)}"
            )
            yield _wrong(what, [end])
    yield _Remark(Outcome.PASS, f"MTU {values[0]} and {values[1]} bytes")


def _too_short(a: Held, b: Held) -> Iterator[_Remark]:
    """Yield that a node's frames are too long for its switch port, if they are."""
    if a.intent.role is b.intent.role:
        return
    node, switch = (a, b) if a.intent.role is Role.NODE else (b, a)
    mtu = _bytes(node) or 0
    passes = _passes(switch)
    if passes >= frame(mtu):
        return
    ends = [(end.port, end.right(settings.MTU), said(end.wanted[settings.MTU])) for end in (node, switch)]
    if all(right for _, right, _ in ends):
        verdict = "both are as the policy says, so the policy is wrong"
    else:
        verdict = blame(*ends)
    lost = "small messages pass, large ones are lost"
    what = f"{too_long(node.port, mtu, switch.port, passes)}: {lost}: {verdict}"
    yield _wrong(what, [end for end in (node, switch) if not end.right(settings.MTU)])


def _whose(end: Held) -> str:
    if end.right(settings.MTU):
        return "it is as the policy says, so the policy is wrong"
    return f"{end.port} is wrong, the policy says {said(end.wanted[settings.MTU])}"


def _bytes(end: Held) -> int | None:
    value = end.known.get(settings.MTU)
    return value if isinstance(value, int) else None


def _passes(end: Held) -> int:
    """Return the longest frame that a switch port passes, in bytes, headers and FCS included."""
    return (_bytes(end) or 0) + HEADERS - end.mtu_headers_bytes


def _speed(a: Held, b: Held) -> Iterator[_Remark]:
    """Compare the speeds with the inventory's and with each other."""
    expected = a.intent.speed_gbps or b.intent.speed_gbps
    speeds: list[tuple[PortId, int]] = []
    for end in (a, b):
        speed, why = _speed_of(end)
        if speed is not None:
            speeds.append((end.port, speed))
        elif expected:
            yield _Remark(Outcome.UNKNOWN, why, end.port)
    wrong = [port for port, speed in speeds if expected and speed != expected * _GIGABIT_MBPS]
    values = [speed for _, speed in speeds]
    shown = " and ".join(f"{_gbps(speed)} on {port}" for port, speed in speeds)
    advice = "look at the cable, its transceivers, and the speed that both ports are set to"
    if len(wrong) == len(speeds) > 1 and len(set(values)) == 1:
        what = f"the speed is {_gbps(values[0])} on both ends, the inventory says {expected} Gb/s"
        yield _Remark(Outcome.FAIL, what, next_step=advice)
    elif wrong:
        says = f"{' and '.join(map(str, wrong))} {'is' if len(wrong) == 1 else 'are'} wrong"
        what = f"the speed is {shown}: {says}, the inventory says {expected} Gb/s"
        yield _Remark(Outcome.FAIL, what, wrong[0] if len(wrong) == 1 else None, advice)
    elif len(set(values)) > 1:
        what = f"the speed is {shown}: they differ, and the inventory names none"
        yield _Remark(Outcome.FAIL, what, next_step=advice)
    elif len(values) > 1:
        yield _Remark(Outcome.PASS, _gbps(values[0]))


def _speed_of(end: Held) -> tuple[int | None, str]:
    functions = end.fact(facts.FUNCTIONS)
    if isinstance(functions, tuple) and len(functions) > 1:
        return None, f"{facts.SPEED}: it is that of several physical functions together"
    return end.number_fact(facts.SPEED), end.fact_gap(facts.SPEED)


def _gbps(speed_mbps: int) -> str:
    return f"{speed_mbps / _GIGABIT_MBPS:g} Gb/s"


def _fec(a: Held, b: Held) -> Iterator[_Remark]:
    """Compare FEC where both ends name it; a link that is up has the same on both, whatever they say."""
    names = [_fec_of(end) for end in (a, b)]
    if None in names:
        return
    if names[0] == names[1]:
        yield _Remark(Outcome.PASS, f"FEC {names[0]}")
        return
    what = f"FEC is {names[0]} on {a.port} and {names[1]} on {b.port}"
    if all(end.fact(facts.LINK_STATE) == _UP for end in (a, b)):
        what += ", though the link is up: one of them does not say what it uses"
        yield _Remark(Outcome.UNKNOWN, what, next_step="compare the FEC of both ports")
    else:
        yield _Remark(Outcome.FAIL, f"{what}: they differ", next_step="set the same FEC on both ports")


def _fec_of(end: Held) -> str | None:
    said_so = str(end.fact(facts.FEC) or "").strip().lower()
    return next((name for name, spellings in _FEC.items() if said_so in spellings), None)


def _rdma_mtu(a: Held, b: Held) -> Iterator[_Remark]:
    """Judge the path MTU of the nodes' queue pairs."""
    for end in (a, b):
        if end.intent.role is not Role.NODE:
            continue
        found, meant = end.number_fact(facts.RDMA_MTU), end.intent.rdma_mtu_bytes
        if found is None:
            yield _Remark(Outcome.UNKNOWN, end.fact_gap(facts.RDMA_MTU), end.port)
        elif found < meant:
            what = (
                f"the RDMA MTU is {found} on {end.port}: it works, but slower than it could, and queue pairs"
                f" of {meant} fail: {end.port} is wrong, the policy says {meant}"
            )
            advice = "see its netdev's MTU, and that of a bond or bridge above it"
            yield _Remark(Outcome.FAIL, what, end.port, advice)
        else:
            yield _Remark(Outcome.PASS, f"RDMA MTU {found}")
