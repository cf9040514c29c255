"""Read mlx5's PFC, classification, ETS, buffers and DCBX mode, from ``mlnx_qos`` or from ``dcb``.

With MLNX_OFED it is ``mlnx_qos`` that knows all, otherwise ``dcb``; each stands in for the other.
The text of ``mlnx_qos`` is read as its source in mlnx-tools prints it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from fabricctl.drivers import dcb, files, functions
from fabricctl.drivers.nic.mlx5.planes import MARK, is_ofed, section
from fabricctl.model import settings
from fabricctl.model.fabric import Port
from fabricctl.model.reading import Entry, Known, Missing
from fabricctl.plugin.answers import Lacking, Unread, entry, parsed, text, whole_number
from fabricctl.plugin.protocols import Answers, Query

_KEY = "mlnx_qos"
_ASK = f"""\
tools=
for each in mlnx_qos dcb; do
    ! command -v "$each" >/dev/null || tools="$tools $each"
done
echo "tools$tools"
for port; do
    for name in $(functions_of "$port"); do
        ofed=
        [ ! -d "/sys/class/net/$name/qos" ] && [ ! -d "/sys/class/net/$name/ecn" ] || ofed=yes
        echo "{MARK}$name"
        case "$ofed$tools" in
        '' | yes) ;;
        yes*mlnx_qos* | *mlnx_qos) mlnx_qos -i "$name" -a 2>&1 ;;
        *) dcb -j dcbx show dev "$name" 2>&1 ;;
        esac
    done
done
exit 0
"""
_NO_TOOL = "neither mlnx_qos nor dcb is installed"
_DSCPS = 64
_EIGHT = 8
_CLASSES = (
    settings.TRUST,
    settings.DSCP_PRIORITY,
    settings.PRIORITY_TC,
    settings.TC_SCHEDULER,
    settings.TC_BANDWIDTH,
    settings.CABLE_LENGTH,
    settings.PRIORITY_BUFFER,
    settings.BUFFER_SIZE,
    settings.PFC,
)
_MAP = re.compile(r"\s*prio:([0-7]) dscp:((?:\d+,)+)\s*")
_TC = re.compile(r"tc: ([0-7]) ratelimit: .*, tsa: (strict|ets|vendor)(?:, bw: (\d+)%)?\s*")
_PRIORITY = re.compile(r"\s+priority:\s+([0-7])\s*")
_SIZES = re.compile(r"Receive buffer size \(bytes\): ((?:\d+,){8}).*")


def query(ports: Sequence[Port]) -> Query:
    """Ask which tools there are, and ``mlnx_qos`` for all, or ``dcb`` for its DCBX mode."""
    return Query(_KEY, ("sh", "-c", f"{functions.SHELL}{_ASK}", "sh", *(port.id.port for port in ports)))


def tool(name: str, answers: Answers) -> str:
    """Return ``mlnx_qos`` or ``dcb``, by the same rule as a port's script; Unread without both."""
    first, *_ = text(answers, _KEY).splitlines() or [""]
    word, *tools = first.split()
    if word != "tools":
        raise Unread(f"unparsable: {first}")
    for each in ("mlnx_qos", "dcb") if is_ofed(name, answers) else ("dcb", "mlnx_qos"):
        if each in tools:
            return each
    raise Unread(_NO_TOOL)


def read_settings(name: str, answers: Answers) -> dict[str, Entry]:
    """Return classification, ETS, buffers, cable length and PFC of physical function `name`."""
    chosen = entry(lambda: tool(name, answers))
    if isinstance(chosen, Missing):
        return dict.fromkeys(_CLASSES, chosen)
    return _by_mlnx_qos(name, answers) if chosen.value == "mlnx_qos" else _by_dcb(name, answers)


def firmware_dcbx(name: str, answers: Answers) -> str:
    """Return the command that takes DCBX from the firmware of function `name`; empty if the host has it."""
    if tool(name, answers) == "mlnx_qos":
        mode = _line(_said(name, answers), "DCBX mode: ")
        return {"OS controlled": "", "Firmware controlled": f"mlnx_qos -i {name} -d os"}[mode]
    said = " ".join(section(text(answers, _KEY).splitlines(), name))
    if not said.startswith("{"):
        raise Unread(f"dcb: {said or 'printed nothing'}")
    mode = json.loads(said)
    return "" if mode.get("host") is True else f"dcb dcbx set dev {name} host ieee"


def _by_dcb(name: str, answers: Answers) -> dict[str, Entry]:
    found = dcb.read_settings(name, answers)
    found[settings.DSCP_PRIORITY] = _whole_map(name, answers, found[settings.DSCP_PRIORITY])
    found[settings.TC_BANDWIDTH] = _shares(found)
    found[settings.CABLE_LENGTH] = entry(
        lambda: _metres(whole_number(parsed(answers, f"dcb pfc {name}")["delay"]))
    )
    return found


def _whole_map(name: str, answers: Answers, found: Entry) -> Entry:
    if isinstance(found, Missing):
        return found
    pairs = parsed(answers, f"dcb app {name}").get("dscp_prio", [])
    return entry(lambda: _complete({dscp: priority for dscp, priority, *_ in pairs}))


