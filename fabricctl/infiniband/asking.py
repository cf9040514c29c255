"""What to ask of a host with a HCA: scripts around infiniband-diags, and the parts that their answers have.

Every script discovers the subnet once into a cache of its own, and the other tools read that: it is several
times faster, and what they print is of one moment. No tool's exit status proves anything: ``ibqueryerrors``
ends with 0 having read nothing if no subnet manager answers, and with 1 if it has found an error.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fabricctl.linkparts.subnets import PROGRAMS
from fabricctl.plugin.protocols import Answer, Query

_TOOL_S = 60
"""Longest time for one tool that walks the whole subnet, in seconds: a large one takes tens of them."""
_MANAGERS, _MANAGER_S, _MANAGERS_S = 64, 3, 60
"""How many subnet managers are asked at most, and how long each and all of them may take, in seconds."""
_LOOK_S = 5 * _TOOL_S + _MANAGERS_S
"""Longest time for all of a look."""

# A shell acts on a signal only between commands, unless it waits: so the tool runs beside it, and the folder
# goes even when the script is ended in the middle. Where the subnet did not answer once, nobody waits again.
_BEGIN = f"""\
hca=$1 port=$2 tool= beside= within={_TOOL_S}
dir=$(mktemp -d) || exit 1
trap 'for pid in $tool $beside; do kill "$pid" 2>/dev/null; done; rm -rf "$dir"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 141' PIPE
trap 'exit 143' TERM
command -v timeout >/dev/null || timeout() {{ shift 3; "$@"; }}
begin() {{
    out=$1
    shift
    [ -z "$hca" ] || set -- "$@" -C "$hca" -P "$port"
    timeout -k 1 "$within" "$@" 2>"$dir/said$out" >"$dir/out$out" &
}}
end() {{
    wait "$3"
    rc=$?
    printf '\n== %s\n' "$1"
    cat "$dir/out$2"
    printf '\n== %s rc %s\n' "$1" "$rc"
    cat "$dir/said$2"
}}
part() {{
    name=$1
    shift
    begin "" "$@"
    tool=$!
    end "$name" "" "$tool"
    tool=
}}
"""

# A site's file of thresholds would hide small counts and so falsify what they rose by. Two managers that do
# not trust each other both are master, and each one's list has only itself: so every port that says it has a
# manager is asked. Several planes are looked at one after the other, so each look has its own time, by the
# clock that nobody sets. A cache with a port that did not answer cannot be read: then the tools discover by
# themselves. Routes of before the interval would not fit the cables of after it: a link that went down
# meanwhile would seem to be a route into nowhere. Reading them takes the longest: it is done beside the rest.
_LOOK = f"""{_BEGIN}
hung="$FABRICCTL_TMP/no answer to $hca $port"
if [ -n "$FABRICCTL_TMP" ] && [ -e "$hung" ]; then
    printf '\\n== topology\\n\\n== topology rc 124\\n'
    exit 0
