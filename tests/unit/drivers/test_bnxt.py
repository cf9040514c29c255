"""Broadcom NICs: scripts and queries against stand-ins that keep state and refuse what the driver refuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricctl.model import facts, settings
from fabricctl.model.fabric import LinkLayer, Port, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.plan import Disruption
from fabricctl.model.reading import Known, Missing, Value
from fabricctl.plugin import finder
from fabricctl.plugin.protocols import Answer

_MAP = tuple({26: 3, 48: 6}.get(dscp, 0) for dscp in range(64))
_CLASSES: dict[str, Value] = {
    settings.MTU: 9000,
    settings.PAUSE: False,
    settings.TRUST: "dscp",
    settings.DSCP_PRIORITY: _MAP,
    settings.PRIORITY_TC: (0, 0, 0, 1, 0, 0, 2, 0),
    settings.TC_SCHEDULER: ("ets", "ets", *["strict"] * 6),
    settings.TC_BANDWIDTH: (50, 50, *[0] * 6),
    settings.PFC: (3,),
    "bnxt.udp_4791_priority": (3,),
}
_CONTROL: dict[str, Value] = {
    settings.DCQCN: True,
    "bnxt.ecn_marking": 1,
    "bnxt.priority_vlan": False,
    "bnxt.roce_priority": 3,
    "bnxt.roce_dscp": 26,
    settings.CNP_DSCP: 48,
    settings.CNP_PRIORITY: 6,
    "bnxt.cc_mode": 1,
    "bnxt.g": 8,
    "bnxt.inact_th": 10000,
    "bnxt.init_cr": 512,
    "bnxt.init_tr": 1023,
}
_CMA: dict[str, Value] = {settings.ROCE_MODE: "RoCE v2", settings.ROCE_TOS: 105}
_ALL = {**_CLASSES, **_CONTROL, **_CMA}
_DEBUGFS = "/sys/kernel/debug/bnxt_re"


@pytest.fixture
def host(simulate: Callable[..., Any]) -> Any:
    """A Thor: three classes, congestion control in configfs, firmware that leaves CNPs to the driver."""
    tools = {name: name for name in ("dcb", "niccli", "ethtool", "ip")}
    made = simulate("bnxt", "bnxt_re0", tools | dict.fromkeys(("mkdir", "rmdir", "played-cat"), "configfs"))
    played = made.folder / "played"
    played.mkdir()
    (made.folder / "bin/played-cat").rename(played / "cat")
    # Most of what is read is not in configfs: there the program itself is quicker.
    made.file(
        "bin/cat", f'#!/bin/sh\ncase $* in *ports/1*) exec {played}/cat "$@" ;; esac\nexec /bin/cat "$@"\n'
    )
    (made.folder / "bin/cat").chmod(0o755)
    made.write(
        "nic",
        {
            "eth1": {
                "pci": "0000:17:00.0",
                "classes": 3,
                "dcbx": {"host": True, "ieee": True},
                "app": {},
                "hardware": {},
                "prio_pfc": [False] * 8,
                "prio_tc": [0] * 8,
                "tc_tsa": ["strict"] * 8,
                "tc_bw": [0] * 8,
                "ets_set": False,
                "pause": [True, True],
            }
        },
    )
    nic = dict.fromkeys(("ecn_enable", "ecn_marking", "cc_mode", "disable_prio_vlan_tx", "g"), 0)
    nic |= {"inact_th": 0, "init_cr": 0xC8, "init_tr": 0xC8}
    nic |= {"roce_prio": 0, "roce_dscp": 0, "cnp_prio": 0, "cnp_dscp": 0}
    defaults = {"default_roce_mode": "IB/RoCE v1", "default_roce_tos": 0}
    made.write(
        "control",
        {"bnxt_re0": {"service_type": 0, "netdevs": ["eth1"], "nic": nic, "rdma_cm": defaults}},
    )
    for name in ("bnxt_re", "rdma_cm"):
        (made.folder / "sys/kernel/config" / name).mkdir(parents=True)
    made.file(f"{_DEBUGFS}/bnxt_re0/info", "bnxt_re debug info:\n\tfw_service_prof_type_sup : 0\n")
    return made


@pytest.fixture
def thor2(host: Any) -> Any:
    """The same with eight classes and a firmware that owns class and DSCP of RoCE and CNPs."""
    host.change("nic", "eth1", classes=8)
    host.change("control", "bnxt_re0", service_type=1)
    host.file(f"{_DEBUGFS}/bnxt_re0/info", "bnxt_re debug info:\n\tfw_service_prof_type_sup : 1\n")
    return host


def _debugfs(host: Any) -> None:
    (host.folder / "sys/kernel/config/bnxt_re").rmdir()
    values = {
        "enable_cc": 0,
        "tos_ecn": 0,
        "tos_dscp": 0,
        "alt_vlan_pcp": 0,
        "alt_vlan_dscp": 0,
        "cc_mode": 0,
    }
    values |= {"run_avg_weight_g": 4, "inactivity_cp": 0, "init_cr": 200, "init_tr": 200}
    for name, value in values.items():
        host.file(f"{_DEBUGFS}/0000:17:00.0/cc_config/{name}", f"{value}\n")


def test_set_then_nothing_to_do_then_undo(host: Any) -> None:
    host.set_again_undo(_ALL)


def test_thor2_too(thor2: Any) -> None:
    thor2.set_again_undo(_ALL)


@pytest.mark.parametrize("name", sorted(_ALL))
def test_each_setting_alone(host: Any, name: str) -> None:
    wanted = {name: _ALL[name]}
    if name in {settings.TC_SCHEDULER, settings.TC_BANDWIDTH}:
        # dcb refuses an ets class without its share.
        wanted = {n: _ALL[n] for n in (settings.TC_SCHEDULER, settings.TC_BANDWIDTH)}
    if name == settings.DSCP_PRIORITY:
        # Trust is implied by the map, so that only both can be undone.
        wanted[settings.TRUST] = "dscp"
    if name in {settings.PFC, settings.CNP_DSCP, settings.CNP_PRIORITY}:
        # PFC needs classes, and the NIC shows CNPs only with congestion control on.
        before = {n: v for n, v in _ALL.items() if n in {*_CLASSES, settings.DCQCN} and n != name}
        assert host.run(before).returncode == 0
    if host.known(name) != {name: _ALL[name]}:
        host.set_again_undo(wanted)


@pytest.mark.parametrize(
    "name",
    ["bnxt.udp_4791_priority", settings.MTU, settings.TC_BANDWIDTH, "bnxt.roce_dscp", settings.ROCE_TOS],
)
def test_only_what_is_asked_for_is_set(host: Any, name: str) -> None:
    host.run({n: _ALL[n] for n in (settings.PRIORITY_TC, settings.TC_SCHEDULER, settings.TC_BANDWIDTH)})
    before = host.settings()
    wanted = {**_ALL, settings.PRIORITY_TC: (0,) * 8, settings.TC_BANDWIDTH: (40, 60, *[0] * 6)}
    assert host.run(wanted, name).returncode == 0
    assert {n for n, entry in host.settings().items() if entry != before[n]} == {name}


@pytest.mark.parametrize(
    "app",
    [[], [[26, 4]], [[26, 3], [48, 6]], [[0, 0]], [[26, 3], [26, 4]], [[d, d // 8] for d in range(64)]],
    ids=str,
)
def test_the_nics_own_map_is_what_dcb_shows(host: Any, app: list[list[int]]) -> None:
    """Deleting an entry, and "apply", clear the NIC's table behind dcb's back."""
    host.change("nic", "eth1", app={"dscp_prio": app}, hardware={str(dscp): prio for dscp, prio in app})
    done = host.run(_ALL)
    assert (done.returncode, done.stderr) == (0, "")
    state = host.read("nic")["eth1"]
    shown = {str(dscp): priority for dscp, priority in state["app"]["dscp_prio"]}
    assert state["hardware"] == shown
    assert {dscp: prio for dscp, prio in shown.items() if prio} == {"26": 3, "48": 6}


def test_the_dscp_of_cnps_is_written_last_whatever_changes(host: Any) -> None:
    host.run(_ALL)
    host.log()
    assert host.run({**_ALL, settings.DSCP_PRIORITY: (*_MAP[:63], 6)}).returncode == 0
    entries = host.read("nic")["eth1"]["app"]["dscp_prio"]
    assert [entry for entry in entries if entry[1]] == [[26, 3], [63, 6], [48, 6]]


def test_other_application_entries_are_left_alone(host: Any) -> None:
    host.change("nic", "eth1", app={"dgram_port_prio": [[4791, 5], [53, 1]], "ethtype_prio": [[35093, 3]]})
    assert host.known("bnxt.udp_4791_priority") == {"bnxt.udp_4791_priority": (5,)}
    host.set_again_undo({"bnxt.udp_4791_priority": (3,), settings.TRUST: "dscp"})
    state = host.read("nic")["eth1"]["app"]
    assert (state["ethtype_prio"], sorted(state["dgram_port_prio"])) == ([[35093, 3]], [[53, 1], [4791, 5]])


def test_all_of_congestion_control_is_one_apply(host: Any) -> None:
    host.run(_CLASSES)
    host.log()
    assert host.run(_CONTROL).returncode == 0
    assert [line.split()[0] for line in host.log() if not line.startswith("dcb")] == ["apply"]
    assert not (host.folder / "sys/kernel/config/bnxt_re/bnxt_re0").exists()


def test_a_folder_that_was_there_stays(host: Any) -> None:
    done = host._shell(["mkdir", f"{host.folder}/sys/kernel/config/bnxt_re/bnxt_re0"])  # noqa: SLF001  its shell
    assert done.returncode == 0
    host.set_again_undo({settings.DCQCN: True})
    assert (host.folder / "sys/kernel/config/bnxt_re/bnxt_re0").is_dir()


def test_a_staged_value_is_not_taken_for_one_that_the_nic_has(host: Any) -> None:
    cc = host.folder / "sys/kernel/config/bnxt_re/bnxt_re0/ports/1/cc"
    host._shell(["mkdir", str(cc.parents[2])])  # noqa: SLF001  its shell
    (cc / "ecn_enable").write_text("0x1")
    assert host.settings()[settings.DCQCN] == Known(value=False)


def test_cnps_of_a_firmware_that_owns_them_are_read_not_written(thor2: Any) -> None:
    assert thor2.run(_ALL).returncode == 0
    assert thor2.known(settings.CNP_DSCP, settings.CNP_PRIORITY) == {
        settings.CNP_DSCP: 48,
        settings.CNP_PRIORITY: 6,
    }
    done = thor2.run({settings.CNP_DSCP: 4})
    assert done.returncode == 1
    assert "cnp_dscp is 48 where 4 is meant; the firmware takes it from DSCP map and classes" in done.stderr


def test_what_the_firmware_owns_and_does_not_show_is_impossible(thor2: Any) -> None:
    thor2.run({settings.DCQCN: True})
    found = thor2.settings()
    for name in (settings.CNP_DSCP, settings.CNP_PRIORITY, "bnxt.roce_dscp", "bnxt.roce_priority"):
        assert isinstance(found[name], Missing)
        assert found[name].impossible
        assert "fw_service_prof_type_sup is 1" in found[name].reason


def test_cnps_are_not_shown_while_congestion_control_is_off(host: Any) -> None:
    found = host.settings()[settings.CNP_DSCP]
    assert found == Missing("the NIC shows it only while congestion control is on")


def test_s26_cnps_with_another_dscp_than_the_policys_are_seen_and_put_right(host: Any) -> None:
    host.run({**_ALL, settings.CNP_DSCP: 4})
    assert host.settings()[settings.CNP_DSCP] == Known(4)
    host.set_again_undo({settings.CNP_DSCP: 48})


def test_debugfs_where_configfs_is_missing(host: Any) -> None:
    _debugfs(host)
    lacking = {"bnxt.priority_vlan", "bnxt.roce_priority"}
    found = host.parsed()
    assert all(found.settings[name].impossible for name in lacking)
    assert found.facts[facts.PLANE] == Known("dcb, congestion control: debugfs")
    host.set_again_undo({name: value for name, value in _ALL.items() if name not in lacking})


def test_a_value_that_debugfs_does_not_take_is_a_failure(host: Any) -> None:
    _debugfs(host)
    host.file("bin/cat", '#!/bin/sh\ncase $1 in */enable_cc) echo 0 ;; *) exec /bin/cat "$@" ;; esac\n')
    done = host.run({settings.DCQCN: True})
    assert done.returncode == 1
    assert done.stderr == "fabricctl: eth1: dcqcn: enable_cc stays at 0\n"


def test_no_congestion_control_anywhere_is_impossible(host: Any) -> None:
    (host.folder / "sys/kernel/config/bnxt_re").rmdir()
    found = host.parsed()
    assert isinstance(found.settings[settings.DCQCN], Missing)
    assert found.settings[settings.DCQCN].impossible
    assert found.facts[facts.PLANE] == Known("dcb, congestion control: none")


@pytest.mark.parametrize("classes", [3, 8])
def test_niccli_where_dcb_cannot_speak_to_the_nic(host: Any, classes: int) -> None:
    host.change("nic", "eth1", dcb=False, classes=classes)
    assert host.parsed().facts[facts.PLANE] == Known("niccli, congestion control: configfs")
    host.set_again_undo(_ALL)
    assert not any(line.startswith("dcb") for line in host.log())


def test_niccli_alone(host: Any) -> None:
    host.without("dcb")
    host.change("nic", "eth1", dcb=False)
    host.set_again_undo({name: _CLASSES[name] for name in (settings.DSCP_PRIORITY, settings.TRUST)})


def test_neither_dcb_nor_niccli_says_so(host: Any) -> None:
    host.change("nic", "eth1", dcb=False)
    host.without("niccli")
    found = host.parsed()
    assert found.facts[facts.PLANE] == Missing("neither dcb nor niccli can speak to it")
    assert "niccli" in found.settings[settings.PFC].reason or "dcb" in found.settings[settings.PFC].reason
    assert host.run({settings.PFC: (3,)}).returncode == 1


def test_more_classes_than_the_nic_has_are_refused_in_words(host: Any) -> None:
    done = host.run({settings.PRIORITY_TC: (0, 0, 0, 1, 2, 0, 3, 0)})
    assert done.returncode == 1
    assert "this NIC has 3 traffic classes, and class 3 is meant" in done.stderr


def test_what_the_driver_refuses_is_a_failure_with_its_words(host: Any) -> None:
    done = host.run({settings.PFC: (3,)})
    assert done.returncode == 1
    assert done.stderr == (
        "fabricctl: eth1: pfc_priorities: Attribute write: Invalid argument; PFC stays on for: none\n"
    )


def test_firmware_dcbx_is_a_rival(host: Any) -> None:
    host.change("nic", "eth1", dcbx={"lld_managed": True, "ieee": True})
    (rival,) = host.parsed().facts[facts.RIVALS].value
    assert rival.startswith("eth1: the NIC's firmware LLDP and DCBX agent: disable it in the NIC's NVM")
    assert host.run(_CLASSES).returncode == 1


def test_host_dcbx_is_no_rival(host: Any) -> None:
    assert host.parsed().facts[facts.RIVALS] == Known(())


def test_s55_a_driver_whose_library_does_not_fit_still_has_settings(host: Any) -> None:
    """The kernel's side can be set and read; what lacks is the user's side, which ibv_devinfo says."""
    assert host.run(_ALL).returncode == 0
    found = host.parsed()
    assert found.facts[facts.RDMA_STATE] == Known("ACTIVE")
    assert isinstance(found.facts[facts.RDMA_MTU], Missing)
    assert host.known(*_ALL) == _ALL


def test_no_verbs_device_is_said_and_the_rest_is_set(host: Any) -> None:
    (host.folder / "bin/sleep").write_text("#!/bin/sh\n")
    (host.folder / "bin/sleep").chmod(0o755)
    (host.folder / "sys/class/infiniband/bnxt_re0/ports/1/state").unlink()
    for name in ("ports/1", "ports", ""):
        (host.folder / "sys/class/infiniband/bnxt_re0" / name).rmdir()
    done = host.run({settings.PFC: (), settings.MTU: 4200, settings.DCQCN: True})
    assert done.stderr == "fabricctl: eth1: dcqcn: there is no verbs device bnxt_re0\n"
    assert host.known(settings.MTU) == {settings.MTU: 4200}


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_every_subset_is_good_shell(host: Any, shell: str) -> None:
    for subset in [{}, _ALL, *({name: value} for name, value in _ALL.items())]:
        done = host.syntax(shell, subset)
        assert (done.returncode, done.stderr) == (0, "")


def test_a_bond_is_set_on_both_functions(host: Any) -> None:
    state = host.read("nic")
    host.write("nic", {**state, "eth2": {**state["eth1"], "pci": "0000:17:00.1"}})
    for name in ("mtu", "operstate", "device/uevent"):
        host.file(f"/sys/class/net/eth2/{name}", (host.folder / f"sys/class/net/eth1/{name}").read_text())
        host.file(f"/sys/class/net/bond0/{name}", (host.folder / f"sys/class/net/eth1/{name}").read_text())
    host.file("/sys/class/net/bond0/bonding/slaves", "eth1 eth2\n")
    host.change("control", "bnxt_re0", netdevs=["eth1", "eth2"])
    bond = replace(host, port=Port(PortId("node1", "bond0"), rdma="bnxt_re0"))
    bond.set_again_undo({name: value for name, value in _ALL.items() if name != settings.MTU})
    assert bond.run(_ALL).returncode == 0
    tables = [nic["hardware"] for nic in host.read("nic").values()]
    assert tables[0] == tables[1]
    assert tables[0]["26"] == 3


def test_parameters_are_settings_that_are_read() -> None:
    driver = finder.nic_driver("bnxt")
    assert {f"bnxt.{name}" for name in driver.parameters} <= set(_CONTROL)


def _intent(**values: Any) -> PortIntent:
    given = {
        "port": PortId("node1", "eth1"),
        "role": Role.NODE,
        "link_layer": LinkLayer.ETHERNET,
        "speed_gbps": 400,
        "mtu_bytes": 9000,
        "rdma_mtu_bytes": 4096,
        "trust": "dscp",
        "dscp_priority": _MAP,
        "priority_tc": (0, 0, 0, 3, 0, 0, 6, 0),
        "tc_scheduler": ("ets", "ets", "ets", "ets", "ets", "ets", "strict", "ets"),
        "tc_bandwidth_percent": (50, 0, 0, 50, 0, 0, 0, 0),
        "pfc_priorities": (3,),
        "ecn": None,
        "roce_tos": 106,
        "cable_length_m": 0.0,
        "lossless_priority": 3,
        "dcqcn": True,
        "cnp_dscp": 48,
        "cnp_priority": 6,
    }
    return PortIntent(**{**given, **values})


def test_classes_are_numbered_without_gaps() -> None:
    wanted = finder.nic_driver("bnxt").wanted(_intent())
    classes = (settings.PRIORITY_TC, settings.TC_SCHEDULER, settings.TC_BANDWIDTH)
    assert {name: wanted[name] for name in classes} == {name: _CLASSES[name] for name in classes}


def test_without_dcqcn_nothing_is_said_of_notifications() -> None:
    wanted = finder.nic_driver("bnxt").wanted(_intent(dcqcn=False))
    assert (wanted[settings.DCQCN], wanted["bnxt.ecn_marking"]) == (False, 0)
    assert not {settings.CNP_DSCP, settings.CNP_PRIORITY} & set(wanted)


def test_without_a_lossless_class_there_is_no_priority_for_roce() -> None:
    wanted = finder.nic_driver("bnxt").wanted(_intent(lossless_priority=None, dcqcn=None, trust="pcp"))
    assert not [name for name in wanted if name.startswith("bnxt.")]
    assert settings.DSCP_PRIORITY not in wanted
    assert finder.nic_driver("bnxt").wanted(_intent(link_layer=LinkLayer.INFINIBAND)) == {}


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (settings.MTU, Disruption.MTU_CHANGE),
        (settings.PAUSE, Disruption.LINK_FLAP),
        (settings.PFC, Disruption.QUEUE_RESET),
        (settings.TC_BANDWIDTH, Disruption.QUEUE_RESET),
        ("bnxt.priority_vlan", Disruption.QUEUE_RESET),
        (settings.DSCP_PRIORITY, Disruption.NONE),
        (settings.CNP_DSCP, Disruption.NONE),
    ],
)
def test_what_a_change_does_to_traffic(setting: str, expected: Disruption) -> None:
    assert finder.nic_driver("bnxt").disruption(setting, Known(0), 1) is expected


@pytest.mark.parametrize("name", ["bnxt", "irdma"])
@given(data=st.data())
def test_parsing_never_raises(name: str, data: st.DataObject) -> None:
    """Whatever is answered, or not, every value is known or missing for a reason."""
    driver = finder.nic_driver(name)
    port = Port(PortId("node1", "eth1"), rdma="x0")
    outputs = st.one_of(
        st.text(max_size=200),
        st.sampled_from(
            [
                "== function eth1\nPRIO_MAP: 0:x\nTSA_MAP: 1:ets\nTC Bandwidth: x%\nPFC enabled: 9\nAPP#0:\n",
                "== function eth1\nenable_cc: 7\ntos_ecn: x\n",
                "service type: 1\necn status (ecn_enable)\t: Maybe\nx (cnp_dscp) : 99\n",
                '{"param":{"pci/1":[{"name":"enable_roce","values":[{"cmode":"runtime","value":1}]}]}}',
                '{"param":[]}',
                "/sys/class/net/eth1/device/uevent:PCI_SLOT_NAME=1\n/sys/module/irdma/parameters/dcqcn_T:x\n",
                "eth1 eth1\n",
            ]
        ),
    )
    answers = {
        query.key: data.draw(
            st.builds(Answer, st.sampled_from([0, 1, 124, 127]), outputs, st.text(max_size=20))
        )
        for query in driver.queries([port])
        if data.draw(st.booleans())
    }
    ports, _ = driver.parse([port], answers)
    for entry in (*ports[port.id].settings.values(), *ports[port.id].facts.values()):
        assert isinstance(entry, Known) or entry.reason
