"""Staged, applied with NVUE's own timer, confirmed or taken back: what a push leaves on a switch."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from typing import Any

import pytest

from fabricctl.drivers.switch.cumulus import channels
from fabricctl.model.reading import Known

Make = Callable[..., Any]

RELEASES = ["5.4.0", "5.9.1", "5.16.0"]
"""Without a list of revisions; with one; with another spelling of much."""


@pytest.fixture(params=RELEASES)
def each(make: Make, request: pytest.FixtureRequest) -> Any:
    return make(request.param)


def _wishes(bench: Any) -> dict[str, Any]:
    return {"swp1": bench.wanted(), "swp2": bench.wanted()}


def _set(bench: Any) -> Any:
    done = bench.push(_wishes(bench))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "fabricctl-port swp1 0\nfabricctl-port swp2 0\n"
    return bench.config()


def test_a_push_is_confirmed_and_saved_and_leaves_nothing(each: Any) -> None:
    applied = _set(each)
    assert each.settings()["boot"] == Known("none")
    done = each.confirm(1)
    assert (done.returncode, done.stderr) == (0, "")
    assert each.settings()["boot"] == Known("saved")
    state = each.state()
    assert (state["applied"], state["startup"], state["waits"], state["staged"]) == (
        applied,
        applied,
        None,
        "",
    )
    assert each.leftovers() == []
    each.sim.pass_time(10_000)
    assert each.config() == applied


def test_what_is_not_confirmed_nvue_takes_back_by_itself(each: Any) -> None:
    _set(each)
    each.sim.pass_time(599)
    assert each.config() != {}
    each.sim.pass_time(2)
    assert each.config() == {}
    assert each.state()["startup"] == {}


def test_a_confirm_that_comes_too_late_fails_and_saves_nothing(each: Any) -> None:
    _set(each)
    each.sim.pass_time(601)
    each.log()
    done = each.confirm(1)
    assert done.returncode == 78
    assert done.stderr == "fabricctl: apply-20261130-1.0001 was reverted before it was confirmed\n"
    assert "config save" not in each.log()
    assert (each.config(), each.leftovers()) == ({}, [])


def test_a_revert_takes_it_back_at_once(each: Any) -> None:
    _set(each)
    done = each.revert()
    assert (done.returncode, done.stderr) == (0, "")
    assert (each.config(), each.state()["waits"], each.leftovers()) == ({}, None, [])
    again = each.revert()
    assert (again.returncode, again.stderr) == (0, "")


def test_a_revert_of_nothing_is_success(bench: Any) -> None:
    assert bench.revert().returncode == 0


def test_what_was_confirmed_is_not_reverted(each: Any) -> None:
    applied = _set(each)
    each.confirm(1)
    assert each.revert().returncode == 0
    assert each.config() == applied


def test_a_second_push_of_the_same_stages_nothing(each: Any) -> None:
    _set(each)
    each.confirm(1)
    text = each.driver.method.push("apply-20261130-2", 1, _again(each), 600)
    each.log()
    done = each.ordered(text)
    assert (done.returncode, done.stdout) == (0, "fabricctl-port swp1 0\n")
    assert not [line for line in each.log() if "patch" in line or "apply" in line]
    assert each.confirm(1, apply="apply-20261130-2").returncode == 0


def _again(bench: Any) -> list[Any]:
    (goal,) = bench.goals({"swp1": {"trust": "pcp"}})
    names = tuple(name for name in bench.wanted() if name not in bench.driver.unsupported)
    wanted = bench.known(*names)
    return [type(goal)(goal.port, tuple(wanted), wanted, wanted)]


def test_confirming_what_was_not_pushed_saves_what_runs(make: Make) -> None:
    bench = make("5.8.0")
    bench.sim.by_hand({"interface": {"swp1": {"link": {"mtu": 9000}}}}, save=False)
    assert bench.settings()["boot"] == Known("none")
    assert bench.confirm().returncode == 0
    assert bench.settings()["boot"] == Known("saved")


@pytest.mark.parametrize("version", ["5.8.0", "5.9.1"])
def test_it_is_saved_whether_the_switch_saves_by_itself_or_not(make: Make, version: str) -> None:
    """Up to 5.8 ``nv config save`` is needed, from 5.9 on NVUE saves what is applied."""
    bench = make(version)
    _set(bench)
    assert bench.confirm(1).returncode == 0
    assert bench.state()["startup"] == bench.state()["applied"]


def test_auto_save_that_is_switched_off_is_no_matter(make: Make) -> None:
    bench = make("5.14.0", {"system": {"config": {"auto-save": {"state": "disabled"}}}})
    _set(bench)
    assert bench.confirm(1).returncode == 0
    assert bench.settings()["boot"] == Known("saved")


@pytest.mark.parametrize(("within_s", "word"), [(600, "10m"), (90, "90s"), (60, "1m")])
def test_the_timer_is_told_its_unit(bench: Any, within_s: int, word: str) -> None:
    """Without one the number is taken for minutes."""
    bench.push({"swp1": bench.wanted()}, within_s=within_s)
    assert [line for line in bench.log() if "--confirm" in line] == [f"config apply --confirm {word} -y"]
    bench.sim.pass_time(within_s + 1)
    assert bench.config() == {}


# Others at work


def test_an_apply_that_waits_keeps_the_next_out(each: Any) -> None:
    applied = _set(each)
    done = each.push({"swp1": {"mtu_bytes": 9000}}, apply="apply-20261130-2")
    assert done.returncode == 75
    assert "waits to be confirmed here; confirm it or let its timer revert it" in done.stderr
    assert each.config() == applied
    assert each.confirm(1).returncode == 0


def test_an_apply_that_its_timer_has_reverted_keeps_nobody_out(each: Any) -> None:
    _set(each)
    each.sim.pass_time(601)
    done = each.push({"swp1": {"mtu_bytes": 9000}}, apply="apply-20261130-2")
    assert (done.returncode, done.stderr) == (0, "")
    assert each.confirm(1, apply="apply-20261130-2").returncode == 0
    assert each.leftovers() == []


def test_a_confirm_of_somebody_else_keeps_it_out(bench: Any) -> None:
    with bench.sim.open() as switch:
        revision = switch.revise()
        switch.patch(revision, {"interface": {"swp9": {"link": {"mtu": 9000}}}})
        switch.apply(revision, 300)
    done = bench.push(_wishes(bench))
    assert done.returncode == 75
    assert done.stderr.startswith("fabricctl: revision 2 waits to be confirmed here")


@pytest.mark.parametrize("apply", ["apply-20261130-1", "apply-20261130-2"])
def test_confirming_what_was_not_pushed_saves_nothing_while_an_apply_waits(each: Any, apply: str) -> None:
    """What is in place may be another controller's, and is about to be reverted."""
    _set(each)
    each.log()
    done = each.confirm(apply=apply)
    assert (done.returncode, done.stderr) == (
        75,
        "fabricctl: apply-20261130-1 waits to be confirmed here; confirm it or let its timer revert it\n",
    )
    assert "config save" not in each.log()
    assert each.state()["startup"] == {}
    # The one that waits is as it was.
    assert each.confirm(1).returncode == 0
    assert each.settings()["boot"] == Known("saved")


