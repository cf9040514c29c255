"""``fabricctl check`` and ``fabricctl init`` as a user calls them."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner

from fabricctl.cli import check, init, main
from fabricctl.errors import UsageError


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(init.command).exit_code == 0
    return tmp_path


def test_init_writes_files_that_check_passes(site: Path) -> None:
    assert sorted(path.name for path in site.iterdir()) == ["inventory.yml", "policy.yml"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in site.iterdir()} == {0o600}

    result = CliRunner().invoke(check.command)

    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0] == "2 nodes, 1 switch, 4 ports, 2 cables; policy site"
    assert [line.split() for line in lines[1:6]] == [
        ["agreement", "pass", "2", "pass"],
        ["capability", "pass", "2", "pass"],
        ["chain", "pass", "4", "pass"],
        ["headroom", "pass", "2", "pass"],
        ["watchdog", "pass", "1", "pass"],
    ]
    assert lines[-1] == "outcome: pass"


def test_init_says_what_to_do_next(tmp_path: Path) -> None:
    result = CliRunner().invoke(init.command, [str(tmp_path / "new")])

    last = result.stdout.splitlines()[-1]
    assert (
        last == f"next: describe your fabric in them, then run: fabricctl check {tmp_path}/new/inventory.yml"
    )


def test_init_quotes_a_folder_that_a_shell_would_take_apart(tmp_path: Path) -> None:
    result = CliRunner().invoke(init.command, [str(tmp_path / "my; fabric")])

    assert result.stdout.splitlines()[-1].endswith(f"fabricctl check '{tmp_path}/my; fabric/inventory.yml'")


@pytest.mark.parametrize("words", [[""], ["-i", ""], ["--policy", ""], [" "]])
def test_an_empty_path_is_wrong_usage(site: Path, words: list[str]) -> None:
    assert site.is_dir()
    result = CliRunner().invoke(check.command, words)
    assert result.exit_code == 2
    assert "it is empty; name a file, or leave it out" in result.output


def test_the_folder_that_init_made_is_no_inventory(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["check", str(site)]) == 2
    assert capsys.readouterr().err == (
        "fabricctl: .: it holds policy.yml, which is no inventory; name inventory.yml\n"
    )


def test_init_overwrites_only_when_told_to(site: Path) -> None:
    (site / "policy.yml").write_text("mine")
    (site / "inventory.yml").unlink()

    refused = CliRunner().invoke(init.command)
    assert isinstance(refused.exception, UsageError)
    assert refused.exception.what == "policy.yml would be overwritten"
    assert (site / "policy.yml").read_text() == "mine"
    assert not (site / "inventory.yml").exists()

    assert CliRunner().invoke(init.command, ["--force"]).exit_code == 0
    assert (site / "policy.yml").read_text() != "mine"


def test_init_where_nothing_can_be_written_is_one_clear_line(site: Path) -> None:
    (site / "file").write_text("")

    result = CliRunner().invoke(init.command, [str(site / "file" / "below")])

    assert isinstance(result.exception, UsageError)
    assert result.exception.next_step == "choose a folder that you may write to"


def test_a_failed_check_is_shown_in_full_and_exits_1(site: Path) -> None:
    policy = site / "policy.yml"
    policy.write_text(policy.read_text().replace("\npfc_priorities: [3]", "\npfc_priorities: [3, 6]"))

    result = CliRunner().invoke(check.command)

    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1] == "outcome: fail"
    assert (
        "fail: 4 ports (node1/eth1, node2/eth1, leaf1/swp1 and 1 more): "
        f"CNPs ride priority 6, which PFC can pause; mend the policy {policy} [chain]"
    ) in result.stdout.splitlines()


def test_what_cannot_be_judged_exits_4(site: Path) -> None:
    hosts = site / "inventory.yml"
    hosts.write_text(re.sub(r"\n *link: {switch: leaf1, port: swp2.*", "", hosts.read_text()))

    result = CliRunner().invoke(check.command, ["--json"])

    assert result.exit_code == 4
    report = json.loads(result.stdout)
    assert report["outcome"] == "unknown"
    assert [f["subject"] for f in report["findings"] if f["outcome"] != "pass"] == ["node2/eth1"]


def test_mistakes_come_one_a_line_and_exit_2(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hosts = site / "inventory.yml"
    hosts.write_text(hosts.read_text().replace("cable_length_m: 3", "cable_lenght_m: 3"))
    capsys.readouterr()

    assert main.run(["check"]) == 2

    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("fabricctl: ")]
    assert [re.sub(r".*: (\w+): .*: unknown", r"\1: unknown", line) for line in errors] == [
        "node1: unknown key; did you mean cable_length_m?",
        "node2: unknown key; did you mean cable_length_m?",
    ]