fi
part topology ibnetdiscover --cache "$dir/cache"
case $rc in 124 | 137) [ -z "$FABRICCTL_TMP" ] || : >"$hung" ;; esac
[ -s "$dir/cache" ] || exit 0
again="$FABRICCTL_TMP/looked from $hca $port"
stale=
cached() {{
    [ -n "$stale" ] || set -- "$@" --load-cache "$dir/cache"
    part "$@"
}}
uptime() {{ read -r up _ </proc/uptime || up=; }}
errors() {{
    uptime
    printf '\\n== uptime\\n%s\\n\\n== uptime rc 0\\n' "$up"
    cached errors ibqueryerrors --threshold-file /dev/null --details "$@"
}}
# What came before the first reading took its time: the second waits for the interval by its own stamp.
if [ -s "$again" ]; then
    read -r first <"$again"
    uptime
    left=$((${{first%.*}}${{first#*.}} + ${{FABRICCTL_INTERVAL:-0}} - ${{up%.*}}${{up#*.}}))
    [ "$left" -le 0 ] || sleep "$((left / 100)).$(printf %02d $((left % 100)))"
fi
if [ -z "$FABRICCTL_TMP" ] || [ -e "$again" ]; then
    begin .routes dump_fts -n
    beside=$!
fi
errors
if grep -q 'loading cached fabric failed' "$dir/said"; then
    stale=yes
    errors
fi
grep -q '^## Summary' "$dir/out" || errors --skip-sl
[ -n "$beside" ] || {{ echo "$up" >"$again"; exit 0; }}
cached links iblinkinfo --line
within=10
part master sminfo
part offers saquery -s
lids=$(sed -n 's/^[[:space:]]*EndPortLid\\.*\\([1-9][0-9]*\\)$/\\1/p' "$dir/out" | sort -nu |
    head -n {_MANAGERS})
within={_MANAGER_S}
uptime
until=$((${{up%.*}} + {_MANAGERS_S}))
for lid in $lids; do
    uptime
    [ "${{up%.*}}" -lt "$until" ] || break
    part "manager $lid" sminfo "$lid"
done
end routes .routes "$beside"
beside=
"""

_WARNED = re.compile(r"^ibwarn: \[\d+\] ")
_PART = re.compile(r"\n== (\S+(?: \d+)?)( rc (\d+))?\n")


@dataclass(frozen=True, slots=True)
class Hca:
    """A port of a HCA to look from: its verbs device and the port's number; an empty name is any."""

    name: str
    port: int = 1

    @classmethod
    def parse(cls, rdma: str) -> Hca:
        """Read what an inventory has: ``mlx5_0``, ``mlx5_0/2``, or nothing."""
        name, _, number = rdma.partition("/")
        return cls(name, int(number) if number.isdecimal() and int(number) else 1)

    def __str__(self) -> str:
        return f"{self.name or 'any'}/{self.port}"


def look_key(hca: Hca) -> str:
    """Return the key of the query that looks at links, counters, managers and routes."""
    return f"infiniband subnet {hca}"


def query(hca: Hca) -> Query:
    """Return what to ask of a host of the subnet that a port of its HCA is plugged into.

    The first look is at counters alone; links, managers and routes come with the second: they are as they
    were last.
    """
    where = ("sh", hca.name, str(hca.port))
    return Query(look_key(hca), ("sh", "-c", _LOOK, *where), counts=True, limit_s=_LOOK_S)


def parts(answer: Answer | None) -> Mapping[str, Answer]:
    """Return what each tool of a script said, by the part's name; the last where one was asked twice."""
    if answer is None:
        return {}
    found: dict[str, Answer] = {}
    marks = list(_PART.finditer(answer.stdout))
    ends = [*(mark.start() for mark in marks[1:]), len(answer.stdout)]
    printed = ""
    for mark, end in zip(marks, ends, strict=False):  # where nothing was printed, there is no mark
        inside = answer.stdout[mark.end() : end]
        if mark[3] is None:
            printed = inside
        else:
            found[mark[1]] = Answer(int(mark[3]), printed, inside)
    return found


def why(answer: Answer | None, found: Mapping[str, Answer], name: str) -> str:
    """Return why a part has nothing to read, as a reader understands it."""
    if answer is None:
        return "it was not asked"
    part = found.get(name)
    if part is None:
        part, name = found.get("topology", answer), "topology"
    program = PROGRAMS.get(name, name)
    if part.rc in {126, 127}:
        return f"{program}: the program is not installed"
    if part.rc in {124, 137}:
        return f"{program}: no answer in time"
    # What it says last is what it gave up for.
    lines = [line for line in map(said, (part.stderr or part.stdout).split("\n")) if line]
    if not lines:
        return f"{program}: it said nothing and ended with exit status {part.rc}"
    if not lines[-1].isprintable() or "\ufffd" in lines[-1]:
        return f"{program}: what it said is no text"
    return f"{program}: {lines[-1][:200].removeprefix(f'{program}: ')}"


def said(line: str) -> str:
    """Return what a tool said in a line, without the number of its process: that is another in each run."""
    return _WARNED.sub("", line.strip())
