"""What ``fabricctl check`` prints: a finding of many ports is one line, JSON keeps each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from fabricctl.cli import check, init
from fabricctl.cli.findings import grouped
from fabricctl.model.fabric import Device, Endpoint, Fabric, Port, Role
from fabricctl.model.names import PortId
from fabricctl.model.verdict import Finding, Outcome

PORTS = tuple(Port(PortId("leaf1", f"Ethernet{number}")) for number in range(0, 136, 4))
SWITCH = Device("leaf1", Role.SWITCH, "sonic", Endpoint("s"), PORTS)
OTHER = Device("leaf2", Role.SWITCH, "sonic", Endpoint("s"), ())
FABRIC = Fabric((SWITCH, OTHER), ())


def _lines(*findings: Finding) -> list[str]:
    return list(grouped(FABRIC, findings))


def _fail(subject: object, what: str = "no", advice: str = "mend it") -> Finding:
    return Finding("chain", str(subject), Outcome.FAIL, what, next_step=advice)


def test_one_finding_of_34_ports_is_one_line() -> None:
    assert _lines(*(_fail(port.id) for port in PORTS)) == [
        "fail: 34 ports (leaf1/Ethernet0, leaf1/Ethernet4, leaf1/Ethernet8 and 31 more): no; mend it [chain]"
    ]


def test_up_to_three_are_all_named() -> None:
    assert _lines(*(_fail(port.id) for port in PORTS[:3])) == [
        "fail: 3 ports (leaf1/Ethernet0, leaf1/Ethernet4, leaf1/Ethernet8): no; mend it [chain]"
    ]
    assert _lines(_fail(PORTS[0].id)) == ["fail: leaf1/Ethernet0: no; mend it [chain]"]


def test_links_devices_and_others_are_counted_as_what_they_are() -> None:
    links = [f"leaf1/{name} - node1/{name}" for name in ("a", "b")]
    assert _lines(*map(_fail, links))[0].startswith(f"fail: 2 cables ({links[0]}, {links[1]}): no")
    assert _lines(_fail("leaf1"), _fail("leaf2"))[0].startswith("fail: 2 devices (leaf1, leaf2): no")
    assert _lines(_fail("x"), _fail("leaf2"))[0].startswith("fail: x, leaf2: no")


@pytest.mark.parametrize(
    "other",
    [
        _fail("leaf2", "other"),
        _fail("leaf2", advice="other"),
        Finding("capability", "leaf2", Outcome.FAIL, "no", next_step="mend it"),
        Finding("chain", "leaf2", Outcome.UNKNOWN, "no", next_step="mend it"),
    ],
)
def test_what_differs_stays_apart(other: Finding) -> None:
    assert len(_lines(_fail("leaf1"), other)) == 2


def test_the_same_of_each_port_s_own_name_is_the_same() -> None:
    found = [_fail(port.id, f"{port.id.port!r} is no port of it") for port in PORTS]
    assert _lines(*found) == [
        (
            "fail: leaf1/Ethernet0: 'Ethernet0' is no port of it; the same goes for 33 ports "
            "(leaf1/Ethernet4, leaf1/Ethernet8, leaf1/Ethernet12 and 30 more); mend it [chain]"
        )
    ]


def test_notes_are_grouped_and_what_passed_without_one_is_not_shown() -> None:
    noted = [Finding("headroom", str(port.id), Outcome.PASS, "ok", next_step="n") for port in PORTS]
    passed = [Finding("headroom", str(port.id), Outcome.PASS, "ok") for port in PORTS]
    assert _lines(*noted, *passed) == [
        "note: 34 ports (leaf1/Ethernet0, leaf1/Ethernet4, leaf1/Ethernet8 and 31 more): ok"
    ]


def test_failures_come_before_notes() -> None:
    noted = Finding("a", "leaf1", Outcome.PASS, "ok", next_step="n")
    assert [line.split(":")[0] for line in _lines(noted, _fail("leaf2"))] == ["fail", "note"]


def test_text_groups_and_json_keeps_every_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(init.command).exit_code == 0
    policy = tmp_path / "policy.yml"
    policy.write_text(policy.read_text().replace("\npfc_priorities: [3]", "\npfc_priorities: [3, 6]"))

    text, as_json = CliRunner().invoke(check.command), CliRunner().invoke(check.command, ["--json"])

    assert text.exit_code == as_json.exit_code == 1
    lines = [line for line in text.stdout.splitlines() if line.startswith("fail: ")]
    assert lines == [
        (
            "fail: 4 ports (node1/eth1, node2/eth1, leaf1/swp1 and 1 more): "
            f"CNPs ride priority 6, which PFC can pause; mend the policy {policy} [chain]"
        )
    ]
    failed = [f for f in json.loads(as_json.stdout)["findings"] if f["outcome"] == "fail"]
    assert [f["subject"] for f in failed] == ["node1/eth1", "node2/eth1", "leaf1/swp1", "leaf1/swp2"]


def test_names_and_connections_that_a_driver_cannot_use_are_found_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(init.command).exit_code == 0
    hosts = tmp_path / "inventory.yml"
    hosts.write_text(hosts.read_text().replace("fabric_driver: linux", "fabric_driver: dell_sonic"))

    result = CliRunner().invoke(check.command)

    assert result.exit_code == 1
    assert [line for line in result.stdout.splitlines() if line.startswith("fail: ")] == [
        (
            "fail: leaf1/swp1: 'swp1' is no port of Enterprise SONiC; the same goes for leaf1/swp2; "
            'write it as "show interface status" does: Eth1/1, or Ethernet0 [capability]'
        ),
        (
            "fail: leaf1: the driver dell_sonic speaks to a command line, and ssh leads to a shell; "
            "set ansible_connection: ansible.netcommon.network_cli [capability]"
        ),
    ]
