"""The loss probe's judge: trains, counters where there are no trains, and what contradicts."""

from __future__ import annotations

import pytest

from fabricctl.model.histogram import Histogram
from fabricctl.model.names import PairId, PortId
from fabricctl.model.policy import Limits, LossLimit
from fabricctl.model.probe import Sample
from fabricctl.model.reading import Entry, Known, Missing
from fabricctl.model.stats import interval, upper_bound
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin import retries
from fabricctl.probes.loss import counters
from fabricctl.probes.loss.judge import judge
from fabricctl.probes.loss.rate import Counted, design_effect, strongest, student_t
from fabricctl.probes.loss.spec import TOGETHER

PAIR = PairId(PortId("node1", "eth1"), PortId("node2", "eth1"))
NONE = LossLimit(max_rate=0.0, bound_rate=1e-3, confidence=0.95)
SOME = LossLimit(max_rate=1e-2, bound_rate=5e-2, confidence=0.95)


def sample(numbers: dict[str, int], **fields: object) -> Sample:
    return Sample(PAIR, "loss", "native 1", 0.0, 1.0, numbers=numbers, **fields)  # type: ignore[arg-type]  # by name


def one(*samples: Sample, limit: LossLimit | None = NONE) -> Finding:
    (finding,) = judge(PAIR, "same_leaf", samples, Limits((), limit))
    assert finding.check == "loss"
    assert "\n" not in finding.what
    assert (finding.next_step == "") is (finding.outcome is Outcome.PASS)
    return finding


def trains(sent: int, missing: int, **numbers: int) -> dict[str, int]:
    return {"sent": sent, "missing": missing, "corrupt": 0, **numbers}


def counted(**entries: int) -> dict[str, Entry]:
    return {name.replace("__", "/"): Known(rise) for name, rise in entries.items()}


class TestWords:
    def test_events_and_packets_are_told(self) -> None:
        finding = one(sample(trains(6000, 7, events=3)))
        low, high = interval(7 / TOGETHER, 6000 / TOGETHER)
        assert finding.what == (
            f"7 of 6000 packets lost in 3 events; rate {low:.2g} .. {high:.2g} at 95 %,"
            " wider for bursts, limit 0"
        )
        assert "lost in 1 event;" in one(sample(trains(6000, 7, events=1))).what
        assert "lost; rate" in one(sample(trains(6000, 7))).what

    def test_what_else_happened_is_told_and_is_no_loss(self) -> None:
        finding = one(sample(trains(6000, 0, reordered=4, late=1, duplicate=2, unclear=3)))
        assert finding.outcome is Outcome.PASS
        assert finding.what == (
            "0 of 6000 packets lost; events of loss < 0.0005 at 95 % (packets < 0.004, were 8 lost together),"
            " bound 0.001; 4 came out of order; 1 came after the next train; 2 came twice;"
            " 3 cannot be told (an older packet lay in their place)"
        )

    @pytest.mark.parametrize(
        ("lossy", "of", "said"),
        [
            ((3, 11), 16, "; 2 of 16 paths lose: queue pairs 3, 11; "),
            ((5,), 8, "; 1 of 8 paths loses: queue pair 5; "),
            (range(1, 9), 8, "; all 8 paths lose; "),
            (range(1, 11), 16, "; 10 of 16 paths lose: queue pairs 1, 2, 3, 4, 5, 6, 7, 8, ...; "),
            ((1,), 1, "lost; rate"),
        ],
    )
    def test_the_paths_that_lose_are_named(self, lossy: tuple[int, ...], of: int, said: str) -> None:
        paths = tuple({"sent": 1000, "missing": int(path in lossy)} for path in range(1, of + 1))
        assert said in one(sample(trains(1000 * of, len(lossy)), numbers_by_path=paths)).what

    def test_bursts_make_the_interval_wider_and_it_says_so(self) -> None:
        batches = {"batches": 30, "batch_packets": 200, "batch_lost": 20, "batch_squares": 4 * 25}
        finding = one(sample(trains(6000, 20, events=4, **batches)))
        assert finding.what.endswith(" at 95 %, wider for bursts, limit 0")
        effect, _ = design_effect(batches)
        low, high = Counted(6000, 20, 4, effect, 30).interval()
        assert f"rate {low:.2g} .. {high:.2g} at 95 %" in finding.what
        assert low < interval(20, 6000)[0] < interval(20, 6000)[1] < high

    def test_total_loss_points_at_the_mtu(self) -> None:
        finding = one(sample(trains(1024, 1024, events=8)))
        assert finding.outcome is Outcome.FAIL
        assert finding.what == "1024 of 1024 packets lost in 8 events; not one full-size packet arrived"
        assert "MTU" in finding.next_step


