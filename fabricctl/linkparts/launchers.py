"""What starts jobs on a node, and under which limits: the limits of a login are not those of a job.

A process inherits its limits from what starts it. Those of the job launchers that run are read from
``/proc/PID/limits``; those of this SSH session by ``ulimit``, as it has what PAM gave it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from fabricctl.linkparts.hosts import listed, whole
from fabricctl.model.fabric import Fabric
from fabricctl.plugin.answers import Unread
from fabricctl.plugin.protocols import Answers, Query

_KEY = "launchers"

_BATCH = ("slurmd", "slurmstepd", "pbs_mom", "sge_execd", "sbatchd", "condor_startd", "flux-broker-0")
"""Daemons of schedulers that start jobs: Slurm, PBS, Grid Engine, LSF, HTCondor, Flux."""
_RUNTIMES = ("containerd", "crio", "dockerd")
"""What starts the containers of pods; that counts where a kubelet runs."""
_KUBELETS = ("kubelet", "k3s-server", "k3s-agent", "rke2")

_EACH = 8
"""So many processes of one name are looked at: those of one daemon have the same limits."""

# Names of processes are read by the shell itself: a program for each would take seconds on a busy node.
_ASK = f"""\
counted=' '
for folder in /proc/[0-9]*; do
    read -r name <"$folder/comm" || continue
    case $name in {"|".join((*_BATCH, *_RUNTIMES, *_KUBELETS))}) ;; *) continue ;; esac
    case $counted in *" $name={_EACH} "*) continue ;; esac
    many=0
    while case $counted in *" $name=$((many + 1)) "*) ;; *) false ;; esac; do many=$((many + 1)); done
    counted="$counted$name=$((many + 1)) "
    printf 'process %s %s\\n' "${{folder#/proc/}}" "$name"
    grep -E '^Max (locked memory|open files) ' "$folder/limits"
