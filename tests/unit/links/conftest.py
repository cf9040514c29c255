"""Four nodes with two rails and a leaf switch for each, seen twice in 10 s: all as it should be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from fabricctl.apply.intent import intents
from fabricctl.model import facts, settings
from fabricctl.model.fabric import Device, Endpoint, Fabric, Link, LinkLayer, Port, Role
from fabricctl.model.names import PortId
from fabricctl.model.policy import EcnProfile, Limits, LinkPolicy, MtuPolicy, Policy, TrafficClass
from fabricctl.model.reading import DeviceReading, Known, Missing, PortReading, Value
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin import finder
from fabricctl.plugin.holding import driver_of
from fabricctl.plugin.protocols import Answer
from fabricctl.plugin.surveying import Observation, PortPast, Survey

NOW = 1_800_000_000.0
BOOT = "boot-1"
POLICY = Policy(
    name="test",
    link_layer=LinkLayer.ETHERNET,
    lossless=TrafficClass(priority=3, dscp=26),
    cnp=TrafficClass(priority=6, dscp=48),
    mtu=MtuPolicy(nic_bytes=9000, switch_bytes=9216, rdma_bytes=4096),
    pfc_priorities=(3,),
    ecn={0: EcnProfile(150_000, 1_500_000, 100)},
    limits=Limits(latency=(), loss=None),
    links=LinkPolicy(interval_s=10, stable_s=600),
)
NIC_COUNTERS = (
    "rx_errors",
    "rx_crc_errors",
    "tx_errors",
    "rx_dropped",
    "tx_dropped",
    "rx_missed_errors",
    "port_xmit_wait",
)


def roce_fabric(nic: str = "rxe", switch: str = "linux") -> Fabric:
    """Return nodes 1 to 4 with eth1 on leaf1 and eth2 on leaf2, at the port of their number."""
    at = Endpoint("192.0.2.1")
    nodes = [
        Device(
            f"node{n}",
            Role.NODE,
            nic,
            at,
            tuple(
                Port(
                    PortId(f"node{n}", f"eth{rail + 1}"),
                    rdma=f"rdma{rail}",
                    rail=rail,
                    address=f"10.10.{rail}.{n}/24",
                    speed_gbps=100,
                )
                for rail in (0, 1)
            ),
        )
        for n in range(1, 5)
    ]
    leaves = [
        Device(
            f"leaf{rail + 1}",
            Role.SWITCH,
            switch,
            at,
            tuple(Port(PortId(f"leaf{rail + 1}", f"swp{n}"), speed_gbps=100) for n in range(1, 5)),
            tier="leaf",
        )
        for rail in (0, 1)
    ]
    links = tuple(
        Link(PortId(f"leaf{rail + 1}", f"swp{n}"), PortId(f"node{n}", f"eth{rail + 1}"), 3.0)
        for n in range(1, 5)
        for rail in (0, 1)
    )
    return Fabric((*nodes, *leaves), links)


@dataclass
class Site:
    """A fabric and what is seen of it; tests break something of it."""

    fabric: Fabric
    policy: Policy = POLICY
    seen: dict[str, Observation] = field(default_factory=dict)
    history: dict[PortId, tuple[PortPast, ...]] = field(default_factory=dict)
    limited: bool = False

    def as_intended(self) -> None:
        """See every device as it should be."""
        meant = intents(self.fabric, self.policy)
        for device in self.fabric.devices:
            ports = {}
            for port in device.ports:
                mtu = driver_of(device).wanted(meant[port.id])[settings.MTU]
                known: dict[str, Value] = {
                    facts.LINK_STATE: "up",
                    facts.SPEED: 100_000,
                    facts.LINK_DOWNS: 1,
                    facts.PARTNER: str(self.fabric.peer(port.id)),
                    facts.MAC: f"52:54:00:00:{port.id.device[-1]:>02}:{port.id.port[-1]:>02}",
                }
                if device.role is Role.NODE:
                    address = port.address.partition("/")[0]
                    known |= {
                        facts.RDMA_STATE: "ACTIVE",
                        facts.RDMA_MTU: 4096,
                        facts.FUNCTIONS: (port.id.port,),
                        facts.GIDS: ("0 RoCE v2 fe80::1", f"1 RoCE v2 ::ffff:{address}"),
                    }
                ports[port.id] = PortReading(
                    port.id,
                    {settings.MTU: Known(mtu)},
                    {name: Known(value) for name, value in known.items()},
                    {name: Known(0) for name in NIC_COUNTERS},
                )
            reading = DeviceReading(device.name, NOW, ports, {facts.BOOT_ID: Known(BOOT)})
            self.seen[device.name] = Observation(device.name, reading, reading, interval_s=10.0)

    def fact(self, port: str, name: str, value: Value | Missing, *, when: str = "both") -> None:
        """See a fact of a port otherwise: ``first``, ``last`` or ``both`` times."""
        self._change(port, "facts", name, value, when)

    def setting(self, port: str, name: str, value: Value | Missing) -> None:
        """Read a setting of a port otherwise."""
        self._change(port, "settings", name, value, "both")

    def counter(self, port: str, name: str, first: int | Missing, last: int | Missing) -> None:
        """See a counter at both times."""
        self._change(port, "counters", name, first, "first")
        self._change(port, "counters", name, last, "last")

    def _change(self, port: str, kind: str, name: str, value: Value | Missing, when: str) -> None:
        end = PortId.parse(port)
        entry = value if isinstance(value, Missing) else Known(value)
        seen = self.seen[end.device]
        for which in ("first", "last") if when == "both" else (when,):
            reading: DeviceReading = getattr(seen, which)
            held = reading.ports[end]
            changed: dict[str, Any] = {kind: {**getattr(held, kind), name: entry}}
            reading = replace(reading, ports={**reading.ports, end: replace(held, **changed)})
            again: dict[str, Any] = {which: reading}
            seen = replace(seen, **again)
        self.seen[end.device] = seen

    def answer(self, device: str, key: str, stdout: str, *, rc: int = 0, later: str | None = None) -> None:
        """Have a device answer what a check asks it."""
        seen = self.seen[device]
        answers = {**seen.answers, key: Answer(rc, stdout, "")}
        after = {**seen.later, **({key: Answer(rc, later, "")} if later is not None else {})}
        self.seen[device] = replace(seen, answers=answers, later=after)

    def unreachable(self, device: str) -> None:
        """Have a device not answer at all."""
        reading = DeviceReading(device, NOW, {}, error="no route to host")
        self.seen[device] = Observation(device, reading, reading)

    def once(self) -> None:
        """Look only once."""
        self.seen = {name: replace(one, interval_s=0.0) for name, one in self.seen.items()}

    def past(self, port: str, *looks: tuple[float, int], boot: str = BOOT) -> None:
        """Have earlier runs, newest first: how many seconds ago, and the count of falls they saw."""
        self.history[PortId.parse(port)] = tuple(PortPast(NOW - ago_s, boot, downs) for ago_s, downs in looks)

    def judge(self, check: str, now: float = NOW) -> tuple[Finding, ...]:
        """Return the findings of a check."""
        survey = Survey(
            self.fabric,
            self.policy,
            intents(self.fabric, self.policy),
            self.seen,
            history=self.history,
            now=now,
            limited=self.limited,
        )
        return finder.link_check(check).judge(survey)

    def bad(self, check: str, now: float = NOW) -> list[tuple[Outcome, str, str]]:
        """Return outcome, subject and sentence of what does not pass; each has a next step."""
        found = [f for f in self.judge(check, now) if f.outcome is not Outcome.PASS]
        assert all(f.next_step for f in found)
        return [(f.outcome, f.subject, f.what) for f in found]

    def notes(self, check: str) -> list[tuple[str, str, str]]:
        """Return subject, sentence and advice of what passes with a note."""
        found = self.judge(check)
        return [(f.subject, f.what, f.next_step) for f in found if f.outcome is Outcome.PASS and f.next_step]


def made_site(nic: str = "rxe", switch: str = "linux", only: Iterable[str] = ()) -> Site:
    """Return the fabric as it should be, of some of its devices only if they are named."""
    site = Site(roce_fabric(nic, switch))
    site.as_intended()
    chosen = set(only)
    if chosen:
        site.seen = {name: one for name, one in site.seen.items() if name in chosen}
    return site


@pytest.fixture
def site() -> Site:
    """Return the fabric as it should be."""
    return made_site()


@pytest.fixture
def make_site() -> Any:
    """Return what makes a fabric with other drivers."""
    return made_site
