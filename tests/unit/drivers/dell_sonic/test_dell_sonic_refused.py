"""What Enterprise SONiC refuses of an intent is said before anything is contacted, as a push would say it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fabricctl import resources
from fabricctl.apply.intent import intents
from fabricctl.drivers.switch.dell_sonic import PLUGIN
from fabricctl.inventory.policy import read_policy
from fabricctl.model import settings
from fabricctl.model.fabric import Device, Endpoint, Fabric, Port, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.policy import EcnProfile, Watchdog

PORT = PortId("leaf1", "Eth1/1")
POLICIES = sorted((resources.folder("inventories") / "policies").glob("*.yml"))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"pfc_priorities": (), "ecn": None, "watchdog": None},
        {"pfc_priorities": (3, 4), "cable_length_m": 0.0, "ecn": EcnProfile(1_000, 12_480_000, 1)},
        {"cable_length_m": 300.0, "watchdog": Watchdog(on=False), "mtu_bytes": 1312},
        {"cable_length_m": 3.0, "watchdog": Watchdog(poll_ms=100, detect_ms=5000, restore_ms=60000)},
    ],
)
def test_what_the_switch_can_hold_is_not_refused(
    intent_of: Callable[..., PortIntent], changes: dict[str, Any]
) -> None:
    assert PLUGIN.refused(intent_of(PORT, **changes)) == {}


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"pfc_priorities": (3, 4, 5)}, settings.PFC, "a switch has PFC on 2 priorities at most"),
    ({"mtu_bytes": 9300}, settings.MTU, "the switch takes 1312..9216, not 9300"),
    ({"cable_length_m": 400.0}, settings.CABLE_LENGTH, "the switch has headroom for 5, 40, 300 m, not 400"),
    (
        {"ecn": EcnProfile(1_000, 20_000_000, 1)},
        settings.ECN_KMAX,
        "the switch takes 1000..12480000, not 20000000",
    ),
    (
        {"watchdog": Watchdog(detect_ms=6000)},
        settings.WATCHDOG_DETECT,
        "the switch takes 100..5000, not 6000",
    ),
    (
        {"watchdog": Watchdog(poll_ms=50, restore_ms=60)},
        settings.WATCHDOG_RESTORE,
        "the switch takes 100..60000, not 60",
    ),
]


@pytest.mark.parametrize(("changes", "setting", "why"), REFUSED, ids=lambda given: str(given)[:40])
def test_what_it_cannot_hold_is_refused_offline_and_by_a_push_in_the_same_words(
    bench: Any, intent_of: Callable[..., PortIntent], changes: dict[str, Any], setting: str, why: str
) -> None:
    assert PLUGIN.refused(intent_of(PORT, **changes))[setting] == why
    rc, said = bench.push(bench.goals(bench.wanted(**changes)))
    assert rc != 0
    assert f"Eth1/1: {setting}: {why}" in said


def test_all_that_is_refused_is_said_at_once(intent_of: Callable[..., PortIntent]) -> None:
    changes: dict[str, Any] = {}
    for one, _, _ in REFUSED[:-1]:
        changes |= one
    assert set(PLUGIN.refused(intent_of(PORT, **changes))) == {setting for _, setting, _ in REFUSED[:-1]}


@pytest.mark.parametrize("path", [p for p in POLICIES if p.stem != "infiniband"], ids=lambda path: path.stem)
def test_no_shipped_policy_wants_what_the_switch_refuses(path: Path) -> None:
    port = Port(PORT, speed_gbps=400)
    fabric = Fabric((Device("leaf1", Role.SWITCH, "dell_sonic", Endpoint("s"), (port,)),), ())
    assert PLUGIN.refused(intents(fabric, read_policy(path))[PORT]) == {}
