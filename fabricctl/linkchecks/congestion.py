"""It is told which links were paused, marked or held up by their hosts while they were watched.

This fails no link.

Passes: always, where counters were read twice. What is worth knowing is told as a note: a port that was
paused for more than the policy's ``links.pause_percent`` of the time (the network, or the other end, was
congested), one that paused the other end for so long (it was congested itself), a host that was too slow, and
RDMA's retransmissions. ECN marks, congestion notifications and drops of classes in which dropping is allowed
are told without being a note.

Unknown: nothing was read twice, or no end has a counter that would tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fabricctl.linkparts.counters import Kind
from fabricctl.linkparts.ends import Cable, End, cables, unseen
from fabricctl.linkparts.rising import Rise, rises
from fabricctl.model.fabric import Device, Role
from fabricctl.model.policy import LinkPolicy
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.protocols import Query
from fabricctl.plugin.surveying import Need, Survey

_MICROSECONDS = 1e6
_PERCENT = 100.0
_FRAMES = {Kind.PAUSES_RECEIVED: "received", Kind.PAUSES_SENT: "sent"}
_TOLD = (Kind.CONGESTION, Kind.HOST, Kind.RETRY)
_TELLING = (Kind.PAUSED, Kind.PAUSING, *_FRAMES, *_TOLD)


@dataclass(frozen=True, slots=True)
class _Note:
    """Something worth telling, and what to do about it; without advice it is told but is no note."""

    what: str
    advice: str = ""


@dataclass(frozen=True)
class _Congestion:
    name: str = "congestion"
    needs: Need = Need.READINGS

    def queries(self, device: Device) -> tuple[Query, ...]:
        """Ask nothing: the drivers read counters twice."""
        del device
        return ()

    def judge(self, survey: Survey) -> tuple[Finding, ...]:
        """Return a finding for each link."""
        found = tuple(self._of(link, survey) for link in cables(survey))
        return found or unseen(self.name, survey, "congestion")

    def _of(self, link: Cable, survey: Survey) -> Finding:
        notes: list[_Note] = []
        gaps: list[str] = []
        for end in link.read:
            seen = rises(end, survey)
            if seen.gap:
                gaps.append(f"{end}: {seen.gap}")
            elif not any(rise.meaning.kind in _TELLING for rise in seen.rises):
                gaps.append(f"{end}: it reports no counter of pauses, marks or delays")
            notes += _notes(end, seen.rises, survey.rules)
        interval_s = max(end.seen.interval_s for end in link.read if end.seen is not None)
        if len(gaps) == len(link.read):
            what = f"whether it is congested is not known: {'; '.join(gaps)}"
            step = (
                "watch it with --interval; see that its driver reports counters (ethtool -S, rdma statistic)"
            )
            return Finding(self.name, link.subject, Outcome.UNKNOWN, what, next_step=step)
        said = "; ".join(note.what for note in notes) or "no pause, mark or delay"
        advice = "; ".join(dict.fromkeys(note.advice for note in notes if note.advice))
        what = f"{said} in {interval_s:.1f} s"
        return Finding(self.name, link.subject, Outcome.PASS, what, next_step=advice, interval_s=interval_s)


def _notes(end: End, seen: tuple[Rise, ...], rules: LinkPolicy) -> Iterator[_Note]:
    rose = [rise for rise in seen if rise.by > 0]
    yield from _paused(end, rose, rules)
    for kind, way in _FRAMES.items():
        frames = max((rise.by for rise in rose if rise.meaning.kind is kind), default=0)
        if frames:
            yield _Note(f"{end} {way} {frames} pause frames")
    for kind in _TOLD:
        most = max((r for r in rose if r.meaning.kind is kind), key=lambda r: r.by, default=None)
        if most is not None:
            yield _Note(f"{end}: {most.by} {most.meaning.what} ({most.counter})", _ADVICE[kind].format(end))


_ADVICE: Mapping[Kind, str] = {
    Kind.CONGESTION: "",
    Kind.HOST: "see the host of {}: CPU, memory, PCIe, receive requests",
    Kind.RETRY: (
        "RDMA at {} saw packets lost, late or out of order: look for links that drop or damage packets; "
        "where switches route adaptively, disorder alone is no fault"
    ),
}


def _paused(end: End, rose: list[Rise], rules: LinkPolicy) -> Iterator[_Note]:
    """Walk for which part of the time a port was paused, and paused the other end; the worst class counts."""
    for kind in (Kind.PAUSED, Kind.PAUSING):
        per_s = max((rise.per_s for rise in rose if rise.meaning.kind is kind), default=0.0)
        percent = per_s / _MICROSECONDS * _PERCENT
        if percent <= rules.pause_percent:
            continue
        limit = f"more than {rules.pause_percent:g} %"
        if kind is Kind.PAUSED:
            whose = "the network is congested" if end.role is Role.NODE else "the other end is congested"
            advice = "look for the receiver that cannot keep up, and whether ECN slows its senders down"
            yield _Note(f"{end} was paused for {percent:.1f} % of the time, {limit}: {whose}", advice)
        else:
            whose = (
                f"{end.port.id.device} is too slow" if end.role is Role.NODE else "the network is congested"
            )
            advice = f"see the host of {end}: CPU, memory, PCIe" if end.role is Role.NODE else ""
            yield _Note(
                f"{end} paused the other end for {percent:.1f} % of the time, {limit}: {whose}", advice
            )


PLUGIN = _Congestion()
