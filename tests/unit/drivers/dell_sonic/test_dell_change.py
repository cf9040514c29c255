"""Setting Dell Enterprise SONiC: twice, reverted by order or by its timer, confirmed, undone by values."""

from __future__ import annotations

from typing import Any

import pytest

from fabricctl.drivers.switch.dell_sonic import PLUGIN
from fabricctl.model import settings
from fabricctl.model.reading import Known
from fabricctl.plugin.protocols import PortGoal

BUSY, TOO_LATE = 75, 78


def held(bench: Any) -> dict[str, dict[str, Any]]:
    """Return what is read of each port, but for what a reboot would bring."""
    return {
        str(port): {name: entry for name, entry in reading.settings.items() if name != settings.BOOT}
        for port, reading in bench.readings().items()
    }


def test_what_was_set_is_read_back_and_a_second_push_has_nothing_to_do(bench: Any) -> None:
    lines = bench.set()
    assert "priority-flow-control priority 3" in lines
    assert bench.differs() == {}
    assert bench.known(settings.BOOT) == [settings.SAVED]
    assert bench.known(settings.PFC, settings.ECN, settings.ECN_KMIN, settings.ECN_KMAX) == [
        (3,),
        True,
        150_000,
        1_500_000,
    ]
    assert bench.switch.timers() == {}


def test_other_ports_and_foreign_objects_are_left_alone(make: Any) -> None:
    bench = make(2)
    bench.by_hand()
    foreign = [line for line in bench.running().splitlines() if line.startswith("qos ")]
    third = held(bench)[str(bench.id(2))]
    goals = [goal for goal in bench.goals(bench.wanted(mtu_bytes=9000)) if goal.port.id == bench.id(1)]
    assert bench.push(goals) == (0, "")
    assert bench.confirm() == (0, "")
    assert bench.known(settings.MTU) == [9000]
    assert held(bench)[str(bench.id(2))] == third
    assert [line for line in bench.running().splitlines() if line in foreign] == foreign


def test_what_is_not_confirmed_is_taken_back_by_order(bench: Any) -> None:
    before, text = held(bench), bench.running()
    assert bench.push(bench.goals(bench.wanted())) == (0, "")
    assert bench.known(settings.PFC) == [(3,)]
    assert bench.known(settings.BOOT) == [settings.NOT_KEPT]
    assert bench.revert() == (0, "")
    assert held(bench) == before
    assert bench.running() == text
    assert bench.switch.timers() == {}
    assert bench.revert() == (0, "")


def test_single_ports_are_taken_back(bench: Any) -> None:
    before = held(bench)
    assert bench.push(bench.goals(bench.wanted())) == (0, "")
    first, second = (str(bench.id(number)) for number in (1, 2))
    assert bench.revert(bench.id(1).port) == (0, "")
    shared = {settings.WATCHDOG_POLL, "dell_sonic.lines", "dell_sonic.objects"}
    after = held(bench)[first]
    # The other port still needs the objects and the switch's polling interval.
    assert {n: e for n, e in after.items() if e != before[first][n] and n not in shared} == {}
    assert held(bench)[second][settings.PFC] == Known((3,))
    assert bench.confirm() == (0, "")


def test_another_change_is_refused_while_one_waits(bench: Any) -> None:
    assert bench.push(bench.goals(bench.wanted())) == (0, "")
    text = bench.running()
    rc, why = bench.push(bench.goals(bench.wanted(mtu_bytes=4000)), apply_id="apply-20261130-2")
    assert (rc, "waits to be confirmed" in why) == (BUSY, True)
    assert bench.running() == text


def test_a_confirm_after_the_timer_is_too_late_and_saves_nothing(bench: Any) -> None:
    startup = bench.switch.state()["startup"]
    assert bench.push(bench.goals(bench.wanted())) == (0, "")
    assert bench.revert() == (0, "")
    rc, why = bench.confirm()
    assert (rc, why) == (TOO_LATE, "the change was reverted before it was confirmed")
    assert bench.switch.state()["startup"] == startup


def test_values_undo_what_was_confirmed(bench: Any) -> None:
    before = bench.readings()
    bench.set()
    now = bench.readings()
    goals = []
    for port in bench.ports:
        old = before[port.id].settings
        back = {
            name: entry.value
            for name, entry in old.items()
            if isinstance(entry, Known) and name != settings.BOOT and now[port.id].settings[name] != entry
        }
        kept = {n: e.value for n, e in now[port.id].settings.items() if isinstance(e, Known)}
        kept.pop(settings.BOOT)
        # What had no value before is left out of what is wanted: it means "not there".
        wanted = {n: v for n, v in kept.items() if isinstance(old[n], Known)}
        goals.append(PortGoal(port, tuple(back), {**wanted, **back}, kept))
    assert bench.push(goals) == (0, "")
    assert bench.confirm() == (0, "")
    restored = {
        str(port): {n for n, e in reading.settings.items() if isinstance(e, Known) and n != settings.BOOT}
        for port, reading in before.items()
    }
    after = held(bench)
    for port, reading in before.items():
        # Its own list of lines also holds what had no value before, which a rollback says it leaves.
        for name in restored[str(port)] - {"dell_sonic.lines", "dell_sonic.objects"}:
            assert after[str(port)][name] == reading.settings[name], name


BREAKS = [
    ("no qos-map dscp-tc", settings.DSCP_PRIORITY),
    ("no qos-map tc-queue", settings.PRIORITY_TC),
    ("no priority-flow-control priority 3", settings.PFC),
    ("no queue 3 wred-policy", settings.ECN),
    ("mtu 1500", settings.MTU),
    ("no scheduler-policy", settings.TC_SCHEDULER),
]


@pytest.mark.parametrize(("line", "setting"), BREAKS, ids=[line for line, _ in BREAKS])
def test_a_broken_link_of_the_chain_is_seen(bench: Any, line: str, setting: str) -> None:
    bench.set()
    bench.port_by_hand(line)
    assert setting in bench.differs()[bench.id().port]
    assert bench.id(2).port not in bench.differs()


def test_nothing_about_infiniband_and_its_buffers_is_done_silently() -> None:
    assert PLUGIN.method is not None
    assert not PLUGIN.method.whole
    text = PLUGIN.method.confirm("apply-1", [1])
    assert "buffer init" not in text
