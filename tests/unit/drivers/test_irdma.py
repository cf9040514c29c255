"""Intel NICs: scripts and queries against stand-ins that keep state and refuse what the driver refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fabricctl.model import facts, settings
from fabricctl.model.fabric import LinkLayer, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.plan import Disruption
from fabricctl.model.reading import Known, Missing, Value
from fabricctl.plugin import finder

_MAP = tuple({26: 3, 48: 6}.get(dscp, 0) for dscp in range(64))
_CLASSES: dict[str, Value] = {
    settings.MTU: 9000,
    settings.PAUSE: False,
    settings.TRUST: "dscp",
    settings.DSCP_PRIORITY: _MAP,
    settings.PRIORITY_TC: tuple(range(8)),
    settings.TC_SCHEDULER: ("ets", "ets", "ets", "ets", "ets", "ets", "strict", "ets"),
    settings.TC_BANDWIDTH: (50, 0, 0, 50, 0, 0, 0, 0),
    settings.PFC: (3,),
}
_ALL: dict[str, Value] = {
    **_CLASSES,
    "irdma.protocol": "roce",
    settings.ROCE_MODE: "RoCE v2",
    settings.ROCE_TOS: 106,
}
_RDMA = "rocep23s0f0"
_PARAMETERS = "/sys/module/irdma/parameters"


@pytest.fixture
def host(simulate: Callable[..., Any]) -> Any:
    """An E810 as its driver leaves it, with the firmware's LLDP agent off and iWARP on."""
    made = simulate("irdma", _RDMA, {name: name for name in ("dcb", "devlink", "ethtool", "ip")})
    made.write(
        "nic",
        {
            "eth1": {
                "rules": "ice",
                "classes": 8,
                "app": [],
                "hardware": [0] * 64,
                "prio_pfc": [False] * 8,
                "prio_tc": [0] * 8,
                "tc_tsa": ["ets", *["strict"] * 7],
                "tc_bw": [100, *[0] * 7],
                "pause": [True, True],
                "flags": {"link-down-on-close": False, "fw-lldp-agent": False, "legacy-rx": False},
                "resets": 0,
            }
        },
    )
    made.write(
        "devlink",
        {
            "devices": {"pci/0000:17:00.0": {"enable_roce": False, "enable_iwarp": True}},
            "verbs": f"sys/class/infiniband/{_RDMA}",
        },
    )
    for name, value in {"default_roce_mode": "IB/RoCE v1", "default_roce_tos": "0"}.items():
        made.file(f"/sys/kernel/config/rdma_cm/{_RDMA}/ports/1/{name}", f"{value}\n")
    return made


def test_set_then_nothing_to_do_then_undo(host: Any) -> None:
    host.set_again_undo(_ALL)


@pytest.mark.parametrize(
    "names",
    [
        (settings.MTU,),
        (settings.PAUSE,),
        (settings.TRUST, settings.PRIORITY_TC),
        (settings.DSCP_PRIORITY, settings.TRUST, settings.PRIORITY_TC),
        (settings.PRIORITY_TC,),
        (settings.TC_SCHEDULER,),
        (settings.PFC,),
        ("irdma.protocol",),
        (settings.ROCE_MODE,),
        (settings.ROCE_TOS,),
    ],
    ids=lambda names: names[0],
)
def test_each_setting_alone(host: Any, names: tuple[str, ...]) -> None:
    """Trust is implied by the map, and fixes the classes of priorities: those go together."""
    wanted = {name: _ALL[name] for name in names}
    if settings.DSCP_PRIORITY not in names and settings.TRUST in names:
        # One entry says nothing of the other 63.
        done = host.run(wanted)
        assert (done.returncode, host.known(*wanted)) == (0, wanted)
        assert isinstance(host.settings()[settings.DSCP_PRIORITY], Missing)
        assert host.run({settings.TRUST: "pcp", settings.PRIORITY_TC: (0,) * 8}).returncode == 0
        assert host.known(settings.TRUST, settings.DSCP_PRIORITY) == {
            settings.TRUST: "pcp",
            settings.DSCP_PRIORITY: (0,) * 64,
        }
        return
    host.set_again_undo(wanted)