class TestContradiction:
    GAPS = counted(source__packet_seq_err=2, target__out_of_sequence=3, target__packet_seq_err=9)

    def test_gaps_without_a_loss_are_no_pass_where_none_is_tolerated(self) -> None:
        finding = one(sample(trains(6000, 0), counters=self.GAPS))
        assert finding.outcome is Outcome.UNKNOWN
        assert finding.what == (
            "0 of 6000 packets lost; events of loss < 0.0005 at 95 % (packets < 0.004, were 8 lost together),"
            " but the NICs counted gaps meanwhile (packet_seq_err +2 at the source, out_of_sequence +3 at the"
            " target): other packets of the port were lost, or overtaken; the NIC sent again meanwhile:"
            " packet_seq_err +2"
        )

    @pytest.mark.parametrize(
        ("numbers", "outcome"),
        [
            ({"reordered": 4}, Outcome.PASS),
            ({"reordered": 3}, Outcome.PASS),
            ({"reordered": 2}, Outcome.UNKNOWN),
            ({"reordered": 1, "late": 9}, Outcome.UNKNOWN),
            ({"late": 9}, Outcome.UNKNOWN),
            ({"duplicate": 9, "unclear": 9}, Outcome.UNKNOWN),
        ],
    )
    def test_an_overtaken_packet_explains_one_gap_and_a_late_one_none(
        self, numbers: dict[str, int], outcome: Outcome
    ) -> None:
        finding = one(sample(trains(6000, 0, **numbers), counters=self.GAPS))
        assert finding.outcome is outcome
        more = f"more than the {numbers.get('reordered')} packets that the trains saw overtaken"
        assert (more in finding.what) is (outcome is Outcome.UNKNOWN and "reordered" in numbers)

    def test_one_samples_overtaken_packets_do_not_explain_anothers_gaps(self) -> None:
        found = [sample(trains(6000, 0, reordered=9)), sample(trains(6000, 0), counters=self.GAPS)]
        assert one(*found).outcome is Outcome.UNKNOWN

    def test_each_end_counts_the_same_gaps(self) -> None:
        assert retries.gap_count([sample({}, counters=self.GAPS)]) == 3
        assert retries.gap_count([sample({}, counters=self.GAPS)] * 2) == 6
        assert retries.gap_count([sample({}, counters=counted(source__missing_resp=4))]) == 4
        assert retries.gap_count([]) == 0

    def test_where_some_loss_is_tolerated_the_trains_bound_decides(self) -> None:
        assert one(sample(trains(6000, 0), counters=self.GAPS), limit=SOME).outcome is Outcome.PASS

    def test_gaps_of_the_other_direction_and_retries_decide_nothing(self) -> None:
        other = counted(target__packet_seq_err=5, source__out_of_sequence=5, source__roce_adp_retrans=3)
        finding = one(sample(trains(6000, 0), counters=other))
        assert finding.outcome is Outcome.PASS
        assert finding.what.endswith("; the NIC sent again meanwhile: roce_adp_retrans +3")

    def test_a_loss_stays_a_failure(self) -> None:
        assert one(sample(trains(6000, 1), counters=self.GAPS)).outcome is Outcome.FAIL


