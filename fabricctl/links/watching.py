"""Look at devices twice, an interval apart, in one round trip each and all at the same time."""

from __future__ import annotations

import dataclasses
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fabricctl import readback
from fabricctl.errors import UsageError
from fabricctl.model.fabric import NETWORK_CLI, REST, Device
from fabricctl.model.reading import DeviceReading
from fabricctl.plugin.protocols import Answers, Query
from fabricctl.plugin.surveying import Clock, Observation
from fabricctl.transport.base import Transport

ANSWER_S = 120.0
"""Longest time that a device may take to answer, beside the interval and what long queries may take."""

_ASKING_S = 80
"""What is not asked by then, beside the same, is not asked any more: the rest then comes in time."""

_AT_ONCE, _FILES_EACH = 256, 4
"""So many devices are watched at the same time at most: most of it is waiting, with connections held open."""

_UPTIME, _DATE = "uptime", "date"
_STAMPS = (
    Query(_UPTIME, ("cat", "/proc/uptime"), counts=True),
    Query(_DATE, ("date", "+%s.%N"), counts=True),
)
"""The device's own clocks: what runs evenly, for the interval, and what people set, for its skew."""
_LAST = Query("date at the end", ("date", "+%s.%N"))

_AGAIN = "again: "
"""Before the key of a query that is asked at the end of the interval."""

# What was asked meanwhile counts towards the interval (in hundredths of a second, also for queries that stamp
# their own readings); the kernel's own clock is not turned back.
_BEGIN = """\
read up _ </proc/uptime; begun=${up%%.*}${up#*.} until=$((${up%%.*} + %d))
export FABRICCTL_INTERVAL=%d"""
_WAIT = """\
read up _ </proc/uptime
left=$((begun + %d - ${up%%.*}${up#*.}))
[ "$left" -le 0 ] || sleep "$((left / 100)).$(printf %%02d $((left %% 100)))\""""

_LINES = frozenset({NETWORK_CLI, REST})


@dataclass(frozen=True)
class Questions:
    """What devices are asked.

    Parameters
    ----------
    beyond
        What to ask a device beyond what its driver asks; only a device with a shell can answer.
    readings
        Whether drivers read their devices at all.
    """

    beyond: Callable[[Device], tuple[Query, ...]]
    readings: bool = True

    def of(self, device: Device) -> tuple[tuple[Query, ...], tuple[Query, ...]]:
        """Return what the device's driver asks, and the rest.

        Raises
        ------
        UsageError
            It has neither a driver nor a shell.
        """
        shell = device.endpoint.connection not in _LINES
        if not shell and not device.driver:
            raise UsageError("it has neither a driver nor a shell: nothing can be asked", where=device.name)
        own = readback.driver_of(device).queries(device.ports) if self.readings and device.driver else ()
        return own, self.beyond(device) if shell else ()


@dataclass(frozen=True, slots=True)
class _Seen:
    """All answers of a device, those to questions that were asked again under their own keys in `later`."""

    answers: Answers
    later: Answers
    evidence: str
    sent_at: float
    done_at: float
    interval_s: float = 0.0


