"""Drivers against real tools in the lab's guests: set, read back, set again, undo."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from fabricctl import inventory, readback
from fabricctl.apply.intent import intents
from fabricctl.apply.plan import wanted_settings
from fabricctl.apply.render import render_port
from fabricctl.errors import HostKeyError, UnreachableError
from fabricctl.model import facts, settings
from fabricctl.model.fabric import Device, Fabric, Port
from fabricctl.model.names import PortId
from fabricctl.model.policy import Policy
from fabricctl.model.reading import Entry, Known, Missing, Value
from fabricctl.transport import connect
from fabricctl.transport.base import Transport

pytestmark = pytest.mark.lab

# What no policy asks for: whatever the port had before, something changes.
_OTHER: dict[str, Value] = {
    settings.MTU: 2222,
    settings.TRUST: "dscp",
    settings.DSCP_PRIORITY: tuple((dscp // 8 + 1) % 8 for dscp in range(64)),
    settings.PRIORITY_TC: (1, 0, 2, 3, 4, 5, 6, 7),
    settings.TC_SCHEDULER: ("ets", "ets", "strict", "strict", "strict", "strict", "strict", "strict"),
    settings.TC_BANDWIDTH: (30, 70, 0, 0, 0, 0, 0, 0),
    settings.PRIORITY_BUFFER: (0, 0, 0, 0, 0, 0, 0, 1),
    settings.BUFFER_SIZE: (200000, 100000, 0, 0, 0, 0, 0, 0),
    settings.PFC: (1, 5),
}
_OTHER_BY_DRIVER: dict[str, dict[str, Value]] = {
    "rxe": {**_OTHER, settings.ROCE_MODE: "RoCE v2", settings.ROCE_TOS: 32},
    "linux": {
        **_OTHER,
        settings.ECN: True,
        settings.ECN_KMIN: 12000,
        settings.ECN_KMAX: 34000,
        settings.ECN_PMAX: 7,
    },
}


@dataclass(frozen=True)
class Lab:
    """The lab that is up."""

    fabric: Fabric
    policy: Policy
    transport: Transport

    def settings(self, port: PortId) -> Mapping[str, Entry]:
        """Read a port's settings, without ``boot``."""
        device = self.fabric.device(port.device)
        reading = readback.read(self.fabric, [device], self.transport)[device.name]
        assert reading.error == ""
        found = reading.ports[port].settings
        return {name: entry for name, entry in found.items() if name != settings.BOOT}

    def set(self, port: Port, wanted: Mapping[str, Value], *names: str) -> str:
        """Run the port's script; return what it complained about."""
        device = self.fabric.device(port.id.device)
        script = render_port(device.role, device.driver, port.id.port, port.rdma, wanted)
        reply = self.transport.run(device, f"set -- {' '.join(names)}\n{script}", deadline_s=90)
        assert (reply.rc == 0) is (reply.stderr == "")
        return reply.stderr


@pytest.fixture(scope="module")
def lab(lab_session: Any) -> Iterator[Lab]:
    fabric, policy = inventory.read(lab_session.inventory)
    with connect() as transport:
        yield Lab(fabric, policy, transport)


def _last(lab: Lab, role: str) -> tuple[Device, Port]:
    devices = lab.fabric.nodes() if role == "node" else lab.fabric.switches()
    return devices[-1], devices[-1].ports[-1]


@pytest.mark.parametrize("role", ["node", "switch"])
def test_set_read_back_set_again_and_undo(lab: Lab, role: str) -> None:
    device, port = _last(lab, role)
    before = lab.settings(port.id)
    undo = {name: entry.value for name, entry in before.items() if isinstance(entry, Known)}
    readings = readback.read(lab.fabric, [device], lab.transport)
    drivers = {device.name: readback.driver_of(device)}
    meant = wanted_settings(lab.fabric, intents(lab.fabric, lab.policy), readings, drivers)[port.id]
    wanted = {name: value for name, value in meant.items() if name not in settings.KEPT}
    try:
        for wish in (_OTHER_BY_DRIVER[device.driver], wanted, wanted):
            assert lab.set(port, wish) == ""
            found = lab.settings(port.id)
            assert {name: found[name] for name in wish} == {
                name: Known(value) for name, value in wish.items()
            }
    finally:
        assert lab.set(port, undo) == ""
    assert lab.settings(port.id) == before


