"""Ask devices what is so: one script and one round trip a device, all devices at the same time.

A device without a shell is asked line by line in one session.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import shlex
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from types import MappingProxyType

from fabricctl.errors import FabricctlError, RefusedError, UsageError, WireError
from fabricctl.model.fabric import NETWORK_CLI, REST, Device, Fabric, Role
from fabricctl.model.reading import DeviceReading
from fabricctl.plugin import finder
from fabricctl.plugin.protocols import Answer, Answers, Driver, Query
from fabricctl.transport.base import Reply, Transport
from fabricctl.transport.shell import one_line

QUERY_S = 20
"""Longest time that most queries may take on the device, in seconds; then one is ended and has no answer.

systemctl alone has taken more than ten on a node that was busy starting."""
_THREADS = 64

# Everything a query prints goes to our standard output between two lines that start with the mark, so that
# missing newlines, binary output and words that look like ours do no harm. A query cannot read our input. It
# may leave something for later ones in FABRICCTL_TMP. Later than "until" (seconds of uptime), where somebody
# has set that, no more is asked: one program after the other that hangs must not void the rest.
_FRAME = """\
LC_ALL=C
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
export LC_ALL PATH
umask 077
command -v timeout >/dev/null || timeout() {{ shift 3; "$@"; }}
FABRICCTL_TMP=$(mktemp -d) || exit 1
export FABRICCTL_TMP
trap 'rm -rf "$FABRICCTL_TMP"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 141' PIPE
trap 'exit 143' TERM
err=$FABRICCTL_TMP/stderr until=
late() {{
    [ -n "$until" ] && read up _ </proc/uptime && [ "${{up%.*}}" -ge "$until" ]
}}
q() {{
    n=$1 limit=$2 rc=124
    shift 2
    printf '\\n{mark} %s out\\n' "$n"
    : >"$err"
    late || {{ timeout -k 2 "$limit" "$@" 2>"$err" </dev/null; rc=$?; }}
    printf '\\n{mark} %s rc=%s\\n' "$n" "$rc"
    [ ! -s "$err" ] || cat "$err"
}}
{calls}
printf '\\n{mark} end\\n'
"""


def driver_of(device: Device) -> Driver:
    """Return the driver that the inventory names for `device`; UsageError if there is none of that name."""
    return (
        finder.nic_driver(device.driver) if device.role is Role.NODE else finder.switch_driver(device.driver)
    )


def read(
    fabric: Fabric,
    devices: Sequence[Device],
    transport: Transport,
    *,
    deadline_s: float = 30.0,
    report: Callable[[DeviceReading], None] | None = None,
) -> dict[str, DeviceReading]:
    """Read all ports of `devices`.

    A device that cannot be read has a reading with ``error``; it never hides the others.

    Parameters
    ----------
    deadline_s
        Longest time for one device, in seconds.
    report
        Called with each reading as it is complete, from the calling thread.

    Returns
    -------
    dict
        By device name, in the order of `devices`.
    """
    del fabric  # what is asked depends on the device alone
    if not devices:
        return {}
    done: dict[str, DeviceReading] = {}
    with workers(len(devices)) as pool:
        futures = [pool.submit(read_device, device, transport, deadline_s) for device in devices]
        for future in as_completed(futures):
            reading = future.result()
            done[reading.device] = reading
            if report is not None:
                report(reading)
    return {device.name: done[device.name] for device in devices}


@contextlib.contextmanager
def workers(tasks: int, most: int = _THREADS) -> Iterator[ThreadPoolExecutor]:
    """Yield threads for so many tasks; an interrupt drops those that have not begun, and waits for none.

    Parameters
    ----------
    most
        So many threads at the most.
    """
    pool = ThreadPoolExecutor(max(1, min(most, tasks)), thread_name_prefix="device")
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def read_device(device: Device, transport: Transport, deadline_s: float) -> DeviceReading:
    """Read one device; whatever goes wrong with it is in the reading's ``error``."""
    evidence = ""
    try:
        driver = driver_of(device)
        queries, mark = driver.queries(device.ports), new_mark()
        queries, reply = ask(device, queries, transport, mark, deadline_s)
        read_at = time.time()
        evidence = reply.stdout
        answers = unframe(queries, mark, reply.stdout, reply.stderr)
        ports, facts = driver.parse(device.ports, answers)
    except Exception as exc:  # noqa: BLE001  the boundary of one device: a bug in a driver must not hide the others
        return unread(device, exc, evidence)
    return DeviceReading(device.name, read_at, ports, facts, evidence=evidence)