def _complete(priorities: Mapping[int, int]) -> tuple[int, ...]:
    """Return the map; Unread if only part of it is shown.

    The driver shows the entries that were made. Where others were never made, the firmware goes by its own,
    which may be what it came with (the DSCP's upper three bits) or zero, and nobody can see which.
    """
    if priorities and len(priorities) < _DSCPS:
        first = next(dscp for dscp in range(_DSCPS) if dscp not in priorities)
        lacking = _DSCPS - len(priorities)
        raise Unread(
            f"{lacking} DSCPs have no entry, {first} is the first: the firmware goes by its own there"
        )
    return tuple(priorities.get(dscp, 0) for dscp in range(_DSCPS))


def _shares(found: Mapping[str, Entry]) -> Entry:
    """Return the shares as the setting means them: the driver shows 100 for every class that is not ets."""
    shares, schedulers = found[settings.TC_BANDWIDTH], found[settings.TC_SCHEDULER]
    if isinstance(shares, Missing) or isinstance(schedulers, Missing):
        return shares if isinstance(shares, Missing) else schedulers

    def read() -> tuple[int, ...]:
        pairs = zip(_members(shares), _members(schedulers), strict=True)
        return tuple(int(share) if kind == "ets" else 0 for share, kind in pairs)

    return entry(read)


def _members(entry: Known) -> Sequence[int | str]:
    return entry.value if isinstance(entry.value, tuple) else ()


def _metres(length: int) -> int:
    if length == 0:
        raise Lacking("this NIC does not let its receive buffers be sized: its cable length reads 0")
    return length


def _by_mlnx_qos(name: str, answers: Answers) -> dict[str, Entry]:
    def said() -> Sequence[str]:
        return _said(name, answers)

    return {
        settings.TRUST: entry(lambda: _trust(said())),
        settings.DSCP_PRIORITY: entry(lambda: _dscp_priority(name, said(), answers)),
        settings.PRIORITY_TC: entry(lambda: _priority_tc(said())),
        settings.TC_SCHEDULER: entry(lambda: tuple(kind for kind, _ in _tcs(said()))),
        settings.TC_BANDWIDTH: entry(lambda: tuple(share for _, share in _tcs(said()))),
        settings.CABLE_LENGTH: entry(lambda: _metres(int(_line(said(), "Cable len: ")))),
        settings.PRIORITY_BUFFER: entry(lambda: _row(said(), "buffer")),
        settings.BUFFER_SIZE: entry(lambda: _sizes(said())),
        settings.PFC: entry(lambda: tuple(p for p, on in enumerate(_row(said(), "enabled")) if on)),
    }


def _said(name: str, answers: Answers) -> Sequence[str]:
    said = section(text(answers, _KEY).splitlines(), name)
    if "PFC configuration:" not in (line.strip() for line in said):
        # Where it fails, it may do so while making up its message: the last line says most.
        raise Unread(
            f"mlnx_qos: {next((line for line in reversed(said) if line.strip()), 'printed nothing')}"
        )
    return said


def _line(said: Sequence[str], start: str) -> str:
    for line in said:
        if line.startswith(start):
            return line.removeprefix(start).strip()
    raise Unread(f"mlnx_qos shows no {start.strip(': ')}")


def _trust(said: Sequence[str]) -> str:
    trust = _line(said, "Priority trust state: ")
    if trust not in {"dscp", "pcp"}:
        raise Lacking(f"this NIC has no trust to set: mlnx_qos shows {trust}")
    return trust


def _dscp_priority(name: str, said: Sequence[str], answers: Answers) -> tuple[int, ...]:
    file = f"/sys/class/net/{name}/qos/dscp2prio"
    if files.under(answers, file):
        # Old drivers keep the map whatever is trusted.
        pairs = [line.split() for line in files.content(answers, file).splitlines()]
        shown = {int(words[0]): int(words[1]) for words in pairs if words and words[0].isdecimal()}
        return _complete(shown)
    if _trust(said) == "pcp":
        return (0,) * _DSCPS
    rows = [row for row in map(_MAP.fullmatch, said) if row]
    return _complete({int(dscp): int(row[1]) for row in rows for dscp in row[2].split(",") if dscp})


def _priority_tc(said: Sequence[str]) -> tuple[int, ...]:
    found: dict[int, int] = {}
    tc = 0
    for line in said:
        if row := _TC.fullmatch(line):
            tc = int(row[1])
        elif row := _PRIORITY.fullmatch(line):
            found[int(row[1])] = tc
    return tuple(found[priority] for priority in range(_EIGHT))


def _tcs(said: Sequence[str]) -> list[tuple[str, int]]:
    rows = {int(row[1]): row for row in map(_TC.fullmatch, said) if row}
    if sorted(rows) != list(range(_EIGHT)):
        raise Unread(f"mlnx_qos shows {len(rows)} of 8 traffic classes")
    return [(rows[tc][2], int(rows[tc][3] or 0)) for tc in range(_EIGHT)]


def _row(said: Sequence[str], label: str) -> tuple[int, ...]:
    for line in said:
        words = line.split()
        if words[:1] == [label] and len(words) == _EIGHT + 1:
            return tuple(map(int, words[1:]))
    if label == "buffer":
        raise Lacking("mlnx_qos shows no receive buffers: the NIC does not let them be set")
    raise Unread(f"mlnx_qos shows no row {label}")


def _sizes(said: Sequence[str]) -> tuple[int, ...]:
    for line in said:
        if row := _SIZES.fullmatch(line):
            return tuple(int(size) for size in row[1].split(",") if size)
    raise Lacking("mlnx_qos shows no receive buffers: the NIC does not let them be set")
