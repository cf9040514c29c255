from __future__ import annotations

from collections.abc import Mapping

import pytest

from fabricctl.checks import match
from fabricctl.errors import UsageError
from fabricctl.model import settings
from fabricctl.model.fabric import Device, Endpoint, Fabric, LinkLayer, Port, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.policy import Limits, MtuPolicy, Policy
from fabricctl.model.reading import DeviceReading, Entry, Known, Missing, PortReading, Value
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin import finder

NIC = PortId("node1", "eth1")
POLICY = Policy(
    name="test",
    link_layer=LinkLayer.ETHERNET,
    lossless=None,
    cnp=None,
    mtu=MtuPolicy(4200, 9000, 4096),
    pfc_priorities=(),
    ecn={},
    limits=Limits(latency=(), loss=None),
)
INTENT = PortIntent(
    port=NIC,
    role=Role.NODE,
    link_layer=LinkLayer.ETHERNET,
    speed_gbps=100,
    mtu_bytes=4200,
    rdma_mtu_bytes=4096,
    trust="dscp",
    dscp_priority=(0,) * 64,
    priority_tc=(0,) * 8,
    tc_scheduler=("ets",) * 8,
    tc_bandwidth_percent=(100, 0, 0, 0, 0, 0, 0, 0),
    pfc_priorities=(3,),
    ecn=None,
    roce_tos=0,
    cable_length_m=0.0,
)


class Stub:
    """A driver as far as the check looks at it."""

    name = "stub"
    role = Role.NODE
    unsupported: Mapping[str, str] = {settings.BUFFER_SIZE: "fixed"}

    def wanted(self, intent: PortIntent) -> Mapping[str, Value]:
        return {
            settings.MTU: intent.mtu_bytes,
            settings.PFC: intent.pfc_priorities,
            settings.ECN: True,
            settings.BUFFER_SIZE: (1,) * 8,
        }


@pytest.fixture(autouse=True)
def stub(monkeypatch: pytest.MonkeyPatch) -> Stub:
    driver = Stub()
    monkeypatch.setattr(finder, "nic_driver", lambda _: driver)
    return driver


def _fabric(driver: str = "stub", layer: LinkLayer = LinkLayer.ETHERNET) -> Fabric:
    return Fabric((Device("node1", Role.NODE, driver, Endpoint("n"), (Port(NIC, link_layer=layer),)),), ())


def _reading(settings_: Mapping[str, Entry] | None, error: str = "") -> dict[str, DeviceReading]:
    ports = {} if settings_ is None else {NIC: PortReading(NIC, settings_)}
    return {"node1": DeviceReading("node1", 0.0, ports, error=error)}


def _judge(readings: dict[str, DeviceReading] | None, fabric: Fabric | None = None) -> tuple[Finding, ...]:
    return match.PLUGIN.judge(fabric or _fabric(), POLICY, {NIC: INTENT}, readings)


def test_equal_passes_other_fails_missing_is_unknown() -> None:
    found = _judge(
        _reading({settings.MTU: Known(4200), settings.PFC: Known(()), settings.ECN: Missing("no such file")})
    )

    assert found == (
        Finding("match", "node1/eth1", Outcome.PASS, "mtu_bytes is 4200", "4200", "4200", 1),
        Finding(
            "match",
            "node1/eth1",
            Outcome.FAIL,
            "pfc_priorities is none, should be 3",
            "none",
            "3",
            1,
            'see "fabricctl plan"',
        ),
        Finding("match", "node1/eth1", Outcome.UNKNOWN, "ecn is not known: no such file", limit="on"),
    )


def test_a_setting_that_was_not_read_is_unknown() -> None:
    assert [f.what for f in _judge(_reading({}))] == [
        "mtu_bytes is not known: not read",
        "pfc_priorities is not known: not read",
        "ecn is not known: not read",
    ]


def test_one_is_not_yes() -> None:
    found = _judge(_reading({settings.MTU: Known(4200), settings.PFC: Known((3,)), settings.ECN: Known(1)}))

    assert [f.outcome for f in found] == [Outcome.PASS, Outcome.PASS, Outcome.FAIL]
    assert found[2].what == "ecn is 1, should be on"


@pytest.mark.parametrize(
    ("readings", "outcome", "what"),
    [
        (None, Outcome.UNKNOWN, "it was not read"),
        ({}, Outcome.UNKNOWN, "it was not read"),
        (_reading(None), Outcome.UNKNOWN, "the device did not report this port"),
        (_reading(None, "timed out"), Outcome.ERROR, "it could not be read: timed out"),
    ],
)
def test_a_device_or_port_that_was_not_read_never_passes(
    readings: dict[str, DeviceReading] | None, outcome: Outcome, what: str
) -> None:
    assert [(f.outcome, f.what) for f in _judge(readings)] == [(outcome, what)]


def test_a_port_without_comparable_settings_is_unknown(stub: Stub) -> None:
    stub.unsupported = dict.fromkeys((settings.MTU, settings.PFC, settings.ECN, settings.BUFFER_SIZE), "no")

    assert [f.outcome for f in _judge(_reading({settings.MTU: Known(4200)}))] == [Outcome.UNKNOWN]


def test_a_device_without_a_driver_is_unknown_and_on_infiniband_nothing_to_compare() -> None:
    assert [f.what for f in _judge({}, _fabric(""))] == ["it has no driver, so its settings cannot be read"]
    assert [f.what for f in _judge({}, _fabric("", LinkLayer.INFINIBAND))] == [
        "nothing was read: there is nothing to compare"
    ]


def test_a_driver_that_is_not_there_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise UsageError(f"there is no NIC driver called {name!r}", next_step="known: rxe")

    monkeypatch.setattr(finder, "nic_driver", refuse)

    (found,) = _judge(_reading({}))
    assert (found.outcome, found.what) == (Outcome.UNKNOWN, "there is no NIC driver called 'stub'")
