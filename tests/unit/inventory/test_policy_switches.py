"""What a policy says of switches alone: the PFC watchdog."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabricctl.apply.intent import intents
from fabricctl.drivers import wishes
from fabricctl.inventory import InventoryFileError
from fabricctl.inventory.policy import read_policy
from fabricctl.model import settings
from fabricctl.model.fabric import Device, Endpoint, Fabric, Port, Role
from fabricctl.model.names import PortId
from fabricctl.model.policy import Watchdog

SOUND = (Path(__file__).parent / "sound_policy.yml").read_text()
LEAF, NODE = PortId("leaf1", "eth1"), PortId("node1", "eth1")
FABRIC = Fabric(
    tuple(
        Device(port.device, role, "fake", Endpoint("127.0.0.1"), (Port(port, speed_gbps=100),))
        for port, role in ((LEAF, Role.SWITCH), (NODE, Role.NODE))
    ),
    (),
)
NAMES = {
    settings.WATCHDOG,
    settings.WATCHDOG_DETECT,
    settings.WATCHDOG_RESTORE,
    settings.WATCHDOG_POLL,
    settings.WATCHDOG_ACTION,
}


@pytest.mark.parametrize(
    ("text", "expected", "wanted"),
    [
        ("", None, {}),
        ("pfc_watchdog: off\n", Watchdog(on=False), {settings.WATCHDOG: ()}),
        (
            "pfc_watchdog: {}\n",
            Watchdog(on=True, poll_ms=200, detect_ms=400, restore_ms=400, action="drop"),
            {
                settings.WATCHDOG: (3,),
                settings.WATCHDOG_DETECT: 400,
                settings.WATCHDOG_RESTORE: 400,
                settings.WATCHDOG_POLL: 200,
                settings.WATCHDOG_ACTION: "drop",
            },
        ),
        (
            "pfc_watchdog: {poll_ms: 100, detect_ms: 200, restore_ms: 1000, action: forward}\n",
            Watchdog(on=True, poll_ms=100, detect_ms=200, restore_ms=1000, action="forward"),
            {
                settings.WATCHDOG: (3,),
                settings.WATCHDOG_DETECT: 200,
                settings.WATCHDOG_RESTORE: 1000,
                settings.WATCHDOG_POLL: 100,
                settings.WATCHDOG_ACTION: "forward",
            },
        ),
    ],
    ids=["left alone", "off", "defaults", "said"],
)
def test_the_watchdog_of_switch_ports(
    tmp_path: Path, text: str, expected: Watchdog | None, wanted: dict[str, object]
) -> None:
    path = tmp_path / "policy.yml"
    path.write_text(SOUND + text)
    policy = read_policy(path)
    assert policy.watchdog == expected
    found = intents(FABRIC, policy)
    assert found[NODE].watchdog is None
    meant = wishes.of_switch(found[LEAF])
    assert {name: value for name, value in meant.items() if name in NAMES} == wanted


def test_a_watchdog_needs_pfc(tmp_path: Path) -> None:
    path = tmp_path / "policy.yml"
    lines = [line for line in SOUND.splitlines() if not line.startswith("pfc_priorities:")]
    path.write_text("\n".join(lines) + "\npfc_watchdog: {}\n")
    with pytest.raises(InventoryFileError, match="pfc_watchdog: there is no PFC to watch") as caught:
        read_policy(path)
    assert "add pfc_priorities, or leave it out" in str(caught.value)
