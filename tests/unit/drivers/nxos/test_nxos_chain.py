"""Every way to break the chain from DSCP to ECN on NX-OS is seen, named, and mended by an apply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fabricctl.drivers.switch.nxos import PLUGIN
from fabricctl.model import settings
from fabricctl.model.reading import Known, Missing

MARKS = "random-detect minimum-threshold 150000 bytes maximum-threshold 1500000 bytes drop-probability 7"
MARKS_UPSIDE_DOWN = (
    "random-detect minimum-threshold 3 mbytes maximum-threshold 1500 kbytes drop-probability 7 weight 0 ecn"
)
NO_MARKS = "no random-detect minimum-threshold 1 bytes maximum-threshold 2 bytes drop-probability 1 weight 0"
PORT = "interface Ethernet1/1"


def _name(bench: Any, start: str) -> str:
    return next(str(line.split()[-1]) for line in bench.lines() if line.startswith(start))


@pytest.fixture
def made(bench: Any) -> Any:
    """Return a switch that is set and saved."""
    bench.set(bench.wanted())
    assert bench.differs(bench.wanted()) == {}
    return bench


BREAKS: dict[str, tuple[Callable[[Any], tuple[str, ...]], dict[str, Any]]] = {
    "DSCP to another queue": (
        lambda b: (
            f"policy-map type qos {_name(b, 'policy-map type qos')}",
            f"class {_name(b, 'class-map type qos match-any fabricctl-p3')}",
            "set qos-group 4",
        ),
        {settings.PRIORITY_TC: (0, 0, 0, 4, 0, 0, 6, 0)},
    ),
    "DSCP of another class": (
        lambda b: (
            f"class-map type qos match-any {_name(b, 'class-map type qos match-any fabricctl-p3')}",
            "no match dscp 26",
            "match dscp 24",
        ),
        {settings.DSCP_PRIORITY: tuple({24: 3, 48: 6}.get(dscp, 0) for dscp in range(64))},
    ),
    "nothing classifies": (
        lambda b: (PORT, f"no service-policy type qos input {_name(b, 'policy-map type qos')}"),
        {settings.DSCP_PRIORITY: (0,) * 64},
    ),
    "another queue is no-drop": (
        lambda b: (
            f"policy-map type network-qos {_name(b, 'policy-map type network-qos')}",
            "class type network-qos c-8q-nq3",
            "no pause pfc-cos 3",
            "class type network-qos c-8q-nq4",
            "pause pfc-cos 3",
        ),
        {settings.LOSSLESS_BUFFERS: (4,), settings.PFC: (3,)},
    ),
    "the queue pauses another priority": (
        lambda b: (
            f"policy-map type network-qos {_name(b, 'policy-map type network-qos')}",
            "class type network-qos c-8q-nq3",
            "pause pfc-cos 4",
        ),
        {settings.LOSSLESS_BUFFERS: (3,), settings.PFC: (4,)},
    ),
    "network-qos is not bound": (
        lambda b: (
            "system qos",
            f"no service-policy type network-qos {_name(b, 'policy-map type network-qos')}",
        ),
        {settings.LOSSLESS_BUFFERS: (), settings.PFC: (), settings.WATCHDOG: ()},
    ),
    "PFC is off at the port": (
        lambda _: (PORT, "priority-flow-control mode off"),
        {"nxos.pfc_mode": "off", settings.PFC: ()},
    ),
    "the class lets no large packets through": (
        lambda b: (
            f"policy-map type network-qos {_name(b, 'policy-map type network-qos')}",
            "class type network-qos c-8q-nq3",
            "mtu 2240",
        ),
        {"nxos.class_mtu_bytes": (9216, 1500, 1500, 2240, 1500, 1500, 1500, 1500)},
    ),
    "the queue does not mark": (
        lambda b: (
            f"policy-map type queuing {_name(b, 'policy-map type queuing')}",
            "class type queuing c-out-8q-q3",
            NO_MARKS,
        ),
        {settings.ECN: False, "nxos.ecn_classes": ()},
    ),
    "another queue marks": (
        lambda b: (
            f"policy-map type queuing {_name(b, 'policy-map type queuing')}",
            "class type queuing c-out-8q-q3",
            NO_MARKS,
            "class type queuing c-out-8q-q4",
            f"{MARKS} weight 0 ecn",
        ),
        {settings.ECN: False, "nxos.ecn_classes": (4,)},
    ),
    "WRED drops where it should mark": (
        lambda b: (
            f"policy-map type queuing {_name(b, 'policy-map type queuing')}",
            "class type queuing c-out-8q-q3",
            f"{MARKS} weight 0",
        ),
        {settings.ECN: False, "nxos.ecn_classes": ()},
    ),
    "Kmin above Kmax": (
        lambda b: (
            f"policy-map type queuing {_name(b, 'policy-map type queuing')}",
            "class type queuing c-out-8q-q3",
            MARKS_UPSIDE_DOWN,
        ),
        {settings.ECN_KMIN: 3_000_000, settings.ECN_KMAX: 1_500_000},
    ),
    "notifications are not strict": (
        lambda b: (
            f"policy-map type queuing {_name(b, 'policy-map type queuing')}",
            "class type queuing c-out-8q-q7",
            "bandwidth remaining percent 0",
        ),
        {settings.TC_SCHEDULER: ("ets",) * 8},
    ),
    "the lossless queue is starved": (
        lambda b: (
            f"policy-map type queuing {_name(b, 'policy-map type queuing')}",
            "class type queuing c-out-8q-q3",
            "bandwidth remaining percent 1",
        ),
        {settings.TC_BANDWIDTH: (50, 0, 0, 1, 0, 0, 0, 0)},
    ),
    "the watchdog is off for the device": (
        lambda _: ("no priority-flow-control watch-dog-interval on",),
        {"nxos.watchdog_global": False, settings.WATCHDOG: ()},
    ),
    "the watchdog is off at the port": (
        lambda _: (PORT, "no priority-flow-control watch-dog-interval on"),
        {"nxos.watchdog_global": True, settings.WATCHDOG: ()},
    ),
    "the watchdog waits longer": (
        lambda _: ("priority-flow-control watch-dog shutdown-multiplier 5",),
        {settings.WATCHDOG_DETECT: 1000},
    ),
    "802.3x pause is on": (
        lambda _: (PORT, "flowcontrol receive on"),
        {settings.PAUSE: True, "nxos.flow_control": "receive"},
    ),
    "the port's MTU is the default": (lambda _: (PORT, "mtu 1500"), {settings.MTU: 1500}),
}


@pytest.mark.parametrize("way", BREAKS)
def test_a_broken_chain_is_seen_and_mended(made: Any, way: str) -> None:
    breaking, expected = BREAKS[way]
    made.switch.configure(*breaking(made))
    read = made.read()
    assert {name: read[name] for name in expected} == {n: Known(value) for n, value in expected.items()}
    assert made.differs(made.wanted())["leaf1/Ethernet1/1"]
    made.set(made.wanted())
    assert made.differs(made.wanted()) == {}
    assert made.known(settings.BOOT) == [settings.SAVED]


@pytest.mark.parametrize(
    ("lines", "setting"),
    [
        (("class type queuing c-out-8q-q3", "shape min 1 gbps max 2 gbps"), "nxos.queuing"),
        (("class type queuing c-out-8q-q3", "queue-limit dynamic 3"), "nxos.queuing"),
    ],
)
def test_what_no_other_setting_shows_is_named(made: Any, lines: tuple[str, ...], setting: str) -> None:
    name = _name(made, "policy-map type queuing")
    made.switch.configure(f"policy-map type queuing {name}", *lines)
    assert made.known(setting) == [name]
    assert setting in made.differs(made.wanted())["leaf1/Ethernet1/1"]


def test_a_port_that_is_not_there_has_no_values(made: Any) -> None:
    del made.switch.running["interface Ethernet1/2"]
    answers = made.answers
    made.switch.ports.pop("Ethernet1/2")
    read = PLUGIN.parse(made.ports, answers())[0][made.id(2)].settings
    known = {name for name, entry in read.items() if isinstance(entry, Known)}
    # What is the device's is known all the same.
    assert settings.MTU not in known
    assert settings.PFC not in known
    assert settings.DSCP_PRIORITY not in known
    assert read[settings.BOOT] == Missing("NX-OS shows no port Ethernet1/2")
