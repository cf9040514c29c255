from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fabricctl.apply import plan as planning
from fabricctl.apply.render import digest, render_port
from fabricctl.apply.show import deviation, difference, plan_lines, step_line, summary, value_text
from fabricctl.errors import UsageError
from fabricctl.model import settings
from fabricctl.model.fabric import Role
from fabricctl.model.names import PortId
from fabricctl.model.plan import DevicePlan, Disruption, Plan, Step, Unsupported
from fabricctl.model.reading import DeviceReading, Entry, Known, Missing, PortReading

PORT = PortId("node1", "eth1")


def reading(device: str, **entries: Entry) -> dict[str, DeviceReading]:
    port = PortId(device, "eth1")
    return {device: DeviceReading(device, 0.0, {port: PortReading(port, entries)})}


@pytest.fixture
def parts(templates: Path, fakes: Any) -> tuple[Any, Any, Any]:
    del templates
    fabric = fakes.fabric(1)
    drivers = {d.name: fakes.FakeDriver(d.role) for d in fabric.devices}
    return fabric, fakes.intents(fabric, fakes.policy()), drivers


def test_plan_holds_what_differs_in_safe_order(parts: tuple[Any, Any, Any]) -> None:
    fabric, intents, drivers = parts
    found = reading("node1", mtu_bytes=Known(1500), pfc_priorities=Known((3,)), boot=Known("none"))
    plan = planning.make_plan(fabric, intents, found, drivers)
    script = render_port(Role.NODE, "fake", "eth1", "rxe0", {"mtu_bytes": 4200, "pfc_priorities": (3,)})
    assert plan.steps == (
        Step(PORT, "mtu_bytes", Known(1500), 4200, Disruption.MTU_CHANGE),
        Step(PORT, "boot", Known("none"), digest(script), Disruption.NONE),
    )
    assert plan.devices[0].wanted[PORT] == {
        "mtu_bytes": 4200,
        "pfc_priorities": (3,),
        "boot": digest(script),
    }


def test_what_is_as_intended_needs_no_step(parts: tuple[Any, Any, Any]) -> None:
    fabric, intents, drivers = parts
    script = render_port(Role.NODE, "fake", "eth1", "rxe0", {"mtu_bytes": 4200, "pfc_priorities": (3,)})
    found = reading("node1", mtu_bytes=Known(4200), pfc_priorities=Known((3,)), boot=Known(digest(script)))
    plan = planning.make_plan(fabric, intents, found, drivers)
    assert plan == Plan(())
    assert summary(plan) == "nothing to do: every setting is as intended"


def test_missing_is_never_as_intended(parts: tuple[Any, Any, Any]) -> None:
    fabric, intents, drivers = parts
    held = reading("node1", mtu_bytes=Missing("no such file"), pfc_priorities=Known((3,)))
    plan = planning.make_plan(fabric, intents, held, drivers)
    assert [(s.setting, s.old) for s in plan.steps] == [
        ("mtu_bytes", Missing("no such file")),
        ("boot", Missing("the driver did not report it")),
    ]


def test_a_port_of_which_nothing_is_known_is_unread_and_has_no_steps(parts: tuple[Any, Any, Any]) -> None:
    fabric, intents, drivers = parts
    plan = planning.make_plan(fabric, intents, reading("node1", mtu_bytes=Missing("no such port")), drivers)
    port = PortId("node1", "eth1")
    assert (plan.steps, plan.unread_ports) == ((), {port: "no such port"})
    assert (plan.is_unread(port), plan.unknown) == (True, {"node1/eth1": "no such port"})
    # A pair that is probed over it does not pass.
    found = planning.deviations(fabric, intents, reading("node1", mtu_bytes=Missing("no such port")), drivers)
    assert found == {port: "every setting (could not be read: no such port)"}


def test_a_device_that_cannot_be_read_is_named_and_not_planned(parts: tuple[Any, Any, Any]) -> None:
    fabric, intents, drivers = parts
    found = {"node1": DeviceReading("node1", 0.0, {}, error="no route to host")}
    plan = planning.make_plan(fabric, intents, found, drivers)
    assert plan == Plan((), unread={"node1": "no route to host"})
    assert list(plan_lines(plan)) == [
        "could not be read: node1: no route to host",
        "0 settings to change on 0 devices; 1 device could not be read",
    ]


def test_a_driver_without_a_template_says_so(templates: Path) -> None:
    del templates
    with pytest.raises(UsageError, match=r"there is no templates/nic/none/port\.sh\.j2"):
        render_port(Role.NODE, "none", "eth1", "", {})