class TestCounters:
    def judge(self, operations: int, limit: LossLimit | None = NONE, **entries: int) -> Finding:
        return one(sample({"operations": operations}, counters=counted(**entries)), limit=limit)

    def test_nothing_sent_again_passes_and_names_the_tier(self) -> None:
        finding = self.judge(6000, source__packet_seq_err=0, source__RetransSegs=0)
        assert finding.outcome is Outcome.PASS
        assert finding.what == (
            "0 gaps in 6000 packets by NIC counters (no UC on this NIC): none moved;"
            " events < 0.0005 at 95 %, bound 0.001"
        )
        assert (finding.measured, finding.samples) == ("0 of 6000 (< 0.0005 at 95 %)", 6000)

    def test_gaps_are_unknown_for_they_may_be_other_traffics(self) -> None:
        finding = self.judge(6000, source__seq_err_naks_rcvd=2, source__to_retransmits=2)
        assert finding.outcome is Outcome.UNKNOWN
        assert finding.what == (
            "2 gaps in 6000 packets by NIC counters (no UC on this NIC):"
            " seq_err_naks_rcvd +2 at the source, to_retransmits +2 at the source;"
            " packets of these ports were lost, or overtaken, but the counters do not tell this probe's from"
            " other traffic's, limit 0"
        )
        assert finding.next_step == (
            'stop other traffic on both ports, then "fabricctl verify --pairs node1/eth1:node2/eth1";'
            ' if gaps stay, "fabricctl links"'
        )

    @pytest.mark.parametrize("name", sorted(retries.GAPS))
    def test_a_gap_at_the_source_is_neither_a_pass_nor_a_failure(self, name: str) -> None:
        for rise in (1, 50_000):
            finding = one(sample({"operations": 6000}, counters={f"source/{name}": Known(rise)}))
            assert finding.outcome is Outcome.UNKNOWN
            assert finding.measured.startswith(f"{min(rise, 6000)} of 6000 ")

    @pytest.mark.parametrize("name", sorted(retries.RESPONDER_GAPS))
    def test_gaps_that_only_the_target_saw_are_no_pass(self, name: str) -> None:
        entries: dict[str, Entry] = {"source/packet_seq_err": Known(0), f"target/{name}": Known(4)}
        finding = one(sample({"operations": 6000}, counters=entries))
        assert finding.outcome is Outcome.UNKNOWN
        assert (
            f"4 gaps in 6000 packets by NIC counters (no UC on this NIC): {name} +4 at the t" in finding.what
        )

    @pytest.mark.parametrize("name", sorted(retries.RETRIES))
    @pytest.mark.parametrize("rise", [0, 3])
    def test_counters_of_retransmissions_alone_are_no_evidence(self, name: str, rise: int) -> None:
        finding = one(sample({"operations": 6000}, counters={f"source/{name}": Known(rise)}))
        assert finding.outcome is Outcome.UNKNOWN
        assert finding.what == (
            "loss was not measured: by NIC counters (no UC on this NIC), and there is no counter of gaps at"
            " the source; of its counters of retransmissions nobody has verified that they count these"
            " packets"
        )

    def test_retransmissions_without_gaps_leave_it_open(self) -> None:
        finding = self.judge(6000, source__packet_seq_err=0, source__local_ack_timeout_err=3)
        assert finding.outcome is Outcome.UNKNOWN
        assert "3 retransmissions may hide losses at the end of a train" in finding.what

    def test_too_few_packets_are_unknown(self) -> None:
        finding = self.judge(2994, source__packet_seq_err=0)
        assert finding.outcome is Outcome.UNKNOWN
        assert "too few packets to show 0.001 (2995 without an event would)" in finding.what

    def test_tolerated_events_pass_within_the_bound(self) -> None:
        assert self.judge(6000, SOME, source__packet_seq_err=20).outcome is Outcome.PASS
        assert self.judge(6000, SOME, source__packet_seq_err=70).outcome is Outcome.UNKNOWN
        both = {"source__packet_seq_err": 40, "source__local_ack_timeout_err": 30}
        finding = self.judge(6000, SOME, **both)
        assert finding.outcome is Outcome.UNKNOWN
        assert "; 30 retransmissions may hide losses" in finding.what

    def test_no_counter_or_nothing_sent_is_unknown(self) -> None:
        for finding in (
            one(sample({"operations": 6000}, counters={"source/packet_seq_err": Missing("gone")})),
            self.judge(6000, target__packet_seq_err=0),
            self.judge(0, source__packet_seq_err=0),
        ):
            assert finding.outcome is Outcome.UNKNOWN
            assert finding.what.startswith("loss was not measured: by NIC counters (no UC on this NIC), and")

    def test_without_a_limit_it_passes_and_says_so(self) -> None:
        finding = self.judge(6000, None, source__packet_seq_err=1)
        assert finding.outcome is Outcome.PASS
        assert finding.what.endswith(
            f"; events < {upper_bound(1, 6000):.2g} at 95 %; the policy has no limit"
        )

    def test_trains_and_counters_are_judged_apart(self) -> None:
        found = judge(
            PAIR,
            "same_leaf",
            [sample(trains(6000, 0)), sample({"operations": 6000}, counters=counted(source__missing_resp=0))],
            Limits((), NONE),
        )
        assert [f.outcome for f in found] == [Outcome.PASS, Outcome.PASS]
        assert [counters.TIER in f.what for f in found] == [True, False]


