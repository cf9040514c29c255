"""Broken inventories and policies, each with the exact lines that the author gets to read."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from fabricctl import inventory
from fabricctl.errors import InventoryError
from fabricctl.inventory.policy import is_policy, read_policy

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
        "policy.yml:8: limits: no latency, loss or bandwidth limit: nothing could ever be certified"
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
    assert lines[0].startswith("inventory.yml:10: node1: fabric_x0: unknown key; known: fabric_ca_file, ")
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


@pytest.mark.parametrize("name", ["/dev/zero", "/dev/null"])
def test_a_device_is_no_inventory(name: str) -> None:
    with pytest.raises(inventory.InventoryFileError, match=f"^{name}: is neither a file nor a folder"):
        inventory.read(Path(name))


@pytest.mark.parametrize("way", ["option", "variable"])
@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_a_pipe_or_a_folder_is_no_policy_and_nobody_waits_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("inventory.yml").write_text(INVENTORY)
    if kind == "pipe":
        os.mkfifo("policy.yml")
    else:
        Path("policy.yml").mkdir()
    with pytest.raises(inventory.InventoryFileError, match=r"policy\.yml:? is not a regular file") as caught:
        inventory.read(Path("inventory.yml"), policy=Path("policy.yml") if way == "option" else None)

    assert len(caught.value.lines) == 1


def test_a_pipe_among_the_variables_is_refused_and_nobody_waits_for_it(tmp_path: Path) -> None:
    (tmp_path / "inventory.yml").write_text("all: {}\n")
    (tmp_path / "group_vars").mkdir()
    os.mkfifo(tmp_path / "group_vars/all.yml")
    with pytest.raises(inventory.InventoryFileError, match=r"group_vars/all\.yml: is neither a file nor"):
        inventory.read(tmp_path / "inventory.yml")


def test_a_pipe_in_a_folder_is_no_inventory(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text(INVENTORY)
    os.mkfifo(tmp_path / "more")
    (tmp_path / "gone.yml").symlink_to("nowhere")
    with pytest.raises(inventory.InventoryFileError) as caught:
        inventory.read(tmp_path)

    advice = "is neither a file nor a folder; write the inventory to a file"
    assert caught.value.lines == (f"{tmp_path}/gone.yml: {advice}", f"{tmp_path}/more: {advice}")


@pytest.mark.parametrize("file", ["inventory.yml", "hosts", "group_vars/nodes.yml"])
@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("a: &a [*a]", "1: an alias of this stands within itself: it has no end; write the value out"),
        (
            "all:\n  children: &c\n    x: {children: *c}",
            "2: an alias of this stands within itself: it has no end; write the value out",
        ),
        (
            "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60)),
            "23: its aliases stand for more than 10,000,000 values",
        ),
        ("a: &a {x: 1}\n" + "b: {<<: &b {<<: [*a, *b]}}", "2: an alias of this stands within itself"),
    ],
    ids=["itself", "a group in itself", "too much", "merged"],
)
def test_aliases_without_an_end_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, text: str, what: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("group_vars").mkdir()
    Path("inventory.yml").write_text(INVENTORY)
    Path("policy.yml").write_text(POLICY)
    Path(file).write_text(text)
    with pytest.raises(inventory.InventoryFileError) as caught:
        inventory.read(Path("hosts" if file == "hosts" else "inventory.yml"))

    assert len(caught.value.lines) == 1
    assert caught.value.lines[0].startswith(f"{file}:{what}")


def test_a_policy_with_shared_aliases_is_read_and_walked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shared = "any: &x {p50_us: 10}"
    text = POLICY.replace("any: {p50_us: 10, p99_us: 30}", f"{{{shared}, same_leaf: *x}}")
    Path("policy.yml").write_text(text.replace("    read_latency:\n      {", "    read_latency: {"))
    assert len(read_policy(Path("policy.yml")).limits.latency) == 2

    layers = "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 20))
    Path("policy.yml").write_text(f"a0: &a0 {{k: 2026-13-01, k: 2}}\n{layers}")
    with pytest.raises(inventory.InventoryFileError) as caught:
        read_policy(Path("policy.yml"))
    assert caught.value.lines == ("policy.yml:1: cannot be used: 2026-13-01; put it in quotes",)


@pytest.mark.parametrize("text", ["[" * 5000, "- " * 5000, "{<<: " * 900 + "{}" + "}" * 900])
def test_what_is_nested_too_deeply_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("policy.yml").write_text(text)
    with pytest.raises(inventory.InventoryFileError) as caught:
        read_policy(Path("policy.yml"))

    assert len(caught.value.lines) == 1


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"name: a\x07b\n", "1: not valid YAML: unacceptable character #x0007"),
        (b"name: \xff\n", "1: not valid YAML: 'utf-8' codec can't decode byte 0xff"),
        (b"? [a, b]\n: 1\n", "1: cannot be used: found unhashable key"),
        (b"!x 3: 1\nmtu: 1\n", "1: cannot be used: could not determine a constructor for the tag '!x'"),
        (None, " cannot be read: No such file or directory"),
    ],
)
def test_a_policy_that_is_no_text_or_no_mapping_of_texts_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None, what: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if content is not None:
        Path("policy.yml").write_bytes(content)
    with pytest.raises(inventory.InventoryFileError) as caught:
        read_policy(Path("policy.yml"))

    assert len(caught.value.lines) == 1
    assert caught.value.lines[0].startswith(f"policy.yml:{what}")


def test_what_others_wrote_moves_no_cursor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = INVENTORY.replace("        node2:\n", '        node2:\n          "fabric_\\e[2J\\n\\u202ex": 1\n')
    lines = _lines(tmp_path, monkeypatch, odd, POLICY)

    assert lines[0].startswith(r"inventory.yml:13: node2: fabric_\x1b[2J\n\u202ex: unknown key; known: ")
    assert all(line.isprintable() for line in lines)


def test_a_key_of_thousands_of_characters_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = _lines(tmp_path, monkeypatch, INVENTORY, f"{'k' * 900}: 1\n{POLICY}")

    assert lines[0].startswith(f"policy.yml:1: {'k' * 64}...: unknown key; known: ")


def test_a_name_that_no_file_can_have_is_a_file_that_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = _lines(tmp_path, monkeypatch, INVENTORY.replace("policy.yml", "x" * 300), POLICY)

    assert lines == [
        f"inventory.yml:3: all: fabric_policy: there is no file {'x' * 300}; it is relative to the inventory"
    ]


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


def test_a_number_of_thousands_of_digits_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = _lines(tmp_path, monkeypatch, INVENTORY, POLICY.replace("p50_us: 10", f"p50_us: {'9' * 5000}"))

    assert lines == [f"policy.yml:11: cannot be used: {'9' * 40}...; put it in quotes"]


@pytest.mark.parametrize(("named", "said"), [(".", "."), ("../site", "."), ("", ".")])
def test_a_folder_with_a_policy_in_it_is_no_inventory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, said: str
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.chdir(site)
    (site / "inventory.yml").write_text(INVENTORY)
    (site / "policy.yml").write_text(POLICY)
    with pytest.raises(inventory.InventoryFileError) as caught:
        inventory.read(Path(named))

    assert caught.value.lines == (f"{said}: it holds policy.yml, which is no inventory; name inventory.yml",)


def test_a_policy_below_the_folder_is_found_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "site.yml").write_text(POLICY)
    (tmp_path / "hosts").write_text("node1")
    with pytest.raises(InventoryError, match=r"it holds policies/site.yml, .*; name the inventory file"):
        inventory.read(Path())


def test_a_folder_without_a_policy_is_an_inventory(tmp_path: Path) -> None:
    (tmp_path / "hosts.yml").write_text("all: {hosts: {a: {}}}\n")
    (tmp_path / "broken.yml").write_text("mtu: [")

    assert not is_policy(tmp_path / "hosts.yml")
    assert not is_policy(tmp_path / "broken.yml")


@pytest.mark.parametrize(
    ("file", "text", "line"),
    [
        ("inventory.yml", INVENTORY.replace("node2:", "node[2-4]:"), 12),
        ("inventory.yml", INVENTORY.replace("node2:", "node[2]:"), 12),
        ("hosts", "[nodes]\nnode1\nnode[2-4] ansible_host=x\n", 3),
    ],
)
def test_a_range_that_is_not_ansible_s_is_named_with_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_place_of_ansible: Any, file: str, text: str, line: int
) -> None:
    def refuse(*_: object) -> str:
        raise InventoryError("Ansible cannot read it: host range must be begin:end or begin:end:step")

    in_place_of_ansible(refuse)
    monkeypatch.chdir(tmp_path)
    Path(file).write_text(text)
    with pytest.raises(InventoryError) as caught:
        inventory.read(Path(file))

    assert re.fullmatch(
        rf"{file}:{line}: 'node\[2.*\]': Ansible's host range must be begin:end; write node\[1:4\]",
        str(caught.value),
    )


def test_what_ansible_says_of_a_range_that_cannot_be_found_is_kept(
    tmp_path: Path, in_place_of_ansible: Any
) -> None:
    def refuse(*_: object) -> str:
        raise InventoryError("Ansible cannot read it: host range must be begin:end", where="i")

    in_place_of_ansible(refuse)
    (tmp_path / "inventory.yml").write_text(INVENTORY.replace("node2:", "node[2:4]:"))
    with pytest.raises(InventoryError, match="i: Ansible cannot read it: host range must be begin:end"):
        inventory.read(tmp_path / "inventory.yml")
