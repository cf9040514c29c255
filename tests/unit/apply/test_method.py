"""Switches that are changed by means of their own: sessions, checkpoints and commits in place of scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fabricctl import readback
from fabricctl.apply.confirm import confirm
from fabricctl.apply.flow import Options, apply
from fabricctl.apply.record import State
from fabricctl.apply.rollback import rollback
from fabricctl.model.fabric import Role
from fabricctl.model.verdict import Outcome
from fabricctl.store import Store

Make = Callable[..., Any]


def yes(_plan: object) -> bool:
    return True


@pytest.fixture
def make(make_world: Make, fakes: Any, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Return what makes a world whose switch has a method, and that method."""

    def made(nodes: int = 2, *, whole: bool = True, shared: str = "") -> tuple[Any, Any]:
        world, method = make_world(nodes), fakes.FakeMethod(whole=whole, shared=shared)
        world.by_itself.add("leaf1")
        monkeypatch.setattr(
            readback,
            "driver_of",
            lambda device: fakes.FakeDriver(device.role, method if device.role is Role.SWITCH else None),
        )
        return world, method

    return made


def run(world: Any, fakes: Any, store: Store, options: Options | None = None, **rules: Any) -> Any:
    return apply(world.fabric, fakes.policy(**rules), options or Options(), world.tools(), store, yes)


def test_it_is_set_by_its_method_confirmed_and_saved(make: Make, fakes: Any, store: Store) -> None:
    world, method = make()
    result = run(world, fakes, store)
    assert (result.outcome, result.proven, result.total) == (Outcome.PASS, 12, 12)
    assert method.calls == [("push", "1", "eth1 eth2"), ("confirm", "1")]
    assert world._boot(world.fabric.device("leaf1").ports[0].id) == "saved"  # noqa: SLF001  the world's own
    assert world.leftovers() == []
    assert run(world, fakes, store).tasks == {}


def test_what_is_not_saved_is_drift(make: Make, fakes: Any, store: Store) -> None:
    world, method = make()
    run(world, fakes, store)
    (world.root / "leaf1/saved/eth1/mtu_bytes").write_text("1500\n")
    result = run(world, fakes, store)
    assert [(str(s.port), s.setting, s.new) for s in result.plan.steps] == [("leaf1/eth1", "boot", "saved")]
    # Nothing was pushed, so there is no slot: what runs is saved.
    assert method.calls[-1] == ("confirm",)
    assert result.outcome is Outcome.PASS


def test_a_shrinking_mtu_is_one_push_after_the_nodes(make: Make, fakes: Any, store: Store) -> None:
    world, method = make()
    run(world, fakes, store)
    world.pushes.clear()
    method.calls.clear()
    run(world, fakes, store, mtu=2000, pfc=(3, 4))
    assert world.pushes == [("node1", "node2"), ("leaf1",), ("node1", "node2", "leaf1")]
    assert method.calls == [("push", "2", "eth1 eth2"), ("confirm", "2")]


def test_what_waits_to_be_confirmed_is_one_push(make: Make, fakes: Any, store: Store) -> None:
    world, method = make(4)
    result = run(world, fakes, store, Options(batch=1, confirm_within_s=300))
    assert result.state is State.WAITING
    assert [call for call in method.calls if call[0] == "push"] == [("push", "1", "eth1 eth2 eth3 eth4")]
    assert confirm(world.fabric, None, world.tools(), store).outcome is Outcome.PASS
    assert method.calls[-1] == ("confirm", "1")


def test_one_port_takes_the_whole_device_back_with_its_links(make: Make, fakes: Any, store: Store) -> None:
    world, _ = make()
    (world.root / "leaf1/refuse/eth1.pfc_priorities").touch()
    result = run(world, fakes, store)
    failed = {str(port): why for port, why in result.failed.items()}
    assert (
        failed["leaf1/eth1"]
        == "fabricctl: eth1: pfc_priorities: the switch refuses (reverted, and read back so)"
    )
    assert failed["leaf1/eth2"] == (
        "leaf1/eth1 failed, and leaf1 can only be taken back as a whole (reverted, and read back so)"
    )
    # The nodes were not reached: the switches come first.
    assert failed["node2/eth1"] == "its link's other end leaf1/eth2 failed"
    assert world.get("leaf1/eth2", "mtu_bytes") == "1500"
    assert world.leftovers() == []


def test_a_failed_node_takes_only_its_port_back_where_that_can_be(
    make: Make, fakes: Any, store: Store
) -> None:
    world, method = make(whole=False)
    (world.root / "node1/refuse/pfc_priorities").touch()
    result = run(world, fakes, store)
    assert {str(port) for port in result.failed} == {"node1/eth1", "leaf1/eth1"}
    assert ("revert", "eth1") in method.calls
    assert world.get("leaf1/eth1", "mtu_bytes") == "1500"
    assert world.get("leaf1/eth2", "mtu_bytes") == "4200"


@pytest.mark.parametrize("whole", [True, False])
def test_a_later_batch_goes_back_to_what_an_earlier_one_has_set(
    make: Make, fakes: Any, store: Store, *, whole: bool
) -> None:
    world, method = make(3, whole=whole, shared="pfc_priorities")
    (world.root / "node2/refuse/mtu_bytes").touch()
    result = run(world, fakes, store, Options(batch=1))
    failed = {str(port): why for port, why in result.failed.items()}
    assert set(failed) == {"node2/eth1", "leaf1/eth2"}
    assert failed["leaf1/eth2"] == "its link's other end node2/eth1 failed (reverted, and read back so)"
    assert [call for call in method.calls if call[0] == "push"] == [
        ("push", "1", "eth1"),
        ("push", "3", "eth2"),
    ]
    # The first batch's change of the whole switch stays, the second's own is gone.
    assert (world.get("leaf1/eth1", "mtu_bytes"), world.get("leaf1/eth2", "mtu_bytes")) == ("4200", "1500")
    assert world.get("leaf1/eth2", "pfc_priorities") == "(3,)"


def test_rollback_saves_what_it_restores(make: Make, fakes: Any, store: Store) -> None:
    world, method = make()
    run(world, fakes, store)
    result = rollback(world.fabric, None, Options(), world.tools(), store, yes)
    assert (result.outcome, result.failed) == (Outcome.PASS, {})
    assert world.get("leaf1/eth1", "mtu_bytes") == "1500"
    assert (world.root / "leaf1/saved/eth1/mtu_bytes").read_text() == "1500\n"
    assert method.calls[-1][0] == "confirm"
