from __future__ import annotations

from fabricctl.model.fabric import Device, Endpoint, Fabric, Link, Port, Role
from fabricctl.model.names import PortId
from fabricctl.model.reading import DeviceReading, Entry, Known, Missing, PortReading
from fabricctl.plugin.surveying import Observation, cable

PORT = PortId("node1", "eth1")


def _reading(**counters: Entry) -> DeviceReading:
    return DeviceReading("node1", 1.0, {PORT: PortReading(PORT, {}, counters=counters)})


def _seen(first: Entry, last: Entry, interval_s: float = 10.0) -> Observation:
    return Observation("node1", _reading(c=first), _reading(c=last), interval_s)


def test_a_rise_is_the_difference() -> None:
    assert _seen(Known(5), Known(12)).rise(PORT, "c") == 7
    assert _seen(Known(0), Known(0)).rise(PORT, "c") == 0


def test_what_went_back_is_no_rise() -> None:
    assert _seen(Known(12), Known(5)).rise(PORT, "c") == (
        "c went back from 12 to 5: somebody cleared it, or it wrapped"
    )


def test_missing_is_not_zero() -> None:
    assert _seen(Missing("EINVAL"), Known(5)).rise(PORT, "c") == "c: EINVAL"
    assert _seen(Known(1), Known(1)).rise(PORT, "other") == "other: the driver did not report it"
    assert _seen(Known(1), Known(1)).rise(PortId("node1", "eth2"), "c") == "c: the driver did not report it"
    flag = Known(value=True)
    assert _seen(flag, flag).rise(PORT, "c") == "c: unparsable: True"
    assert _seen(Known(1), Known("N/A (no PMA)")).rise(PORT, "c") == "c: unparsable: 'N/A (no PMA)'"


def test_one_look_is_no_interval() -> None:
    assert _seen(Known(1), Known(1), 0).rise(PORT, "c") == "it was read only once"


def test_a_device_that_could_not_be_read_has_no_counters() -> None:
    dead = DeviceReading("node1", 1.0, {}, error="no route to host")
    assert Observation("node1", dead, dead, 10).rise(PORT, "c") == "no route to host"
    assert Observation("node1", dead, dead, 10).port(PORT) is None


def test_a_subject_has_both_ends_from_where_one_looks() -> None:
    leaf = PortId("leaf1", "eth2")
    nodes = tuple(
        Device(port.device, Role.NODE, "", Endpoint(port.device), (Port(port),)) for port in (PORT, leaf)
    )
    fabric = Fabric(nodes, (Link(leaf, PORT),))
    assert cable(fabric, PORT) == "node1/eth1 - leaf1/eth2"
    assert cable(fabric, leaf) == "leaf1/eth2 - node1/eth1"
    assert cable(fabric, PortId("node1", "eth9")) == "node1/eth9"
