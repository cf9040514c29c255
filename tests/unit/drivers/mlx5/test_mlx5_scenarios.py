"""What happened to people with mlx5 NICs, by the numbers of the scenarios, and the firmware's part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fabricctl.drivers.nic.mlx5 import PLUGIN
from fabricctl.drivers.nic.mlx5.congestion import TRAFFIC_CLASS
from fabricctl.model import facts, settings
from fabricctl.model.fabric import LinkLayer, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.plan import Disruption
from fabricctl.model.reading import Known, Missing, Value

_DCQCN = "mlx5.dcqcn_priority_3"
_RESET = "reset the firmware (mstfwreset -d 0000:17:00.0 -y r), or switch the host off and on"


def _intent(**changes: Any) -> PortIntent:
    values: dict[str, Any] = {
        "port": PortId("node1", "eth1"),
        "role": Role.NODE,
        "link_layer": LinkLayer.ETHERNET,
        "speed_gbps": 100,
        "mtu_bytes": 4200,
        "rdma_mtu_bytes": 4096,
        "trust": "dscp",
        "dscp_priority": tuple({26: 3, 48: 6}.get(dscp, 0) for dscp in range(64)),
        "priority_tc": (0, 0, 0, 3, 0, 0, 6, 0),
        "tc_scheduler": ("ets", "ets", "ets", "ets", "ets", "ets", "strict", "ets"),
        "tc_bandwidth_percent": (50, 0, 0, 50, 0, 0, 0, 0),
        "pfc_priorities": (3,),
        "ecn": None,
        "roce_tos": 106,
        "cable_length_m": 2.5,
        "pause": False,
        "cnp_dscp": 48,
        "cnp_priority": 6,
        "lossless_priority": 3,
        "dcqcn": True,
    }
    return PortIntent(**{**values, **changes})


def _mask(host: Any) -> list[str]:
    return [str(value) for value in host.state["firmware"]["0000:17:00"]["ROCE_CC_PRIO_MASK_P1"]]


# scenarios


@pytest.mark.parametrize("plane", ["ofed", "inbox"])
def test_s14_flow_control_that_is_missing_is_seen_and_set(make: Callable[..., Any], plane: str) -> None:
    host = make(plane)
    found = host.settings()
    assert found[settings.PFC] == Known(())
    assert found[settings.PAUSE] == Known(value=True)
    wanted = {name: PLUGIN.wanted(_intent())[name] for name in (settings.PFC, settings.PAUSE)}
    assert host.run(wanted).stderr == ""
    assert {name: host.settings()[name] for name in wanted} == {
        settings.PFC: Known((3,)),
        settings.PAUSE: Known(value=False),
    }


def test_s15_an_override_that_all_queue_pairs_get_is_what_is_read_and_set(make: Callable[..., Any]) -> None:
    host = make("ofed")
    override = "class/infiniband/mlx5_0/tc/1/traffic_class"
    host.write("kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos", 106)
    host.write(override, "Global tclass=236")
    found = host.settings()
    assert (found[settings.ROCE_TOS], found[TRAFFIC_CLASS]) == (Known(236), Known(236))
    host.set_again_undo({settings.ROCE_TOS: 106})
    assert host.read(override) == "Global tclass=236"
    host.set_again_undo({TRAFFIC_CLASS: -1})
    host.run({TRAFFIC_CLASS: -1})
    assert host.settings()[settings.ROCE_TOS] == Known(106)


def test_s15_rules_for_addresses_are_no_override(make: Callable[..., Any]) -> None:
    host = make("ofed")
    host.write("class/infiniband/mlx5_0/tc/1/traffic_class", "dst_ip=10.0.0.0/8,tclass=106")
    assert host.settings()[TRAFFIC_CLASS] == Known(-1)


def test_s15_the_kernels_own_driver_has_no_override(make: Callable[..., Any]) -> None:
    host = make("inbox")
    reason = "only MLNX_OFED's driver can force a type of service on all queue pairs"
    assert host.settings()[TRAFFIC_CLASS] == Missing(reason, impossible=True)
    assert "only MLNX_OFED's driver has" in host.run({TRAFFIC_CLASS: 106}).stderr


def test_s17_a_default_type_of_service_of_zero_is_seen_and_set(make: Callable[..., Any]) -> None:
    host = make("inbox")
    assert host.settings()[settings.ROCE_TOS] == Known(0)
    host.set_again_undo({settings.ROCE_TOS: 106})


def test_s17_the_ecn_bits_are_part_of_the_value(make: Callable[..., Any]) -> None:
    host = make("inbox")
    host.write("kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos", 104)
    assert (
        host.settings()[settings.ROCE_TOS] == Known(104) != Known(PLUGIN.wanted(_intent())[settings.ROCE_TOS])
    )


@pytest.mark.parametrize("plane", ["ofed", "inbox"])
def test_s26_notifications_get_the_dscp_of_the_policy_and_its_entry_in_the_map(
    make: Callable[..., Any], plane: str
) -> None:
    host = make(plane)
    file = "class/net/eth1/ecn/roce_np/cnp_dscp"
    host.write(file if plane == "ofed" else "kernel/debug/mlx5/0000:17:00.0/cc_params/np_cnp_dscp", 4)
    assert host.settings()[settings.CNP_DSCP] == Known(4)
    wanted = PLUGIN.wanted(_intent())
    names = (settings.CNP_DSCP, settings.CNP_PRIORITY, settings.TRUST, settings.DSCP_PRIORITY)
    host.set_again_undo({name: wanted[name] for name in names})


@pytest.mark.parametrize("plane", ["ofed", "inbox"])
def test_s26_entries_that_nobody_made_are_not_taken_for_priority_zero(
    make: Callable[..., Any], plane: str
) -> None:
    host = make(plane)
    host.tool("dcb", "app", "replace", "dev", "eth1", "dscp-prio", "26:3")
    found = host.settings()
    assert found[settings.TRUST] == Known("dscp")
    assert found[settings.DSCP_PRIORITY] == Missing(
        "63 DSCPs have no entry, 0 is the first: the firmware goes by its own there"
    )
    wanted = PLUGIN.wanted(_intent())[settings.DSCP_PRIORITY]
    assert host.run({settings.DSCP_PRIORITY: wanted}).stderr == ""
    assert host.settings()[settings.DSCP_PRIORITY] == Known(wanted)


@pytest.mark.parametrize(("dcqcn", "expected"), [(None, None), (False, False)], ids=["left alone", "off"])
def test_s27_without_ecn_dcqcn_and_notifications_are_left_alone_unless_said(
    *, dcqcn: bool | None, expected: bool | None
) -> None:
    wanted = PLUGIN.wanted(_intent(dcqcn=dcqcn, cnp_dscp=48, cnp_priority=6))
    assert wanted.get(_DCQCN) is expected
    assert not {settings.CNP_DSCP, settings.CNP_PRIORITY} & set(wanted)


def test_s31_the_mtu_is_that_of_the_policy_and_the_active_one_is_a_fact(make: Callable[..., Any]) -> None:
    host = make("ofed")
    wanted = PLUGIN.wanted(_intent())
    assert wanted[settings.MTU] == 4200
    host.set_again_undo({settings.MTU: wanted[settings.MTU]})
    assert facts.RDMA_MTU in host.parsed().facts


def _bond(host: Any) -> None:
    for file, text in {"mtu": 1500, "operstate": "up", "carrier": 1, "bonding/slaves": "eth1 eth2"}.items():
        path = host.sys / "class/net/bond0" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")


def test_s32_a_bond_is_read_and_set_on_both_functions(make: Callable[..., Any]) -> None:
    host = make("inbox", port="bond0")
    _bond(host)
    intent = _intent(dcqcn=False)
    names = (settings.MTU, settings.PAUSE, settings.PFC, settings.TRUST, settings.DSCP_PRIORITY, _DCQCN)
    host.set_again_undo({name: PLUGIN.wanted(intent)[name] for name in names})
    host.run({settings.PFC: (3,), settings.MTU: 4200, _DCQCN: False})
    assert [host.state["ports"][name]["pfc"][3] for name in ("eth1", "eth2")] == [1, 1]
    assert [host.read(f"class/net/{name}/mtu") for name in ("eth1", "eth2", "bond0")] == ["4200"] * 3
    host.tool("dcb", "pfc", "set", "dev", "eth2", "prio-pfc", "all:off")
    assert host.settings()[settings.PFC] == Missing("not the same everywhere: eth1 has (3,), eth2 has ()")
    pending = host.fact(facts.PENDING)
    assert isinstance(pending, Known)
    assert pending.value == tuple(f"{_DCQCN}: {_RESET.replace('17:00.0', f'17:00.{n}')}" for n in (0, 1))


# firmware


def test_dcqcn_without_ofed_is_stored_and_waits_for_a_reset(make: Callable[..., Any]) -> None:
    host = make("inbox")
    assert (host.settings()[_DCQCN], host.fact(facts.PENDING)) == (Known(value=True), Known(()))
    host.set_again_undo({_DCQCN: False})
    assert host.run({_DCQCN: False}).stderr == ""
    assert _mask(host) == ["255", "255", "247"]
    assert host.settings()[_DCQCN] == Known(value=False)
    assert host.fact(facts.PENDING) == Known((f"{_DCQCN}: {_RESET}",))
    host.tool("mstfwreset", "-d", "0000:17:00.0", "-y", "r")
    assert (host.settings()[_DCQCN], host.fact(facts.PENDING)) == (Known(value=False), Known(()))


def test_the_second_port_of_a_card_is_that_of_its_second_function(make: Callable[..., Any]) -> None:
    host = make("inbox", port="eth2", rdma="mlx5_1")
    host.set_again_undo({_DCQCN: False, settings.PFC: (3,), settings.PAUSE: False})
    assert host.run({_DCQCN: False}).stderr == ""
    assert _mask(host) == ["255", "255", "255"]
    assert host.state["firmware"]["0000:17:00"]["ROCE_CC_PRIO_MASK_P2"][2] == "247"
    assert host.state["ports"]["eth1"]["pfc"] == [0] * 8


def test_a_function_that_is_no_port_of_the_card_is_not_guessed(make: Callable[..., Any]) -> None:
    host = make("inbox")
    host.write("class/net/eth1/dev_port", 2)
    reason = "cannot tell which port of its card eth1 is (function 0, port 2)"
    assert host.settings()[_DCQCN] == Missing(reason)
    assert "cannot tell which port of its card this is" in host.run({_DCQCN: True}).stderr
    assert host.log() == []


def test_firmware_without_the_value_cannot_have_it(make: Callable[..., Any]) -> None:
    host = make("inbox")
    host.change("host", firmware={"0000:17:00": {"CNP_DSCP_P1": ["48", "48", "48"]}})
    assert host.settings()[_DCQCN] == Missing("the firmware has no ROCE_CC_PRIO_MASK_P1", impossible=True)
    assert "the firmware has no ROCE_CC_PRIO_MASK_P1" in host.run({_DCQCN: True}).stderr
    assert host.fact(facts.PENDING) == Known(())


def test_a_mask_in_hexadecimal_is_a_number(make: Callable[..., Any]) -> None:
    host = make("inbox")
    state = host.state["firmware"]
    state["0000:17:00"]["ROCE_CC_PRIO_MASK_P1"] = ["0xff", "0xff", "0xf0"]
    host.change("host", firmware=state)
    assert host.settings()[_DCQCN] == Known(value=False)
    assert host.run({_DCQCN: True}).stderr == ""
    assert _mask(host)[2] == "248"


@pytest.mark.parametrize(
    ("plane", "command"), [("ofed", "mlnx_qos -i eth1 -d os"), ("inbox", "dcb dcbx set dev eth1 host ieee")]
)
def test_firmware_that_runs_dcbx_is_a_rival_and_is_left_alone(
    make: Callable[..., Any], plane: str, command: str
) -> None:
    host = make(plane)
    assert host.fact(facts.RIVALS) == Known(())
    host.change(dcbx="fw")
    willing = "" if plane == "ofed" else ", willing"
    assert host.fact(facts.RIVALS) == Known((f"firmware DCBX{willing}: {command}",))
    host.run({settings.PFC: (3,)})
    assert host.state["ports"]["eth1"]["dcbx"] == "fw"


@pytest.mark.parametrize(
    ("plane", "without", "expected"),
    [
        ("ofed", [], "MLNX_OFED (mlnx_qos, sysfs), firmware configuration (mstconfig)"),
        ("ofed", ["mlnx_qos"], "MLNX_OFED (dcb, sysfs), firmware configuration (mstconfig)"),
        ("inbox", ["mstconfig"], "inbox driver (dcb, debugfs), firmware configuration (mlxconfig)"),
        ("inbox", ["mstconfig", "mlxconfig"], "inbox driver (dcb, debugfs)"),
        (
            "inbox",
            ["dcb", "mstconfig", "mlxconfig"],
            "inbox driver (neither mlnx_qos nor dcb, debugfs)",
        ),
    ],
)
def test_the_control_plane_is_found(
    make: Callable[..., Any], plane: str, without: list[str], expected: str
) -> None:
    host = make(plane)
    host.without(*without)
    assert host.fact(facts.PLANE) == Known(expected)


def test_without_debugfs_there_are_no_parameters(make: Callable[..., Any]) -> None:
    host = make("inbox")
    (host.sys / "kernel/debug/mlx5").rename(host.sys / "kernel/debug/gone")
    found = host.settings()["mlx5.rp_ai_rate"]
    assert isinstance(found, Missing)
    assert found.impossible
    assert "debugfs is not mounted" in found.reason
    assert host.run({"mlx5.rp_ai_rate": 5}).returncode == 1


def test_buffers_that_cannot_be_set_are_impossible(make: Callable[..., Any]) -> None:
    for plane in ("ofed",):
        host = make(plane)
        host.change(no_buffer=True, cable=0)
        found = host.settings()
        for name in (settings.BUFFER_SIZE, settings.PRIORITY_BUFFER, settings.CABLE_LENGTH):
            entry = found[name]
            assert isinstance(entry, Missing)
            assert entry.impossible
        wanted: dict[str, Value] = {settings.CABLE_LENGTH: 5, settings.PRIORITY_BUFFER: (1,) * 8}
        assert len(host.run(wanted).stderr.splitlines()) == 2


# what an intent means


def test_an_intent_becomes_settings_of_the_lossless_priority() -> None:
    wanted = PLUGIN.wanted(_intent(parameters={"mlx5": {"rp_ai_rate": 9}, "bnxt": {"x": 1}}))
    assert wanted[_DCQCN] is True
    assert wanted[settings.CABLE_LENGTH] == 3
    assert wanted["mlx5.rp_ai_rate"] == 9
    assert (wanted[settings.CNP_DSCP], wanted[settings.CNP_PRIORITY]) == (48, 6)
    assert not [name for name in wanted if name.startswith("bnxt")]
    assert PLUGIN.wanted(_intent(link_layer=LinkLayer.INFINIBAND)) == {}
    assert settings.DSCP_PRIORITY not in PLUGIN.wanted(_intent(trust="pcp"))
    assert settings.CABLE_LENGTH not in PLUGIN.wanted(_intent(cable_length_m=0.0))


def test_disruption_is_what_the_port_suffers() -> None:
    old = Missing("x")
    assert PLUGIN.disruption(settings.PFC, old, ()) is Disruption.LINK_FLAP
    assert PLUGIN.disruption(settings.MTU, old, 9000) is Disruption.MTU_CHANGE
    assert PLUGIN.disruption(settings.BUFFER_SIZE, old, (1,)) is Disruption.QUEUE_RESET
    assert PLUGIN.disruption(_DCQCN, old, new=True) is Disruption.NONE
