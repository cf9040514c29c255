"""The judges of the bandwidth probes: at a limit, just below, just above, and all that is no evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricctl.model.names import PairId, PortId
from fabricctl.model.policy import BandwidthLimit, Limits, LossLimit
from fabricctl.model.probe import Sample
from fabricctl.model.reading import Known
from fabricctl.model.verdict import Finding, Outcome, worst
from fabricctl.plugin import finder, retries

PAIR = PairId(PortId("node1", "eth1"), PortId("node2", "eth1"))
ONE_WAY = ("write_bandwidth", "read_bandwidth", "send_bandwidth")
ALL = (*ONE_WAY, "write_bandwidth_both")
SECOND = 1_000_000_000
NO_LOSS = LossLimit(max_rate=0.0, bound_rate=1e-3, confidence=0.95)
FLOW = {
    "bytes": 11_250_000_000,  # 90 Gbit/s over a second
    "messages": 30_303,
    "elapsed_ns": SECOND,
    "largest_message_bytes": 1_048_576,
    "queue_pairs": 2,
}
REVERSE = {f"reverse_{name}": number for name, number in FLOW.items()}
PARAMETERS = {
    "path_mtu_bytes": 4096,
    "line_rate_gbps": 100,
    "queue_pairs": 2,
    "sizes": "512,65536,1048576",
    "source_gid": "3 RoCE v2 10.10.0.1",
}


def sample(probe: str, numbers: dict[str, int | None] | None = None, **fields: Any) -> Sample:
    """Return a sample of 90 of 100 Gbit/s with some numbers changed or (None) left out."""
    both = REVERSE if probe == "write_bandwidth_both" else {}
    changed = {**FLOW, **both, **(numbers or {})}
    parameters = {**PARAMETERS, **fields.pop("parameters", {})}
    kept = {name: number for name, number in changed.items() if number is not None}
    return Sample(
        PAIR,
        probe,
        "native 1",
        0.0,
        1.0,
        numbers=kept,
        parameters={name: value for name, value in parameters.items() if value is not None},
        **fields,
    )


def limits(
    probe: str, share: float | None = None, gbps: float | None = None, topology: str = "any"
) -> Limits:
    return Limits((), None, bandwidth=(BandwidthLimit(probe, share, gbps, topology),))


def judge(probe: str, *samples: Sample, within: Limits) -> tuple[Finding, ...]:
    return finder.probe(probe).judge(PAIR, "same_leaf", samples, within)


def one(probe: str, *samples: Sample, within: Limits) -> Finding:
    (finding,) = judge(probe, *samples, within=within)
    assert finding.check == probe
    assert finding.subject == "node1/eth1 -> node2/eth1"
    assert (finding.next_step == "") is (finding.outcome is Outcome.PASS)
    assert "\n" not in finding.what
    return finding


@pytest.mark.parametrize("probe", ALL)
class TestEvery:
    @pytest.mark.parametrize(
        ("carried", "outcome"),
        [
            (11_250_000_000, Outcome.PASS),
            (11_249_999_999, Outcome.FAIL),
            (11_250_000_001, Outcome.PASS),
            (12_500_000_000, Outcome.PASS),
            (12_500_000_001, Outcome.UNKNOWN),  # more than the line rate: the inventory is wrong
        ],
    )
    def test_a_share_at_its_limit(self, probe: str, carried: int, outcome: Outcome) -> None:
        finding = one(probe, sample(probe, {"bytes": carried}), within=limits(probe, 0.9))
        assert finding.outcome is outcome
        assert finding.limit == "0.9 of the line rate (100 Gbit/s)"
        assert finding.samples == 30_303

    @pytest.mark.parametrize(
        ("carried", "outcome"),
        [
            (11_250_000_000, Outcome.PASS),
            (11_249_999_999, Outcome.FAIL),
            (11_250_000_001, Outcome.PASS),
        ],
    )
    @pytest.mark.parametrize("rate", [0, 100, None, "fast", 10])
    def test_an_absolute_limit_needs_no_line_rate(
        self, probe: str, carried: int, outcome: Outcome, rate: object
    ) -> None:
        found = sample(probe, {"bytes": carried}, parameters={"line_rate_gbps": rate})
        finding = one(probe, found, within=limits(probe, gbps=90))
        assert (finding.outcome, finding.limit) == (outcome, "at least 90 Gbit/s")

    @pytest.mark.parametrize("rate", [0, -1, None, "fast", 0.0])
    def test_a_share_of_an_unknown_line_rate_is_unknown(self, probe: str, rate: object) -> None:
        finding = one(probe, sample(probe, parameters={"line_rate_gbps": rate}), within=limits(probe, 0.9))
        assert finding.outcome is Outcome.UNKNOWN
        assert "the line rate is not known: give both ports speed_gbps" in finding.what

    def test_of_two_parts_the_worse_decides(self, probe: str) -> None:
        unknown = sample(probe, parameters={"line_rate_gbps": 0})
        for found, share, gbps, outcome in (
            (sample(probe), 0.9, 90.0, Outcome.PASS),
            (sample(probe), 0.9, 90.1, Outcome.FAIL),
            (sample(probe), 0.91, 90.0, Outcome.FAIL),
            (unknown, 0.9, 90.0, Outcome.UNKNOWN),
            (unknown, 0.9, 90.1, Outcome.FAIL),
        ):
            assert one(probe, found, within=limits(probe, share, gbps)).outcome is outcome

    @pytest.mark.parametrize("name", ["bytes", "messages", "elapsed_ns", "largest_message_bytes"])
    @pytest.mark.parametrize("number", [None, 0, -1])
    def test_what_was_not_counted_or_carried_is_unknown(
        self, probe: str, name: str, number: int | None
    ) -> None:
        finding = one(probe, sample(probe, {name: number}), within=limits(probe, gbps=0.001))
        assert finding.outcome is Outcome.UNKNOWN
        words = name.replace("_", " ")
        assert finding.what == f"{probe} not measured: " + (
            f"the agents did not count {words}"
            if number is None
            else f"nothing was carried ({words}: {number})"
        )
        assert finding.measured == ""

    @pytest.mark.parametrize(
        ("elapsed", "outcome"),
        [(SECOND // 2, Outcome.PASS), (SECOND // 2 - 1, Outcome.UNKNOWN), (1, Outcome.UNKNOWN)],
    )
    def test_a_stream_must_last_half_the_time(self, probe: str, elapsed: int, outcome: Outcome) -> None:
        finding = one(probe, sample(probe, {"elapsed_ns": elapsed}), within=limits(probe, gbps=1))
        assert finding.outcome is outcome

    @pytest.mark.parametrize(
        ("largest", "mtu", "outcome"),
        [
            (4097, 4096, Outcome.PASS),
            (4096, 4096, Outcome.UNKNOWN),
            (8, 4096, Outcome.UNKNOWN),
            (1_048_576, None, Outcome.UNKNOWN),
        ],
    )
    def test_a_message_must_be_longer_than_the_path_mtu(
        self, probe: str, largest: int, mtu: int | None, outcome: Outcome
    ) -> None:
        changed = {"largest_message_bytes": largest}
        if probe == "write_bandwidth_both":
            changed["reverse_largest_message_bytes"] = largest
        finding = one(
            probe, sample(probe, dict(changed), parameters={"path_mtu_bytes": mtu}), within=limits(probe, 0.5)
        )
        assert finding.outcome is outcome
        if outcome is Outcome.UNKNOWN:
            assert "no message was longer than the path MTU" in finding.what

    def test_the_slowest_of_several_counts(self, probe: str) -> None:
        slow = sample(probe, {"bytes": 5_000_000_000})
        finding = one(probe, sample(probe), slow, sample(probe), within=limits(probe, 0.9))
        assert finding.outcome is Outcome.FAIL
        assert f"{probe} 40 Gbit/s" in finding.what
        assert ", the slowest of 3 samples" in finding.what

    def test_a_doubtful_sample_is_not_left_out(self, probe: str) -> None:
        found = judge(probe, sample(probe), sample(probe, {"bytes": None}), within=limits(probe, 0.9))
        assert [finding.outcome for finding in found] == [Outcome.UNKNOWN]

    def test_without_a_limit_for_the_topology_it_passes_and_says_so(self, probe: str) -> None:
        for within in (
            limits(probe, 0.99, topology="cross_pod"),
            limits("read_latency", 0.99),
            Limits((), None),
        ):
            finding = one(probe, sample(probe), within=within)
            assert finding.outcome is Outcome.PASS
            assert finding.what.endswith("; the policy has no limit for same_leaf")
            assert finding.limit == ""

    def test_every_limit_that_applies_is_judged(self, probe: str) -> None:
        several = Limits(
            (),
            None,
            bandwidth=(
                BandwidthLimit(probe, 0.8),
                BandwidthLimit(probe, 0.95, topology="same_leaf"),
                BandwidthLimit(probe, 0.99, topology="cross_leaf"),
            ),
        )
        found = judge(probe, sample(probe), within=several)
        assert [finding.outcome for finding in found] == [Outcome.PASS, Outcome.FAIL]

    def test_no_sample_is_unknown(self, probe: str) -> None:
        finding = one(probe, within=limits(probe, 0.9))
        assert (finding.outcome, finding.what) == (Outcome.UNKNOWN, f"{probe} was not measured")

    @pytest.mark.parametrize(
        ("kind", "outcome"),
        [("peer", Outcome.FAIL), ("deadline", Outcome.UNKNOWN), ("setup", Outcome.UNKNOWN)],
    )
    def test_an_error_is_what_its_kind_says(self, probe: str, kind: str, outcome: Outcome) -> None:
        broken = Sample(PAIR, probe, "native 1", 0.0, 1.0, error="no answer", error_kind=kind)
        assert one(probe, broken, within=limits(probe, 0.9)).outcome is outcome
        both = judge(probe, broken, sample(probe), within=limits(probe, 0.9))
        assert [finding.outcome for finding in both] == [outcome, Outcome.PASS]

    def test_an_mtu_hole_fails_and_says_so(self, probe: str) -> None:
        numbers: dict[str, int | None] = dict.fromkeys(FLOW, None)
        numbers |= {
            "small_bytes": 8,
            "small_answered": 8,
            "large_bytes": 16_384,
            "large_asked": 8,
            "large_answered": 0,
        }
        why = {"stopped": "on queue pair 1: no answer"}
        finding = one(probe, sample(probe, numbers, parameters=why), within=limits(probe, 0.9))
        assert finding.outcome is Outcome.FAIL
        assert finding.what == (
            f"{probe}: messages of 16384 bytes do not arrive while those of 8 bytes do: 0 of 8 with packets"
            " of the path MTU 4096 were answered, all 8 short ones were; on queue pair 1: no answer"
        )

    def test_what_the_path_mtu_allows_is_said_where_a_share_is_more(self, probe: str) -> None:
        small = sample(probe, {"bytes": 11_500_000_000}, parameters={"path_mtu_bytes": 1024})
        finding = one(probe, small, within=limits(probe, 0.95))
        assert finding.outcome is Outcome.FAIL
        assert (
            "that is 0.920; at this path MTU and with these sizes no more than 0.926 can be payload"
            in finding.what
        )
        assert "no more than" not in one(probe, small, within=limits(probe, 0.925)).what
        unsaid = sample(probe, parameters={"sizes": None})
        assert "no more than" not in one(probe, unsaid, within=limits(probe, 0.99)).what
        infiniband = sample(probe, parameters={"path_mtu_bytes": 1024, "source_gid": ""})
        assert "no more than 0.97" in one(probe, infiniband, within=limits(probe, 0.99)).what

    def test_retransmissions_are_remarked(self, probe: str) -> None:
        moved = sample(probe, counters={"source/packet_seq_err": Known(3)})
        assert (
            "; the NIC sent again meanwhile: packet_seq_err +3"
            in one(probe, moved, within=limits(probe, 0.5)).what
        )

    @pytest.mark.parametrize(
        "key",
        [f"source/{name}" for name in sorted(retries.GAPS - retries.SOFT_GAPS)]
        + [f"target/{name}" for name in sorted(retries.RESPONDER_GAPS - retries.SOFT_GAPS)],
    )
    def test_gaps_under_load_are_no_pass_where_no_loss_is_tolerated(self, probe: str, key: str) -> None:
        within = replace(limits(probe, 0.5), loss=NO_LOSS)
        gaps, goodput = judge(probe, sample(probe, counters={key: Known(50_000)}), within=within)
        side, _, name = key.partition("/")
        assert (gaps.check, gaps.outcome) == ("retransmission", Outcome.UNKNOWN)
        assert gaps.measured == f"{name} +50000 at the {side}"
        assert gaps.what.startswith(f"while {probe} ran, the NICs counted gaps: {gaps.measured};")
        assert (goodput.check, goodput.outcome) == (probe, Outcome.PASS)
        short = sample(probe, {"elapsed_ns": 1}, counters={key: Known(1)})
        assert [f.check for f in judge(probe, short, within=within)] == ["retransmission", probe]
        for loss in (None, replace(NO_LOSS, max_rate=1e-6)):
            one(probe, sample(probe, counters={key: Known(50_000)}), within=replace(within, loss=loss))

    def test_what_rxe_counts_under_load_is_remarked_and_decides_nothing(self, probe: str) -> None:
        overrun = sample(
            probe,
            counters={"source/rcvd_seq_err": Known(7), "target/out_of_seq_request": Known(7)},
        )
        finding = one(probe, overrun, within=replace(limits(probe, 0.5), loss=NO_LOSS))
        assert finding.outcome is Outcome.PASS
        assert "; the NIC sent again meanwhile: rcvd_seq_err +7" in finding.what

    def test_gaps_of_the_other_direction_are_its_own_only_if_it_sends_both_ways(self, probe: str) -> None:
        counters = {"target/packet_seq_err": Known(3), "source/out_of_sequence": Known(2)}
        found = judge(
            probe, sample(probe, counters=counters), within=replace(limits(probe, 0.5), loss=NO_LOSS)
        )
        both = probe == "write_bandwidth_both"
        assert [f.check for f in found] == [*["retransmission"] * both, probe]
        if both:
            assert found[0].measured == "out_of_sequence +2 at the source, packet_seq_err +3 at the target"

    def test_its_parameters_come_from_the_policy(self, probe: str) -> None:
        class WithLimits:
            limits = Limits(
                (),
                None,
                bandwidth_seconds=0.3,
                bandwidth_queue_pairs=3,
                bandwidth_sizes=(100, 9000),
                bandwidth_depth=4,
            )

        given_: dict[str, Any] = dict(finder.probe(probe).parameters(WithLimits()))  # type: ignore[arg-type]
        assert given_.pop("deadline_s") == pytest.approx(20 + 1.2 + 0.108)
        assert given_ == {"seconds": 0.3, "queue_pairs": 3, "sizes": "100,9000", "depth": 4}

    def test_it_fills_links(self, probe: str) -> None:
        assert finder.probe(probe).fills_link is True
        assert finder.probe(probe).on_request is (probe not in {"write_bandwidth", "read_bandwidth"})


def test_a_rate_says_its_seconds_messages_and_queue_pairs() -> None:
    finding = one("write_bandwidth", sample("write_bandwidth"), within=limits("write_bandwidth", 0.85, 80))
    assert finding.what == (
        "write_bandwidth 90 Gbit/s of payload over 1 s in 30303 messages on 2 queue pairs, limit at least 80"
        " Gbit/s and 0.85 of the line rate (100 Gbit/s); that is 0.900"
    )
    assert (finding.measured, finding.samples) == ("90 Gbit/s", 30_303)


class TestBothWays:
    probe = "write_bandwidth_both"

    @pytest.mark.parametrize("name", sorted(set(REVERSE) - {"reverse_queue_pairs"}))
    @pytest.mark.parametrize("number", [None, 0])
    def test_without_the_other_direction_it_is_unknown(self, name: str, number: int | None) -> None:
        finding = one(self.probe, sample(self.probe, {name: number}), within=limits(self.probe, 0.9))
        assert finding.outcome is Outcome.UNKNOWN
        assert "not measured: in the other direction, " in finding.what

    def test_each_direction_is_judged_apart(self) -> None:
        slow = sample(self.probe, {"reverse_bytes": 125_000_000})
        finding = one(self.probe, slow, within=limits(self.probe, 0.9))
        assert finding.outcome is Outcome.PASS
        assert "90 Gbit/s of payload" in finding.what
        assert "(1 Gbit/s the other way meanwhile)" in finding.what

    def test_a_hole_the_other_way_is_unknown_here(self) -> None:
        numbers: dict[str, int | None] = dict.fromkeys((*FLOW, *REVERSE), None)
        numbers |= {
            "large_asked": 8,
            "large_answered": 8,
            "reverse_large_asked": 8,
            "reverse_large_answered": 1,
        }
        finding = one(self.probe, sample(self.probe, numbers), within=limits(self.probe, 0.9))
        assert finding.outcome is Outcome.UNKNOWN
        assert "in the other direction, long messages got no answer" in finding.what


@given(
    st.sampled_from(ALL),
    st.fixed_dictionaries(
        {},
        optional={
            name: st.integers(-1, 1 << 62) for name in (*FLOW, *REVERSE, "large_asked", "large_answered")
        },
    ),
    st.one_of(st.none(), st.integers(0, 800), st.floats(0, 800)),
    st.floats(0.01, 1),
)
def test_a_pass_has_its_evidence(probe: str, numbers: dict[str, int], rate: object, share: float) -> None:
    found = Sample(
        PAIR,
        probe,
        "native 1",
        0.0,
        1.0,
        numbers=numbers,
        parameters={"path_mtu_bytes": 4096} | ({} if rate is None else {"line_rate_gbps": rate}),  # type: ignore[arg-type]  # any rate
    )
    findings = judge(probe, found, within=limits(probe, share))
    assert findings
    if worst(finding.outcome for finding in findings) is Outcome.PASS:
        assert isinstance(rate, int | float)
        gbps = numbers["bytes"] * 8 / numbers["elapsed_ns"]
        assert share * rate <= gbps * (1 + 1e-12)
        assert gbps <= rate * (1 + 1e-12)
        assert numbers["largest_message_bytes"] > 4096
        assert numbers["elapsed_ns"] >= SECOND / 2
