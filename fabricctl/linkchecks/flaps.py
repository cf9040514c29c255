"""Every Ethernet link has stayed up for as long as the policy's ``links.stable`` asks.

Passes: neither end lost its carrier while it was watched, nor, as far as earlier runs and the kernel's log
can tell, within that time. A link that has recovered passes again by itself once it has been stable
for so long. How often it went down since boot is told.

Fails: the count of lost carriers rose while it was watched, the link or its verbs port changed its state, or
it surely went down less than that time ago.

Unknown: no end counts; it is down now; or it went down since an earlier run that is too long ago to say when.
What happened before a reboot, and while a device at either end came up before any run had looked at it, is
not compared.
"""

from __future__ import annotations

import itertools
import math
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass

from fabricctl.linkparts import counters
from fabricctl.linkparts.ends import Cable, End, cables, unseen
from fabricctl.model import facts
from fabricctl.model.fabric import Device
from fabricctl.model.reading import Known
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.answers import Unread, partial
from fabricctl.plugin.protocols import Query
from fabricctl.plugin.surveying import Need, Observation, PortPast, Survey

_KEY = "kernel log of links"
_UP_FOR = "uptime="
_LINES = 200
_ASK = f"""\
read -r up _ </proc/uptime || exit
echo "{_UP_FOR}$up"
command -v dmesg >/dev/null || exit 0
dmesg | grep -iE 'link (is )?down|link status definitely down|entered disabled state' | tail -n {_LINES}
:
"""
_STAMP = re.compile(r"\[\s*(\d{1,12}\.\d+)\]")
_STEP = "change or reseat cable and modules if it goes on; a flap breaks queue pairs that were connected"


@dataclass(frozen=True, slots=True)
class _Fall:
    """That a link went down `times` times between two moments, in Unix time; `first` may be far off.

    Parameters
    ----------
    newest_after
        When it had not yet gone down for the last time: as `last` if the kernel's log says when that was,
        else `last` is only the look that first saw it.
    """

    end: End
    times: int
    first: float
    last: float
    newest_after: float

    @property
    def exact(self) -> bool:
        """Whether the kernel's log says when it was."""
        return self.newest_after >= self.last


@dataclass(frozen=True)
class _Flaps:
    name: str = "flaps"
    needs: Need = Need.READINGS

    def queries(self, device: Device) -> tuple[Query, ...]:
        """Ask the kernel's log when links went down: the count does not say."""
        del device
        return (Query(_KEY, ("sh", "-c", _ASK)),)

    def judge(self, survey: Survey) -> tuple[Finding, ...]:
        """Return a finding for each link."""
        found = tuple(self._of(link, survey) for link in cables(survey))
        return found or unseen(self.name, survey, "how often links went down")

    def _of(self, link: Cable, survey: Survey) -> Finding:
        bad = [said for end in link.read for said in _while_watched(end)]
        interval_s = max(end.seen.interval_s for end in link.read if end.seen is not None)
        if bad:
            return Finding(
                self.name,
                link.subject,
                Outcome.FAIL,
                f"{'; '.join(bad)} in {interval_s:.1f} s",
                measured=bad[0],
                limit="no change of state",
                next_step=_STEP,
                interval_s=interval_s,
            )
        if any(end.fact(facts.LINK_STATE) == "down" for end in link.read):
            step, what = "bring the link up, then look again", "it is down now: see check link_state"
            return Finding(self.name, link.subject, Outcome.UNKNOWN, what, next_step=step)
        recent = [sums for end in link.read if (sums := _recent(end, link, survey)) is not None]
        if recent:
            return self._unstable(link, recent, survey, interval_s)
        counted = [text for end in link.read if (text := _since_boot(end))]
        if not counted:
            why = "; ".join(f"{end}: {end.why_not(facts.LINK_DOWNS)}" for end in link.read)
            step = "its driver or system tells no count; see its own log for link changes"
            what = f"no end counts how often the link went down ({why})"
            return Finding(self.name, link.subject, Outcome.UNKNOWN, what, next_step=step)
        told = f"no loss of carrier in {interval_s:.1f} s" if interval_s else "read only once"
        what = f"{told}; since boot it was lost {', '.join(counted)}{link.unread}"
        return Finding(self.name, link.subject, Outcome.PASS, what, interval_s=interval_s)

    def _unstable(self, link: Cable, falls: list[_Fall], survey: Survey, interval_s: float) -> Finding:
        """Return that a link is not stable yet; not known if it may have been long before."""
        stable_s = survey.rules.stable_s
        newest = max(falls, key=lambda fall: fall.last)
        sure = any(survey.now - fall.newest_after < stable_s for fall in falls)
        verdict = "not stable yet" if sure else f"may have been down less than {stable_s} s ago"
        first, *others = falls
        who = f"{first.end} lost its carrier {_times(first.times)}"
        who += "".join(f" and {fall.end} {_times(fall.times)}" for fall in others)
        ago_s = round(survey.now - newest.last)
        rule = "fails" if sure else "is not known to be stable"
        return Finding(
            self.name,
            link.subject,
            Outcome.FAIL if sure else Outcome.UNKNOWN,
            f"{verdict}: {who} {_when(newest, ago_s)}; "
            f"it {rule} until links.stable ({stable_s} s) has passed since",
            measured=f"{ago_s} s",
            limit=f"{stable_s} s",
            next_step=_step(link, max(1, stable_s - ago_s)),
            interval_s=interval_s,
        )