def test_text_of_a_plan_groups_ports_with_the_same_steps() -> None:
    ports = [PortId(f"node{n}", "eth1") for n in range(1, 9)]
    steps = [Step(p, "pfc_priorities", Known(()), (3,), Disruption.LINK_FLAP) for p in ports]
    plans = tuple(DevicePlan(s.port.device, "fake", (s,), {}) for s in steps)
    missing = (Unsupported(PORT, "ecn", wanted=True, reason="a NIC does not mark"),)
    assert list(plan_lines(Plan(plans, unsupported=missing))) == [
        "node1/eth1, node2/eth1, node3/eth1, node4/eth1, node5/eth1, node6/eth1 and 2 more",
        "    pfc_priorities: none -> 3  (undo: none; disrupts: link flap)",
        "not supported on node1/eth1: ecn = on: a NIC does not mark",
        "8 settings to change on 8 devices; disrupts: link flap; no scheduler was asked",
    ]


def test_a_dscp_map_shows_only_what_differs() -> None:
    old = tuple(0 for _ in range(64))
    new = tuple(3 if n == 26 else 6 if 48 <= n <= 50 else 0 for n in range(64))
    assert difference("dscp_priority", Known(old), new) == "dscp 26: 0 -> 3, dscp 48-50: 0 -> 6"
    assert deviation("dscp_priority", new, Known(old)) == (
        "dscp 26 should be 3, is 0, dscp 48-50 should be 6, is 0"
    )
    assert deviation("dscp_priority", new, Missing("no dcb")).endswith("is unknown (no dcb)")


def test_lists_show_only_the_entries_that_differ() -> None:
    ets = ("ets",) * 6 + ("strict", "ets")
    assert difference("tc_scheduler", Known(("strict",) * 8), ets) == (
        "tc 0-5: strict -> ets, tc 7: strict -> ets"
    )
    assert difference("tc_bandwidth_percent", Known((0,) * 8), (50, 0, 0, 50, 0, 0, 0, 0)) == (
        "tc 0: 0 -> 50, tc 3: 0 -> 50"
    )
    assert deviation("priority_tc", tuple(range(8)), Known((0, *range(1, 7), 0))) == (
        "priority 7 should be 7, is 0"
    )
    # A list of another length is no list with those entries; priorities with PFC are no entries at all.
    assert difference("priority_tc", Known((0,)), (0, 1)) == "0 -> 0,1"
    assert difference("pfc_priorities", Known((3,)), (4,)) == "3 -> 4"
    step = Step(PORT, "tc_scheduler", Known(("strict",) * 8), ets, Disruption.NONE)
    assert step_line(step).endswith("(undo: the old values)")


def test_marking_that_was_off_has_values_to_set_and_none_to_restore() -> None:
    port = PortId("leaf1", "eth1")
    why = Missing("the port does not mark: its root qdisc is noqueue, not red")
    on = Step(port, "ecn", Known(value=False), new=True, disruption=Disruption.NONE)
    kmin = Step(port, "ecn_kmin_bytes", why, 30000, Disruption.NONE)
    other = Step(port, "roce_tos", Missing("no such file"), 106, Disruption.NONE)

    def lines(*steps: Step) -> list[str]:
        return list(plan_lines(Plan((DevicePlan("leaf1", "linux", steps, {}),))))[1:-1]

    assert lines(on, kmin, other) == [
        "    ecn: off -> on  (undo: off)",
        "    ecn_kmin_bytes: not set -> 30000  (undo: ecn off)",
        "    roce_tos: unknown (no such file) -> 106  (undo: no value to restore)",
    ]
    # Where it is not known that marking was off, the reason stands.
    assert lines(kmin) == [
        f"    ecn_kmin_bytes: unknown ({why.reason}) -> 30000  (undo: no value to restore)"
    ]


def test_saving_a_switch_says_what_else_it_saves() -> None:
    step = Step(PORT, "boot", Known("none"), settings.SAVED)
    assert step_line(step) == (
        "boot: lost at reboot -> kept over reboots  "
        "(undo: lost at reboot; saves all that is unsaved on the switch)"
    )


def test_boot_scripts_show_whether_they_differ_not_their_digests() -> None:
    assert difference("boot", Known("none"), "ab" * 32) == "lost at reboot -> kept over reboots"
    assert difference("boot", Known("ab" * 32), "none") == "kept over reboots -> lost at reboot"
    assert difference("boot", Known("cd" * 32), "ab" * 32) == (
        "set by another script at boot -> kept over reboots"
    )


@pytest.mark.parametrize(
    ("setting", "value", "text"),
    [
        ("pfc_priorities", (), "none"),
        ("pfc_priorities", (3, 4), "3,4"),
        ("ecn", False, "off"),
        ("mtu_bytes", 9000, "9000"),
        ("dscp_priority", (0,) * 26 + (3,) + (0,) * 21 + (6,) + (0,) * 15, "0 but dscp 26: 3, dscp 48: 6"),
        ("priority_tc", (0, 0, 0, 3, 4, 4, 4, 0), "0 but priority 3: 3, priority 4-6: 4"),
        ("dscp_priority", (0,) * 64, "all 0"),
        ("boot", "none", "lost at reboot"),
        ("boot", "0123456789abcdef", "kept over reboots"),
    ],
)
def test_text_of_values(setting: str, value: Any, text: str) -> None:
    assert value_text(setting, value) == text
