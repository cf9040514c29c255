"""Every Ethernet link has stayed up for as long as the policy's ``links.stable`` asks.

Passes: neither end lost its carrier while it was watched, nor, as far as earlier runs and the kernel's log
can tell, within that time. A link that has recovered passes again by itself once it has been stable
for so long. How often it went down since boot is told.

Fails: the count of lost carriers rose while it was watched, the link or its verbs port changed its state, or
it surely went down less than that time ago.

Unknown: no end counts; it is down now; or it went down since an earlier run that is too long ago to say when.
What happened before a reboot, and while a device at either end came up, is not compared.
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
    """That a link went down `times` times between two moments, in Unix time; `first` may be far off."""

    end: End
    times: int
    first: float
    last: float


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
        falls = [fall for end in link.read if (fall := _latest(end, survey)) is not None]
        stable_s = survey.rules.stable_s
        recent = [
            fall
            for fall in falls
            if survey.now - fall.last < stable_s and not _as_other_booted(link, fall, survey)
        ]
        if recent:
            return self._unstable(link, max(recent, key=lambda fall: fall.first), survey, interval_s)
        counted = [text for end in link.read if (text := _since_boot(end))]
        if not counted:
            why = "; ".join(f"{end}: {end.why_not(facts.LINK_DOWNS)}" for end in link.read)
            step = "its driver or system tells no count; see its own log for link changes"
            what = f"no end counts how often the link went down ({why})"
            return Finding(self.name, link.subject, Outcome.UNKNOWN, what, next_step=step)
        told = f"no loss of carrier in {interval_s:.1f} s" if interval_s else "read only once"
        what = f"{told}; since boot it was lost {', '.join(counted)}{link.unread}"
        return Finding(self.name, link.subject, Outcome.PASS, what, interval_s=interval_s)

    def _unstable(self, link: Cable, fall: _Fall, survey: Survey, interval_s: float) -> Finding:
        """Return that a link is not stable yet; not known if it may have been long before."""
        stable_s, ago_s = survey.rules.stable_s, survey.now - fall.first
        left_s = max(1.0, fall.last + stable_s - survey.now)
        sure = ago_s < stable_s
        when = (
            f"at {_clock(fall.last)}, {survey.now - fall.last:.0f} s ago"
            if fall.first == fall.last
            else f"between {_clock(fall.first)} and {_clock(fall.last)}, {ago_s:.0f} s ago at most"
        )
        verdict = "not stable yet" if sure else f"may have been down less than {stable_s} s ago"
        return Finding(
            self.name,
            link.subject,
            Outcome.FAIL if sure else Outcome.UNKNOWN,
            f"{verdict}: {fall.end} lost its carrier {_times(fall.times)} {when}",
            measured=f"{ago_s:.0f} s",
            limit=f"{stable_s} s",
            next_step=f"if it stays up it counts as stable in {left_s:.0f} s: look again then; {_STEP}",
            interval_s=interval_s,
        )


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


def _latest(end: End, survey: Survey) -> _Fall | None:
    """Return the last known fall of a link at one end, in the boot that it is in; None if there was none."""
    downs, boot = end.number(facts.LINK_DOWNS), _boot(end)
    if end.seen is None or downs is None or not boot:
        return None
    logged = _logged(end, survey.now)
    past = [one for one in survey.history.get(end.port.id, ()) if one.boot_id == boot]
    fall = _rise(end, [PortPast(survey.now, boot, downs), *past])
    if fall is not None:
        # The log knows when exactly, if it knows at all.
        return _Fall(end, fall.times, logged[0], logged[0]) if logged and logged[0] >= fall.first else fall
    if past or logged is None or downs == 0:
        return None
    at, after_boot_s = logged
    # What happened while the node came up, before anybody looked, is no flap.
    return _Fall(end, 1, at, at) if after_boot_s > survey.rules.stable_s else None


def _rise(end: End, seen: list[PortPast]) -> _Fall | None:
    """Return the newest rise of the count between one look and the one before it."""
    for newer, older in itertools.pairwise(seen):
        if newer.link_downs > older.link_downs:
            return _Fall(end, newer.link_downs - older.link_downs, older.at, newer.at)
    return None


def _as_other_booted(link: Cable, fall: _Fall, survey: Survey) -> bool:
    """Say whether a link fell before the device at its other end had been up for the stable time."""
    other = link.other(fall.end)
    booted_at = _booted_at(other, survey.now) if other is not None else None
    return booted_at is not None and fall.last < booted_at + survey.rules.stable_s


def _booted_at(end: End, now: float) -> float | None:
    """Return when a device booted, in Unix time; None if it does not say."""
    if end.seen is None:
        return None
    try:
        lines = partial(end.seen.answers, _KEY).splitlines()
        up_for_s = float(lines[0].removeprefix(_UP_FOR))
    except (Unread, LookupError, ValueError):
        return None
    # It was asked as the interval began; `now` is when that had passed.
    return now - end.seen.interval_s - up_for_s if math.isfinite(up_for_s) else None


def _logged(end: End, now: float) -> tuple[float, float] | None:
    """Return when the kernel last saw the link go down: in Unix time, and in seconds after boot."""
    booted_at = _booted_at(end, now)
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


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


PLUGIN = _Flaps()
