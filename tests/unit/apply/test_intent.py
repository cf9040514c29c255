from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricctl.apply.intent import intents
from fabricctl.model.fabric import Device, Endpoint, Fabric, Link, LinkLayer, Port, Role
from fabricctl.model.names import PortId
from fabricctl.model.policy import DscpMap, EcnProfile, Limits, MtuPolicy, Policy, TrafficClass

NIC = PortId("node1", "eth1")
SWITCH = PortId("leaf1", "swp1")
POLICY = Policy(
    name="test",
    link_layer=LinkLayer.ETHERNET,
    lossless=TrafficClass(priority=3, dscp=26),
    cnp=TrafficClass(priority=6, dscp=48),
    mtu=MtuPolicy(nic_bytes=4200, switch_bytes=9000, rdma_bytes=4096),
    pfc_priorities=(3,),
    ecn={0: EcnProfile(150_000, 1_500_000, 100), 400: EcnProfile(1_600_000, 6_400_000, 20)},
    limits=Limits(latency=(), loss=None),
)


def _fabric(*, layer: LinkLayer = LinkLayer.ETHERNET, nic_gbps: int = 400, switch_gbps: int = 0) -> Fabric:
    node = Device(
        "node1", Role.NODE, "rxe", Endpoint("n"), (Port(NIC, speed_gbps=nic_gbps, link_layer=layer),)
    )
    port = Port(SWITCH, speed_gbps=switch_gbps, link_layer=layer)
    leaf = Device("leaf1", Role.SWITCH, "linux", Endpoint("s"), (port,), tier="leaf")
    return Fabric((node, leaf), (Link(SWITCH, NIC, 3.0),))


def test_both_ends_follow_from_the_policy() -> None:
    found = intents(_fabric(), POLICY)

    assert list(found) == [NIC, SWITCH]
    for intent in found.values():
        assert intent.trust == "dscp"
        assert intent.pfc_priorities == (3,)
        assert intent.dscp_priority == tuple({26: 3, 48: 6}.get(dscp, 0) for dscp in range(64))
        assert intent.priority_tc == (0, 0, 0, 3, 0, 0, 6, 0)
        assert intent.tc_scheduler == ("ets", "ets", "ets", "ets", "ets", "ets", "strict", "ets")
        assert intent.tc_bandwidth_percent == (50, 0, 0, 50, 0, 0, 0, 0)
        assert intent.rdma_mtu_bytes == 4096
        assert intent.roce_tos == 106  # DSCP 26 and ECT(0)
        assert intent.cable_length_m == 3.0
    assert found[NIC].mtu_bytes == 4200
    assert found[SWITCH].mtu_bytes == 9000


def test_only_switches_mark_with_the_profile_of_their_speed_or_their_peers() -> None:
    found = intents(_fabric(nic_gbps=400, switch_gbps=0), POLICY)
    assert found[NIC].ecn is None
    assert found[SWITCH].ecn == EcnProfile(1_600_000, 6_400_000, 20)
    assert found[SWITCH].speed_gbps == 400

    assert intents(_fabric(nic_gbps=0, switch_gbps=100), POLICY)[SWITCH].ecn == EcnProfile(
        150_000, 1_500_000, 100
    )
    assert intents(_fabric(nic_gbps=0, switch_gbps=100), POLICY)[NIC].speed_gbps == 100
    only_400 = replace(POLICY, ecn={400: EcnProfile(1, 2, 3)})
    assert intents(_fabric(nic_gbps=100), only_400)[SWITCH].ecn is None


def test_ecn_off_leaves_the_ecn_bits_of_roce_clear() -> None:
    assert intents(_fabric(), replace(POLICY, ecn={}, cnp=None))[NIC].roce_tos == 104


def test_the_shifted_map_keeps_the_named_classes() -> None:
    found = intents(_fabric(), replace(POLICY, dscp_map=DscpMap.SHIFT, cnp=TrafficClass(6, 4)))[NIC]

    assert found.dscp_priority[:5] == (0, 0, 0, 0, 6)
    assert found.dscp_priority[24:28] == (3, 3, 3, 3)
    assert found.dscp_priority[63] == 7


def test_a_policy_without_classes_uses_one() -> None:
    plain = replace(POLICY, lossless=None, cnp=None, pfc_priorities=(), ecn={})
    found = intents(_fabric(), plain)[NIC]

    assert set(found.dscp_priority) == {0}
    assert set(found.priority_tc) == {0}
    assert found.tc_bandwidth_percent == (100, 0, 0, 0, 0, 0, 0, 0)
    assert set(found.tc_scheduler) == {"ets"}
    assert found.roce_tos == 0


