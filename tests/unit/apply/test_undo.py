"""What undoes a change knows all that was read: a template may need one setting to restore another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fabricctl.apply.rollout import Change, Rollout, _port_change
from fabricctl.model import settings
from fabricctl.model.names import PortId
from fabricctl.model.plan import DevicePlan, Plan, Step
from fabricctl.model.reading import Known

PORT = PortId("node1", "eth1")


@pytest.mark.parametrize("context", [{}, {settings.PFC: ()}], ids=["of a confirm", "of a rollback"])
def test_undo_holds_what_the_change_itself_leaves_out(
    make_world: Callable[..., Any], context: dict[str, Any]
) -> None:
    world = make_world()
    world.set(PORT, settings.MTU, "4200")
    world.set(PORT, settings.PFC, "(3,)")
    step = Step(PORT, settings.PFC, Known((3,)), ())
    device = world.fabric.device("node1")
    change = Change(
        apply_id="b1",
        fabric=world.fabric,
        drivers={},
        plan=Plan((DevicePlan("node1", "fake", (step,), {}),)),
        targets={PORT: {settings.PFC: ()}},
        context={PORT: context},
        before=world.read([device]),
        scripts={},
    )
    goal = Rollout(change, world.tools())._goal(PORT, [step])  # noqa: SLF001  what is sent
    pushed = _port_change(device, goal)
    assert pushed.undo_names == (settings.PFC,)
    assert "mtu_bytes) echo 4200" in pushed.undo
    assert "pfc_priorities) echo '(3,)'" in pushed.undo
    assert "mtu_bytes" not in pushed.script
    assert "boot" not in pushed.undo