class TestRate:
    def test_student_t_is_that_of_the_tables(self) -> None:
        assert [round(student_t(n, 0.95), 3) for n in (2, 4, 10, 30)] == [4.303, 2.776, 2.228, 2.042]
        assert round(student_t(2, 0.9), 3) == 2.92

    def test_independent_losses_have_an_effect_of_about_one_and_bursts_of_their_length(self) -> None:
        alike = {"batches": 20, "batch_packets": 1000, "batch_lost": 40, "batch_squares": 80}
        assert design_effect(alike) == (1.0, 20)
        once = {"batches": 20, "batch_packets": 1000, "batch_lost": 8, "batch_squares": 64}
        effect, _ = design_effect(once)
        assert effect == pytest.approx(8, rel=1e-3)
        assert strongest([alike, once]) == (effect, 20)
        assert strongest([]) == (1.0, 0)

    @pytest.mark.parametrize(
        ("numbers", "found"),
        [
            ({}, (1.0, 0)),
            ({"batches": 1, "batch_packets": 9, "batch_lost": 1, "batch_squares": 1}, (1.0, 0)),
            ({"batches": 4, "batch_packets": 0, "batch_lost": 0, "batch_squares": 0}, (1.0, 0)),
            ({"batches": 4, "batch_packets": 9, "batch_lost": 37, "batch_squares": 0}, (1.0, 0)),
            ({"batches": 4, "batch_packets": 9, "batch_lost": 0, "batch_squares": 0}, (1.0, 4)),
            ({"batches": 4, "batch_packets": 9, "batch_lost": 36, "batch_squares": 324}, (1.0, 4)),
        ],
    )
    def test_what_says_nothing_of_bursts(self, numbers: dict[str, int], found: tuple[float, int]) -> None:
        assert design_effect(numbers) == found

    def test_the_stated_interval_is_never_the_narrower_one(self) -> None:
        for lost, effect in ((0, 1.0), (1, 1.0), (20, 1.0), (20, 5.0), (20, 1e9), (6000, 1.0)):
            stated, exact = Counted(6000, lost, 1, effect, 30), interval(lost, 6000)
            low, high = stated.interval()
            assert 0 <= low <= exact[0] <= exact[1] <= high <= 1
            assert stated.upper_bound(0.95) >= upper_bound(lost, 6000)
        assert Counted(6000, 20, 4, 5.0, 30).is_bursty
        assert Counted(6000, 20, 4, 5.0, 30).upper_bound(0.5) == upper_bound(20, 6000, 0.5)

    @pytest.mark.parametrize("batches", [0, 1, 30])
    def test_no_loss_bounds_events_exactly_and_packets_by_what_is_assumed(self, batches: int) -> None:
        clean = Counted(6000, 0, 0, 1.0, batches)
        assert clean.upper_bound(0.95) == pytest.approx(1 - 0.05 ** (1 / 6000))
        assert clean.packets_bound(0.95) == pytest.approx(1 - 0.05 ** (8 / 6000))
        assert clean.packets_bound(0.4) == pytest.approx(1 - 0.6 ** (8 / 6000))
        assert clean.interval() == (0, pytest.approx(1 - 0.025 ** (8 / 6000)))
        assert Counted(0, 0, 0, 1.0, batches).interval() == (0, 1)
        assert Counted(5, 0, 0, 1.0, batches).packets_bound(0.95) == pytest.approx(0.95)

    @pytest.mark.parametrize("sent", [128, 640, 10_000, 1_000_000])
    @pytest.mark.parametrize("batches", [0, 1, 2, 5, 30, 63])
    def test_one_event_never_states_less_than_none(self, sent: int, batches: int) -> None:
        none = Counted(sent, 0, 0, 1.0, batches)
        for lost, effect in ((1, 1.0), (2, 2.0), (3, 1.6), (8, 8.0), (20, 20.0)):
            one_event = Counted(sent, lost, 1, effect, batches)
            assert one_event.interval()[1] > none.interval()[1]
            assert one_event.upper_bound(0.95) > none.packets_bound(0.95)

    @pytest.mark.parametrize("batches", [0, 1])
    def test_bursts_are_assumed_where_a_run_cannot_tell_of_them(self, batches: int) -> None:
        counted = Counted(128, 4, 4, 1.0, batches)
        assert counted.interval() == interval(0.5, 16)
        assert counted.upper_bound(0.95) == upper_bound(0.5, 16)
        assert counted.is_bursty
        assert Counted(128, 128, 8, 1.0, batches).interval()[1] == 1


