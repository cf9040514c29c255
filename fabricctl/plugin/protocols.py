"""The plug-in protocols: what a driver, a check, a probe, a report and a scheduler must offer.

A plug-in is a module found by its place (``fabricctl/drivers/nic/rxe``); its ``PLUGIN`` holds the object.
Adding one edits no existing file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from fabricctl.model.certificate import Certificate
from fabricctl.model.fabric import Fabric, Port, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PairId, PortId
from fabricctl.model.plan import Disruption
from fabricctl.model.policy import Limits, Policy
from fabricctl.model.probe import AgentReport, Sample
from fabricctl.model.reading import DeviceReading, Entry, PortReading, Value
from fabricctl.model.run import Run
from fabricctl.model.usage import NodeUse
from fabricctl.model.verdict import Finding, Suspect, Verdict


@dataclass(frozen=True, slots=True)
class Query:
    """One command that reads; it must change nothing.

    Parameters
    ----------
    key
        Names the answer: ``dcb_pfc eth1``.
    argv
        Program and arguments; never joined unquoted.
    rest
        Paths of the same on a device's REST interface, read with GET; empty where it has none. Of several,
        the answer holds a line ``== PATH`` before each.
    counts
        Whether the answer holds counters: a run that watches an interval asks it again at the end.
    limit_s
        Longest time that it may take on the device, in seconds; 0 is the usual time, ``readback.QUERY_S``.
    """

    key: str
    argv: tuple[str, ...]
    rest: tuple[str, ...] = ()
    counts: bool = False
    limit_s: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a query printed. Neither `rc` nor `stderr` proves anything by itself."""

    rc: int
    stdout: str
    stderr: str


Answers = Mapping[str, Answer]
"""By the query's key; a query without an answer is absent."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value that a policy may give NICs of one vendor: what it means (with its unit), and its range."""

    meaning: str
    lowest: int
    highest: int


@dataclass(frozen=True, slots=True)
class PortGoal:
    """What a push is to do to one port.

    Parameters
    ----------
    names
        The settings to set, in the safe order.
    wanted
        All that the port is to hold; what is only kept over reboots is left out.
    before
        All that was read of it and is known.
    """

    port: Port
    names: tuple[str, ...]
    wanted: Mapping[str, Value]
    before: Mapping[str, Value]


class Method(Protocol):
    """How a device is changed by means of its own, in place of a rendered script for each port; pure.

    Each member returns what the driver's playbook runs: a POSIX shell script where the device has a shell
    (``fabricctl_command``), else lines for its command line (``fabricctl_lines``). A script prints
    ``fabricctl-port NAME RC`` for each port if it can tell them apart, says ``fabricctl: PORT: SETTING: why``
    on standard error, and ends with an exit status other than 0 if anything failed. Read-back is the proof.
    """

    @property
    def whole(self) -> bool:
        """Whether a change can only be taken back as a whole; then it is also made in one push."""
        ...

    def push(self, apply_id: str, slot: int, goals: Sequence[PortGoal], within_s: int) -> str:
        """Return what sets the ports and has the device take it back unless it is confirmed in time.

        Parameters
        ----------
        slot
            Number of the push within the apply; a `whole` device sees the next when the last is confirmed.
        within_s
            Seconds after which the device reverts by itself.
        """
        ...

    def revert(self, apply_id: str, ports: Sequence[str]) -> str:
        """Return what takes back at once all of an apply that is not confirmed; having nothing is success.

        Parameters
        ----------
        ports
            Only these, the others stay with their timer running; empty is all, as ever on a `whole` device.
        """
        ...

    def confirm(self, apply_id: str, slots: Sequence[int]) -> str:
        """Return what stops the device's timers and saves its configuration; it fails if it was too late."""
        ...


@runtime_checkable
class Choosy(Protocol):
    """A driver that can say what its devices refuse of an intent: more than they have, or out of range."""

    def refused(self, intent: PortIntent) -> Mapping[str, str]:
        """Return by setting why a push would fail; pure, and nothing was read."""
        ...


class Driver(Protocol):
    """Reads and writes the ports of one kind of NIC or switch; pure: text in, values out.

    ``templates/<nic|switch>/<name>/port.sh.j2`` turns wanted settings into the script that sets them (now,
    at boot, and as undo) unless the driver has a `method`; ``playbooks/<nic|switch>/<name>.yml`` pushes it.
    """

    @property
    def name(self) -> str:
        """The name that inventories use."""
        ...

    @property
    def role(self) -> Role:
        """Whether it drives nodes' NICs or a switch."""
        ...

    @property
    def unsupported(self) -> Mapping[str, str]:
        """By setting: why a device of this kind cannot have it. Declared, so that a plan can say it."""
        ...

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        """By name: what a policy's ``nic_parameters`` may give this driver, as setting ``driver.name``."""
        ...

    @property
    def method(self) -> Method | None:
        """How devices are changed that are not set by a rendered script for each port; None for those."""
        ...

    @property
    def mtu_headers_bytes(self) -> int:
        """How many bytes of Ethernet headers and FCS a port MTU counts here; 0 if it is the IP packet's."""
        ...

    def queries(self, ports: Sequence[Port]) -> tuple[Query, ...]:
        """Return everything to ask a device with these ports, for one round trip."""
        ...

    def parse(
        self, ports: Sequence[Port], answers: Answers
    ) -> tuple[Mapping[PortId, PortReading], Mapping[str, Entry]]:
        """Return the reading of each port and the facts of the device; odd text is a Missing."""
        ...

    def wanted(self, intent: PortIntent) -> Mapping[str, Value]:
        """Return the settings that realise the intent, those in `unsupported` included, ``boot`` not."""
        ...

    def disruption(self, setting: str, old: Entry, new: Value) -> Disruption:
        """Return what changing `setting` does to traffic."""
        ...


