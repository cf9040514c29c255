"""The script of an mlx5 port on stand-ins: set, read back, set again, undo, on each control plane."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from fabricctl.apply.render import render_port
from fabricctl.drivers.nic.mlx5 import PLUGIN
from fabricctl.drivers.nic.mlx5.congestion import OFED_FILES, PARAMETERS
from fabricctl.model import settings
from fabricctl.model.fabric import Role
from fabricctl.model.reading import Known, Missing, Value

_PLANES = ("ofed", "ofed-old", "inbox")
_MAP = tuple({26: 3, 48: 6}.get(dscp, 0) for dscp in range(64))
_ETS: dict[str, Value] = {
    settings.PRIORITY_TC: (0, 0, 0, 3, 0, 0, 6, 0),
    settings.TC_SCHEDULER: ("ets", "ets", "ets", "ets", "ets", "ets", "strict", "ets"),
    settings.TC_BANDWIDTH: (50, 0, 0, 50, 0, 0, 0, 0),
}
_BUFFERS: dict[str, Value] = {
    settings.PRIORITY_BUFFER: (0, 0, 0, 1, 0, 0, 0, 0),
    settings.BUFFER_SIZE: (130944, 130944, 0, 0, 0, 0, 0, 0),
}
_CLASSES: dict[str, Value] = {
    settings.MTU: 4200,
    settings.PAUSE: False,
    settings.TRUST: "dscp",
    settings.DSCP_PRIORITY: _MAP,
    **_ETS,
    settings.CABLE_LENGTH: 30,
    **_BUFFERS,
    settings.PFC: (3,),
}
_CONGESTION: dict[str, Value] = {
    settings.CNP_DSCP: 46,
    settings.CNP_PRIORITY: 6,
    **{f"mlx5.{name}": 7 for name in PARAMETERS if name in OFED_FILES and "clamp" not in name},
    "mlx5.rp_clamp_tgt_rate": 1,
    "mlx5.rp_clamp_tgt_rate_ati": 0,
}
_ROCE: dict[str, Value] = {settings.ROCE_MODE: "RoCE v2", settings.ROCE_TOS: 106}
_DCQCN = "mlx5.dcqcn_priority_3"


def _all(plane: str) -> dict[str, Value]:
    own: dict[str, Value] = {_DCQCN: False}
    if plane != "inbox":
        own = {_DCQCN: True, "mlx5.traffic_class": 106}
    return {**_CLASSES, **_CONGESTION, **own, **_ROCE}


@pytest.mark.parametrize("plane", _PLANES)
def test_all_is_set_read_back_left_alone_and_undone(make: Callable[..., Any], plane: str) -> None:
    make(plane).set_again_undo(_all(plane))


@pytest.mark.parametrize("plane", ["ofed", "inbox"])
def test_each_setting_alone(make: Callable[..., Any], plane: str) -> None:
    host = make(plane)
    # PFC takes pause of the whole link away; no other setting touches another.
    host.change(pause={"rx": "off", "tx": "off"})
    wanted: dict[str, Value] = {**_all(plane), settings.PAUSE: True, settings.PFC: ()}
    # Shares need their schedulers, and an entry of the DSCP map switches trust: these go together.
    groups = [[settings.TRUST, settings.DSCP_PRIORITY], list(_ETS), list(_BUFFERS)]
    groups.append([name for name in _CONGESTION if name.startswith("mlx5.rp_")])
    groups += [[name] for name in wanted if not any(name in group for group in groups)]
    before = host.settings()
    for group in groups:
        done = host.run({name: wanted[name] for name in group})
        assert (done.returncode, done.stderr) == (0, "")
    found = host.settings()
    assert {name: found[name] for name in wanted} == {name: Known(value) for name, value in wanted.items()}
    host.log()
    files = host.written()
    for group in groups:
        host.run({name: wanted[name] for name in group})
    assert (host.log(), host.written()) == ([], files)
    for group in reversed(groups):
        done = host.run({name: before[name].value for name in group})
        assert (done.returncode, done.stderr) == (0, "")
    assert host.settings() == before


@pytest.mark.parametrize("plane", ["ofed", "inbox"])
def test_from_another_full_configuration(make: Callable[..., Any], plane: str) -> None:
    host = make(plane)
    other: dict[str, Value] = {
        **_CLASSES,
        settings.MTU: 9000,
        settings.DSCP_PRIORITY: tuple((dscp // 8 + 1) % 8 for dscp in range(64)),
        settings.PRIORITY_TC: (1, 0, 2, 3, 4, 5, 6, 7),
        settings.TC_SCHEDULER: ("ets", "ets", *["strict"] * 6),
        settings.TC_BANDWIDTH: (30, 70, 0, 0, 0, 0, 0, 0),
        settings.CABLE_LENGTH: 5,
        settings.PRIORITY_BUFFER: (2, 2, 2, 2, 2, 2, 2, 1),
        settings.BUFFER_SIZE: (0, 60000, 90000, 0, 0, 0, 0, 0),
        settings.PFC: (1, 5),
    }
    assert host.run(other).stderr == ""
    host.set_again_undo(_all(plane))


def test_without_mlnx_qos_ofed_goes_by_dcb_and_without_dcb_inbox_by_mlnx_qos(
    make: Callable[..., Any],
) -> None:
    host = make("ofed")
    host.without("mlnx_qos")
    host.set_again_undo(_all("ofed"))
    (host.folder / "bin/dcb").rename(host.folder / "bin/mlnx_qos")
    for folder in ("qos", "ecn"):
        (host.sys / "class/net/eth1" / folder).rename(host.sys / f"gone-{folder}")
    host.set_again_undo(_CLASSES)


def test_a_boot_script_survives_a_change_of_driver(make: Callable[..., Any]) -> None:
    host = make("ofed")
    host.without("dcb")
    assert host.run(_CLASSES).stderr == ""
    before = host.settings()
    for folder in ("qos", "ecn"):
        (host.sys / "class/net/eth1" / folder).rename(host.sys / f"gone-{folder}")
    host.log()
    assert (host.run(_CLASSES).stderr, host.log()) == ("", [])
    assert {name: host.settings()[name] for name in _CLASSES} == {name: before[name] for name in _CLASSES}


def test_without_any_tool_each_setting_is_named_and_the_rest_is_set(make: Callable[..., Any]) -> None:
    host = make("inbox")
    host.without("dcb", "mstconfig", "mlxconfig")
    done = host.run(_all("inbox"))
    lines = done.stderr.splitlines()
    said = "neither mlnx_qos nor dcb is installed"
    assert done.returncode == 1
    assert f"fabricctl: eth1: pfc_priorities: {said}" in lines
    assert len([line for line in lines if line.endswith(said)]) == 9
    assert any(f"{_DCQCN}: it is in the firmware's configuration" in line for line in lines)
    found = host.settings()
    assert found[settings.PFC] == Missing(said)  # it can be installed
    missing = found[_DCQCN]
    assert isinstance(missing, Missing)
    assert missing.impossible
    assert found[settings.CNP_DSCP] == Known(46)
    assert found[settings.ROCE_TOS] == Known(106)


def test_both_sizes_and_assignment_are_set_through_ofeds_sysfs(make: Callable[..., Any]) -> None:
    host = make("ofed")
    host.without("dcb")
    host.run(_BUFFERS)
    assert host.log() == [
        "mlnx_qos -i eth1 --buffer_size 130944,130944,0,0,0,0,0,0",
        "mlnx_qos -i eth1 --prio2buffer 0,0,0,1,0,0,0,0",
    ]
    host.run({settings.PRIORITY_BUFFER: (0,) * 8, settings.BUFFER_SIZE: (262016, *[0] * 7)})
    assert [line.split()[3] for line in host.log()] == ["--prio2buffer", "--buffer_size"]


@pytest.mark.parametrize("plane", ["ofed", "inbox"])
def test_trust_alone_brings_all_64_entries(make: Callable[..., Any], plane: str) -> None:
    host = make(plane)
    assert host.run({settings.TRUST: "dscp"}).stderr == ""
    assert host.settings()[settings.DSCP_PRIORITY] == Known(tuple(dscp >> 3 for dscp in range(64)))
    assert host.run({settings.TRUST: "pcp"}).stderr == ""
    assert host.settings()[settings.TRUST] == Known("pcp")


@pytest.mark.parametrize("plane", _PLANES)
def test_a_map_that_becomes_all_zero_keeps_its_trust(make: Callable[..., Any], plane: str) -> None:
    host = make(plane)
    host.run({settings.TRUST: "dscp"})
    host.set_again_undo({settings.TRUST: "dscp", settings.DSCP_PRIORITY: (0,) * 64})


@pytest.mark.parametrize("length", [0, 1000])
def test_a_length_of_which_the_driver_takes_no_notice_is_an_error(
    make: Callable[..., Any], length: int
) -> None:
    host = make("inbox")
    done = host.run({settings.CABLE_LENGTH: length})
    assert done.stderr == "fabricctl: eth1: cable_length_m: the driver takes 1 to 999 metres\n"
    assert host.log() == []


def test_pause_is_put_back_after_pfc_took_it_away(make: Callable[..., Any]) -> None:
    host = make("ofed")
    host.run({settings.PAUSE: False, settings.PFC: (3,)})
    assert host.run({settings.PAUSE: True, settings.PFC: ()}).stderr == ""
    assert host.settings()[settings.PAUSE] == Known(value=True)


def test_the_words_of_the_kernel_come_through_the_traceback_of_mlnx_qos(make: Callable[..., Any]) -> None:
    host = make("ofed")
    host.change("host", refuses=["pfc"])
    done = host.run({settings.PFC: (3,), settings.CABLE_LENGTH: 9})
    assert done.stderr == "fabricctl: eth1: pfc_priorities: [Errno 1] Operation not permitted\n"
    assert host.settings()[settings.CABLE_LENGTH] == Known(9)


def test_a_pfc_state_that_cannot_be_read_is_not_written(make: Callable[..., Any]) -> None:
    host = make("inbox")
    host.change(no_dcb=True)
    done = host.run({settings.PFC: ()})
    assert "Attribute read: Operation not supported" in done.stderr
    assert host.log() == []
    assert host.settings()[settings.PFC] == Missing(
        "dcb: Attribute read: Operation not supported", impossible=True
    )


def _sleep(host: Any, body: str) -> None:
    (host.folder / "bin/sleep").write_text(f"#!/bin/sh\n{body}\n")


def test_after_a_change_of_pfc_it_waits_for_carrier_and_gids(make: Callable[..., Any]) -> None:
    host = make("inbox")
    root = host.sys / "class"
    gid = root / "infiniband/mlx5_0/ports/1/gids/1"
    back = f"echo 1 >{root}/net/eth1/carrier; echo {gid.read_text().strip()} >{gid}"
    count = host.folder / "slept"
    gone = f"echo 0 >{root}/net/eth1/carrier; echo {':'.join(['0000'] * 8)} >{gid}"
    _sleep(host, f"echo >>{count}; if [ $(wc -l <{count}) -lt 5 ]; then {gone}; else {back}; fi")
    assert host.run({settings.PFC: (3,)}).stderr == ""
    assert len(count.read_text()) == 5
    assert host.run({settings.PFC: (3,)}).stderr == ""
    assert len(count.read_text()) == 5


def test_a_link_that_does_not_come_back_is_an_error_after_a_minute(make: Callable[..., Any]) -> None:
    host = make("ofed")
    _sleep(host, f"echo 0 >{host.sys}/class/net/eth1/carrier")
    done = host.run({settings.PFC: (3,)})
    assert done.returncode == 1
    assert "PFC is set, but after a minute carrier is 0, and 2 of 2 GIDs are there" in done.stderr


def test_a_port_without_carrier_is_not_waited_for(make: Callable[..., Any]) -> None:
    host = make("ofed")
    host.write("class/net/eth1/carrier", 0)
    assert host.run({settings.PFC: (3,)}).stderr == ""


def test_congestion_control_is_left_alone_where_it_holds_already(make: Callable[..., Any]) -> None:
    host = make("ofed")
    host.write("class/net/eth1/ecn/roce_np/enable/3", 1)
    missing = host.settings()[_DCQCN]
    assert missing == Missing("half on: roce_np 1, roce_rp 0")
    files = host.written()
    host.run({_DCQCN: True})
    changed = {path for path, when in host.written().items() if files[path] != when}
    assert changed == {str(host.sys / "class/net/eth1/ecn/roce_rp/enable/3")}


def test_a_cnp_priority_that_is_not_used_is_written_again(make: Callable[..., Any]) -> None:
    host = make("inbox")
    folder = "kernel/debug/mlx5/0000:17:00.0/cc_params"
    host.write(f"{folder}/np_cnp_prio_mode", 1)
    host.write(f"{folder}/np_cnp_prio", 6)
    files = host.written()
    assert host.run({settings.CNP_PRIORITY: 6}).stderr == ""
    assert (
        host.written()[str(host.sys / folder / "np_cnp_prio")]
        != files[str(host.sys / folder / "np_cnp_prio")]
    )


def test_the_scripts_files_are_those_of_the_parser() -> None:
    for name, file in OFED_FILES.items():
        if f"mlx5.{name}" in _CONGESTION:
            script = render_port(Role.NODE, "mlx5", "eth1", "mlx5_0", {f"mlx5.{name}": 5})
            assert f"set_parameter {name} {file} 5\n" in script


def test_a_value_with_shell_in_it_stays_a_value(make: Callable[..., Any]) -> None:
    host = make("inbox")
    trap = f"$(touch {host.folder}/pwned); `touch {host.folder}/pwned`'\""
    host.run({settings.TRUST: trap, settings.ROCE_MODE: trap, "x; touch pwned": 1})
    assert not (host.folder / "pwned").exists()


@pytest.mark.parametrize("shell", ["dash", "bash"])
@pytest.mark.parametrize("plane", ["ofed", "inbox"])
def test_every_subset_is_good_shell(shell: str, plane: str) -> None:
    wanted = {**_all(plane), "mlx5.traffic_class": 7}
    for subset in ({}, wanted, *({name: value} for name, value in wanted.items())):
        script = render_port(Role.NODE, "mlx5", "eth1", "mlx5_0", subset)
        done = subprocess.run([shell, "-n"], input=script, text=True, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        for name in subset:
            assert f" {name} " in script.replace("\n", " ")
    assert not set(wanted) & set(PLUGIN.unsupported)