def test_confirming_what_was_not_pushed_heeds_a_confirm_of_somebody_else(bench: Any) -> None:
    with bench.sim.open() as switch:
        revision = switch.revise()
        switch.patch(revision, {"interface": {"swp9": {"link": {"mtu": 9000}}}})
        switch.apply(revision, 300)
    done = bench.confirm()
    assert done.returncode == 75
    assert done.stderr.startswith("fabricctl: revision 2 waits to be confirmed here")
    assert bench.state()["startup"] == {}
    bench.sim.pass_time(301)
    assert bench.confirm().returncode == 0


def test_a_push_that_had_nothing_to_change_is_not_confirmed_while_another_waits(bench: Any) -> None:
    _set(bench)
    assert bench.confirm(1).returncode == 0
    again = bench.driver.method.push("apply-20261130-2", 1, _again(bench), 600)
    assert bench.ordered(again).returncode == 0
    saved = bench.state()["startup"]
    with bench.sim.open() as switch:
        revision = switch.revise()
        switch.patch(revision, {"interface": {"swp9": {"link": {"mtu": 9000}}}})
        switch.apply(revision, 300)
    done = bench.confirm(1, apply="apply-20261130-2")
    assert done.returncode == 75
    assert bench.state()["startup"] == saved
    bench.sim.pass_time(301)
    assert bench.confirm(1, apply="apply-20261130-2").returncode == 0


def test_an_apply_that_its_timer_has_reverted_keeps_no_confirm_out(each: Any) -> None:
    _set(each)
    each.sim.pass_time(601)
    done = each.confirm(apply="apply-20261130-2")
    assert (done.returncode, done.stderr) == (0, "")


