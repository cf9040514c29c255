from __future__ import annotations

import json
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricctl.errors import WireError
from fabricctl.model import settings
from fabricctl.model.certificate import Certificate
from fabricctl.model.codec import decode, encode
from fabricctl.model.fabric import Device, Endpoint, Fabric, Link, LinkLayer, Port, Role
from fabricctl.model.histogram import Histogram
from fabricctl.model.names import PairId, PortId
from fabricctl.model.policy import EcnProfile, Limits, LossLimit, MtuPolicy, Policy
from fabricctl.model.probe import Sample
from fabricctl.model.reading import DeviceReading, Known, Missing, PortReading
from fabricctl.model.run import Run, RunKind
from fabricctl.model.verdict import Finding, Outcome, Verdict

A = PortId("node1", "eth1")
B = PortId("leaf1", "ethernet1/1")


def through_json(value: object) -> object:
    return decode(type(value), json.loads(json.dumps(encode(value))))


def test_a_port_name_may_hold_slashes() -> None:
    assert encode(B) == "leaf1/ethernet1/1"
    assert decode(PortId, "leaf1/ethernet1/1") == B


def test_readings_keep_known_and_missing_apart() -> None:
    reading = DeviceReading(
        "node1",
        12.0,
        {A: PortReading(A, {"mtu_bytes": Known(0), "pfc_priorities": Known((3, 4)), "ecn": Known(False)})},  # noqa: FBT003
        {"firmware": Missing("no such file"), "kernel": Known("6.12")},
    )
    assert through_json(reading) == reading


def test_a_fabric_and_a_policy_survive() -> None:
    endpoint = Endpoint("127.0.0.1", port=4001)
    port = Port(A, rdma="rxe0", rail=0, address="10.0.0.1/24", link_layer=LinkLayer.ETHERNET)
    fabric = Fabric((Device("node1", Role.NODE, "rxe", endpoint, (port,)),), (Link(B, A, 2.5),))
    assert through_json(fabric) == fabric
    policy = Policy(
        name="p",
        link_layer=LinkLayer.ETHERNET,
        lossless=None,
        cnp=None,
        mtu=MtuPolicy(4200, 9000, 4096),
        pfc_priorities=(3,),
        ecn={0: EcnProfile(1, 2, 100)},
        limits=Limits((), LossLimit(0.0, 0.01, 0.95)),
    )
    assert through_json(policy) == policy


def test_verdicts_samples_runs_and_certificates_survive() -> None:
    pair = PairId(A, PortId("node2", "eth1"))
    finding = Finding("loss", str(pair), Outcome.FAIL, "3 of 100 lost", samples=100)
    sample = Sample(pair, "loss", "pyverbs 56", 1.0, 2.0, numbers={"sent": 1}, numbers_by_path=({"sent": 1},))
    timed = Sample(pair, "read_latency", "native 1", 1.0, 2.0, latencies=Histogram.of([7, 9, 9]))
    assert encode(timed)["latencies"] == timed.latencies.encode()
    assert through_json(timed) == timed
    certificate = Certificate(
        "c1",
        A,
        "v1",
        Outcome.PASS,
        {"node2/eth1": Outcome.PASS},
        (finding,),
        {"driver": "x"},
        "e",
        "p",
        "d",
        1.0,
        2.0,
    )
    for value in (
        Verdict(pair, "same_leaf", (finding,)),
        sample,
        certificate,
        Run("v1", RunKind.VERIFY, 1.0, "me", "i"),
    ):
        assert through_json(value) == value


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (PortId, "no-slash"),
        (Verdict, {"pair": ["a/b"], "topology": "x", "findings": []}),
        (Finding, {"check": "x"}),
        (Run, {"id": 3, "kind": "apply", "started_at": 0.0, "by": "", "inventory": ""}),
        (Run, {"id": "x", "kind": "fly", "started_at": 0.0, "by": "", "inventory": ""}),
        (tuple[int, ...], 3),
    ],
)
def test_what_does_not_fit_is_a_wire_error(kind: type[object], data: object) -> None:
    with pytest.raises(WireError, match="stored data do not fit"):
        decode(kind, data)


@given(
    st.dictionaries(
        st.text(max_size=5), st.one_of(st.integers(), st.text(max_size=5), st.booleans()), max_size=4
    )
)
def test_every_mapping_of_values_survives(values: dict[str, int | str | bool]) -> None:
    reading = PortReading(A, {key: Known(value) for key, value in values.items()})
    assert through_json(reading) == reading


def test_a_tuple_of_fixed_length_keeps_its_types() -> None:
    assert decode(tuple[int, str], [1, "a"]) == (1, "a")
    with pytest.raises(WireError, match="stored data do not fit"):
        decode(tuple[int, str], [1])


def test_a_drivers_own_setting_comes_before_persistence() -> None:
    assert settings.safe_rank("mlx5.cnp_dscp") < settings.safe_rank(settings.BOOT)
    assert (
        settings.safe_rank(settings.MTU) < settings.safe_rank(settings.PFC) < settings.safe_rank(settings.ECN)
    )


@pytest.mark.parametrize("value", [None, True, 3, 2.5, "x", Outcome.PASS, [1, "a"], {A: (B,)}])
def test_plain_values_stay_and_others_become_plain(value: object) -> None:
    plain = {Outcome.PASS: "pass", "{A: (B,)}": {str(A): [str(B)]}}
    expected = plain["{A: (B,)}"] if isinstance(value, dict) else value
    found = encode(value)
    assert found == expected
    assert type(found) in {type(None), bool, int, float, str, list, dict}
    assert json.loads(json.dumps(found)) == found


def test_values_without_fields_are_empty() -> None:
    @dataclass(frozen=True)
    class Nothing:
        own: int = field(init=False, default=3)

    assert encode([Nothing(), Nothing()]) == [{}, {}]


def test_what_is_a_little_more_than_plain_stays() -> None:
    class Text(str):
        __slots__ = ()

    assert encode([Text("a")]) == ["a"]
