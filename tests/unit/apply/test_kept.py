"""What the host's network manager keeps: it follows a change that is confirmed, and is audited."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from fabricctl.apply.confirm import confirm
from fabricctl.apply.drift import drift, line
from fabricctl.apply.flow import Options, apply, prepare
from fabricctl.apply.record import State, load
from fabricctl.apply.rollback import rollback
from fabricctl.model import facts, settings
from fabricctl.model.fabric import Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.reading import Known, Missing, PortReading, Value
from fabricctl.store import Store

Make = Callable[..., Any]
_NODES = (PortId("node1", "eth1"), PortId("node2", "eth1"))


@pytest.fixture
def managed(make_world: Make, fakes: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a world in which NetworkManager gives the nodes' ports 1500 at boot."""
    wanted, read = fakes.FakeDriver.wanted, fakes.World._port  # noqa: SLF001  what the world reads of a port

    def also_wanted(self: Any, intent: PortIntent) -> Mapping[str, Value]:
        kept = {settings.MTU_KEPT: str(intent.mtu_bytes)} if self.role is Role.NODE else {}
        return {**wanted(self, intent), **kept}

    def also_read(self: Any, port: PortId) -> PortReading:
        found: PortReading = read(self, port)
        if port not in _NODES:
            return found
        text = self.get(str(port), settings.MTU_KEPT)
        kept = Known(text) if text != "nobody" else Missing("no network manager", impossible=True)
        manager = Known("NetworkManager" if text != "nobody" else "none")
        return PortReading(
            port, {**found.settings, settings.MTU_KEPT: kept}, {**found.facts, facts.NETWORK_MANAGER: manager}
        )

    monkeypatch.setattr(fakes.FakeDriver, "wanted", also_wanted)
    monkeypatch.setattr(fakes.World, "_port", also_read)
    world = make_world()
    for port in _NODES:
        world.set(port, settings.MTU_KEPT, "1500")
    return world


def kept(world: Any) -> list[str]:
    return [world.get(str(port), settings.MTU_KEPT) for port in _NODES]


def run(world: Any, fakes: Any, store: Store, options: Options | None = None) -> Any:
    return apply(world.fabric, fakes.policy(), options or Options(), world.tools(), store, lambda _: True)


def take_back(world: Any, store: Store) -> Any:
    return rollback(world.fabric, None, Options(), world.tools(), store, lambda _: True)


def test_it_is_set_once_with_the_confirm_and_not_by_the_boot_script(
    managed: Any, fakes: Any, store: Store
) -> None:
    result = run(managed, fakes, store)
    assert (result.state, result.proven, result.failed) == (State.DONE, result.total, {})
    assert kept(managed) == ["4200", "4200"]
    script = managed.root / "node1/etc/fabricctl/ports/eth1.sh"
    assert settings.MTU_KEPT not in script.read_text()
    assert run(managed, fakes, store).tasks == {}
    assert take_back(managed, store).outcome.value == "pass"
    assert kept(managed) == ["1500", "1500"]


def test_a_reboot_before_the_confirm_falls_back(managed: Any, fakes: Any, store: Store) -> None:
    result = run(managed, fakes, store, Options(confirm_within_s=600))
    assert (result.state, result.proven, kept(managed)) == (State.WAITING, result.total, ["1500", "1500"])
    done = confirm(managed.fabric, None, managed.tools(), store)
    assert (done.state, done.failed, kept(managed)) == (State.DONE, {}, ["4200", "4200"])


def test_an_unconfirmed_change_that_reverts_leaves_it(managed: Any, fakes: Any, store: Store) -> None:
    run(managed, fakes, store, Options(confirm_within_s=600))
    managed.fire_timers("node1")
    assert (managed.get("node1/eth1", settings.MTU), kept(managed)) == ("1500", ["1500", "1500"])


def test_a_manager_that_refuses_fails_its_port_only(managed: Any, fakes: Any, store: Store) -> None:
    (managed.root / "node1/refuse" / settings.MTU_KEPT).touch()
    result = run(managed, fakes, store)
    assert result.state is State.FAILED
    assert list(result.failed) == [_NODES[0]]
    assert "mtu_kept: the NIC refuses" in result.failed[_NODES[0]]
    # What was proven is confirmed all the same: no timer takes it back.
    assert (managed.timers(), managed.leftovers(), kept(managed)) == ([], [], ["1500", "4200"])
    assert (managed.root / "node1/etc/fabricctl/ports/eth1.sh").exists()


def test_drift_says_what_a_reboot_would_do(managed: Any, fakes: Any, store: Store) -> None:
    first = run(managed, fakes, store)
    managed.set(_NODES[1], settings.MTU_KEPT, "1500")
    managed.set(_NODES[0], settings.MTU_KEPT, "none")
    found = drift(managed.fabric, load(store, managed.fabric.source), (), managed.tools())
    assert [line(item) for item in found.differences] == [
        f"{port} mtu_kept: should be 4200, is {value} "
        f"(a reboot or reconnect by NetworkManager would {does}) (since apply {first.run.id})"
        for port, value, does in zip(_NODES, ("none", "1500"), ("leave it unset", "set 1500"), strict=True)
    ]
    repaired = run(managed, fakes, store)
    assert (repaired.state, repaired.tasks, kept(managed)) == (
        State.DONE,
        {"node1": 1, "node2": 1},
        ["4200", "4200"],
    )


def test_without_a_manager_nothing_is_lacking(managed: Any, fakes: Any, store: Store) -> None:
    managed.set(_NODES[0], settings.MTU_KEPT, "nobody")
    plan = prepare(managed.fabric, fakes.policy(), (), managed.tools()).plan
    assert {step.port for step in plan.steps if step.setting == settings.MTU_KEPT} == {_NODES[1]}
    assert plan.unsupported == ()
    assert run(managed, fakes, store).state is State.DONE
