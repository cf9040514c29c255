"""What changed, or was not readable, while a run was at work."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from fabricctl.model import facts, settings
from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PortId
from fabricctl.model.reading import DeviceReading, Known, Missing, PortReading
from fabricctl.verify.steadiness import steadiness

PORT = PortId("node1", "eth1")


@pytest.fixture
def fabric(star: Callable[..., Fabric]) -> Fabric:
    made = star(1)
    return replace(made, devices=tuple(replace(device, driver="rxe") for device in made.devices))


def _reading(
    *, pfc: tuple[int, ...] = (3,), boot: str = "a", downs: int = 0, error: str = ""
) -> DeviceReading:
    port = PortReading(
        PORT,
        {settings.PFC: Known(pfc), settings.ECN: Missing("none")},
        {facts.LINK_DOWNS: Known(downs), facts.RIVALS: Known(())},
        {"rx_packets": Known(downs)},
    )
    ports = {} if error else {PORT: port}
    return DeviceReading("node1", 0.0, ports, {facts.BOOT_ID: Known(boot)}, error=error)


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (_reading(), None),
        (_reading(pfc=()), "changed while it was probed: pfc_priorities"),
        (_reading(boot="b", downs=2), "changed while it was probed: boot_id, link_down_count"),
        (_reading(error="no route to host"), "what it is set to is not known: no route to host"),
    ],
    ids=["the same", "a setting", "a reboot", "gone"],
)
def test_what_a_certificate_is_bound_to_must_have_held_all_the_while(
    fabric: Fabric, after: DeviceReading, why: str | None
) -> None:
    found = steadiness(fabric, {"node1": _reading()}, {"node1": after})
    assert found == ({} if why is None else {PORT: why})


def test_a_device_that_could_not_be_read_at_first_is_in_doubt(fabric: Fabric) -> None:
    found = steadiness(fabric, {"node1": _reading(error="refused")}, {"node1": _reading()})
    assert found == {PORT: "what it is set to is not known: refused"}


def test_a_device_without_a_driver_is_not_ours_to_judge(star: Callable[..., Fabric]) -> None:
    made = star(1)
    bare = replace(made, devices=tuple(replace(device, driver="") for device in made.devices))
    assert steadiness(bare, {"node1": _reading(error="x")}, {"node1": _reading(error="x")}) == {}
