"""The checks that judge intents: agreement, chain, capability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from fabricctl.apply.intent import intents
from fabricctl.checks import agreement, capability, chain
from fabricctl.errors import RefusedError, UsageError
from fabricctl.model import settings
from fabricctl.model.fabric import NETWORK_CLI, REST, Device, Endpoint, Fabric, Link, LinkLayer, Port, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.policy import EcnProfile, Limits, MtuPolicy, Policy, Stance, TrafficClass
from fabricctl.model.reading import Value
from fabricctl.model.verdict import Finding, Outcome, worst
from fabricctl.plugin import finder
from fabricctl.plugin.protocols import Query

NIC = PortId("node1", "eth1")
SWITCH = PortId("leaf1", "swp1")
POLICY = Policy(
    name="test",
    link_layer=LinkLayer.ETHERNET,
    lossless=TrafficClass(priority=3, dscp=26),
    cnp=TrafficClass(priority=6, dscp=48),
    mtu=MtuPolicy(nic_bytes=4200, switch_bytes=9000, rdma_bytes=4096),
    pfc_priorities=(3,),
    ecn={0: EcnProfile(150_000, 1_500_000, 100)},
    dcqcn=True,
    limits=Limits(latency=(), loss=None),
)


def _fabric(layer: LinkLayer = LinkLayer.ETHERNET, driver: str = "stub", *, linked: bool = True) -> Fabric:
    node = Device("node1", Role.NODE, driver, Endpoint("n"), (Port(NIC, speed_gbps=100, link_layer=layer),))
    leaf = Device("leaf1", Role.SWITCH, driver, Endpoint("s"), (Port(SWITCH, link_layer=layer),), tier="leaf")
    return Fabric((node, leaf), (Link(SWITCH, NIC, 3.0),) if linked else ())


EMPTY = Fabric((), ())


def _chain(policy: Policy, fabric: Fabric | None = None) -> tuple[Finding, ...]:
    fabric = fabric or _fabric()
    return chain.PLUGIN.judge(fabric, policy, intents(fabric, policy), None)


@pytest.mark.parametrize("name", ["agreement", "capability", "chain", "headroom", "watchdog"])
def test_nothing_to_look_at_is_unknown_never_a_pass(name: str) -> None:
    found = finder.check(name).judge(EMPTY, POLICY, {}, None)

    assert [finding.outcome for finding in found] == [Outcome.UNKNOWN]
    assert found[0].check == name


@pytest.mark.parametrize("name", ["agreement", "capability", "chain", "headroom", "watchdog"])
def test_ports_without_intents_are_unknown_never_a_pass(name: str, stub: Stub) -> None:
    stub.unsupported = {}
    found = finder.check(name).judge(_fabric(), POLICY, {}, None)

    assert worst(finding.outcome for finding in found) is Outcome.UNKNOWN
    assert all(finding.outcome is Outcome.UNKNOWN for finding in found)


def test_every_check_is_named_as_its_module() -> None:
    assert finder.names("check") == ("agreement", "capability", "chain", "headroom", "watchdog")
    assert [finder.check(name).name for name in finder.names("check")] == list(finder.names("check"))


def test_both_ends_agree() -> None:
    found = agreement.PLUGIN.judge(_fabric(), POLICY, intents(_fabric(), POLICY), None)

    assert found == (
        Finding(
            "agreement",
            "leaf1/swp1 - node1/eth1",
            Outcome.PASS,
            "both ends agree: PFC priorities 3, MTU 9000 and 4200 bytes",
        ),
    )


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (
            {"pfc_priorities": ()},
            (
                "PFC priorities are none on leaf1/swp1 and 3 on node1/eth1: leaf1/swp1 is wrong, "
                "the policy says 3"
            ),
        ),
        (
            {"trust": "pcp"},
            "trust is pcp on leaf1/swp1 and dscp on node1/eth1: leaf1/swp1 is wrong, the policy says dscp",
        ),
        (
            {"dscp_priority": (0,) * 64},
            (
                "DSCP 26 is priority 0 on leaf1/swp1 and 3 on node1/eth1 (1 more differ): leaf1/swp1"
                " is wrong, the policy says 3"
            ),
        ),
        (
            {"priority_tc": (0,) * 8},
            (
                "priority 3 is class 0 on leaf1/swp1 and 3 on node1/eth1 (1 more differ): leaf1/swp1"
                " is wrong, the policy says 3"
            ),
        ),
        ({"dscp_priority": ()}, None),
        (
            {"mtu_bytes": 4199},
            (
                "node1/eth1 may send frames of 4222 bytes (MTU 4200 and 22 of headers), "
                "leaf1/swp1 passes only 4221"
            ),
        ),
        (
            {"rdma_mtu_bytes": 1024},
            (
                "the RDMA MTU is 1024 on leaf1/swp1 and 4096 on node1/eth1: leaf1/swp1 is wrong,"
                " the policy says 4096"
            ),
        ),
        (
            {"link_layer": LinkLayer.INFINIBAND},
            (
                "the link layer is infiniband on leaf1/swp1 and ethernet on node1/eth1: leaf1/swp1 is wrong,"
                " the policy says ethernet"
            ),
        ),
        ({"role": Role.NODE, "mtu_bytes": 9000}, "MTU is 9000 on leaf1/swp1 and 4200 bytes on node1/eth1"),
        (
            {"speed_gbps": 400},
            (
                "the speed is 400 Gb/s on leaf1/swp1 and 100 Gb/s on node1/eth1: "
                "the inventory contradicts itself"
            ),
        ),
    ],
)
def test_ends_that_differ_fail(change: dict[str, Any], what: str | None) -> None:
    wanted = intents(_fabric(), POLICY)
    wanted[SWITCH] = replace(wanted[SWITCH], **change)

    (found,) = agreement.PLUGIN.judge(_fabric(), POLICY, wanted, None)

    assert found.outcome is Outcome.FAIL
    assert what is None or found.what == what


def test_an_offline_mtu_counts_the_headers_that_a_system_counts(stub: Stub) -> None:
    stub.mtu_headers_bytes = 22
    wanted = intents(_fabric(), POLICY)
    for mtu, outcome in ((4221, Outcome.FAIL), (4222, Outcome.PASS)):
        wanted[SWITCH] = replace(wanted[SWITCH], mtu_bytes=mtu)
        assert agreement.PLUGIN.judge(_fabric(), POLICY, wanted, None)[0].outcome is outcome


def test_a_node_port_without_a_cable_is_unknown() -> None:
    (found,) = agreement.PLUGIN.judge(
        _fabric(linked=False), POLICY, intents(_fabric(linked=False), POLICY), None
    )

    assert (found.outcome, found.subject) == (Outcome.UNKNOWN, "node1/eth1")


def test_the_chain_is_followed_on_both_ends() -> None:
    found = _chain(POLICY)

    assert [(f.outcome, f.subject, f.what) for f in found] == [
        (Outcome.PASS, "node1/eth1", "DSCP 26 -> priority 3 -> class 3 -> PFC -> ECN (marked by switches)"),
        (Outcome.PASS, "leaf1/swp1", "DSCP 26 -> priority 3 -> class 3 -> PFC -> ECN"),
    ]


def test_a_nic_whose_switch_port_does_not_mark_is_not_said_to_be_marked() -> None:
    speed = _fabric().device("node1").ports[0].speed_gbps
    found = _chain(replace(POLICY, ecn={speed + 1: EcnProfile(1, 9, 1)}))
    chain = "DSCP 26 -> priority 3 -> class 3 -> PFC -> "
    assert [f.what for f in found] == [f"{chain}no ECN at {speed} Gb/s"] * 2


@pytest.mark.parametrize(
    ("policy", "what"),
    [
        (
            replace(POLICY, cnp=TrafficClass(3, 48)),
            "CNPs ride the lossless class (priority 3) that they are to relieve",
        ),
        (replace(POLICY, pfc_priorities=(3, 6)), "CNPs ride priority 6, which PFC can pause"),
        (replace(POLICY, cnp=None), "ECN is on, but congestion notification (cnp) has no class"),
        (replace(POLICY, pfc_priorities=(3, 4)), "PFC is on for priority 4, to which no DSCP leads"),
        (
            replace(POLICY, lossless=TrafficClass(0, 26), pfc_priorities=(0,)),
            "PFC priority 0 shares its traffic class with priorities 0, 1, 2, 3, 4, 5, 7",
        ),
        (replace(POLICY, ecn={0: EcnProfile(9, 9, 1)}), "Kmin 9 bytes is not below Kmax 9 bytes"),
    ],
)
def test_a_broken_chain_fails(policy: Policy, what: str) -> None:
    found = _chain(policy)

    assert found[-1].outcome is Outcome.FAIL
    assert found[-1].what == what
    assert found[-1].next_step == "mend the policy test"


def test_s28_marks_that_no_nic_heeds_fail() -> None:
    found = _chain(replace(POLICY, dcqcn=False))
    assert [(f.outcome, f.subject) for f in found] == [
        (Outcome.FAIL, "node1/eth1"),
        (Outcome.PASS, "leaf1/swp1"),
    ]
    assert found[0].what == (
        "switches mark (ecn), but NICs are told not to slow down for it (dcqcn: off): pauses spread"
    )
    assert _chain(replace(POLICY, dcqcn=False, ecn={}))[0].outcome is Outcome.PASS


def test_pfc_that_leaves_out_the_lossless_class_fails() -> None:
    found = _chain(replace(POLICY, pfc_priorities=(4,)))[0]

    assert found.outcome is Outcome.FAIL
    assert found.what.startswith("PFC is on for priorities 4, but not for a lossless class; ")


def test_an_intent_that_leads_elsewhere_than_the_policy_fails() -> None:
    wanted = intents(_fabric(), POLICY)
    wanted[NIC] = replace(wanted[NIC], dscp_priority=(0,) * 64, roce_tos=0)

    found = chain.PLUGIN.judge(_fabric(), POLICY, wanted, None)[0]

    assert found.what.split("; ") == [
        "DSCP 26 of the lossless class leads to priority 0, not 3",
        "DSCP 48 of CNP leads to priority 0, not 6",
        "RoCE is sent with DSCP 0, the lossless class has 26",
        "PFC is on for priority 3, to which no DSCP leads",
    ]


@pytest.mark.parametrize(
    ("policy", "what"),
    [
        (replace(POLICY, ecn={}, cnp=None), "DSCP 26 -> priority 3 -> class 3 -> PFC -> no ECN"),
        (replace(POLICY, pfc_priorities=()), "DSCP 26 -> priority 3 -> class 3 -> no PFC -> ECN"),
        (
            replace(POLICY, ecn={400: EcnProfile(1, 2, 3)}),
            "DSCP 26 -> priority 3 -> class 3 -> PFC -> no ECN at 100 Gb/s",
        ),
        (
            replace(POLICY, lossless=None, cnp=None, pfc_priorities=(), ecn={}),
            "no lossless class, PFC off, ECN off: nothing to follow",
        ),
    ],
)
def test_pfc_off_and_ecn_off_are_valid(policy: Policy, what: str) -> None:
    assert (_chain(policy)[-1].outcome, _chain(policy)[-1].what) == (Outcome.PASS, what)


def test_an_ecn_profile_that_hangs_on_an_unknown_speed_is_unknown() -> None:
    node = Device("node1", Role.NODE, "", Endpoint("n"), (Port(NIC),))
    leaf = Device("leaf1", Role.SWITCH, "", Endpoint("s"), (Port(SWITCH),))
    fabric = Fabric((node, leaf), (Link(SWITCH, NIC),))

    found = _chain(replace(POLICY, ecn={400: EcnProfile(1, 2, 3)}), fabric)

    assert [f.outcome for f in found] == [Outcome.PASS, Outcome.UNKNOWN]


def test_infiniband_needs_no_chain() -> None:
    fabric = _fabric(LinkLayer.INFINIBAND)

    assert {f.outcome for f in _chain(POLICY, fabric)} == {Outcome.PASS}


class Stub:
    """A driver as far as the checks look at it."""

    name = "stub"
    role = Role.NODE
    mtu_headers_bytes = 0

    def __init__(self) -> None:
        self.unsupported: Mapping[str, str] = {settings.PFC: "no PFC in software", "x": "not asked for"}

    def wanted(self, intent: PortIntent) -> Mapping[str, Value]:
        return {settings.MTU: intent.mtu_bytes, settings.PFC: intent.pfc_priorities}

    def queries(self, ports: Sequence[Port]) -> tuple[Query, ...]:
        for port in ports:
            if port.id.port == "p/1":
                raise RefusedError("'p/1' is no port", device=port.id.device, next_step="write p1")
        return (Query("all", ("sh", "-c", "echo all")),)


class Choosy(Stub):
    """One that also says what its devices refuse."""

    def refused(self, intent: PortIntent) -> Mapping[str, str]:
        return {settings.PFC: "there is room for none"} if intent.pfc_priorities else {}


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Stub:
    driver = Stub()
    monkeypatch.setattr(finder, "nic_driver", lambda _: driver)
    monkeypatch.setattr(finder, "switch_driver", lambda _: driver)
    return driver


def _capability(policy: Policy, fabric: Fabric | None = None) -> tuple[Finding, ...]:
    fabric = fabric or _fabric()
    return capability.PLUGIN.judge(fabric, policy, intents(fabric, policy), None)


@pytest.mark.usefixtures("stub")
def test_capability_leaves_readings_to_the_plan() -> None:
    assert capability.PLUGIN.judge(_fabric(), POLICY, intents(_fabric(), POLICY), {}) == ()


@pytest.mark.usefixtures("stub")
def test_what_a_driver_cannot_do_is_a_note_or_a_failure_as_the_policy_says() -> None:
    warned = _capability(POLICY)[0]
    refused = _capability(replace(POLICY, unsupported=Stance.REFUSE))[0]

    assert warned.what == "cannot have on its 1 ports: pfc_priorities (no PFC in software)"
    assert warned.subject == "node driver stub"
    assert (warned.outcome, bool(warned.next_step)) == (Outcome.PASS, True)
    assert (refused.outcome, refused.what) == (Outcome.FAIL, warned.what)


@pytest.mark.usefixtures("stub")
def test_a_device_without_pfc_lacks_nothing_where_pfc_is_meant_to_be_off() -> None:
    found = _capability(replace(POLICY, pfc_priorities=(), unsupported=Stance.REFUSE))

    assert [(f.outcome, f.what) for f in found] == [
        (Outcome.PASS, "supports everything that is meant for its 1 ports")
    ] * 2


def test_a_driver_that_is_not_there_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise UsageError(f"there is no {name}")

    monkeypatch.setattr(finder, "nic_driver", refuse)
    monkeypatch.setattr(finder, "switch_driver", refuse)

    assert {f.outcome for f in _capability(POLICY)} == {Outcome.UNKNOWN}


def test_ethernet_without_a_driver_is_a_note_or_unknown_as_the_policy_says() -> None:
    fabric = _fabric(driver="")

    assert {f.outcome for f in _capability(POLICY, fabric)} == {Outcome.PASS}
    assert all(f.next_step for f in _capability(POLICY, fabric))
    refuse = replace(POLICY, unsupported=Stance.REFUSE)
    assert {f.outcome for f in _capability(refuse, fabric)} == {Outcome.UNKNOWN}


def test_infiniband_without_a_driver_passes() -> None:
    fabric = _fabric(LinkLayer.INFINIBAND, driver="")

    assert {f.outcome for f in _capability(replace(POLICY, unsupported=Stance.REFUSE), fabric)} == {
        Outcome.PASS
    }


def _failures(fabric: Fabric, policy: Policy = POLICY) -> list[tuple[str, str, str]]:
    found = _capability(policy, fabric)
    assert {f.outcome for f in found} <= {Outcome.PASS, Outcome.FAIL}
    return [(f.subject, f.what, f.next_step) for f in found if f.outcome is Outcome.FAIL]


def test_a_name_that_the_driver_refuses_fails_in_its_own_words(stub: Stub) -> None:
    stub.unsupported = {}
    odd = [Port(PortId("node1", name)) for name in ("p/1", "eth1")]
    fabric = Fabric((Device("node1", Role.NODE, "stub", Endpoint("n"), tuple(odd)),), ())

    assert _failures(fabric) == [("node1/p/1", "'p/1' is no port", "write p1")]
    assert [f.outcome for f in _capability(POLICY, fabric)] == [Outcome.FAIL]


def test_a_value_that_devices_refuse_fails_port_by_port(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Choosy()
    monkeypatch.setattr(finder, "nic_driver", lambda _: driver)
    monkeypatch.setattr(finder, "switch_driver", lambda _: driver)
    why = ("pfc_priorities: there is room for none", "change it in the policy or the inventory")

    assert _failures(_fabric()) == [("node1/eth1", *why), ("leaf1/swp1", *why)]
    assert _failures(_fabric(), replace(POLICY, pfc_priorities=())) == []


PORTS = {"dell_sonic": "Eth1/1", "eos": "Ethernet1", "nxos": "Ethernet1/1", "sonic": "Ethernet0"}
LINES = {"dell_sonic", "eos", "nxos"}
"""Drivers of switches whose own command line is spoken to."""
CLI = "set ansible_connection: ansible.netcommon.network_cli"
SSH = "set ansible_connection: ssh"


def _alone(role: Role, driver: str, connection: str) -> Fabric:
    port = Port(PortId("d1", PORTS.get(driver, "eth1")), speed_gbps=100)
    return Fabric((Device("d1", role, driver, Endpoint("d", connection=connection), (port,)),), ())


@pytest.mark.parametrize("connection", ["ssh", "local", NETWORK_CLI, REST])
@pytest.mark.parametrize("driver", finder.names("switch driver"))
def test_a_switch_is_reached_as_its_driver_speaks(driver: str, connection: str) -> None:
    lines = driver in LINES
    reasons = {
        "ssh": "speaks to a command line, and ssh leads to a shell",
        "local": "speaks to a command line, and local leads to a shell",
        NETWORK_CLI: "needs a shell, and network_cli has none",
        REST: "asks nothing of a REST interface",
    }
    can = {REST: driver == "cumulus", NETWORK_CLI: lines}.get(connection, not lines)
    expected = [("d1", f"the driver {driver} {reasons[connection]}", CLI if lines else SSH)]

    assert _failures(_alone(Role.SWITCH, driver, connection)) == ([] if can else expected)


@pytest.mark.parametrize("connection", ["ssh", "local", NETWORK_CLI, REST])
@pytest.mark.parametrize("driver", finder.names("NIC driver"))
def test_a_node_has_a_shell(driver: str, connection: str) -> None:
    found = _failures(_alone(Role.NODE, driver, connection))

    assert [f[0] for f in found] == ([] if connection in {"ssh", "local"} else ["d1"])
    assert all(f[2] == SSH for f in found)


@pytest.mark.parametrize("priorities", [(3,), (3, 4), (3, 4, 5)])
def test_more_pfc_priorities_than_a_system_has_fail_offline(priorities: tuple[int, ...]) -> None:
    policy = replace(POLICY, mtu=MtuPolicy(9000, 9216, 4096), pfc_priorities=priorities)
    failures = _failures(_alone(Role.SWITCH, "dell_sonic", NETWORK_CLI), policy)
    expected = (
        "d1/Eth1/1",
        "pfc_priorities: a switch has PFC on 2 priorities at most",
        "change it in the policy or the inventory",
    )
    assert failures == ([expected] if len(priorities) > 2 else [])