@pytest.mark.parametrize("role", ["node", "switch"])
def test_undo_of_one_setting_at_a_time(lab: Lab, role: str) -> None:
    device, port = _last(lab, role)
    before = lab.settings(port.id)
    undo = {name: entry.value for name, entry in before.items() if isinstance(entry, Known)}
    names = (settings.MTU, settings.PFC, settings.DSCP_PRIORITY)
    try:
        for name in names:
            assert lab.set(port, _OTHER_BY_DRIVER[device.driver], name) == ""
            assert lab.settings(port.id)[name] == Known(_OTHER_BY_DRIVER[device.driver][name])
    finally:
        assert lab.set(port, undo) == ""
    assert lab.settings(port.id) == before


def test_every_device_is_read_with_what_a_certificate_needs(lab: Lab) -> None:
    started = time.monotonic()
    readings = readback.read(lab.fabric, lab.fabric.devices, lab.transport)
    assert time.monotonic() - started < 20
    assert {name: reading.error for name, reading in readings.items()} == dict.fromkeys(readings, "")
    for device in lab.fabric.devices:
        reading = readings[device.name]
        assert isinstance(reading.facts[facts.BOOT_ID], Known)
        assert isinstance(reading.facts[facts.KERNEL], Known)
        assert reading.facts[facts.RIVALS] == Known(())
        for port in device.ports:
            found = reading.ports[port.id]
            peer = lab.fabric.peer(port.id)
            assert found.facts[facts.PARTNER] == Known(str(peer))
            assert found.facts[facts.LINK_STATE] == Known("up")
            missing = {name: entry for name, entry in found.settings.items() if isinstance(entry, Missing)}
            # The lab sets its ports itself: no network manager is at work. virtio has no pause.
            assert set(missing) <= {
                settings.ECN_KMIN,
                settings.ECN_KMAX,
                settings.ECN_PMAX,
                settings.MTU_KEPT,
                settings.PAUSE,
            }
            assert found.counters


def test_a_nodes_verbs_are_read(lab: Lab) -> None:
    node = lab.fabric.nodes()[0]
    port = node.ports[0]
    found = readback.read(lab.fabric, [node], lab.transport)[node.name].ports[port.id]
    address = port.address.partition("/")[0]
    gids = found.facts[facts.GIDS]
    assert isinstance(gids, Known)
    assert isinstance(gids.value, tuple)
    assert any(str(gid).endswith(f"RoCE v2 ::ffff:{address}") for gid in gids.value)
    assert str(gids.value[0]).startswith("0 RoCE v2 fe80::")
    assert found.facts[facts.RDMA_STATE] == Known("ACTIVE")
    assert isinstance(found.facts[facts.RDMA_MTU], Known)
    assert isinstance(found.counters["sent_pkts"], Known)
    driver = found.facts[facts.DRIVER]
    assert isinstance(driver, Known)
    assert str(driver.value).startswith("rdma_rxe over ")


def test_a_file_and_a_program_over_real_ssh(lab: Lab) -> None:
    node = lab.fabric.nodes()[0]
    path = "/run/fabricctl-test/a b"
    content = bytes(range(256)) * 400
    lab.transport.put(node, path, content, mode=0o600, deadline_s=30)
    reply = lab.transport.run(node, f"stat -c '%a %s' '{path}'; rm -r /run/fabricctl-test", deadline_s=30)
    assert reply.stdout == f"600 {len(content)}\n"
    process = lab.transport.start(node, ("sh", "-c", "echo $$; cat; echo over >&2"), deadline_s=30)
    pid = int(process.receive(20))
    process.send("line")
    assert process.receive(20) == "line"
    process.close()
    check = f"for i in 1 2 3 4 5 6 7 8 9 10; do [ -d /proc/{pid} ] || exit 0; sleep 0.5; done; exit 1"
    assert lab.transport.run(node, check, deadline_s=30).rc == 0


def test_a_wrong_host_key_and_a_closed_port_are_told_apart(lab: Lab) -> None:
    first, second = lab.fabric.devices[:2]
    stranger = Device(
        first.name,
        first.role,
        first.driver,
        type(first.endpoint)(
            host=first.endpoint.host,
            port=first.endpoint.port,
            user=first.endpoint.user,
            key_file=first.endpoint.key_file,
            known_hosts="/dev/null",
        ),
        first.ports,
    )
    closed = Device(
        second.name, second.role, second.driver, type(second.endpoint)(host="127.0.0.1", port=1), second.ports
    )
    with pytest.raises(HostKeyError, match="ssh-keyscan -p"):
        lab.transport.run(stranger, "true", deadline_s=20)
    with pytest.raises(UnreachableError, match="Connection refused"):
        lab.transport.run(closed, "true", deadline_s=20)
