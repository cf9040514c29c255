"""The PCI Express link of every NIC is as fast and as wide as NIC and slot can, and enough for its port.

A link's rate is transfers per second and lane, times lanes, times the part that its coding leaves: 8/10 up
to 5 GT/s, 128/130 up to 32 GT/s, 242/256 (FLIT mode) at 64 GT/s (PCI Express Base Specification). Headers of
packets take more, some percent, so what is less than the port's speed is surely too little. 400 Gb/s need
x16 at 32 GT/s (504 Gb/s); x16 at 16 GT/s is 252 Gb/s. Links of bridges above the NIC are judged as its own.

Passes if no link on the way runs below what both its ends can, the slowest of them carries the port's speed
of the inventory, and the maximum read request and relaxed ordering are what the policy says, if it says
anything (``links.max_read_request``, ``links.relaxed_ordering``). Also where there is no such link to judge:
soft-RoCE, virtio, a virtual function whose physical one this node does not see.
Fails if a link runs slower or narrower than both its ends can, carries less than the port's speed, or one of
the two is not as the policy says.
Unknown if the node does not say how the link runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from fabricctl.linkparts import pci
from fabricctl.linkparts.hosts import each
from fabricctl.linkparts.pci import EXPRESS, Function, Tree
from fabricctl.model.fabric import Device, Port
from fabricctl.model.policy import LinkPolicy
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.answers import Unread
from fabricctl.plugin.protocols import Query
from fabricctl.plugin.surveying import Need, Observation, Survey, cable

_NAME = "pcie"
_SPEED = re.compile(r"(\d+(?:\.\d+)?) GT/s")
_UNKNOWN, _GONE_LANES = "Unknown", 63
_GENERATIONS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
# Where the PCI Express capability has what: device control, link capabilities, link status.
_DEVICE_CONTROL, _LINK_CAN, _LINK_IS = 0x08, 0x0C, 0x12
_RELAXED = 1 << 4
_SMALLEST_REQUEST, _LARGEST_CODE = 128, 5
_MELLANOX = "15b3"
_MADE_UP = frozenset({"1af4", "1b36", "15ad", "1414", "1ae0", "1d0f"})
"""Vendors of devices and bridges that QEMU (virtio, Red Hat), VMware, Hyper-V and the clouds of Google and
Amazon make: what they say of a link is made up."""
_KIND, _INTEGRATED = 0x02, 9
"""Where the capability says what kind of device it is, and the kind without a link of its own."""


class _NoLink(Exception):  # noqa: N818  no error: there is nothing to be judged
    """The function has no PCI Express link that could be judged; the message says why."""


@dataclass(frozen=True, slots=True)
class _Rate:
    """Transfers per second and lane in GT/s, and lanes."""

    gts: float
    lanes: int

    def __str__(self) -> str:
        return f"x{self.lanes} at {self.gts:g} GT/s"

    @property
    def gbps(self) -> float:
        """What it carries in one direction, coding taken off, in Gb/s."""
        coding = 8 / 10 if self.gts <= 5 else 128 / 130 if self.gts <= 32 else 242 / 256  # noqa: PLR2004
        return self.gts * self.lanes * coding


@dataclass(frozen=True, slots=True)
class _Fault:
    outcome: Outcome
    what: str
    next_step: str
    measured: str = ""
    limit: str = ""


class _Pcie:
    name = _NAME
    needs = Need.ANSWERS

    def queries(self, device: Device) -> tuple[Query, ...]:
        """Ask for the PCI functions of the node's ports."""
        return pci.queries(device)

    def judge(self, survey: Survey) -> tuple[Finding, ...]:
        """Judge the NIC of every port of every node."""
        return each(self.name, survey, lambda device, seen: _judge(survey, device, seen))


def _judge(survey: Survey, device: Device, seen: Observation) -> Iterator[Finding]:
    for port in device.ports:
        subject = cable(survey.fabric, port.id)
        try:
            yield from _of_port(survey.rules, subject, port, pci.read(seen.answers))
        except Unread as exc:
            step = f"on {device.name}, as root: lspci -vv, and look for LnkSta of the NIC of {port.id.port}"
            yield Finding(_NAME, subject, Outcome.UNKNOWN, str(exc), next_step=step)


