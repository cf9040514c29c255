"""Every InfiniBand link is Active, as wide as the policy and as fast as the inventory says, at both ends.

Passes if both ends are Active and LinkUp, have the policy's ``links.ib_width`` lanes and the speed that the
inventory gives the port (``speed_gbps``; without it any speed passes). A split cable has two lanes at each
end: that passes at the inventory's speed if the generation knows it (HDR and newer). A faster link than the
inventory says passes with a note.
Fails if an end that answered is Down, or waits for the subnet manager (Initialize, Armed), or is narrower or
slower.
Unknown if an end did not answer or was not seen while the other is up, if an end is Active but not LinkUp,
and if nothing was seen at all.
"""

from __future__ import annotations

from collections.abc import Iterator

from fabricctl.linkparts.subnets import Cable, End, cables, each
from fabricctl.model.fabric import Device, Fabric
from fabricctl.model.lanes import LANES, described, link_gbps
from fabricctl.model.subnet import Subnet, SubnetPort
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.protocols import Query
from fabricctl.plugin.surveying import Need, Survey

_NAME = "ib_links"
_DOWN = {
    "Disabled": "somebody has switched it off",
    "Polling": "it finds nobody at the other end",
    "PortConfigurationTraining": "the ends do not agree on lanes and speed",
    "LinkErrorRecovery": "it loses and mends the link over and over",
    "Sleep": "it sleeps",
}
_WAITING = {
    "Initialize": "no subnet manager has brought it up",
    "Armed": "the subnet manager has not come to its end",
}
_SPLIT = 2


class _Links:
    name = _NAME
    needs = Need.SUBNETS

    def queries(self, device: Device) -> tuple[Query, ...]:
        """Nothing: the subnet is looked at from one host."""
        del device
        return ()

    def judge(self, survey: Survey) -> tuple[Finding, ...]:
        """Judge every cable of every plane."""
        return each(self.name, "links", survey, _judge)


def _judge(survey: Survey, subnet: Subnet) -> Iterator[Finding]:
    for cable in cables(survey, subnet):
        yield _state(subnet, cable) or _physical(cable) or _speed(survey, cable)


def _state(subnet: Subnet, cable: Cable) -> Finding | None:
    """Return what is wrong with a link's state; None if it is up."""
    for end in cable.ends:
        port = end.port
        if port is None or port.state == "Active":
            continue
        if port.state == "Down":
            reason = _DOWN.get(port.physical, "it does not come up")
            what = f"{end.label} is Down ({port.physical}): {reason}"
            return _failed(cable, what, f"Down ({port.physical})", _down_step(cable, end))
        waiting = _WAITING.get(port.state)
        if waiting is not None:
            what = f"{end.label} is {port.state} ({port.physical}): {waiting}"
            step = "see that a subnet manager runs and reaches it: sminfo; systemctl status opensm"
            return _failed(cable, what, f"{port.state} ({port.physical})", step)
        what = f"{end.label} is {port.state}" if port.state else f"iblinkinfo did not list {end.label}"
        return Finding(_NAME, cable.subject, Outcome.UNKNOWN, what, next_step="look at it: iblinkinfo")
    gone = [end for end in cable.ends if end.port is None]
    if gone:
        return _unseen(subnet, cable, gone)
    return None


def _physical(cable: Cable) -> Finding | None:
    """Return what is odd about a link of which both ends are Active; None if they are LinkUp too."""
    for end in cable.ends:
        port = end.port
        if port is None or port.physical == "LinkUp":
            continue
        reason = f": {_DOWN[port.physical]}" if port.physical in _DOWN else ""
        what = f"{end.label} is Active, but {port.physical or 'its physical state was not said'}{reason}"
        measured = f"Active ({port.physical or 'not said'})"
        step = "run this again; if it stays so, reseat the cable at both ends: iblinkinfo"
        return Finding(
            _NAME, cable.subject, Outcome.UNKNOWN, what, measured, "Active (LinkUp)", next_step=step
        )
    return None


