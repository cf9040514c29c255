"""The readers of single tools: every value is known, or missing for a reason that can be acted on."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricctl.drivers import dcb, host, lldp, netdev, verbs
from fabricctl.errors import RefusedError
from fabricctl.model import facts, settings
from fabricctl.model.fabric import LinkLayer, Port, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.plan import Disruption
from fabricctl.model.policy import EcnProfile
from fabricctl.model.reading import Entry, Known, Missing
from fabricctl.plugin import finder
from fabricctl.plugin.protocols import Answer, Driver

_PORT = Port(PortId("node1", "eth1"), rdma="rxe0")
_RXE = finder.nic_driver("rxe")
_LINUX = finder.switch_driver("linux")
_ROOT = "/sys/class/infiniband/rxe0"


def _said(stdout: object, stderr: str = "", rc: int = 0) -> Answer:
    return Answer(rc, stdout if isinstance(stdout, str) else json.dumps(stdout), stderr)


def _reason(entry: Entry) -> str:
    assert isinstance(entry, Missing)
    return entry.reason


# dcb

_PFC = {"pfc_cap": 8, "delay": 0, "prio_pfc": [False, False, False, True, False, False, False, False]}


def _dcb(**answers: Answer) -> dict[str, Entry]:
    return dcb.read_settings("eth1", {f"dcb {what} eth1": answer for what, answer in answers.items()})


def test_a_batch_is_split_by_the_lines_that_failed() -> None:
    second = Port(PortId("node1", "eth2"))
    whole = Answer(
        1,
        '{"prio_pfc":[1]},{},{"tc_bw":[2]}\n[{"prio_buffer":[3]}]',
        "Attribute read: Operation not supported\nCommand failed -:5\n"
        "Attribute read: Operation not supported\nCommand failed -:6\nCommand failed -:7\n"
        "Command failed -:8\n",
    )
    assert dcb.split([_PORT, second], {"dcb": whole}) == {
        "dcb pfc eth1": Answer(0, '{"prio_pfc":[1]}', ""),
        "dcb app eth1": Answer(0, "{}", ""),
        "dcb ets eth1": Answer(0, '{"tc_bw":[2]}', ""),
        "dcb buffer eth1": Answer(0, '{"prio_buffer":[3]}', ""),
        "dcb pfc eth2": Answer(1, "", "Attribute read: Operation not supported"),
        "dcb app eth2": Answer(1, "", "Attribute read: Operation not supported"),
        "dcb ets eth2": Answer(1, "", ""),
        "dcb buffer eth2": Answer(1, "", ""),
    }


@pytest.mark.parametrize("printed", ["{}", "{},{},{},{},{}", "{},{},{},{", "nonsense", ""])
def test_a_batch_that_does_not_add_up_has_no_answer(printed: str) -> None:
    answers = dcb.split([_PORT], {"dcb": Answer(0, printed, "")})
    assert {answer.rc for answer in answers.values()} == {1}
    assert isinstance(dcb.read_settings("eth1", answers)[settings.PFC], Missing)
    assert dcb.split([_PORT], {}) == {}


def test_an_entry_of_a_newer_dcb_has_a_blank_more() -> None:
    found = _dcb(app=_said({"dscp_prio": [[26, 3, " "]]}))
    assert found[settings.DSCP_PRIORITY] == Known(tuple(3 if dscp == 26 else 0 for dscp in range(64)))


def test_pfc_is_the_priorities_that_are_on() -> None:
    assert _dcb(pfc=_said(_PFC))[settings.PFC] == Known((3,))
    off = {**_PFC, "prio_pfc": [False] * 8}
    assert _dcb(pfc=_said(off))[settings.PFC] == Known(())


def test_a_device_without_dcb_is_missing_with_the_tools_words() -> None:
    found = _dcb(pfc=_said("", "Attribute read: Operation not supported\n", rc=1))
    assert _reason(found[settings.PFC]) == "dcb: Attribute read: Operation not supported"


def test_what_was_not_asked_is_missing() -> None:
    assert _reason(_dcb()[settings.PFC]) == "not asked"


def test_a_tool_that_is_not_installed_is_named() -> None:
    found = _dcb(pfc=_said("", "timeout: failed to run command 'dcb': No such file or directory", rc=127))
    assert "dcb: the program is not installed" in _reason(found[settings.PFC])


def test_a_tool_that_hung_is_named() -> None:
    assert _reason(_dcb(pfc=_said("", rc=124))[settings.PFC]) == "dcb: no answer in time"


def test_an_empty_dscp_map_is_trust_pcp_and_all_zero() -> None:
    found = _dcb(app=_said({}))
    assert found[settings.TRUST] == Known("pcp")
    assert found[settings.DSCP_PRIORITY] == Known((0,) * 64)


def test_one_dscp_entry_is_trust_dscp_and_the_rest_is_zero() -> None:
    found = _dcb(app=_said({"dscp_prio": [[26, 3], [48, 6]]}))
    expected = [0] * 64
    expected[26], expected[48] = 3, 6
    assert found[settings.TRUST] == Known("dscp")
    assert found[settings.DSCP_PRIORITY] == Known(tuple(expected))


def test_two_priorities_for_one_dscp_are_not_decided_by_us() -> None:
    found = _dcb(app=_said({"dscp_prio": [[26, 3], [26, 4]]}))
    assert _reason(found[settings.DSCP_PRIORITY]) == "DSCP 26 has several priorities at once: 3, 4"


@pytest.mark.parametrize("odd", [[[64, 3]], [[26, 8]], [["26", 3]], [[26]], 5])
def test_an_odd_dscp_map_is_missing(odd: Any) -> None:
    found = _dcb(app=_said({"dscp_prio": odd}))
    assert _reason(found[settings.DSCP_PRIORITY]).startswith("unparsable")
    assert _reason(found[settings.TRUST]).startswith("unparsable")


def test_ets_is_read_in_its_three_parts() -> None:
    said = {
        "prio_tc": list(range(8)),
        "tc_tsa": ["ets"] * 6 + ["strict", "vendor"],
        "tc_bw": [50, 0, 0, 50, 0, 0, 0, 0],
    }
    found = _dcb(ets=_said(said))
    assert found[settings.PRIORITY_TC] == Known(tuple(range(8)))
    assert found[settings.TC_SCHEDULER] == Known((*["ets"] * 6, "strict", "vendor"))
    assert found[settings.TC_BANDWIDTH] == Known((50, 0, 0, 50, 0, 0, 0, 0))


def test_one_odd_part_of_ets_leaves_the_others() -> None:
    found = _dcb(ets=_said({"prio_tc": list(range(8)), "tc_tsa": ["new"] * 8, "tc_bw": [1]}))
    assert found[settings.PRIORITY_TC] == Known(tuple(range(8)))
    assert _reason(found[settings.TC_SCHEDULER]).startswith("unparsable")
    assert _reason(found[settings.TC_BANDWIDTH]).startswith("unparsable")


def test_buffers_are_read_in_bytes() -> None:
    said = {"prio_buffer": [0, 0, 0, 1, 0, 0, 0, 0], "buffer_size": [130944, 130944] + [0] * 6}
    found = _dcb(buffer=_said(said))
    assert found[settings.PRIORITY_BUFFER] == Known((0, 0, 0, 1, 0, 0, 0, 0))
    assert found[settings.BUFFER_SIZE] == Known((130944, 130944, 0, 0, 0, 0, 0, 0))


def test_pause_frames_are_counted_by_priority_and_direction() -> None:
    said = {**_PFC, "requests": [0, 0, 0, 7, 0, 0, 0, 0], "indications": [0, 0, 0, 9, 0, 0, 0, 0]}
    found = dcb.read_counters("eth1", {"dcb pfc eth1": _said(said)})
    assert (found["pfc.requests.3"], found["pfc.indications.3"]) == (Known(7), Known(9))
    assert len(found) == 16


# netdev

_NET = "/sys/class/net/eth1"


def _files(*lines: str, stderr: str = "") -> dict[str, Answer]:
    return {"grep files": Answer(2 if stderr else 0, "".join(f"{line}\n" for line in lines), stderr)}


def test_a_link_is_read() -> None:
    answers = _files(
        f"{_NET}/mtu:4200",
        f"{_NET}/operstate:up",
        f"{_NET}/carrier:1",
        f"{_NET}/speed:100000",
        f"{_NET}/carrier_down_count:2",
        f"{_NET}/address:52:54:00:AB:00:01",
        f"{_NET}/device/uevent:DRIVER=virtio_net",
        f"{_NET}/device/uevent:MODALIAS=virtio:d1",
        f"{_NET}/statistics/rx_packets:5",
        f"{_NET}/statistics/tx_dropped:0",
        "/sys/class/net/eth10/mtu:1500",
    )
    assert netdev.read_facts("eth1", answers) == {
        facts.LINK_STATE: Known("up"),
        facts.SPEED: Known(100_000),
        facts.MAC: Known("52:54:00:ab:00:01"),
        facts.DRIVER: Known("virtio_net"),
        facts.LINK_DOWNS: Known(2),
    }
    assert netdev.read_settings("eth1", answers) == {settings.MTU: Known(4200)}
    assert netdev.read_counters("eth1", answers) == {"rx_packets": Known(5), "tx_dropped": Known(0)}


def test_no_carrier_and_switched_off_are_down() -> None:
    found = netdev.read_facts("eth1", _files(f"{_NET}/operstate:lowerlayerdown", f"{_NET}/carrier:0"))
    assert found[facts.LINK_STATE] == Known("down")
    off = _files(f"{_NET}/operstate:down", stderr=f"grep: {_NET}/carrier: Invalid argument\n")
    assert netdev.read_facts("eth1", off)[facts.LINK_STATE] == Known("down")
    odd = _files(f"{_NET}/operstate:unknown", stderr=f"grep: {_NET}/carrier: Invalid argument\n")
    assert "Invalid argument" in _reason(netdev.read_facts("eth1", odd)[facts.LINK_STATE])


def test_a_netdev_that_is_not_there_is_said() -> None:
    found = netdev.read_settings("eth9", _files(f"{_NET}/mtu:1500"))
    assert _reason(found[settings.MTU]) == "there is no network interface eth9"


def test_a_speed_that_the_kernel_cannot_say_is_missing_with_its_words() -> None:
    said = f"grep: {_NET}/speed: Invalid argument\n"
    found = netdev.read_facts("eth1", _files(f"{_NET}/carrier_down_count:0", stderr=said))
    assert _reason(found[facts.SPEED]) == f"grep: {_NET}/speed: Invalid argument"
    assert found[facts.LINK_DOWNS] == Known(0)
    found = netdev.read_facts("eth1", _files(f"{_NET}/speed:-1"))
    assert _reason(found[facts.SPEED]) == "the driver does not know its speed"


@pytest.mark.parametrize("name", ["-i", "..", "a/b", "a b", "", "eth1;id", "x" * 16, "eth\n1"])
def test_names_that_no_netdev_can_have_are_refused(name: str) -> None:
    for driver in (_RXE, _LINUX):
        with pytest.raises(RefusedError, match="not the name of a network interface"):
            driver.queries([Port(PortId("node1", name))])


# verbs

_VERBS = (
    f"{_ROOT}/parent:eth1",
    f"{_ROOT}/fw_ver:",
    f"{_ROOT}/ports/1/state:4: ACTIVE",
    f"{_ROOT}/ports/1/hw_counters/sent_pkts:17",
    f"{_ROOT}/ports/1/hw_counters/lifespan:10",
)
_DEVINFO = """hca_id:\trxe0
\t\t\tmax_mtu:\t\t4096 (5)
\t\t\tactive_mtu:\t\t1024 (3)
\t\t\tGID[  0]:\t\tfe80::5054:ff:feab:1, RoCE v2
\t\t\tGID[  1]:\t\t::ffff:10.10.0.1, RoCE v2
\t\t\tGID[ 10]:\t\t0000:0000:0000:0000:0000:ffff:0a00:0001, IB/RoCE v1
\t\t\tGID[1000]:\t\tfe80:0000:0000:0000:0002:c903:0000:0001
"""


def test_verbs_are_read_and_gid_index_zero_is_real() -> None:
    answers = {
        **_files(*_VERBS),
        "ibv_devinfo rxe0": _said(_DEVINFO),
        "rdma_cm rxe0": _said("RoCE v2\n106\n"),
    }
    found = verbs.read_facts(_PORT, answers)
    assert found[facts.RDMA_DEVICE] == Known("rxe0")
    assert found[facts.RDMA_STATE] == Known("ACTIVE")
    assert found[facts.RDMA_MTU] == Known(1024)
    assert found[facts.GIDS] == Known(
        (
            "0 RoCE v2 fe80::5054:ff:feab:1",
            "1 RoCE v2 ::ffff:10.10.0.1",
            "10 IB/RoCE v1 ::ffff:10.0.0.1",
            "1000 IB fe80::2:c903:0:1",
        )
    )
    assert _reason(found[facts.FIRMWARE]) == "the device has no firmware version"
    assert verbs.read_settings(_PORT, answers) == {
        settings.ROCE_MODE: Known("RoCE v2"),
        settings.ROCE_TOS: Known(106),
    }
    assert verbs.read_counters(_PORT, answers) == {"sent_pkts": Known(17)}
    assert verbs.parent(_PORT, answers) == "eth1"


def test_a_verbs_device_that_is_not_there_is_said() -> None:
    found = verbs.read_facts(_PORT, _files(f"{_NET}/mtu:1500"))
    assert {_reason(entry) for entry in found.values()} == {"there is no verbs device rxe0"}


def test_a_port_without_a_verbs_device_is_not_asked() -> None:
    bare = Port(PortId("node1", "eth1"))
    assert verbs.queries(bare) == ()
    assert "names no verbs device" in _reason(verbs.read_facts(bare, {})[facts.GIDS])
    assert "names no verbs device" in _reason(verbs.read_settings(bare, {})[settings.ROCE_TOS])


def test_rdma_cm_that_is_not_loaded_is_missing() -> None:
    answers = {"rdma_cm rxe0": _said("", "sh: 1: cd: can't cd to /sys/kernel/config/rdma_cm", rc=2)}
    assert "can't cd" in _reason(verbs.read_settings(_PORT, answers)[settings.ROCE_MODE])


def test_a_verbs_device_of_another_port_is_not_taken_for_ours() -> None:
    answers = _files(*(line.replace("parent:eth1", "parent:eth2") for line in _VERBS))
    ports, _ = _RXE.parse([_PORT], answers)
    assert _reason(ports[_PORT.id].facts[facts.DRIVER]) == "rxe0 belongs to eth2, not to eth1"


# lldp


def _heard(*partners: tuple[str, str, str]) -> Answer:
    return _said(
        {
            "lldp": [
                {
                    "interface": [
                        {
                            "name": "eth1",
                            "via": via,
                            "chassis": [{"id": [{"type": "mac", "value": "x"}], "name": [{"value": device}]}],
                            "port": [
                                {"id": [{"type": "ifname", "value": port}], "descr": [{"value": "other"}]}
                            ],
                        }
                        for via, device, port in partners
                    ]
                }
            ]
        }
    )


def _partner(answer: Answer) -> Entry:
    return lldp.read_facts("eth1", {"lldpcli": answer})[facts.PARTNER]


def test_a_partner_is_named() -> None:
    assert _partner(_heard(("LLDP", "leaf1", "eth3"))) == Known("leaf1/eth3")
    assert _partner(_heard(("LLDP", "leaf1", "eth3"), ("CDPv2", "old", "1"))) == Known("leaf1/eth3")


def test_nobody_and_too_many_are_missing() -> None:
    assert _reason(_partner(_heard())) == "no LLDP neighbour is heard on the port"
    assert _reason(_partner(_said({"lldp": [{}]}))) == "no LLDP neighbour is heard on the port"
    several = _partner(_heard(("LLDP", "leaf2", "eth1"), ("LLDP", "leaf1", "eth3")))
    assert _reason(several) == "several LLDP neighbours are heard on the port: leaf1/eth3, leaf2/eth1"


def test_the_other_shape_of_lldpcli_is_read_too() -> None:
    one = {"chassis": {"leaf1": {"id": {"type": "mac", "value": "x"}}}, "via": "LLDP"}
    port = {"id": {"type": "mac", "value": "52:54:00:00:00:01"}, "descr": "Ethernet4"}
    assert _partner(_said({"lldp": {"interface": {"eth1": {**one, "port": port}}}})) == Known(
        "leaf1/Ethernet4"
    )
    both = [
        {"eth2": {**one, "port": port}},
        {"eth1": {**one, "port": {"id": {"type": "local", "value": "7"}}}},
    ]
    assert _partner(_said({"lldp": {"interface": both}})) == Known("leaf1/7")


def test_a_name_that_would_upset_a_terminal_is_missing_and_shown_harmless() -> None:
    reason = _reason(_partner(_heard(("LLDP", "leaf\x1b[2J", "eth3"))))
    assert reason.startswith("unparsable")
    assert reason.isprintable()
    assert _reason(_partner(_said("\x1b[31m", "\x1b]0;x\x07", rc=1))) == "lldpcli: ?]0;x?"
    assert isinstance(_partner(_said('{"lldp": [{"interface": "\\ud800"}]}')), Missing)


# host

_SHA = "0123456789abcdef" * 4
_RIVAL_STATES = "".join(
    f"Id={name}\nActiveState={state}\nUnitFileState=\n\n"
    for name, state in (
        ("lldpad.service", "active"),
        ("fcoe.service", "inactive"),
        ("rdma-qos.service", "failed"),
        ("dmsd.service", "activating"),
    )
)


_UNIT = "fabricctl-port@eth1.service"
_SCRIPT = f"{_SHA}  /etc/fabricctl/ports/eth1.sh\n"
_WANTED = f"{'a' * 64}  /etc/systemd/system/multi-user.target.wants/{_UNIT}\n"
_EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def _boot(*lines: str, said: str = "sha256sum: x: No such file or directory") -> Entry:
    return host.read_boot("eth1", {"sha256sum": _said("".join(lines), said, rc=1)})[settings.BOOT]


@pytest.mark.parametrize(
    ("lines", "kept"),
    [
        ((_SCRIPT, _WANTED), _SHA),
        ((_SCRIPT,), "none"),
        ((_WANTED,), "none"),
        ((), "none"),
        ((_SCRIPT.replace("eth1", "eth10"), _WANTED), "none"),
        ((_SCRIPT, _WANTED.replace("eth1", "eth10")), "none"),
        ((_SCRIPT, _WANTED, f"{_EMPTY}  /etc/systemd/system/{_UNIT}\n"), "none"),
        ((_SCRIPT, _WANTED, f"{'b' * 64}  /etc/systemd/system/{_UNIT}\n"), _SHA),
    ],
    ids=[
        "kept",
        "not enabled",
        "no script",
        "neither",
        "another's script",
        "another's unit",
        "masked",
        "own",
    ],
)
def test_a_port_is_kept_if_its_script_is_there_and_systemd_will_start_its_unit(
    lines: tuple[str, ...], kept: str
) -> None:
    assert _boot(*lines) == Known(kept)


def test_boot_is_missing_where_it_cannot_be_known() -> None:
    assert "Permission denied" in _reason(_boot(said="sha256sum: x: Permission denied"))
    assert _reason(host.read_boot("eth1", {})[settings.BOOT]) == "not asked"


def test_host_facts_are_read() -> None:
    answers = _files("/proc/sys/kernel/random/boot_id:1b2c", "/proc/sys/kernel/osrelease:6.12.0")
    assert host.read_facts({**answers, "systemctl": _said(_RIVAL_STATES)}) == {
        facts.BOOT_ID: Known("1b2c"),
        facts.KERNEL: Known("6.12.0"),
        facts.RIVALS: Known(("lldpad.service", "dmsd.service")),
    }


# red on the switch


def _red(**options: Any) -> dict[str, Any]:
    values = {"limit": 1360000, "min": 30000, "max": 90000, "ecn": True, "probability": 0.1, **options}
    return {"kind": "red", "dev": "eth1", "root": True, "options": values, "marked": 4, "pdrop": 1}


def _switch_reading(qdiscs: Any) -> dict[str, Entry]:
    answers = {"tc": _said(qdiscs), **_files(f"{_NET}/mtu:1500")}
    ports, _ = _LINUX.parse([_PORT], answers)
    reading = ports[_PORT.id]
    return {**reading.settings, **reading.counters}


def test_red_is_read_with_its_thresholds_and_counters() -> None:
    found = _switch_reading([{"kind": "netem", "dev": "eth2", "root": True}, _red()])
    assert found[settings.ECN] == Known(value=True)
    assert found[settings.ECN_KMIN] == Known(30000)
    assert found[settings.ECN_KMAX] == Known(90000)
    assert found[settings.ECN_PMAX] == Known(10)
    assert (found["red.marked"], found["red.pdrop"]) == (Known(4), Known(1))


def test_red_that_drops_instead_of_marking_is_ecn_off() -> None:
    found = _switch_reading([_red(ecn=False)])
    assert found[settings.ECN] == Known(value=False)
    assert found[settings.ECN_KMIN] == Known(30000)


@pytest.mark.parametrize("kind", ["netem", "mq"])
def test_another_root_qdisc_is_ecn_off_and_named(kind: str) -> None:
    found = _switch_reading([{"kind": kind, "dev": "eth1", "root": True, "options": {}}])
    assert found[settings.ECN] == Known(value=False)
    assert _reason(found[settings.ECN_KMIN]) == f"the port does not mark: its root qdisc is {kind}, not red"
    assert "red.marked" not in found


def test_a_port_that_is_not_there_has_no_ecn_state() -> None:
    ports, _ = _LINUX.parse([_PORT], {"tc": _said([]), **_files("/sys/class/net/eth9/mtu:1500")})
    assert "no network interface" in _reason(ports[_PORT.id].settings[settings.ECN])


# what an intent means


def _intent(**changes: Any) -> PortIntent:
    values: dict[str, Any] = {
        "port": _PORT.id,
        "role": Role.NODE,
        "link_layer": LinkLayer.ETHERNET,
        "speed_gbps": 100,
        "mtu_bytes": 4200,
        "rdma_mtu_bytes": 4096,
        "trust": "dscp",
        "dscp_priority": (3,) * 64,
        "priority_tc": tuple(range(8)),
        "tc_scheduler": ("ets",) * 8,
        "tc_bandwidth_percent": (100, 0, 0, 0, 0, 0, 0, 0),
        "pfc_priorities": (3,),
        "ecn": EcnProfile(30000, 90000, 10),
        "roce_tos": 106,
        "cable_length_m": 2.0,
    }
    return PortIntent(**{**values, **changes})


def test_a_nic_gets_tos_and_no_marking_and_a_switch_the_reverse() -> None:
    nic, switch = _RXE.wanted(_intent()), _LINUX.wanted(_intent())
    assert nic[settings.ROCE_TOS] == 106
    assert nic[settings.ROCE_MODE] == "RoCE v2"
    assert settings.ECN not in nic
    assert (switch[settings.ECN], switch[settings.ECN_KMIN], switch[settings.ECN_PMAX]) == (True, 30000, 10)
    assert settings.ROCE_TOS not in switch


def test_ecn_off_is_wanted_without_thresholds() -> None:
    switch = _LINUX.wanted(_intent(ecn=None))
    assert switch[settings.ECN] is False
    assert settings.ECN_KMIN not in switch


@pytest.mark.parametrize("driver", [_RXE, _LINUX])
def test_trust_pcp_leaves_the_dscp_map_out_and_infiniband_everything(driver: Driver) -> None:
    assert settings.DSCP_PRIORITY not in driver.wanted(_intent(trust="pcp"))
    assert driver.wanted(_intent(link_layer=LinkLayer.INFINIBAND)) == {}


def test_disruption_is_what_the_device_really_suffers() -> None:
    old = Missing("x")
    assert _RXE.disruption(settings.MTU, old, 9000) is Disruption.MTU_CHANGE
    assert _RXE.disruption(settings.PFC, old, (3,)) is Disruption.NONE
    assert _LINUX.disruption(settings.ECN_KMAX, old, 1) is Disruption.QUEUE_RESET
    assert _LINUX.disruption(settings.MTU, old, 1) is Disruption.MTU_CHANGE


# nothing that a device says makes a reader raise

_WORDS = re.findall(
    r"\w+",
    "lldp interface chassis port id name via value type descr dscp_prio prio_pfc tc_tsa tc_bw prio_tc "
    "requests indications ifname mtu flags stats64 rx tx address kind dev root options ecn min",
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=9)
        | st.dictionaries(
            st.sampled_from(_WORDS),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)
_LINES = st.lists(
    st.sampled_from(
        [*_VERBS, *_DEVINFO.splitlines(), f"{_ROOT}/ports/1/gids/x:y", f"{_ROOT}/ports/1/state:", ":", "a:b"]
    )
).map("\n".join)
_OUTPUTS = st.text() | _JSON.map(json.dumps) | _LINES | st.just("[" * 100_000)


@pytest.mark.parametrize("driver", [_RXE, _LINUX])
@given(data=st.data())
def test_no_answer_makes_a_parser_raise(driver: Driver, data: st.DataObject) -> None:
    answers = {
        query.key: data.draw(st.builds(Answer, st.sampled_from([0, 1, 2, 124, 127]), _OUTPUTS, st.text()))
        for query in driver.queries([_PORT])
        if data.draw(st.booleans())
    }
    ports, device_facts = driver.parse([_PORT], answers)
    assert set(ports) == {_PORT.id}
    assert set(device_facts) == {facts.BOOT_ID, facts.KERNEL, facts.RIVALS}
    for entry in (*ports[_PORT.id].settings.values(), *ports[_PORT.id].facts.values()):
        assert isinstance(entry, Known) or entry.reason