def _of_port(rules: LinkPolicy, subject: str, port: Port, tree: Tree) -> Iterator[Finding]:
    functions = tree.of(port.id)
    if not functions:
        yield Finding(_NAME, subject, Outcome.PASS, "a software device: it has no PCI Express link")
        return
    faults: list[_Fault] = []
    told: list[str] = []
    rates: dict[str, float] = {}
    for function in functions:
        physical = tree.physical(function)
        try:
            found, rate = _links(tree, physical)
        except _NoLink as exc:
            yield Finding(_NAME, subject, Outcome.PASS, str(exc))
            return
        faults += found
        rates[physical.slot] = rate.gbps
        told.append(f"{physical.address} runs {rate}")
        _controls(rules, physical, faults, told)
    faults += _too_slow(port, rates, told)
    speed = f" for {port.speed_gbps} Gb/s" if port.speed_gbps else ""
    if not faults:
        what = f"{', '.join(told)}: {sum(rates.values()):.0f} Gb/s{speed}"
        measured, limit = f"{sum(rates.values()):.0f} Gb/s", _wanted(port)
        yield Finding(_NAME, subject, Outcome.PASS, what, measured, limit)
    for fault in faults:
        yield Finding(
            _NAME,
            subject,
            fault.outcome,
            fault.what,
            fault.measured,
            fault.limit,
            next_step=fault.next_step,
            culprit=str(port.id) if fault.outcome is Outcome.FAIL else "",
        )


def _links(tree: Tree, function: Function) -> tuple[list[_Fault], _Rate]:
    """Return what is wrong with the links from a NIC up to the CPU, and the rate of the slowest."""
    faults: list[_Fault] = []
    own = _now(function)
    rates: list[_Rate] = []
    # Two ends of one link each: NIC and slot, then a switch's upstream port and what is above it. What lies
    # between the two bridges of one switch is no link.
    way = (function, *tree.above(function))
    for place in range(0, len(way), 2):
        lower, upper = way[place], way[place + 1] if place + 1 < len(way) else None
        if upper is not None and lower.vendor == upper.vendor == _MELLANOX:
            continue  # within the card: a BlueField has a switch of its own
        try:
            now = _now(lower)
        except (Unread, _NoLink):
            continue
        rates.append(now)
        can = _can(lower, upper)
        if now.gts < can.gts or now.lanes < can.lanes:
            faults.append(_degraded(lower, upper, now, can, own=place == 0))
    return faults, min(rates, key=lambda rate: rate.gbps, default=own)


def _degraded(lower: Function, upper: Function | None, now: _Rate, can: _Rate, *, own: bool) -> _Fault:
    what = f"{lower.address} runs {now}, it and {upper.address if upper else 'its slot'} can {can}"
    step = "reseat the card" if own else "reseat the riser or switch board above the NIC"
    return _Fault(
        Outcome.FAIL,
        what,
        f"{step}, see lspci -vv -s {lower.address} (LnkSta: downgraded) and that the BIOS does not limit the "
        "slot; move the card to another slot to tell card from slot",
        str(now),
        str(can),
    )


def _now(function: Function) -> _Rate:
    """Return how a function's link runs; _NoLink if it has none, Unread if that is not said."""
    if function.vendor in _MADE_UP or _integrated(function):
        raise _NoLink(f"{function.address} is a virtual device: it has no PCI Express link of its own")
    speed, width = function.files.get("current_link_speed"), function.files.get("current_link_width")
    if speed is None or width is None:
        return _by_config(function, _LINK_IS, 2)
    lanes = int(width) if width.isdigit() else 0
    if lanes == _GONE_LANES:
        raise Unread(f"{function.address} does not answer on the bus any more")
    match = _SPEED.match(speed)
    if match and lanes:
        return _Rate(float(match[1]), lanes)
    if speed.startswith(_UNKNOWN) and lanes:
        # A kernel that is older than the card has no name for its speed: the register has its code.
        return _coded(function, speed)
    if not lanes:
        raise _NoLink(f"{function.address} shows no link of its own: a virtual function or a virtual device")
    raise Unread(f"unparsable: {speed!r:.40}, {width!r:.40}")


def _coded(function: Function, speed: str) -> _Rate:
    """Return a rate from the register of a link that is there; Unread if that does not say it either."""
    try:
        return _by_config(function, _LINK_IS, 2)
    except _NoLink:
        raise Unread(f"the speed of the link of {function.address} is {speed!r:.40} to the kernel") from None


