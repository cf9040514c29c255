from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fabricctl.model.policy import LinkPolicy
from fabricctl.model.verdict import Outcome
from fabricctl.plugin import finder
from fabricctl.plugin.protocols import Answer

PASS, FAIL, UNKNOWN = Outcome.PASS, Outcome.FAIL, Outcome.UNKNOWN


def said(**counters: Any) -> str:
    """Return mlxlink's JSON in the shape of mstflint's sources and of public readers of it (documented)."""
    output = {
        "Operational Info": {"State": "Active", "Physical state": "LinkUp", "Speed": "IB-HDR", "Width": "4x"},
        "Physical Counters and BER Info": {"Time Since Last Clear [Min]": "120.5", **counters},
        "Module Info": {
            "Vendor Name": "Mellanox",
            "Vendor Part Number": "MCP1650-H001E30",
            "Vendor Serial Number": {"values": ["MT2040VS00001"]},
            "Temperature [C]": "46 [-5..75]",
        },
    }
    return json.dumps({"status": {"code": 0, "message": "success"}, "result": {"output": output}})


def signals(pod: Any, text: str, rc: int = 0) -> Any:
    survey = pod.survey("good")
    seen = {
        name: replace(one, answers={"mlxlink mlx5_0": Answer(rc, text, "")})
        for name, one in survey.devices.items()
    }
    return pod.of("hca_signal", replace(survey, devices=seen))


@pytest.mark.parametrize(
    ("counters", "outcome", "measured"),
    [
        ({"Symbol BER": "15E-255", "Effective Physical BER": "1E-9"}, PASS, "1.5e-254"),
        ({"Symbol BER": "1E-12"}, FAIL, "1.0e-12"),
        ({"Symbol BER": "N/A", "Effective Physical BER": "1.5E-254"}, PASS, "1.5e-254"),
        ({"Effective Physical BER": "2E-10"}, FAIL, "2.0e-10"),
        ({"Symbol BER": {"values": ["3E-16"]}}, PASS, "3.0e-16"),
        ({"Symbol BER": "N/A", "Effective Physical BER": "N/A"}, UNKNOWN, ""),
        ({"Symbol BER": "nan"}, UNKNOWN, ""),
    ],
)
def test_bit_error_rates(pod: Any, counters: dict[str, Any], outcome: Outcome, measured: str) -> None:
    found = signals(pod, said(**counters))
    assert len(found) == 8
    assert {one.outcome for one in found.values()} == {outcome}
    assert found["node3/ib0 - leaf1/3"].measured == measured


def test_what_is_told_of_the_module_and_the_time(pod: Any) -> None:
    one = signals(pod, said(**{"Symbol BER": "1E-16"}))["node3/ib0 - leaf1/3"]
    assert one.what == (
        "Symbol BER 1.0e-16 since it was cleared 120.5 minutes ago, 1e-15 is allowed; "
        "Mellanox MCP1650-H001E30 MT2040VS00001, 46 [-5..75] C"
    )
    pod.rules = LinkPolicy(symbol_ber=1e-17)
    assert signals(pod, said(**{"Symbol BER": "1E-16"}))["node3/ib0 - leaf1/3"].outcome is FAIL


def test_a_node_without_the_tools_is_a_note(pod: Any) -> None:
    found = signals(pod, '{"absent": true}\n')
    assert {one.outcome for one in found.values()} == {PASS}
    assert len({(one.what, one.next_step) for one in found.values()}) == 1


@pytest.mark.parametrize(
    "text",
    ["", "-E- no device", "[]", '{"result": {}}', '{"status": {"code": 1, "message": "no such device"}}'],
)
def test_odd_answers_are_unknown(pod: Any, text: str) -> None:
    assert {one.outcome for one in signals(pod, text).values()} == {UNKNOWN}


def test_a_tool_that_fails_is_unknown(pod: Any) -> None:
    assert {one.outcome for one in signals(pod, "", rc=1).values()} == {UNKNOWN}


def test_the_tool_is_called_for_the_port(pod: Any, tmp_path: Path) -> None:
    node = pod.fabric.device("node1")
    ports = (replace(node.ports[0], rdma="mlx5_2/2"),)
    (query,) = finder.link_check("hca_signal").queries(replace(node, ports=ports))
    tool = tmp_path / "mstlink"
    tool.write_text('#!/bin/sh\necho "$*"\n')
    tool.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(query.argv, env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "-d mlx5_2 -p 2 -c -m --json\n"
    tool.unlink()
    done = subprocess.run(query.argv, env=env, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"absent": True}


def test_an_inventory_without_verbs_devices_is_unknown(pod: Any) -> None:
    pod.fabric = replace(
        pod.fabric,
        devices=tuple(
            replace(d, ports=tuple(replace(p, rdma="") for p in d.ports)) for d in pod.fabric.devices
        ),
    )
    survey = pod.survey("good")
    assert {one.outcome for one in pod.of("hca_signal", survey).values()} == {UNKNOWN}
    assert finder.link_check("hca_signal").queries(pod.fabric.device("node1")) == ()


def pci(board: str) -> str:
    """Return what the script of ``plugin/pci.py`` prints of a node with one HCA."""
    path = "/sys/devices/pci0000:00/0000:17:00.0"
    lines = [
        f"port ib0 {path}",
        f"{path}/uevent:DRIVER=mlx5_core",
        f"{path}/uevent:PCI_ID=15B3:101B",
        *([f"/sys/class/infiniband/mlx5_0/board_id:{board}"] if board else []),
        "done",
    ]
    return "\n".join(lines) + "\n"


def boards(pod: Any, **odd: str) -> Any:
    survey = pod.survey("good")
    seen = {
        name: replace(one, answers={"pci": Answer(0, pci(odd.get(name, "MT_0000000223")), "")})
        for name, one in survey.devices.items()
    }
    return pod.of("hca_board", replace(survey, devices=seen))


def test_boards_that_are_alike(pod: Any) -> None:
    found = boards(pod)
    assert len(found) == 8
    assert pod.odd(found) == {}
    assert found["node3/ib0 - leaf1/3"].what == "board MT_0000000223, as 8 of 8 HCAs 15b3:101b"


def test_the_odd_board_is_named(pod: Any) -> None:
    found = boards(pod, node3="DEL0000000010")
    assert pod.odd(found) == {"node3/ib0 - leaf1/3": FAIL}
    assert found["node3/ib0 - leaf1/3"].what == (
        "board DEL0000000010; 7 of 8 HCAs 15b3:101b are MT_0000000223"
    )


def test_as_many_of_one_as_of_another_name_both(pod: Any) -> None:
    found = boards(pod, **dict.fromkeys(("node1", "node2", "node3", "node4"), "DEL0000000010"))
    assert pod.odd(found) == {"fabric": FAIL}
    assert "DEL0000000010: node1/ib0" in found["fabric"].what


def test_a_node_that_does_not_say_its_board_is_unknown(pod: Any) -> None:
    found = boards(pod, node3="")
    assert pod.odd(found) == {"node3/ib0 - leaf1/3": UNKNOWN}


@pytest.mark.parametrize("check", ["hca_board", "hca_signal"])
def test_nodes_that_cannot_be_asked(pod: Any, check: str) -> None:
    survey = pod.survey("good")
    seen = {
        name: replace(one, first=replace(one.first, error="no route to host"))
        for name, one in survey.devices.items()
    }
    found = finder.link_check(check).judge(replace(survey, devices=seen))
    assert [(one.subject, one.outcome) for one in found] == [("fabric", UNKNOWN)]
    assert finder.link_check(check).judge(replace(survey, devices={})) == ()