def _when(fall: _Fall, ago_s: int) -> str:
    first = _clock(fall.first, dated=_day(fall.first) != _day(fall.last))
    if not fall.exact:
        seen = f"seen {ago_s} s ago" if ago_s > 0 else "seen just now"
        return f"between {first} and {_clock(fall.last)}, {seen}"
    # The log counts seconds since boot: turned into time of day it is good to some seconds.
    at = f"about {_clock(round(fall.last, -1))}, {ago_s} s ago"
    return at if fall.times == 1 else f"since {first}, at last {at}"


def _step(link: Cable, left_s: int) -> str:
    """Return what to do about a link that went down lately; it may be down still."""
    if all(end.fact(facts.LINK_STATE) == "up" for end in link.read):
        return (
            f"nothing if you have just plugged it: if it stays up it counts as stable in {left_s} s, "
            f"look again then; else {_STEP}"
        )
    return f"see check link_state: that it is up now is not known; {_STEP}"


def _while_watched(end: End) -> Iterator[str]:
    """Walk what changed at an end between the two looks."""
    if end.seen is None or end.seen.interval_s <= 0:
        return
    before, after = end.number(facts.LINK_DOWNS, at_first=True), end.number(facts.LINK_DOWNS)
    lost = after - before if before is not None and after is not None else 0
    if lost > 0:
        yield f"{end} lost its carrier {_times(lost)}"
    else:
        yield from _counted(end, end.seen)
    for name, what in ((facts.LINK_STATE, str(end)), (facts.RDMA_STATE, f"{end.port.rdma} of {end}")):
        old, new = end.fact(name, at_first=True), end.fact(name)
        if old is not None and new is not None and old != new:
            yield f"{what} went from {old} to {new}"


def _counted(end: End, seen: Observation) -> Iterator[str]:
    """Walk what a NIC's own counters say: they see what was too short for the kernel."""
    reading = end.reading
    for name in reading.counters if reading is not None else ():
        meaning = counters.meaning(end.driver, name)
        if meaning is not None and meaning.kind is counters.Kind.DOWN:
            rise = seen.rise(end.port.id, name)
            if isinstance(rise, int) and rise > 0:
                yield f"the link of {end} went down {_times(rise)}, by its own count ({name})"
                return


def _recent(end: End, link: Cable, survey: Survey) -> _Fall | None:
    """Return all falls at one end within the stable time as one; None if there was none."""
    falls = [
        fall
        for fall in _falls(end, survey)
        if survey.now - fall.last < survey.rules.stable_s and not _as_other_booted(link, fall, survey)
    ]
    if not falls:
        return None
    newest = falls[0]
    return _Fall(end, sum(fall.times for fall in falls), falls[-1].first, newest.last, newest.newest_after)


