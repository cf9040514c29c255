"""Asking a device without a shell, from its queries to its reading."""

from __future__ import annotations

from typing import Any

import pytest

from fabricctl import readback
from fabricctl.drivers.switch.eos import PLUGIN
from fabricctl.errors import RefusedError, UnreachableError
from fabricctl.model import settings
from fabricctl.model.fabric import Device, Endpoint, Role
from fabricctl.model.names import PortId
from fabricctl.model.reading import Known, Missing
from fabricctl.plugin.protocols import Query
from fabricctl.transport.base import Reply
from fabricctl.transport.replay import ReplayTransport


def _device(world: Any) -> Device:
    return Device("leaf1", Role.SWITCH, "eos", Endpoint("192.0.2.1", connection="network_cli"), world.ports)


def _recorded(world: Any) -> dict[tuple[str, str], Reply | Exception]:
    answers = world.answers()
    return {
        ("leaf1", " ".join(query.argv)): Reply(answers[query.key].rc, answers[query.key].stdout, "")
        for query in PLUGIN.queries(world.ports)
    }


def test_a_device_is_read_line_by_line(ready: Any, want: Any) -> None:
    reading = readback.read_device(_device(ready), ReplayTransport(_recorded(ready)), 10)
    assert reading.error == ""
    found = reading.ports[PortId("leaf1", "Ethernet1/1")].settings
    assert {name: found[name] for name in want()} == {name: Known(value) for name, value in want().items()}


def test_the_evidence_can_be_read_again(ready: Any) -> None:
    reading = readback.read_device(_device(ready), ReplayTransport(_recorded(ready)), 10)
    mark = reading.evidence.split()[0]
    answers = readback.unframe(PLUGIN.queries(ready.ports), mark, reading.evidence)
    assert answers == ready.answers()


def test_a_line_that_is_refused_costs_what_hangs_on_it(ready: Any) -> None:
    recorded = {
        **_recorded(ready),
        ("leaf1", "show running-config"): Reply(1, "% Authorization denied", ""),
    }
    reading = readback.read_device(_device(ready), ReplayTransport(recorded), 10)
    found = reading.ports[PortId("leaf1", "Ethernet1/1")].settings
    assert found[settings.PFC] == Missing("running: % Authorization denied")
    assert isinstance(found[settings.DSCP_PRIORITY], Known)


def test_a_device_that_breaks_off_is_an_error(ready: Any) -> None:
    broken = UnreachableError("its command line ended", device="leaf1")
    recorded = {**_recorded(ready), ("leaf1", "show qos maps"): broken}
    reading = readback.read_device(_device(ready), ReplayTransport(recorded), 10)
    assert (reading.ports, reading.error) == ({}, "leaf1: its command line ended")


@pytest.mark.parametrize("word", ["a b", "a\nb", "", "\x03"])
def test_a_word_that_is_more_than_a_word_is_refused(ready: Any, word: str) -> None:
    with pytest.raises(RefusedError, match="cannot stand in a line"):
        readback.cli_lines(_device(ready), [Query("k", ("show", word))])


def test_a_shell_script_that_a_command_line_refuses_says_how_it_is_reached(ready: Any) -> None:
    device = Device("leaf1", Role.SWITCH, "eos", Endpoint("192.0.2.1"), ready.ports)

    class Cli(ReplayTransport):
        def run(self, device: Device, script: str, *, deadline_s: float) -> Reply:
            del device, script, deadline_s
            return Reply(1, "% Invalid input\n", "")

    reading = readback.read_device(device, Cli({}), 10)
    assert reading.error.endswith("if it has no shell, set ansible_connection: ansible.netcommon.network_cli")