done 2>/dev/null
printf 'session %s\\n' "$$"
grep -E '^Max (locked memory|open files) ' "/proc/$$/limits"
grep -E '^(Uid|CapEff):' "/proc/$$/status"
grep -rinHE '^[^#]*[[:space:]](memlock|nofile)[[:space:]]' /etc/security/limits.conf /etc/security/limits.d
echo done
"""
_HEAD = re.compile(r"(process|session) (\d+) ?(.*)")
_LIMIT = re.compile(r"Max (locked memory|open files)\s+(unlimited|\d+)\s+(unlimited|\d+)\s")
_PAM = re.compile(r"(/etc/security/limits(?:\.conf|\.d/[^/:]+\.conf)):(\d+):([^#]*)")
_PAM_WORDS = 4
_PAM_KINDS = {"soft": ("soft",), "hard": ("hard",), "-": ("soft", "hard")}
_PAM_UNITS = {"memlock": 1024, "nofile": 1}
"""What a number of limits.conf(5) counts in: memlock is in KiB."""
_PAM_UNLIMITED = frozenset({"unlimited", "infinity", "-1"})
_NUMBER = re.compile(r"[0-9]{1,18}")
_CAPABILITIES = re.compile(r"[0-9a-f]{1,16}")
_CAP_IPC_LOCK = 14
_NOT_USERS = frozenset({"root", "%"})
"""``%`` counts logins, and nothing else."""

LOCKED, OPEN = "locked memory", "open files"
"""Names of limits, as ``/proc/PID/limits`` has them."""


@dataclass(frozen=True, slots=True)
class Limit:
    """What a process starts with and up to what it may raise that; None is unlimited."""

    soft: int | None
    hard: int | None


@dataclass(slots=True)
class Launcher:
    """A process that starts jobs, or this SSH session: its limits by name."""

    name: str
    pid: int
    limits: dict[str, Limit] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name} (pid {self.pid})" if self.name else "an SSH session"


@dataclass(frozen=True, slots=True)
class PamLine:
    """A line of PAM's files of limits.

    Parameters
    ----------
    place
        Its file and number, ``/etc/security/limits.conf:61``.
    domain
        For whom it holds: ``*`` (all users but root), a user, ``@`` and a group, or a range of numbers.
    kinds
        ``soft``, ``hard`` or both.
    amount
        Bytes or files; None is unlimited.
    """

    place: str
    domain: str
    kinds: tuple[str, ...]
    item: str
    amount: int | None
    words: str

    def __str__(self) -> str:
        return f"{self.place}: {self.words}"


@dataclass(frozen=True, slots=True)
class Users:
    """What PAM's files give users where only root's own session was seen.

    Parameters
    ----------
    lines
        All lines that hold for users.
    everybody
        Those for ``*`` that give less than is asked for.
    some
        Those of single users and groups that give less.
    spared
        Users and groups that the lines of `everybody` do not hold for, as their own give enough.
    """

    lines: tuple[PamLine, ...] = ()
    everybody: tuple[PamLine, ...] = ()
    some: tuple[PamLine, ...] = ()
    spared: tuple[str, ...] = ()

    @property
    def low(self) -> tuple[PamLine, ...]:
        """The lines that give less, those that count most first."""
        return self.everybody or self.some

    @property
    def least(self) -> int:
        """The least that those lines give."""
        return min(line.amount or 0 for line in self.low)

    @property
    def sure(self) -> bool:
        """Whether who runs jobs surely gets less."""
        return bool(self.everybody) and not self.spared

    @property
    def doubt(self) -> str:
        """What to add to a sentence where that is not sure."""
        if self.everybody and self.spared:
            return f"; {listed(self.spared)} get enough: whether others run jobs is not known"
        return "" if self.everybody else "; whether they run jobs is not known"


@dataclass(slots=True)
class Found:
    """What was found on a node.

    Parameters
    ----------
    session
        This SSH session.
    root, may_lock
        Whether it is root's, and whether it may lock more memory than its limit (CAP_IPC_LOCK).
    configured
        Lines of PAM's files of limits, in the order in which PAM reads them: a later one replaces an earlier.
    """

    launchers: list[Launcher] = field(default_factory=list)
    session: Launcher | None = None
    root: bool = False
    may_lock: bool = False
    configured: list[PamLine] = field(default_factory=list)

    def judged(self, fabric: Fabric) -> list[Launcher]:
        """Return whose limits count: the schedulers' daemons, else what runs pods, else this session.

        Raises
        ------
        Unread
            None of them is there, or the inventory names a scheduler whose daemon does not run.
        """
        # One that ended while it was looked at has no limits left to read.
        there = [one for one in self.launchers if one.limits] or self.launchers
        batch = [one for one in there if one.name in _BATCH]
        if batch:
            return batch
        if fabric.scheduler == "slurm":
            raise Unread("slurmd does not run: the limits that it gives to jobs cannot be seen")
        if any(one.name in _KUBELETS for one in self.launchers):
            runtimes = [one for one in there if one.name in _RUNTIMES]
            if runtimes:
                return runtimes
            raise Unread(f"a kubelet runs, but none of {', '.join(_RUNTIMES)}")
        if self.session is None or not self.session.limits:
            raise Unread("the limits of an SSH session could not be read")
        return [self.session]

    def users(self, launcher: Launcher, item: str, wanted: int | None, kinds: Iterable[str]) -> Users:
        """Return what PAM's files give users; nothing unless only root's session was seen.

        Root's session does not show it: PAM's ``*`` does not hold for root (limits.conf(5)). What starts jobs
        as a service does not go through these files.

        Parameters
        ----------
        item
            As PAM calls the limit: ``memlock``, ``nofile``.
        kinds
            Which limits count: ``soft``, ``hard``. PAM lowers a soft limit to the hard one.
        """
        if launcher.name or not self.root:
            return Users()
        lines = [line for line in self.configured if line.item == item and line.domain not in _NOT_USERS]
        last = {(line.domain, kind): line for line in lines for kind in line.kinds}
        low = {
            where: line
            for where, line in last.items()
            if where[1] in kinds and not enough(line.amount, wanted)
        }
        lowered = {kind for domain, kind in low if domain == "*"}
        domains = dict.fromkeys(line.domain for line in lines if line.domain != "*")
        return Users(
            tuple(lines),
            tuple(dict.fromkeys(line for (domain, _), line in low.items() if domain == "*")),
            tuple(dict.fromkeys(line for (domain, _), line in low.items() if domain != "*")),
            tuple(
                domain
                for domain in domains
                if all((domain, kind) in last and (domain, kind) not in low for kind in lowered)
            ),
        )


def queries() -> tuple[Query, ...]:
    """Ask for the limits of what starts jobs."""
    return (Query(_KEY, ("sh", "-c", _ASK)),)


def read(answers: Answers) -> Found:
    """Return what starts jobs on the node; Unread if it was not said."""
    found = Found()
    current: Launcher | None = None
    for line in whole(answers, _KEY):
        head, limit = _HEAD.fullmatch(line), _LIMIT.match(line)
        if head:
            current = Launcher(head[3], int(head[2]))
            if head[1] == "session":
                found.session = current
            else:
                found.launchers.append(current)
        elif limit and current is not None:
            current.limits[limit[1]] = Limit(_amount(limit[2]), _amount(limit[3]))
        else:
            _read_more(found, line)
    # limits.conf is read before limits.d, whose files are read by name.
    found.configured.sort(key=_pam_order)
    return found


def _read_more(found: Found, line: str) -> None:
    label, _, value = line.partition(":")
    words = value.split()
    if label == "Uid" and words:
        found.root = words[0] == "0"
    elif label == "CapEff" and _CAPABILITIES.fullmatch(value.strip()):
        found.may_lock = bool(int(value, 16) >> _CAP_IPC_LOCK & 1)
    elif (pam := _pam_line(line)) is not None:
        found.configured.append(pam)


def _pam_order(line: PamLine) -> tuple[bool, str, int]:
    file, _, number = line.place.rpartition(":")
    return file.startswith("/etc/security/limits.d/"), file, int(number)


def _pam_line(said: str) -> PamLine | None:
    """Return a line that ``grep -n`` found in PAM's files; None if PAM itself would leave it out."""
    match = _PAM.fullmatch(said.partition("#")[0])
    words = match[3].split() if match else []
    if match is None or len(words) != _PAM_WORDS:
        return None
    kind, item, value = (word.lower() for word in words[1:])
    unlimited = value in _PAM_UNLIMITED
    if kind not in _PAM_KINDS or item not in _PAM_UNITS or not (unlimited or _NUMBER.fullmatch(value)):
        return None
    amount = None if unlimited else int(value) * _PAM_UNITS[item]
    return PamLine(f"{match[1]}:{match[2]}", words[0], _PAM_KINDS[kind], item, amount, " ".join(words))


def _amount(said: str) -> int | None:
    return None if said == "unlimited" else int(said)


def weakest(launchers: Iterable[Launcher], name: str) -> tuple[Launcher, Limit]:
    """Return whose soft limit is the least, and its limits; Unread if one of them does not say."""
    known: list[tuple[float, Launcher, Limit]] = []
    for one in launchers:
        limit = one.limits.get(name)
        if limit is None:
            raise Unread(f"the limit on {name} of {one} could not be read")
        known.append((math.inf if limit.soft is None else limit.soft, one, limit))
    _, launcher, limit = min(known, key=lambda item: item[0])
    return launcher, limit


def enough(given: int | None, wanted: int | None) -> bool:
    """Say whether a limit is at least another; None is unlimited."""
    return given is None or (wanted is not None and given >= wanted)
