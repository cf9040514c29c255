"""Read PFC, classification, ETS and buffers with ``dcb`` (iproute2), one batch for all ports."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fabricctl.drivers import functions
from fabricctl.model import settings
from fabricctl.model.fabric import Port
from fabricctl.model.reading import Entry, Known
from fabricctl.plugin.answers import Unread, eight, entries, entry, parsed, whole_number
from fabricctl.plugin.protocols import Answer, Answers, Query

_DSCPS = 64
_TOP = 7
_ANY_SIZE = 2**32 - 1
_ALGORITHMS = frozenset({"strict", "ets", "cbs", "vendor"})
_OBJECTS = ("pfc", "app", "ets", "buffer")
_KEY = "dcb"
_FAILED = re.compile(r"Command failed \S*:(\d{1,6})")

_BATCH = """\
for words; do
    for name in $(functions_of "${words#* }"); do
        echo "${words%% *} show dev $name"
    done
done | dcb -j -s -f -b -
"""


def queries(ports: Sequence[Port]) -> tuple[Query, ...]:
    """Ask for all DCB objects that we set, of all ports' physical functions, with one program."""
    words = (f"{what} {port.id.port}" for port in ports for what in _OBJECTS)
    return (Query(_KEY, ("sh", "-c", f"{functions.SHELL}{_BATCH}", "sh", *words), counts=True),)


def split(ports: Sequence[Port], answers: Answers) -> Answers:
    """Return one answer for each physical function and object, by keys ``dcb pfc eth1``.

    ``dcb`` numbers the lines that failed and prints nothing for them; what it printed belongs, in order, to
    the others. If that does not add up, there is no answer at all.
    """
    keys = [f"dcb {what} {name}" for what, name in _asked(ports, answers)]
    whole = answers.get(_KEY)
    if whole is None:
        return {}
    try:
        documents = _documents(whole.stdout)
        failed = _failures(whole.stderr)
    except ValueError:
        documents, failed = [], {}
    if len(documents) + len(failed) != len(keys) or not all(1 <= line <= len(keys) for line in failed):
        said = Answer(whole.rc or 1, "", whole.stderr or f"unparsable: {whole.stdout}")
        return dict.fromkeys(keys, said)
    rest = iter(documents)
    return {
        key: Answer(1, "", failed[line]) if line in failed else Answer(0, next(rest), "")
        for line, key in enumerate(keys, start=1)
    }


def _asked(ports: Sequence[Port], answers: Answers) -> Iterator[tuple[str, str]]:
    """Yield object and function in the order in which the query asks."""
    for port in ports:
        try:
            names = functions.of(port.id.port, answers)
        except Unread:
            names = ()
        for what in _OBJECTS:
            yield from ((what, name) for name in names)


def _documents(printed: str) -> list[str]:
    """Return the JSON objects in `printed`; whatever stands between them differs between versions of dcb."""
    found: list[str] = []
    decoder = json.JSONDecoder()
    at = _next_object(printed, 0)
    while at < len(printed):
        _, end = decoder.raw_decode(printed, at)
        found.append(printed[at:end])
        at = _next_object(printed, end)
    return found


def _next_object(printed: str, at: int) -> int:
    while at < len(printed) and printed[at] in " \t\r\n,[]":
        at += 1
    return at


def _failures(said: str) -> dict[int, str]:
    found: dict[int, str] = {}
    words: list[str] = []
    for line in said.splitlines():
        number = _FAILED.fullmatch(line.strip())
        if number:
            found[int(number[1])] = " ".join(words)
            words = []
        else:
            words.append(line)
    return found


def read_settings(name: str, answers: Answers) -> dict[str, Entry]:
    """Return what ``dcb`` says, after :func:`split`; a DSCP without an entry has priority 0."""
    return {
        settings.TRUST: entry(lambda: "dscp" if _app(name, answers) else "pcp"),
        settings.DSCP_PRIORITY: entry(lambda: _dscp_priority(name, answers)),
        settings.PRIORITY_TC: entry(lambda: eight(_object(name, answers, "ets")["prio_tc"], 0, _TOP)),
        settings.TC_SCHEDULER: entry(lambda: _schedulers(name, answers)),
        settings.TC_BANDWIDTH: entry(lambda: eight(_object(name, answers, "ets")["tc_bw"], 0, 100)),
        settings.PRIORITY_BUFFER: entry(
            lambda: eight(_object(name, answers, "buffer")["prio_buffer"], 0, _TOP)
        ),
        settings.BUFFER_SIZE: entry(
            lambda: eight(_object(name, answers, "buffer")["buffer_size"], 0, _ANY_SIZE)
        ),
        settings.PFC: entry(lambda: _pfc(name, answers)),
    }


def read_counters(name: str, answers: Answers) -> Mapping[str, Entry]:
    """Return pause frames by priority as ``pfc.requests.3`` (sent) and ``pfc.indications.3`` (received)."""

    def read() -> Mapping[str, Entry]:
        said = _object(name, answers, "pfc")
        return {
            f"pfc.{kind}.{priority}": Known(whole_number(count))
            for kind in ("requests", "indications")
            for priority, count in enumerate(said[kind])
        }

    return entries(read)


def _object(name: str, answers: Answers, what: str) -> dict[str, Any]:
    said = parsed(answers, f"dcb {what} {name}")
    if not isinstance(said, dict):
        raise Unread("unparsable: no JSON object")
    return said


def applications(name: str, answers: Answers, kind: str) -> list[tuple[int, int]]:
    """Return value and priority of the application entries of a kind, ``dscp_prio`` or another."""
    said = _object(name, answers, "app").get(kind, [])
    # iproute2 6.15 adds a third member to each entry: the blank that separates entries in its other format.
    return [(whole_number(value), whole_number(priority)) for value, priority, *_ in said]


def _app(name: str, answers: Answers) -> list[tuple[int, int]]:
    pairs = applications(name, answers, "dscp_prio")
    if not all(0 <= dscp < _DSCPS and 0 <= priority <= _TOP for dscp, priority in pairs):
        raise Unread(f"unparsable: {pairs} is no DSCP map")
    return pairs


def _dscp_priority(name: str, answers: Answers) -> tuple[int, ...]:
    by_dscp: dict[int, set[int]] = defaultdict(set)
    for dscp, priority in _app(name, answers):
        by_dscp[dscp].add(priority)
    for dscp, priorities in sorted(by_dscp.items()):
        if len(priorities) > 1:
            several = ", ".join(str(priority) for priority in sorted(priorities))
            raise Unread(f"DSCP {dscp} has several priorities at once: {several}")
    return tuple(min(by_dscp.get(dscp, {0})) for dscp in range(_DSCPS))


def _schedulers(name: str, answers: Answers) -> tuple[str, ...]:
    said = _object(name, answers, "ets")["tc_tsa"]
    if not isinstance(said, list) or len(said) != _TOP + 1 or not all(item in _ALGORITHMS for item in said):
        raise Unread(f"unparsable: {said!r:.80} are no scheduling algorithms")
    return tuple(said)


def _pfc(name: str, answers: Answers) -> tuple[int, ...]:
    said = _object(name, answers, "pfc")["prio_pfc"]
    if not isinstance(said, list) or len(said) != _TOP + 1 or not all(isinstance(on, bool) for on in said):
        raise Unread(f"unparsable: {said!r:.80} is no PFC mask")
    return tuple(priority for priority, on in enumerate(said) if on)
