"""The very scripts, under dash, with the simulated ``nv`` as a program."""

from __future__ import annotations

from typing import Any

from fabricctl.model.reading import Known


def test_the_queries_of_a_shell_say_what_nv_says(bench: Any) -> None:
    bench.sim.by_hand({"interface": {"swp1": {"link": {"mtu": 9000}}}})
    here, there = bench.answers(), bench.answers_of_a_shell()
    assert {key: (answer.rc, answer.stdout.split()) for key, answer in here.items()} == {
        key: (there[key].rc, there[key].stdout.split()) for key in here
    }
    ports, facts = bench.driver.parse(bench.ports, there)
    assert ports[bench.ports[0].id].settings["mtu_bytes"] == Known(9000)
    assert ports[bench.ports[1].id].counters["pfc3.rx_frames"] == Known(3)
    assert isinstance(facts["kernel"], Known)


def test_a_push_and_a_confirm_as_programs_on_the_switch(bench: Any) -> None:
    method = bench.driver.method
    pushed = bench.shell(method.push("apply-1", 1, bench.goals({"swp1": bench.wanted()}), 600))
    assert (pushed.returncode, pushed.stdout, pushed.stderr) == (0, "fabricctl-port swp1 0\n", "")
    assert bench.goals({"swp1": bench.wanted()}) == []
    confirmed = bench.shell(method.confirm("apply-1", (1,)))
    assert (confirmed.returncode, confirmed.stdout, confirmed.stderr) == (0, "", "")
    assert bench.settings()["boot"] == Known("saved")
    assert bench.leftovers() == []


def test_a_session_that_breaks_in_the_middle_leaves_its_timer(bench: Any) -> None:
    """The program dies as soon as it has applied; the next revert finds and takes back what it left."""
    bench.sim.fault(die_after_apply=True)
    method = bench.driver.method
    broken = bench.shell(method.push("apply-1", 1, bench.goals({"swp1": bench.wanted()}), 600))
    assert broken.returncode != 0
    assert bench.state()["waits"]["revision"] == "2"
    bench.sim.fault(die_after_apply=None)
    reverted = bench.ordered(method.revert("apply-1", ()))
    assert (reverted.returncode, bench.config()) == (0, {})


def test_a_session_that_breaks_is_ended_by_nvues_timer(bench: Any) -> None:
    bench.sim.fault(die_after_apply=True)
    bench.shell(bench.driver.method.push("apply-1", 1, bench.goals({"swp1": bench.wanted()}), 600))
    bench.sim.pass_time(601)
    assert bench.config() == {}


def test_a_slow_switch_shows_what_it_has_time_for(bench: Any) -> None:
    """A switch that needs long for each port keeps its settings readable; counters are what is left out."""
    answers = bench.answers()
    each = answers["nv show each"]
    answers["nv show each"] = type(each)(0, each.stdout.partition("== /nvue_v1/interface/swp2")[0], "")
    ports, _ = bench.driver.parse(bench.ports, answers)
    second = ports[bench.ports[1].id]
    assert "pfc3.rx_frames" not in second.counters
    assert second.facts["headroom_bytes"].reason == (
        "nv show: the switch took more than 12 s for the ports before it"
    )
    assert second.settings["trust"] == Known("pcp")
