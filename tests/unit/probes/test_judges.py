"""The probes' judges: pass, fail and unknown, and the numbers that they say."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fabricctl.model.histogram import Histogram
from fabricctl.model.names import PairId, PortId
from fabricctl.model.policy import LatencyLimit, Limits, LossLimit
from fabricctl.model.probe import Sample
from fabricctl.model.reading import Entry, Known, Missing
from fabricctl.model.verdict import Finding, Outcome, worst
from fabricctl.plugin import finder

PAIR = PairId(PortId("node1", "eth1"), PortId("node2", "eth1"))
LATENCY = ("read_latency", "write_latency", "write_pingpong")
LOSS = LossLimit(max_rate=0.0, bound_rate=1e-3, confidence=0.95)


def sample(
    probe: str,
    latencies: tuple[int, ...] = (),
    numbers: dict[str, int] | None = None,
    **fields: object,
) -> Sample:
    return Sample(
        PAIR,
        probe,
        "pyverbs",
        0.0,
        1.0,
        latencies=Histogram.of(latencies),
        numbers=numbers or {},
        **fields,  # type: ignore[arg-type]  # by name
    )


def judge(probe: str, *samples: Sample, limits: Limits) -> tuple[Finding, ...]:
    return finder.probe(probe).judge(PAIR, "same_leaf", samples, limits)


def one(probe: str, *samples: Sample, limits: Limits) -> Finding:
    (finding,) = judge(probe, *samples, limits=limits)
    assert finding.check == probe
    assert finding.subject == "node1/eth1 -> node2/eth1"
    assert (finding.next_step == "") is (finding.outcome is Outcome.PASS)
    assert "\n" not in finding.what
    return finding


def latency_limits(probe: str, percentile: float = 99, max_ns: int = 2_000_000, **fields: object) -> Limits:
    topology = str(fields.pop("topology", "any"))
    return Limits((LatencyLimit(probe, percentile, max_ns, topology),), None, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("probe", LATENCY)
class TestLatency:
    def test_within_the_limit_passes_with_count_and_interval(self, probe: str) -> None:
        finding = one(probe, sample(probe, tuple(range(1000, 1_001_000, 1000))), limits=latency_limits(probe))
        assert finding.outcome is Outcome.PASS
        assert finding.what == (
            f"{probe} p99 = 990.2 us (n=1000, 95 % interval 983.0 us .. 997.4 us), limit 2.00 ms;"
            " p50 500.2 us, p90 900.1 us, p99 990.2 us, p99.9 too few, max 1.00 ms"
        )
        assert (finding.measured, finding.limit, finding.samples) == (
            "p99 = 990.2 us",
            "p99 <= 2.00 ms",
            1000,
        )

    def test_above_the_limit_fails(self, probe: str) -> None:
        finding = one(
            probe,
            sample(probe, tuple(range(1000, 1_001_000, 1000))),
            limits=latency_limits(probe, max_ns=989_600),
        )
        assert finding.outcome is Outcome.FAIL
        assert "fabricctl explain node1/eth1:node2/eth1" in finding.next_step

    def test_a_limit_and_a_value_are_told_apart_to_0_1_percent(self, probe: str) -> None:
        # One bucket is 512 ns wide here: 989,696 .. 990,207 ns.
        values = sample(probe, (989_700,) * 500 + (990_100,) * 499 + (991_000,))
        for max_ns, outcome in ((989_695, Outcome.FAIL), (989_696, Outcome.PASS), (990_207, Outcome.PASS)):
            assert one(probe, values, limits=latency_limits(probe, max_ns=max_ns)).outcome is outcome

    def test_every_percentile_is_shown_that_the_samples_bound(self, probe: str) -> None:
        values = (500,) * 3600 + (900,) * 300 + (1500,) * 99 + (40_000,)
        found = judge(
            probe,
            sample(probe, values[:2000]),
            sample(probe, values[2000:]),
            limits=Limits((LatencyLimit(probe, 50, 600), LatencyLimit(probe, 99.9, 600)), None),
        )
        whole = "limit 0.6 us; p50 0.5, p90 0.5, p99 1.5, p99.9 1.5, max 40.0 us"
        assert [f.what for f in found] == [
            f"{probe} p50 = 0.5 us (n=4000, 95 % interval 0.5 us .. 0.5 us), {whole}",
            f"{probe} p99.9 = 1.5 us (n=4000, 95 % interval 1.5 us .. 40.0 us), {whole}",
        ]
        assert [f.outcome for f in found] == [Outcome.PASS, Outcome.FAIL]

    def test_the_limit_itself_passes(self, probe: str) -> None:
        limits = latency_limits(probe, max_ns=990_000)
        assert (
            one(probe, sample(probe, tuple(range(1000, 1_001_000, 1000))), limits=limits).outcome
            is Outcome.PASS
        )

    def test_too_few_samples_for_the_percentile_is_unknown(self, probe: str) -> None:
        finding = one(probe, sample(probe, (500,) * 1000), limits=latency_limits(probe, 99.9))
        assert finding.outcome is Outcome.UNKNOWN
        assert "2995 samples are needed" in finding.what
        assert "latency_samples to 2995 or more" in finding.next_step

    def test_fewer_samples_than_asked_for_is_unknown(self, probe: str) -> None:
        finding = one(probe, sample(probe, (500,) * 999), limits=latency_limits(probe))
        assert finding.outcome is Outcome.UNKNOWN
        assert "1000 samples are needed" in finding.what

    def test_few_samples_that_are_surely_too_slow_fail(self, probe: str) -> None:
        finding = one(probe, sample(probe, (9_000_000,) * 400), limits=latency_limits(probe))
        assert finding.outcome is Outcome.FAIL

    def test_few_samples_that_may_be_bad_luck_are_unknown(self, probe: str) -> None:
        values = (500,) * 98 + (9_000_000,) * 2
        assert one(probe, sample(probe, values), limits=latency_limits(probe)).outcome is Outcome.UNKNOWN

    def test_samples_of_several_attempts_count_together(self, probe: str) -> None:
        half = sample(probe, (500,) * 500)
        assert one(probe, half, half, limits=latency_limits(probe)).outcome is Outcome.PASS

    def test_every_limit_of_the_topology_and_of_any_counts(self, probe: str) -> None:
        limits = Limits(
            (
                LatencyLimit(probe, 50, 600, "same_leaf"),
                LatencyLimit(probe, 99, 400, "any"),
                LatencyLimit(probe, 99, 1, "cross_leaf"),
                LatencyLimit("other", 99, 1, "any"),
            ),
            None,
        )
        found = judge(probe, sample(probe, (500,) * 1000), limits=limits)
        assert [f.outcome for f in found] == [Outcome.PASS, Outcome.FAIL]

    def test_without_a_limit_it_passes_and_says_so(self, probe: str) -> None:
        finding = one(probe, sample(probe, (500,) * 1000), limits=Limits((), None))
        assert finding.outcome is Outcome.PASS
        assert finding.what == (
            f"{probe} p50 0.5, p90 0.5, p99 0.5, p99.9 too few, max 0.5 us (n=1000);"
            " the policy has no limit for same_leaf"
        )

    def test_without_a_limit_missing_samples_are_unknown(self, probe: str) -> None:
        finding = one(probe, sample(probe, (500,) * 10), limits=Limits((), None))
        assert finding.outcome is Outcome.UNKNOWN
        assert "n=10, 1000 samples were asked for" in finding.what

    def test_no_sample_and_empty_samples_are_unknown(self, probe: str) -> None:
        assert one(probe, limits=latency_limits(probe)).what == f"{probe} was not measured"
        assert one(probe, sample(probe), limits=latency_limits(probe)).outcome is Outcome.UNKNOWN

    def test_an_error_is_unknown_with_its_reason(self, probe: str) -> None:
        finding = one(
            probe, sample(probe, error="no pyverbs", error_kind="setup"), limits=latency_limits(probe)
        )
        assert finding.outcome is Outcome.UNKNOWN
        assert finding.what == f"{probe} not measured: no pyverbs"

    def test_no_answer_from_the_peer_fails(self, probe: str) -> None:
        finding = one(
            probe, sample(probe, error="retries exceeded", error_kind="peer"), limits=latency_limits(probe)
        )
        assert finding.outcome is Outcome.FAIL
        assert finding.what == f"{probe} got no answer: retries exceeded"

    def test_an_error_beside_good_samples_stays(self, probe: str) -> None:
        found = judge(
            probe, sample(probe, error="timeout"), sample(probe, (500,) * 1000), limits=latency_limits(probe)
        )
        assert worst(f.outcome for f in found) is Outcome.UNKNOWN

    def test_retries_are_shown_but_decide_nothing(self, probe: str) -> None:
        counters: dict[str, Entry] = {
            "source/completer_retry_err": Known(3),
            "source/rcvd_seq_err": Known(0),
            "target/rcvd_seq_err": Known(5),
            "source/sent_pkts": Known(1000),
            "source/retry_exceeded_err": Missing("no such file"),
        }
        finding = one(probe, sample(probe, (500,) * 1000, counters=counters), limits=latency_limits(probe))
        assert finding.outcome is Outcome.PASS
        assert finding.what.endswith("; the NIC sent again meanwhile: completer_retry_err +3")

    @settings(deadline=None)
    @given(values=st.lists(st.integers(1, 10**7), max_size=400))
    def test_nothing_short_of_the_asked_samples_ever_passes(self, probe: str, values: list[int]) -> None:
        found = judge(probe, sample(probe, tuple(values)), limits=latency_limits(probe, latency_samples=401))
        assert worst(f.outcome for f in found) is not Outcome.PASS


def loss(sent: int, missing: int, **fields: object) -> Sample:
    return sample("loss", numbers={"sent": sent, "missing": missing}, **fields)


def limits(loss_limit: LossLimit | None = LOSS) -> Limits:
    return Limits((), loss_limit)


class TestLoss:
    def test_enough_packets_without_a_loss_pass_with_the_bound(self) -> None:
        finding = one("loss", loss(6000, 0), limits=limits())
        assert finding.outcome is Outcome.PASS
        assert finding.what == (
            "0 of 6000 packets lost; events of loss < 0.0005 at 95 % (packets < 0.004, were 8 lost together),"
            " bound 0.001"
        )
        assert (finding.measured, finding.samples) == ("0 of 6000 (< 0.0005 at 95 %)", 6000)

    def test_the_last_packet_makes_the_bound(self) -> None:
        assert one("loss", loss(2995, 0), limits=limits()).outcome is Outcome.PASS
        finding = one("loss", loss(2994, 0), limits=limits())
        assert finding.outcome is Outcome.UNKNOWN
        assert "too few packets to show 0.001 (2995 without a loss would)" in finding.what

    def test_a_single_lost_packet_fails_where_none_may_be(self) -> None:
        finding = one("loss", loss(1_000_000, 1), limits=limits())
        assert finding.outcome is Outcome.FAIL
        said = "1 of 1000000 packets lost; rate 0 .. 3.2e-05 at 95 %, wider for bursts, limit 0"
        assert finding.what == said

    def test_a_tolerated_rate_passes_only_within_the_bound(self) -> None:
        tolerant = LossLimit(max_rate=1e-3, bound_rate=2e-3, confidence=0.95)
        apart = {"batches": 40, "batch_packets": 250, "batch_lost": 5, "batch_squares": 5}
        spread = sample("loss", numbers={"sent": 10_000, "missing": 5, **apart})
        assert one("loss", spread, limits=limits(tolerant)).outcome is Outcome.PASS
        assert one("loss", loss(10_000, 5), limits=limits(tolerant)).outcome is Outcome.UNKNOWN
        assert one("loss", loss(1_000, 1), limits=limits(tolerant)).outcome is Outcome.UNKNOWN
        assert one("loss", loss(10_000, 11), limits=limits(tolerant)).outcome is Outcome.FAIL

    @pytest.mark.parametrize("numbers", [{}, {"sent": 6000}, {"missing": 0}, {"sent": 5, "missing": 6}])
    def test_a_missing_count_is_not_zero(self, numbers: dict[str, int]) -> None:
        finding = one("loss", sample("loss", numbers=numbers), limits=limits())
        assert finding.outcome is Outcome.UNKNOWN
        assert "did not count" in finding.what

    def test_nothing_sent_is_unknown(self) -> None:
        assert one("loss", loss(0, 0), limits=limits()).outcome is Outcome.UNKNOWN
        assert one("loss", loss(0, 0), limits=limits(None)).outcome is Outcome.UNKNOWN

    def test_without_a_limit_it_passes_and_says_so(self) -> None:
        finding = one("loss", loss(6000, 2), limits=limits(None))
        assert finding.outcome is Outcome.PASS
        assert finding.what == "2 of 6000 packets lost, loss < 0.0046 at 95 %; the policy has no limit"

    def test_torn_packets_count_as_lost(self) -> None:
        finding = one(
            "loss",
            sample("loss", numbers={"sent": 6000, "missing": 0, "corrupt": 2, "late": 1}),
            limits=limits(),
        )
        assert finding.outcome is Outcome.FAIL
        assert finding.what.startswith("2 of 6000 packets lost (2 of them arrived in part); rate")

    def test_it_says_on_how_many_paths(self) -> None:
        paths = ({"sent": 3000, "missing": 7}, {"sent": 3000, "missing": 0}, {})
        assert "7 of 6000 packets lost; 1 of 3 paths loses: queue pair 1;" in (
            one("loss", loss(6000, 7, numbers_by_path=paths), limits=limits()).what
        )
        assert "paths" not in one("loss", loss(6000, 0, numbers_by_path=paths), limits=limits()).what

    def test_no_sample_or_an_error_is_unknown(self) -> None:
        assert one("loss", limits=limits()).what == "loss was not measured"
        finding = one("loss", sample("loss", error="no UC", error_kind="setup"), limits=limits())
        assert finding.what == "loss not measured: no UC"

    def test_a_connection_that_broke_on_the_way_fails(self) -> None:
        stopped = loss(4000, 0, parameters={"stopped": "after 31 of 47 trains: no answer"})
        found = judge("loss", stopped, limits=limits())
        assert [f.outcome for f in found] == [Outcome.FAIL, Outcome.PASS]
        assert found[0].what == "the connection of the loss probe broke after 31 of 47 trains: no answer"

    @settings(deadline=None)
    @given(st.integers(0, 20_000), st.integers(0, 20_000))
    def test_a_pass_always_has_the_bound_behind_it(self, sent: int, missing: int) -> None:
        finding = one("loss", loss(sent, missing), limits=limits())
        if finding.outcome is Outcome.PASS:
            assert missing == 0
            assert sent >= 2995


def test_the_order_of_samples_does_not_matter() -> None:
    samples = [loss(3000, 0), loss(3000, 1), sample("loss", error="x"), loss(1, 0)]
    outcomes = set()
    for seed in range(10):
        shuffled = random.Random(seed).sample(samples, len(samples))  # noqa: S311  an order
        outcomes.add(worst(f.outcome for f in judge("loss", *shuffled, limits=limits())))
    assert outcomes == {Outcome.FAIL}
