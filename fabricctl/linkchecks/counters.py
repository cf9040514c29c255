"""No errors, discards or pause storms are counted at either end of an Ethernet link while it is watched.

Passes: at each end that was read there are counters that would tell, and none rose faster than the policy's
``links.errors_per_s``, ``discards_per_s`` and ``storms_per_s`` allow. The limit holds for each counter by
itself, for some are sums of others. Discards or storms that a port could count, but does not, are told.

Fails: one rose faster, or the PFC watchdog holds a queue for stormed. Packets dropped for lack of a buffer
are a failure in the class that RDMA rides; where the counter does not tell classes apart, in any.

Unknown: an end has no counter that would tell, was read only once, or a counter went back or was read once.
Frames that nobody listened for (``rx_dropped`` of a Linux interface, discards of what a switch received) are
not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fabricctl.linkparts import counters
from fabricctl.linkparts.counters import Kind
from fabricctl.linkparts.ends import Cable, End, cables, unseen
from fabricctl.linkparts.rising import Rise, rises
from fabricctl.model import facts
from fabricctl.model.fabric import Device, Role
from fabricctl.model.policy import LinkPolicy
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.protocols import Query
from fabricctl.plugin.surveying import Need, Survey

_NAMED = 4
"""So many counters of a link, rising or unknown, are named; the rest are counted."""
_NO_ETHTOOL = "ethtool: the program is not installed"


@dataclass(frozen=True, slots=True)
class _Excess:
    """A counter that rose faster than it may."""

    end: End
    rise: Rise
    limit_per_s: float

    def __str__(self) -> str:
        rise = self.rise
        if rise.meaning.gauge:
            return f"{self.end}: the PFC watchdog holds a queue for stormed ({rise.counter})"
        return f"{self.end}: {rise.by} {rise.meaning.what} ({rise.counter}, {rise.per_s:.3g}/s)"


@dataclass(frozen=True)
class _Counters:
    name: str = "counters"
    needs: Need = Need.READINGS

    def queries(self, device: Device) -> tuple[Query, ...]:
        """Ask nothing: the drivers read counters twice."""
        del device
        return ()

    def judge(self, survey: Survey) -> tuple[Finding, ...]:
        """Return a finding for each link, with all that rises at both of its ends."""
        found = tuple(self._of(link, survey) for link in cables(survey))
        return found or unseen(self.name, survey, "error counters")

    def _of(self, link: Cable, survey: Survey) -> Finding:
        told: list[str] = []
        gaps: list[str] = []
        excess: list[_Excess] = []
        absent: list[str] = []
        counted: dict[End, frozenset[Kind]] = {}
        for end in link.read:
            seen = rises(end, survey)
            excess += _too_fast(end, seen.rises, survey.rules)
            faults = [rise for rise in seen.rises if rise.meaning.kind in counters.FAULTS]
            counted[end] = frozenset(
                rise.meaning.kind for rise in faults if counters.proves(end.driver, rise.counter)
            )
            if seen.gap:
                gaps.append(f"{end}: {seen.gap}")
            elif not faults and end.fact(facts.LINK_STATE) is None:
                absent.append(str(end))
                gaps.append(f"{end}: {end.why_not(facts.LINK_STATE)}")
            elif not faults:
                gaps.append(f"{end}: it reports no counter of errors or discards")
            gaps += _of_odd(end, seen.odd)
            told.append(f"{len(faults)} at {end}")
        interval_s = max(end.seen.interval_s for end in link.read if end.seen is not None)
        if excess:
            return self._failed(link, excess, interval_s)
        if gaps:
            what = f"whether errors are counted is not known: {'; '.join(gaps)}"
            step = "watch again with --interval; clear counters at no other time than before a run"
            if absent:
                step = f"see check link_state: nothing could be read of {' and '.join(absent)}"
            return Finding(self.name, link.subject, Outcome.UNKNOWN, what, next_step=step)
        none, step = _none_of(counted, interval_s, f"by {' and '.join(told)} counters")
        what = f"{none}{link.unread}"
        return Finding(self.name, link.subject, Outcome.PASS, what, next_step=step, interval_s=interval_s)

    def _failed(self, link: Cable, excess: list[_Excess], interval_s: float) -> Finding:
        ranked = sorted(excess, key=lambda each: -each.rise.per_s)
        named = "; ".join(map(str, ranked[:_NAMED]))
        more = f" and {len(ranked) - _NAMED} more counters" if len(ranked) > _NAMED else ""
        first = ranked[0]
        return Finding(
            self.name,
            link.subject,
            Outcome.FAIL,
            f"{named}{more} in {interval_s:.1f} s, limit {first.limit_per_s:g}/s",
            measured=f"{first.rise.per_s:.3g}/s",
            limit=f"{first.limit_per_s:g}/s",
            next_step="; ".join(dict.fromkeys(_advice(link, each) for each in ranked)),
            culprit=_culprit(ranked),
            interval_s=interval_s,
        )


def _of_odd(end: End, odd: tuple[str, ...]) -> Iterator[str]:
    """Walk why counters are not known; where a program did not answer, that is hundreds."""
    yield from (f"{end}: {why}" for why in odd[:_NAMED])
    if len(odd) > _NAMED:
        yield f"{end}: {len(odd) - _NAMED} more counters are not known"


def _none_of(counted: Mapping[End, frozenset[Kind]], interval_s: float, told: str) -> tuple[str, str]:
    """Return what surely was not, with what was not counted, and what to do about that."""
    lacks = {end: counters.countable(end.driver) - kinds for end, kinds in counted.items()}
    seen = frozenset[Kind]().union(*counted.values())
    sure = seen.difference(*lacks.values()) or seen
    said = f"no {_listed(sure, 'or')} in {interval_s:.1f} s, {told}"
    for end, kinds in lacks.items():
        if kinds:
            said += f"; {_listed(kinds, 'and', plural='s')} are not counted at {end}"
    bare = [end.port.id.device for end, kinds in lacks.items() if kinds and _no_ethtool(end)]
    step = f"install ethtool on {' and '.join(dict.fromkeys(bare))}, to have the NIC's own counters"
    return said, step if bare else ""


def _no_ethtool(end: End) -> bool:
    return end.role is Role.NODE and end.why_not(facts.FEC).startswith(_NO_ETHTOOL)


def _listed(kinds: frozenset[Kind], word: str, *, plural: str = "") -> str:
    names = [f"{kind}{plural}" for kind in counters.FAULTS if kind in kinds]
    return f" {word} ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _too_fast(end: End, seen: tuple[Rise, ...], rules: LinkPolicy) -> Iterator[_Excess]:
    limits = {
        Kind.ERROR: rules.error_per_s,
        Kind.DISCARD: rules.discard_per_s,
        Kind.STORM: rules.storm_per_s,
    }
    for rise in seen:
        limit = limits.get(rise.meaning.kind)
        if limit is not None and (rise.by > 0 if rise.meaning.gauge else rise.per_s > limit):
            yield _Excess(end, rise, limit)


def _advice(link: Cable, excess: _Excess) -> str:
    """Return what to do: errors come from the cable or from the other end, discards happen where they are."""
    end, meaning = excess.end, excess.rise.meaning
    other = link.other(end)
    if meaning.kind is Kind.ERROR and meaning.sending:
        return f"see the log of {end.port.id.device}: {end} itself cannot send"
    if meaning.kind is Kind.ERROR:
        far = f"the transmitter of {other}" if other is not None else "the transmitter at its other end"
        return (
            f"clean, reseat or change the cable and its modules, and see {far} (what {end} receives is "
            "damaged; a switch that cuts through may pass on what an earlier link damaged)"
        )
    if meaning.kind is Kind.STORM:
        return _of_storm(end, other)
    if end.role is Role.SWITCH:
        way = f"what {end} should send to {other}" if meaning.sending else f"what {end} receives"
        return (
            f"{way} finds no buffer: see PFC, headroom and ECN there with fabricctl plan and fabricctl check"
        )
    return f"{end} drops: see PFC on both ends, and whether {end.port.id.device} is too slow (PCIe, memory)"


def _of_storm(end: End, other: End | None) -> str:
    if end.role is Role.SWITCH:
        return (
            f"{other or 'the other end'} paused {end} without end: see that device, reset its NIC if need be"
        )
    return f"{end} pauses the network without end: see PCIe, memory and hung programs of {end.port.id.device}"


def _culprit(ranked: list[_Excess]) -> str:
    """Return the port that drops, if dropping is all that is wrong; damage may be anybody's on the cable."""
    ends = {str(each.end) for each in ranked}
    drops = all(each.rise.meaning.kind is Kind.DISCARD for each in ranked)
    return ends.pop() if drops and len(ends) == 1 else ""


PLUGIN = _Counters()