@pytest.mark.parametrize(
    "app", [[], [[26, 4]], [[26, 3]], [[0, 0], [26, 3]], [[d, d // 8] for d in range(64)]], ids=len
)
def test_the_nics_own_map_is_what_is_meant(host: Any, app: list[list[int]]) -> None:
    """The driver sends a DSCP without an entry to DSCP/8 or DSCP%8: all 64 get one of their own."""
    table = [dscp % 8 for dscp in range(64)]
    for dscp, priority in app:
        table[dscp] = priority
    classes = list(range(8)) if app else [0] * 8
    host.change("nic", "eth1", app=app, hardware=table, prio_tc=classes)
    done = host.run(_CLASSES)
    assert (done.returncode, done.stderr) == (0, "")
    assert host.read("nic")["eth1"]["hardware"] == list(_MAP)
    assert host.known(*_CLASSES) == _CLASSES


def test_a_partial_map_is_not_taken_for_known(host: Any) -> None:
    """After `dcb app del` DSCP 26 is in class 2, not 3 as with a map that never had it."""
    host.change("nic", "eth1", app=[[48, 6]], hardware=[dscp % 8 for dscp in range(64)])
    found = host.settings()[settings.DSCP_PRIORITY]
    assert isinstance(found, Missing)
    assert found.reason.startswith("63 of 64 DSCPs have no entry")
    assert host.known(settings.TRUST) == {settings.TRUST: "dscp"}


def test_a_changed_entry_is_two_changes_of_the_interface_and_not_of_trust(host: Any) -> None:
    host.run(_CLASSES)
    before = host.read("nic")["eth1"]["resets"]
    host.log()
    assert host.run({settings.DSCP_PRIORITY: (*_MAP[:63], 6)}).returncode == 0
    assert host.log() == ["dcb app del dev eth1 dscp-prio 63:0", "dcb app add dev eth1 dscp-prio 63:6"]
    assert host.read("nic")["eth1"]["resets"] == before + 2


def test_switching_trust_keeps_the_classes_and_pfc(host: Any) -> None:
    host.run(_CLASSES)
    keep = (settings.PRIORITY_TC, settings.TC_SCHEDULER, settings.TC_BANDWIDTH, settings.PFC)
    assert host.run({settings.TRUST: "pcp"}).returncode == 0
    assert host.known(settings.TRUST) == {settings.TRUST: "pcp"}
    assert host.known(*keep) == {name: _CLASSES[name] for name in keep}
    assert host.run({settings.TRUST: "dscp"}).returncode == 0
    assert host.known(*keep) == {name: _CLASSES[name] for name in keep}


def test_classes_of_priorities_cannot_change_with_trust_in_dscp(host: Any) -> None:
    host.run(_CLASSES)
    done = host.run({settings.PRIORITY_TC: (0, 0, 0, 1, 0, 0, 2, 0)})
    assert done.returncode == 1
    assert "with trust in DSCP this driver keeps priority N in class N" in done.stderr


def test_pause_comes_back_after_pfc_has_gone(host: Any) -> None:
    """With PFC on the driver refuses pause, and shows it as off."""
    before = host.settings()
    host.run({settings.PAUSE: False, settings.PFC: (3,)})
    undo = {settings.PAUSE: True, settings.PFC: ()}
    assert host.run(undo).returncode == 0
    assert host.settings() == before


def test_s22_the_firmwares_lldp_agent_is_a_rival_and_nothing_can_be_set(host: Any) -> None:
    flags = {**host.read("nic")["eth1"]["flags"], "fw-lldp-agent": True}
    host.change("nic", "eth1", flags=flags)
    found = host.parsed()
    assert found.facts[facts.RIVALS] == Known(
        ("ice firmware LLDP agent: ethtool --set-priv-flags eth1 fw-lldp-agent off",)
    )
    assert found.facts[facts.PLANE] == Known("firmware LLDP agent, to be read only; the kernel's irdma")
    before = host.settings()
    done = host.run({settings.PFC: (3,), settings.TRUST: "dscp"})
    assert done.returncode == 1
    assert "pfc_priorities: Attribute write: Invalid argument; PFC stays at" in done.stderr
    assert host.settings() == before


def test_s22_without_the_agent_there_is_no_rival(host: Any) -> None:
    found = host.parsed()
    assert found.facts[facts.RIVALS] == Known(())
    assert found.facts[facts.PLANE] == Known("dcb; the kernel's irdma")


def test_a_flag_that_ethtool_does_not_show_is_not_off(host: Any) -> None:
    host.change("nic", "eth1", flags={"legacy-rx": False})
    assert isinstance(host.parsed().facts[facts.RIVALS], Missing)


def test_four_classes_refuse_a_fifth_in_words(host: Any) -> None:
    host.change("nic", "eth1", classes=4)
    done = host.run({settings.DSCP_PRIORITY: _MAP})
    assert done.returncode == 1
    assert "Attribute write: Invalid argument; the DSCP map stays at" in done.stderr


@pytest.mark.parametrize("protocol", ["roce", "iwarp", "none"])
def test_protocols_exclude_each_other(host: Any, protocol: str) -> None:
    for start in ("roce", "iwarp", "none"):
        host.run({"irdma.protocol": start})
        done = host.run({"irdma.protocol": protocol})
        assert (done.returncode, done.stderr) == (0, "")
        assert host.known("irdma.protocol") == {"irdma.protocol": protocol}


def test_a_device_without_the_parameters_cannot_change_its_protocol(host: Any) -> None:
    host.write("devlink", {"devices": {}, "verbs": ""})
    found = host.settings()["irdma.protocol"]
    assert isinstance(found, Missing)
    assert found.impossible


def test_dcqcn_is_impossible_with_the_kernels_irdma(host: Any) -> None:
    found = host.settings()
    for name in (settings.DCQCN, "irdma.dcqcn_T"):
        assert isinstance(found[name], Missing)
        assert found[name].impossible


def test_dcqcn_of_intels_irdma_waits_for_its_next_load(host: Any) -> None:
    host.file(f"{_PARAMETERS}/dcqcn_enable", "N\n")
    host.file(f"{_PARAMETERS}/dcqcn_T", "55\n")
    (host.folder / "etc/modprobe.d").mkdir(parents=True)
    assert host.parsed().facts[facts.PENDING] == Known(())
    host.set_again_undo({settings.DCQCN: True, "irdma.dcqcn_T": 60})
    assert list((host.folder / "etc/modprobe.d").iterdir()) == []
    host.run({settings.DCQCN: True})
    found = host.parsed()
    assert found.settings[settings.DCQCN] == Known(value=True)
    assert found.facts[facts.PENDING] == Known(("dcqcn: load the module irdma again, or reboot",))
    host.file(f"{_PARAMETERS}/dcqcn_enable", "Y\n")
    assert host.parsed().facts[facts.PENDING] == Known(())


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_every_subset_is_good_shell(host: Any, shell: str) -> None:
    every = {**_ALL, settings.DCQCN: True, "irdma.dcqcn_T": 60}
    for subset in [{}, every, *({name: value} for name, value in every.items())]:
        done = host.syntax(shell, subset)
        assert (done.returncode, done.stderr) == (0, "")


def _intent(**values: Any) -> PortIntent:
    given = {
        "port": PortId("node1", "eth1"),
        "role": Role.NODE,
        "link_layer": LinkLayer.ETHERNET,
        "speed_gbps": 100,
        "mtu_bytes": 9000,
        "rdma_mtu_bytes": 4096,
        "trust": "dscp",
        "dscp_priority": _MAP,
        "priority_tc": (0, 0, 0, 1, 0, 0, 2, 0),
        "tc_scheduler": ("ets", "ets", "strict", "ets", "ets", "ets", "ets", "ets"),
        "tc_bandwidth_percent": (50, 50, 0, 0, 0, 0, 0, 0),
        "pfc_priorities": (3,),
        "ecn": None,
        "roce_tos": 106,
        "cable_length_m": 0.0,
        "dcqcn": True,
        "cnp_dscp": 48,
        "cnp_priority": 6,
    }
    return PortIntent(**{**given, **values})


def test_a_priority_takes_over_the_share_of_its_class() -> None:
    wanted = finder.nic_driver("irdma").wanted(_intent())
    classes = (settings.PRIORITY_TC, settings.TC_SCHEDULER, settings.TC_BANDWIDTH)
    assert {name: wanted[name] for name in classes} == {name: _CLASSES[name] for name in classes}


def test_two_priorities_in_one_class_are_left_as_they_are_meant() -> None:
    intent = _intent(priority_tc=(0, 0, 0, 1, 0, 0, 1, 0))
    wanted = finder.nic_driver("irdma").wanted(intent)
    assert wanted[settings.PRIORITY_TC] == intent.priority_tc
    assert wanted[settings.TC_BANDWIDTH] == intent.tc_bandwidth_percent


def test_with_trust_in_pcp_classes_are_free_and_there_is_no_map() -> None:
    intent = _intent(trust="pcp", parameters={"irdma": {"dcqcn_T": 60}})
    wanted = finder.nic_driver("irdma").wanted(intent)
    assert wanted[settings.PRIORITY_TC] == intent.priority_tc
    assert settings.DSCP_PRIORITY not in wanted
    assert wanted["irdma.dcqcn_T"] == 60


def test_what_it_cannot_have_is_wanted_all_the_same() -> None:
    """So that the plan says that it is not supported; but nothing of CNPs where DCQCN is off."""
    driver = finder.nic_driver("irdma")
    assert {settings.CNP_DSCP, settings.CNP_PRIORITY} <= set(driver.wanted(_intent())) & set(
        driver.unsupported
    )
    assert settings.CNP_DSCP not in driver.wanted(_intent(dcqcn=False))
    assert driver.wanted(_intent(link_layer=LinkLayer.INFINIBAND)) == {}


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (settings.MTU, Disruption.MTU_CHANGE),
        (settings.PFC, Disruption.LINK_FLAP),
        (settings.DSCP_PRIORITY, Disruption.LINK_FLAP),
        (settings.PAUSE, Disruption.LINK_FLAP),
        ("irdma.protocol", Disruption.QUEUE_RESET),
        (settings.DCQCN, Disruption.NONE),
        (settings.ROCE_TOS, Disruption.NONE),
    ],
)
def test_what_a_change_does_to_traffic(setting: str, expected: Disruption) -> None:
    assert finder.nic_driver("irdma").disruption(setting, Known(0), 1) is expected


def test_parameters_are_settings_that_are_read(host: Any) -> None:
    driver = finder.nic_driver("irdma")
    assert {f"irdma.{name}" for name in driver.parameters} <= set(host.settings())