def _falls(end: End, survey: Survey) -> list[_Fall]:
    """Return the known falls of a link at one end, in the boot that it is in, newest first."""
    downs, boot = end.number(facts.LINK_DOWNS), _boot(end)
    if end.seen is None or downs is None or not boot:
        return []
    logged = _logged(end)
    past = _past(end, survey)
    looks = [PortPast(survey.now, boot, downs), *past]
    found = [
        _Fall(end, newer.link_downs - older.link_downs, older.at, newer.at, older.at)
        for newer, older in itertools.pairwise(looks)
        if newer.link_downs > older.link_downs
    ]
    if logged is None or downs == 0:
        return found
    at, after_boot_s = logged
    if found:
        newest = found[0]
        if at >= newest.first:
            # The log knows when exactly, if it knows at all; the look that saw it was not before.
            at = min(at, newest.last)
            found[0] = _Fall(end, newest.times, newest.first, at, at)
        return found
    # What happened while the node came up, before anybody looked, is no flap.
    if after_boot_s > survey.rules.stable_s and all(at <= look.at for look in past):
        return [_Fall(end, 1, at, at, at)]
    return []


def _past(end: End, survey: Survey) -> list[PortPast]:
    """Return the earlier looks at a port in the boot that it is in, newest first."""
    boot = _boot(end)
    return [one for one in survey.history.get(end.port.id, ()) if boot and one.boot_id == boot]


def _as_other_booted(link: Cable, fall: _Fall, survey: Survey) -> bool:
    """Say whether a link fell while the device at its other end came up, and nobody had looked at that."""
    other = link.other(fall.end)
    booted_at = _booted_at(other) if other is not None else None
    if other is None or booted_at is None or fall.last >= booted_at + survey.rules.stable_s:
        return False
    # It was up before the link fell, as an earlier look shows: then its boot is no excuse.
    return not any(look.at <= fall.newest_after for look in _past(other, survey))


def _booted_at(end: End) -> float | None:
    """Return when a device booted, in Unix time; None if it does not say."""
    if end.seen is None:
        return None
    try:
        lines = partial(end.seen.answers, _KEY).splitlines()
        up_for_s = float(lines[0].removeprefix(_UP_FOR))
    except (Unread, LookupError, ValueError):
        return None
    # It was asked as the interval began; the device's reply was complete when that had passed.
    return end.seen.last.read_at - end.seen.interval_s - up_for_s if math.isfinite(up_for_s) else None


def _logged(end: End) -> tuple[float, float] | None:
    """Return when the kernel last saw the link go down: in Unix time, and in seconds after boot."""
    booted_at = _booted_at(end)
    if end.seen is None or booted_at is None:
        return None
    lines = partial(end.seen.answers, _KEY).splitlines()
    names = {end.port.id.port, *end.words(facts.FUNCTIONS)}
    pattern = re.compile(rf"(?<![\w.-])(?:{'|'.join(map(re.escape, names))})(?![\w-])")
    for line in reversed(lines):
        # The log is in order: the last line about the port is the newest.
        stamp = _STAMP.search(line) if pattern.search(line) else None
        if stamp:
            after_s = float(stamp[1])
            return booted_at + after_s, after_s
    return None


def _boot(end: End) -> str:
    found = end.seen.last.facts.get(facts.BOOT_ID) if end.seen is not None else None
    return found.value if isinstance(found, Known) and isinstance(found.value, str) else ""


def _since_boot(end: End) -> str:
    downs = end.number(facts.LINK_DOWNS)
    return "" if downs is None else f"{_times(downs)} at {end}"


def _times(number: int) -> str:
    return {0: "never", 1: "once"}.get(number, f"{number} times")


def _clock(at: float, *, dated: bool = False) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S" if dated else "%H:%M:%S", time.localtime(at))


def _day(at: float) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(at))


PLUGIN = _Flaps()