class Check(Protocol):
    """Judges what was read or what is meant; its docstring says what passes, fails and is unknown."""

    @property
    def name(self) -> str:
        """Name in findings."""
        ...

    def judge(
        self,
        fabric: Fabric,
        policy: Policy,
        intents: Mapping[PortId, PortIntent],
        readings: Mapping[str, DeviceReading] | None,
    ) -> tuple[Finding, ...]:
        """Return findings; `readings` is None when nothing has been contacted (``fabricctl check``)."""
        ...


class Probe(Protocol):
    """Measures something between two ports. ``node.py`` beside it runs on the nodes."""

    @property
    def name(self) -> str:
        """Name in limits, samples and ``--probes``."""
        ...

    @property
    def measures(self) -> str:
        """One sentence: what exactly, one way or round trip, what is inside the number."""
        ...

    @property
    def fills_link(self) -> bool:
        """Whether it loads the links on its way: it then runs in rounds that oversubscribe no uplink."""
        ...

    @property
    def on_request(self) -> bool:
        """Whether it runs only where ``--probes`` names it or the policy limits it (``Limits.limited``)."""
        ...

    def parameters(self, policy: Policy) -> Mapping[str, int | float | str]:
        """Return what ``node.py`` needs to know, from the policy."""
        ...

    def judge(
        self, pair: PairId, topology: str, samples: Sequence[Sample], limits: Limits
    ) -> tuple[Finding, ...]:
        """Return findings on one pair from this probe's samples of it; no samples is an unknown finding."""
        ...


@runtime_checkable
class Brisk(Protocol):
    """A probe that can say without any words that a pair passes: of a million pairs nearly all do."""

    def passes(self, topology: str, samples: Sequence[Sample], limits: Limits) -> bool:
        """Say that all findings on these samples, which have no error, pass and ask for no next step.

        No only means that :meth:`Probe.judge` has to be asked.
        """
        ...


class Report(Protocol):
    """Turns a run into text for a reader or a program."""

    @property
    def name(self) -> str:
        """Name in ``--format``."""
        ...

    def render(self, run: RunReport) -> str:
        """Return the whole report."""
        ...


class Scheduler(Protocol):
    """Says who uses the nodes, and keeps new jobs off them; it runs commands on this machine."""

    @property
    def name(self) -> str:
        """Name in ``fabric_scheduler``."""
        ...

    def present(self) -> bool:
        """Say whether its commands are on this machine, so that it is asked where no inventory names one."""
        ...

    def busy(self, nodes: Sequence[str], deadline_s: float) -> Mapping[str, NodeUse]:
        """Return the use of every one of `nodes`; what is not said or cannot be asked is unknown, not free.

        Parameters
        ----------
        nodes
            Names as the scheduler has them.
        deadline_s
            Longest time for all of it, in seconds.
        """
        ...

    def drain(self, nodes: Sequence[str], reason: str) -> None:
        """Keep new jobs off `nodes`, with `reason`; FabricctlError if it says no. What runs goes on."""
        ...

    def undrain(self, nodes: Sequence[str], reason: str) -> None:
        """Let jobs come again to those of `nodes` that are drained with exactly `reason`, and to no other."""
        ...

    def by_hand(self, nodes: Sequence[str]) -> str:
        """Return the command with which an operator ends the drain of `nodes`."""
        ...


@dataclass(frozen=True)
class RunReport:
    """Everything a report may show of a verify run.

    Parameters
    ----------
    unkept
        Empty, or why the results could not be kept: then no certificate was issued.
    measuring_share
        Seconds in which the busiest port was measured, by those from the first preparation to the last
        result; 0 to 1.
    coverage
        By kind of rounds (``quiet``, ``filling``): what the time budget had room for, for a program.
    samples
        All; of a large run (see ``model/verdicts.py``) those of the verdicts that are whole.
    """

    fabric: Fabric
    policy: Policy
    run: Run
    agents: Mapping[str, AgentReport]
    verdicts: Sequence[Verdict]
    suspects: tuple[Suspect, ...]
    samples: tuple[Sample, ...]
    certificates: tuple[Certificate, ...]
    unkept: str = ""
    measuring_share: float = 0.0
    coverage: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