def test_an_applied_configuration_that_does_not_come_is_no_empty_one(
    each: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoken = channels.Cli._run  # noqa: SLF001  what nv prints

    def cut(self: Any, *words: str) -> str:
        return "" if words[:2] == ("config", "show") else spoken(self, *words)

    goals = each.driver.method.push("apply-20261130-1", 1, each.goals(_wishes(each)), 600)
    monkeypatch.setattr(channels.Cli, "_run", cut)
    done = each.ordered(goals)
    assert (done.returncode, done.stderr) == (
        1,
        "fabricctl: nv config show: it printed nothing\n",
    )
    assert (each.config(), each.state()["staged"]) == ({}, "")


def test_changes_that_somebody_has_staged_are_not_applied_with_ours(each: Any) -> None:
    with each.sim.open() as switch:
        switch.state["staged"] = switch.revise()
        switch.patch(switch.state["staged"], {"interface": {"swp9": {"link": {"mtu": 9000}}}})
    done = each.push(_wishes(each))
    assert done.returncode == 75
    assert "changes are staged here and not applied" in done.stderr
    assert each.config() == {}
    # Theirs is still staged.
    assert each.state()["staged"]


def test_two_pushes_at_once_wait_for_each_other(bench: Any) -> None:
    _set(bench)
    with (bench.folder / "run" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = bench.confirm(1)
    assert (done.returncode, done.stderr) == (
        75,
        "fabricctl: another change is at work on this switch; try again\n",
    )


def test_ports_of_others_are_not_in_the_change(each: Any) -> None:
    each.sim.by_hand(
        {"interface": {"swp3": {"type": "swp", "link": {"mtu": 1500}, "qos": {"pfc": {"profile": "x"}}}}}
    )
    each.sim.by_hand({"qos": {"pfc": {"x": {"cable-length": 9}}}})
    before = each.config()
    _set(each)
    assert each.config()["interface"]["swp3"] == before["interface"]["swp3"]
    assert each.config()["qos"]["pfc"]["x"] == before["qos"]["pfc"]["x"]


# Refusals


@pytest.mark.parametrize("fault", ["refuse_patch", "refuse_apply"])
def test_a_refusal_is_told_in_nvues_words_and_nothing_is_left(each: Any, fault: str) -> None:
    each.sim.fault(**{fault: "switchd says no"})
    done = each.push(_wishes(each))
    assert done.returncode == 1
    assert done.stdout == ""
    assert "switchd says no" in done.stderr
    state = each.state()
    assert (state["applied"], state["staged"], state["waits"]) == ({}, "", None)
    assert each.leftovers() == []
    each.sim.fault(**{fault: None})
    _set(each)


def test_pfc_without_memory_for_it_is_refused_before_anything_is_staged(make: Make) -> None:
    pools = {"default-lossy": {"memory-percent": 70}, "mc-lossy": {"memory-percent": 30}}
    bench = make("5.9.1", {"qos": {"traffic-pool": pools}})
    done = bench.push(_wishes(bench))
    assert done.returncode == 1
    assert done.stderr.startswith("fabricctl: lossless_buffers: the traffic pools")
    assert not [line for line in bench.log() if "patch" in line]


def test_an_apply_that_does_not_wait_is_told(make: Make) -> None:
    bench = make("5.9.1")
    bench.sim.fault(ignore_confirm=True)
    done = bench.push(_wishes(bench))
    assert done.returncode == 77
    assert "does not wait to be confirmed: nothing takes it back by itself" in done.stderr


def test_a_confirm_that_does_not_take_is_no_success(each: Any) -> None:
    _set(each)
    each.sim.fault(drop_confirm=True)
    done = each.confirm(1)
    if each.sim.release >= (5, 5):
        assert done.returncode == 1
        assert done.stderr == "fabricctl: revision 2 still waits to be confirmed\n"
    each.sim.pass_time(601)
    assert each.config() == {}


def test_a_revert_that_does_not_take_is_no_success(bench: Any) -> None:
    _set(bench)
    bench.sim.fault(drop_confirm=True)
    done = bench.revert()
    assert (done.returncode, done.stderr) == (
        1,
        "fabricctl: revision 2 is not taken back; its timer does it\n",
    )


def test_a_confirm_can_be_repeated_when_saving_failed(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _set(bench)
    with monkeypatch.context() as patched:
        patched.setattr(channels.Cli, "save", lambda _: None)
        patched.setattr(channels.Cli, "unsaved", lambda _: [{"set": {"qos": {}}}])
        done = bench.confirm(1)
    assert done.returncode == 1
    assert done.stderr.startswith("fabricctl: the configuration was not saved")
    assert bench.confirm(1).returncode == 0
    assert bench.leftovers() == []


def test_an_apply_that_nvue_says_it_did_and_did_not_is_seen(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels.Cli, "applied", lambda _self: {})
    done = bench.push(_wishes(bench))
    assert done.returncode == 1
    assert done.stderr.startswith("fabricctl: NVUE said that it applied it, but ")
    monkeypatch.undo()


def test_what_is_removed_and_what_is_set_are_two_patches(bench: Any) -> None:
    """NVUE has no order within a patch, and does not support both in one."""
    pools = {"default-lossless": {"memory-percent": 50}, "default-lossy": {"memory-percent": 50}}
    bench.sim.by_hand(
        {
            "interface": {"swp1": {"qos": {"link-pause": {"profile": "p"}}}},
            "qos": {"link-pause": {"p": {"rx": "enable"}}, "traffic-pool": pools},
        }
    )
    bench.log()
    assert bench.push({"swp1": bench.wanted()}).returncode == 0
    assert len([line for line in bench.log() if line.startswith("config patch")]) == 2


def test_a_rollback_by_values_leads_back_to_the_first_reading(each: Any) -> None:
    before = {port: dict(reading.settings) for port, reading in each.read().items()}
    _set(each)
    each.confirm(1)
    old = {
        port: {
            name: entry.value for name, entry in found.items() if isinstance(entry, Known) and name != "boot"
        }
        for port, found in before.items()
    }
    assert each.push(old, slot=2).returncode == 0
    assert each.confirm(2).returncode == 0
    assert {port: dict(reading.settings) for port, reading in each.read().items()} == before
    assert "fabricctl-" not in str(each.config())