def _unseen(subnet: Subnet, cable: Cable, gone: list[End]) -> Finding:
    names = " and ".join(end.label for end in gone)
    seen = [end for end in cable.ends if end.port is not None]
    rest = "".join(f"; {end.label} is Active" for end in seen)
    host = gone[0].id.device if gone[0].id is not None else gone[0].label
    step = f"see that {host} is on and its HCA answers: ibstat there"
    peers = [subnet.ports.get(end.port.peer) for end in seen if end.port is not None and end.port.peer]
    if peers and peers[0] is not None:
        rest = f"{rest} and leads to {peers[0].node or peers[0].node_guid!r}"
        step = f"see ib_cabling of it: if that is {host}, give it its name (rdma-ndd)"
    return Finding(
        _NAME,
        cable.subject,
        Outcome.UNKNOWN,
        f"{names} did not answer or was not seen in the subnet{rest}",
        next_step=step,
    )


def _down_step(cable: Cable, end: End) -> str:
    port, other = end.port, cable.other(end)
    if port is not None and port.physical == "Disabled":
        return f"switch it on: ibportstate {port.lid} {port.number} enable"
    far = ""
    if other is not None and other.port is None:
        far = f"see that {other.id.device if other.id is not None else other.label} is on, then "
    return f"{far}reseat the cable at both ends, and replace it if {end.label} stays down"


def _speed(survey: Survey, cable: Cable) -> Finding:
    """Judge lanes and speed of a link that is up, by its lesser end."""
    seen = [(end, end.port) for end in cable.ends if end.port is not None]
    end, port = min(seen, key=lambda one: link_gbps(one[1].width, one[1].lane_gbps))
    wanted, expected = survey.rules.ib_width, _expected(survey.fabric, cable)
    measured = described(port.width, port.lane_gbps)
    speed = link_gbps(port.width, port.lane_gbps)
    limit = f"{wanted}X" + (f", {expected} Gb/s" if expected else "")
    said = f"{measured} at {_at(seen, end)}"
    if not port.width or not port.lane_gbps:
        what = f"{end.label} is Active, but its lanes and speed could not be read"
        return Finding(_NAME, cable.subject, Outcome.UNKNOWN, what, limit=limit, next_step="see iblinkinfo")
    split = _may_split(port) and speed == expected
    if port.width < wanted and not split:
        what = f"{said}: {port.width} of {wanted} lanes"
        return _failed(cable, what, measured, _retrain(port, end), limit)
    if expected and speed < expected:
        what = f"{said}: the inventory says {expected} Gb/s"
        return _failed(cable, what, measured, _retrain(port, end), limit)
    if expected and speed > expected:
        what = f"Active, {said}: faster than the {expected} Gb/s that the inventory says"
        step = f"correct speed_gbps of {end.label} in the inventory"
        return Finding(_NAME, cable.subject, Outcome.PASS, what, measured, limit, next_step=step)
    against = f"as meant ({limit})" if expected else f"{limit} is meant, and no speed in the inventory"
    if port.width > wanted:
        against = f"wider than the {wanted}X that the policy means"
    return Finding(_NAME, cable.subject, Outcome.PASS, f"Active, {said}, {against}", measured, limit)


def _at(seen: list[tuple[End, SubnetPort]], end: End) -> str:
    if len(seen) == 1:
        return end.label
    (_, one), (_, other) = seen
    same = (one.width, one.lane_gbps) == (other.width, other.lane_gbps)
    return "both ends" if same else end.label


def _expected(fabric: Fabric, cable: Cable) -> int:
    """Return the speed in Gb/s that the inventory gives the ends, the lesser of two; 0 if it gives none."""
    given = [fabric.port(end.id).speed_gbps for end in cable.ends if end.id is not None]
    return min((speed for speed in given if speed), default=0)


def _may_split(port: SubnetPort) -> bool:
    return port.width == _SPLIT and port.lane_gbps >= LANES["HDR"][0]


def _retrain(port: SubnetPort, end: End) -> str:
    return (
        f"reseat the cable of {end.label} at both ends and have it train again "
        f"(ibportstate {port.lid} {port.number} reset); if it comes back so, replace the cable"
    )


def _failed(cable: Cable, what: str, measured: str, step: str, limit: str = "Active") -> Finding:
    return Finding(_NAME, cable.subject, Outcome.FAIL, what, measured, limit, next_step=step)


PLUGIN = _Links()
