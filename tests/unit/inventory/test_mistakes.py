"""Broken inventories and policies, each with the exact lines that the author gets to read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fabricctl import inventory
from fabricctl.inventory.policy import read_policy

pytestmark = pytest.mark.usefixtures("quick_ansible")

HERE = Path(__file__).parent
INVENTORY = (HERE / "sound_inventory.yml").read_text()
POLICY = (HERE / "sound_policy.yml").read_text()
CASES: dict[str, list[dict[str, Any]]] = yaml.safe_load((HERE / "mistakes.yml").read_text())


def _lines(folder: Path, monkeypatch: pytest.MonkeyPatch, hosts: str, policy: str) -> list[str]:
    monkeypatch.chdir(folder)
    (folder / "inventory.yml").write_text(hosts)
    (folder / "policy.yml").write_text(policy)
    with pytest.raises(inventory.InventoryFileError) as caught:
        inventory.read(Path("inventory.yml"))
    return list(caught.value.lines)


@pytest.mark.parametrize("case", CASES["inventory"], ids=lambda case: case["says"][0])
def test_an_inventory_mistake_is_named_with_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: dict[str, Any]
) -> None:
    assert INVENTORY.count(case["from"]) == 1, "the case must change one place"
    broken = INVENTORY.replace(case["from"], case["to"])

    assert _lines(tmp_path, monkeypatch, broken, POLICY) == case["says"]


@pytest.mark.parametrize("case", CASES["policy"], ids=lambda case: case["says"][0])
def test_a_policy_mistake_is_named_with_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: dict[str, Any]
) -> None:
    assert POLICY.count(case["from"]) == 1, "the case must change one place"
    monkeypatch.chdir(tmp_path)
    Path("policy.yml").write_text(POLICY.replace(case["from"], case["to"]))

    with pytest.raises(inventory.InventoryFileError) as caught:
        read_policy(Path("policy.yml"))

    assert list(caught.value.lines) == case["says"]


def test_an_empty_limits_section_certifies_nothing_and_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    policy = POLICY[: POLICY.index("limits:")] + "limits: {loss: off}\n"

    assert _lines(tmp_path, monkeypatch, INVENTORY, policy) == [
        "policy.yml:8: limits: no latency and no loss limit: nothing could ever be certified"
    ]


def test_mistakes_in_both_files_come_out_together_and_the_rest_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    typos = "".join(f"          fabric_x{i}: 1\n" for i in range(25))
    hosts = INVENTORY.replace(
        "          ansible_host: 192.0.2.1\n", f"          ansible_host: 192.0.2.1\n{typos}"
    )
    lines = _lines(tmp_path, monkeypatch, hosts, POLICY.replace("dscp: 26", "dscp: 99"))

    assert len(lines) == 21
    assert lines[0].startswith("inventory.yml:10: node1: fabric_x0: unknown key; known: fabric_driver, ")
    assert lines[-1] == "6 more problems are not shown; mend these first"


def test_an_inventory_without_a_fabric_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = _lines(tmp_path, monkeypatch, "all:\n  hosts: {login1: {ansible_host: 192.0.2.1}}\n", POLICY)

    what = "inventory.yml: no host has fabric_role: node and fabric_ports: there is no fabric to look at"
    assert lines == [f'{what}; see "fabricctl init" for an example']


def test_a_missing_inventory_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        inventory.InventoryFileError, match=r'there is no such inventory; write one with "fabricctl init"'
    ):
        inventory.read(tmp_path / "none.yml")


def test_a_port_of_the_other_link_layer_than_the_policy_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = INVENTORY.replace(
        "fabric_policy: policy.yml", "fabric_policy: policy.yml\n    fabric_link_layer: infiniband"
    )
    lines = _lines(tmp_path, monkeypatch, hosts, POLICY)

    assert lines[0] == (
        "inventory.yml:9: node1/eth1 is infiniband, the policy site is for ethernet; "
        "set fabric_link_layer, or choose another policy"
    )