def observe(
    devices: Sequence[Device],
    transport: Transport,
    questions: Questions,
    interval_s: float,
) -> dict[str, Observation]:
    """Look at `devices` twice.

    Parameters
    ----------
    interval_s
        Seconds between the two looks at what counts; 0 is one look.

    Returns
    -------
    dict
        By device name, in the order of `devices`; one that does not answer has its ``error``, one of which
        there is nothing to ask is left out.
    """
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _AT_ONCE if files == resource.RLIM_INFINITY else min(_AT_ONCE, max(1, files // _FILES_EACH))
    with readback.workers(len(devices), most) as pool:
        seen = pool.map(lambda device: _observe(device, transport, questions, interval_s), devices)
        return {one.device: one for one in seen if one is not None}


def _observe(
    device: Device, transport: Transport, questions: Questions, interval_s: float
) -> Observation | None:
    try:
        own, more = questions.of(device)
        if not own and not more:
            return None
        look = _by_lines if device.endpoint.connection in _LINES else _by_script
        seen = look(device, (*own, *more), transport, interval_s)
        first = _reading(device, seen, {}, driven=bool(own))
        last = _reading(device, seen, seen.later, driven=bool(own)) if seen.later else first
    except Exception as exc:  # noqa: BLE001  the boundary of one device, as in readback
        unread = readback.unread(device, exc)
        return Observation(device.name, unread, unread)
    asked = {query.key for query in more}
    return Observation(
        device.name,
        first,
        last,
        interval_s=seen.interval_s,
        answers={key: answer for key, answer in seen.answers.items() if key in asked},
        later={key: answer for key, answer in seen.later.items() if key in asked},
        clock=_clock(seen),
    )


def _reading(device: Device, seen: _Seen, later: Answers, *, driven: bool) -> DeviceReading:
    if not driven:
        return DeviceReading(device.name, seen.done_at, {}, evidence=seen.evidence)
    ports, facts = readback.driver_of(device).parse(device.ports, {**seen.answers, **later})
    return DeviceReading(device.name, seen.done_at, ports, facts, evidence=seen.evidence)


def _by_script(device: Device, wanted: Sequence[Query], transport: Transport, interval_s: float) -> _Seen:
    """Ask a shell: what counts first, then the rest while time passes, then what counts again."""
    unique = list({query.key: query for query in (*_STAMPS, *wanted)}.values())
    counting = [query for query in unique if query.counts]
    rest = [query for query in unique if not query.counts]
    again = [dataclasses.replace(query, key=f"{_AGAIN}{query.key}") for query in counting]
    queries = [*counting, *rest, *(again if interval_s else ()), _LAST]
    mark = readback.new_mark()
    more_s = interval_s + sum(query.limit_s for query in queries)
    # Not before the stamp: on a busy device even that takes its time, and the interval is not to be shorter.
    between = {1: _BEGIN % (more_s + _ASKING_S, round(interval_s * 100))}
    if interval_s:
        between[len(counting) + len(rest)] = _WAIT % round(interval_s * 100)
    sent_at = time.time()
    script = readback.script(queries, mark, between)
    reply = transport.run(device, script, deadline_s=ANSWER_S + more_s)
    done_at = time.time()
    answers = readback.unframe(queries, mark, reply.stdout, reply.stderr)
    later = {key.removeprefix(_AGAIN): answer for key, answer in answers.items() if key.startswith(_AGAIN)}
    first = {key: answer for key, answer in answers.items() if not key.startswith(_AGAIN)}
    begun, ended = _number(first, _UPTIME), _number(later, _UPTIME)
    passed_s = ended - begun if begun is not None and ended is not None else 0.0
    return _Seen(first, later, reply.stdout, reply.sent_at or sent_at, done_at, max(0.0, passed_s))


def _by_lines(device: Device, wanted: Sequence[Query], transport: Transport, interval_s: float) -> _Seen:
    """Ask a device without a shell: all of it, and after the interval what counts, on the same connection."""
    begun = time.monotonic()
    sent_at = time.time()
    first, evidence = _converse(device, tuple(wanted), transport)
    counting = tuple(query for query in wanted if query.counts)
    if not interval_s or not counting:
        return _Seen(first, {}, evidence, sent_at, time.time())
    asked = time.monotonic()
    time.sleep(max(0.0, interval_s - (asked - begun)))
    again = time.monotonic()
    later, more = _converse(device, counting, transport)
    return _Seen(first, later, evidence + more, sent_at, time.time(), again - begun)


def _converse(device: Device, queries: tuple[Query, ...], transport: Transport) -> tuple[Answers, str]:
    mark = readback.new_mark()
    asked, reply = readback.ask(device, queries, transport, mark, ANSWER_S)
    return readback.unframe(asked, mark, reply.stdout, reply.stderr), reply.stdout


def _number(answers: Mapping[str, object], key: str) -> float | None:
    """Return the number that an answer begins with."""
    said = getattr(answers.get(key), "stdout", "").split()
    try:
        return float(said[0])
    except (IndexError, ValueError):
        return None


def _clock(seen: _Seen) -> Clock | None:
    """Return what both ends of the talk allow: it began after it was sent and ended before it came."""
    first, last = _number(seen.answers, _DATE), _number(seen.answers, _LAST.key)
    if first is None or last is None:
        return None
    return Clock(low_s=last - seen.done_at, high_s=first - seen.sent_at)