def _integrated(function: Function) -> bool:
    """Say whether a function is part of the root complex; not if that cannot be read."""
    try:
        at = function.capability(EXPRESS)
        return at is not None and function.word(at + _KIND) >> 4 & 0xF == _INTEGRATED
    except Unread:
        return False


def _can(lower: Function, upper: Function | None) -> _Rate:
    """Return what both ends of a link can; where the upper is not known or made up, what it does is right."""
    most = _most(lower)
    now = _now(lower)
    if most is None:
        return now
    slot = _most(upper) if upper is not None and upper.vendor not in _MADE_UP else None
    if slot is None:
        return _Rate(min(most.gts, now.gts), min(most.lanes, now.lanes))
    return _Rate(min(most.gts, slot.gts), min(most.lanes, slot.lanes))


def _most(function: Function) -> _Rate | None:
    match = _SPEED.match(function.files.get("max_link_speed", ""))
    width = function.files.get("max_link_width", "")
    if match and width.isdigit() and 0 < int(width) < _GONE_LANES:
        return _Rate(float(match[1]), int(width))
    try:
        return _by_config(function, _LINK_CAN, 4)
    except (Unread, _NoLink):
        return None


def _by_config(function: Function, register: int, size: int) -> _Rate:
    """Return a rate from configuration space, for kernels without the files (before 4.13)."""
    at = function.capability(EXPRESS)
    if at is None:
        raise _NoLink(f"{function.address} is no PCI Express device: it is a virtual one")
    value = function.word(at + register, size)
    gts, lanes = _GENERATIONS.get(value & 0xF), value >> 4 & 0x3F
    if gts is None or not lanes:
        raise _NoLink(f"{function.address} shows no link of its own: a virtual function or a virtual device")
    return _Rate(gts, lanes)


def _too_slow(port: Port, rates: dict[str, float], told: list[str]) -> list[_Fault]:
    total = sum(rates.values())
    if not port.speed_gbps or total >= port.speed_gbps:
        return []
    what = f"{', '.join(told)}: {total:.0f} Gb/s, less than the port's {port.speed_gbps} Gb/s"
    step = "put the card into a slot with more lanes or of a newer generation"
    return [_Fault(Outcome.FAIL, what, step, f"{total:.0f} Gb/s", _wanted(port))]


def _wanted(port: Port) -> str:
    return f">= {port.speed_gbps} Gb/s" if port.speed_gbps else ""


def _controls(rules: LinkPolicy, function: Function, faults: list[_Fault], told: list[str]) -> None:
    """Judge maximum read request and relaxed ordering, both in the device control register."""
    try:
        control = _control(function)
    except Unread as exc:
        if rules.max_read_request_bytes or rules.relaxed_ordering != "any":
            step = "read as root: lspci -vv, and look for MaxReadReq and RlxdOrd"
            faults.append(_Fault(Outcome.UNKNOWN, f"device control: {exc}", step))
        return
    code = control >> 12 & 7
    size = _SMALLEST_REQUEST << code if code <= _LARGEST_CODE else 0
    relaxed = "on" if control & _RELAXED else "off"
    told.append(f"maximum read request {size} bytes, relaxed ordering {relaxed}")
    want = rules.max_read_request_bytes
    if want and size != want:
        value = (want // _SMALLEST_REQUEST).bit_length() - 1 << 12
        faults.append(
            _Fault(
                Outcome.FAIL,
                f"the maximum read request of {function.address} is {size} bytes, not {want}",
                f"setpci -s {function.address} CAP_EXP+8.w={value:04x}:7000 until the next boot; for good in "
                "the BIOS",
                f"{size} bytes",
                f"{want} bytes",
            )
        )
    if rules.relaxed_ordering not in {"any", relaxed}:
        value = _RELAXED if rules.relaxed_ordering == "on" else 0
        faults.append(
            _Fault(
                Outcome.FAIL,
                f"relaxed ordering of {function.address} is {relaxed}, not {rules.relaxed_ordering}",
                f"setpci -s {function.address} CAP_EXP+8.w={value:04x}:0010 until the next boot; for good in "
                "the BIOS",
                relaxed,
                rules.relaxed_ordering,
            )
        )


def _control(function: Function) -> int:
    """Return the device control register; Unread if it cannot be read."""
    at = function.capability(EXPRESS)
    if at is None:
        raise Unread(f"{function.address} shows no PCI Express capability")
    return function.word(at + _DEVICE_CONTROL)


PLUGIN = _Pcie()