class TestRetries:
    def test_steps_of_the_latency_are_told(self) -> None:
        fast = [10_000 + n for n in range(997)]
        assert retries.steps(Histogram.of([*fast, 8_600_000, 8_700_000, 67_000_000])) == (
            "; 3 of 1000 took over 4 ms more than the median:"
            " sent again after a timeout, or a host stood still"
        )
        assert retries.steps(Histogram.of(fast)) == ""
        assert retries.steps(Histogram()) == ""

    def test_gaps_are_a_finding_where_no_loss_is_tolerated(self) -> None:
        samples = [sample({}, counters=counted(source__rcvd_seq_err=2, target__out_of_seq_request=1))]
        (finding,) = retries.findings("read_latency", PAIR, samples, NONE)
        assert (finding.check, finding.outcome) == ("retransmission", Outcome.UNKNOWN)
        assert finding.measured == "rcvd_seq_err +2 at the source, out_of_seq_request +1 at the target"
        assert finding.what.startswith(f"while read_latency ran, the NICs counted gaps: {finding.measured};")
        assert retries.findings("read_latency", PAIR, samples, SOME) == ()
        assert retries.findings("read_latency", PAIR, samples, None) == ()

    @pytest.mark.parametrize("name", sorted(retries.RETRIES))
    def test_retransmissions_alone_are_no_finding(self, name: str) -> None:
        samples = [sample({}, counters={f"source/{name}": Known(5)})]
        assert retries.findings("read_latency", PAIR, samples, NONE) == ()
        assert retries.remark(samples) == f"; the NIC sent again meanwhile: {name} +5"