@pytest.mark.parametrize(
    ("weights", "expected"),
    [({3: 60}, (40, 60)), ({0: 30, 3: 70}, (30, 70)), ({}, (50, 50))],
)
def test_weights_become_bandwidth(weights: dict[int, int], expected: tuple[int, int]) -> None:
    found = intents(_fabric(), replace(POLICY, class_weights=weights))[NIC].tc_bandwidth_percent

    assert (found[0], found[3]) == expected
    assert sum(found) == 100


def test_a_cnp_class_on_priority_0_leaves_all_bandwidth_to_the_lossless_class() -> None:
    found = intents(_fabric(), replace(POLICY, cnp=TrafficClass(0, 48)))[NIC]

    assert found.tc_scheduler[0] == "strict"
    assert found.tc_bandwidth_percent == (0, 0, 0, 100, 0, 0, 0, 0)


def test_infiniband_has_no_ethernet_settings() -> None:
    found = intents(_fabric(layer=LinkLayer.INFINIBAND), POLICY)[SWITCH]

    assert (found.trust, found.roce_tos, found.ecn) == ("", None, None)
    assert (
        found.dscp_priority == found.priority_tc == found.pfc_priorities == found.tc_bandwidth_percent == ()
    )
    assert found.tc_scheduler == ()
    assert found.rdma_mtu_bytes == 4096


@given(
    lossless=st.none() | st.builds(TrafficClass, st.integers(0, 7), st.integers(0, 31)),
    cnp=st.none() | st.builds(TrafficClass, st.integers(0, 7), st.integers(32, 63)),
    pfc=st.sets(st.integers(0, 7)),
    shift=st.sampled_from(DscpMap),
)
def test_every_policy_gives_whole_tables(
    lossless: TrafficClass | None, cnp: TrafficClass | None, pfc: set[int], shift: DscpMap
) -> None:
    policy = replace(POLICY, lossless=lossless, cnp=cnp, pfc_priorities=tuple(sorted(pfc)), dscp_map=shift)
    found = intents(_fabric(), policy)[NIC]

    assert len(found.dscp_priority) == 64
    assert len(found.priority_tc) == len(found.tc_scheduler) == len(found.tc_bandwidth_percent) == 8
    ets = [
        share
        for share, kind in zip(found.tc_bandwidth_percent, found.tc_scheduler, strict=True)
        if kind == "ets"
    ]
    assert sum(found.tc_bandwidth_percent) == sum(ets)
    assert sum(ets) in ({0, 100} if cnp and cnp.priority == 0 else {100})
    if lossless:
        assert found.dscp_priority[lossless.dscp] == lossless.priority
        assert found.priority_tc[lossless.priority] == lossless.priority


def test_what_only_nics_have_is_no_part_of_a_switchs_intent() -> None:
    policy = replace(
        POLICY,
        dcqcn=True,
        nic_parameters={"mlx5": {"rp_ai_rate": 5}},
        nic_priority_buffer=(0, 0, 0, 1, 0, 0, 0, 0),
        nic_buffer_bytes=(130944, 130944, 0, 0, 0, 0, 0, 0),
    )
    found = intents(_fabric(), policy)
    nic, switch = found[NIC], found[SWITCH]
    assert (nic.pause, nic.dcqcn, nic.cnp_dscp, nic.cnp_priority, nic.lossless_priority) == (
        False,
        True,
        48,
        6,
        3,
    )
    assert nic.parameters == {"mlx5": {"rp_ai_rate": 5}}
    assert nic.priority_buffer == (0, 0, 0, 1, 0, 0, 0, 0)
    assert nic.buffer_size_bytes == (130944, 130944, 0, 0, 0, 0, 0, 0)
    assert (switch.pause, switch.dcqcn, switch.cnp_dscp, switch.lossless_priority) == (None, None, None, None)
    assert (switch.parameters, switch.priority_buffer) == ({}, ())


def test_pause_of_the_whole_link_is_ours_only_where_there_is_pfc() -> None:
    assert intents(_fabric(), replace(POLICY, pfc_priorities=()))[NIC].pause is None


def test_without_a_lossless_class_dcqcn_is_not_ours_to_set() -> None:
    assert intents(_fabric(), replace(POLICY, lossless=None, ecn={}))[NIC].dcqcn is None