def new_mark() -> str:
    """Return a word that no answer contains by accident."""
    return f"fabricctl-{secrets.token_hex(16)}"


def unread(device: Device, exc: Exception, evidence: str = "") -> DeviceReading:
    """Return the reading of a device that could not be read: one line, and in the evidence a bug's trace."""
    if isinstance(exc, FabricctlError):
        return DeviceReading(device.name, time.time(), {}, error=str(exc), evidence=evidence)
    line = f"{device.name}: reading it failed inside fabricctl ({exc!r}); please report this"
    trace = "".join(traceback.format_exception(exc))
    return DeviceReading(device.name, time.time(), {}, error=line, evidence=trace + evidence)


def ask(
    device: Device, queries: tuple[Query, ...], transport: Transport, mark: str, deadline_s: float
) -> tuple[tuple[Query, ...], Reply]:
    """Ask a device in the way that its connection has; return what was really asked, and the framed reply."""
    if device.endpoint.connection == REST:
        queries = over_rest(device, queries)
        lines = tuple(f"GET {' '.join(query.rest)}" for query in queries)
        replies = transport.converse(device, lines, deadline_s=deadline_s)
    elif device.endpoint.connection == NETWORK_CLI:
        replies = transport.converse(device, cli_lines(device, queries), deadline_s=deadline_s)
    else:
        return queries, transport.run(device, script(queries, mark), deadline_s=deadline_s)
    return queries, Reply(0, framed(replies, mark), "")


def script(queries: Sequence[Query], mark: str, between: Mapping[int, str] = MappingProxyType({})) -> str:
    """Return the shell script that asks all queries in one go.

    Parameters
    ----------
    mark
        A word that no answer can contain by accident; letters, digits and hyphens.
    between
        Shell text by the number of the query that it stands before.
    """
    calls = "\n".join(
        f"{between[number]}\n{call}" if number in between else call
        for number, call in enumerate(
            f"q {n} {query.limit_s or QUERY_S} {shlex.join(query.argv)}" for n, query in enumerate(queries)
        )
    )
    return _FRAME.format(mark=mark, calls=calls)


def cli_lines(device: Device, queries: Sequence[Query]) -> tuple[str, ...]:
    """Return each query as the line that a device without a shell is given.

    Raises
    ------
    RefusedError
        A word holds a blank or a control character: it would be two words, or two lines.
    """
    for query in queries:
        for word in query.argv:
            if not word.isprintable() or not word or " " in word:
                raise RefusedError(f"{word!r} cannot stand in a line for it", device=device.name)
    return tuple(" ".join(query.argv) for query in queries)


def over_rest(device: Device, queries: Sequence[Query]) -> tuple[Query, ...]:
    """Return the queries that a REST interface can answer; UsageError if there is none."""
    found = tuple(query for query in queries if query.rest)
    if not found:
        raise UsageError(
            f"the driver {device.driver} asks nothing of a REST interface",
            where=device.name,
            next_step="set ansible_connection: ssh, or as the driver's manual says",
        )
    return found


def framed(replies: Sequence[Reply], mark: str) -> str:
    """Return answers of a command line as the script's frame would hold them: all evidence is alike."""
    parts = (
        f"\n{mark} {number} out\n{reply.stdout}\n{mark} {number} rc={reply.rc}\n{reply.stderr}"
        for number, reply in enumerate(replies)
    )
    return f"{''.join(parts)}\n{mark} end\n"


def unframe(queries: Sequence[Query], mark: str, stdout: str, stderr: str = "") -> Answers:
    """Return the answers by query key.

    Raises
    ------
    WireError
        The reply is not complete: the script did not run to its end on the device.
    """
    pieces = re.split(rf"\n{re.escape(mark)} (\d+ out|\d+ rc=\d+|end)\n", stdout)
    if pieces[-2:-1] != ["end"]:
        said = one_line((stderr or stdout)[-300:])
        # A switch that takes our shell for one of its own command lines says so.
        step = (
            "if it has no shell, set ansible_connection: ansible.netcommon.network_cli"
            if "% " in said
            else ""
        )
        raise WireError(
            f"the device did not answer all questions (it said: {said or 'nothing'})", next_step=step
        )
    answers: dict[str, Answer] = {}
    # pieces: preamble, then label and text by turns: "0 out", stdout, "0 rc=0", stderr, "1 out", ...
    for at in range(1, len(pieces) - 3, 4):
        number, _, rc = pieces[at + 2].partition(" rc=")
        answers[queries[int(number)].key] = Answer(int(rc), pieces[at + 1], pieces[at + 3])
    return answers
