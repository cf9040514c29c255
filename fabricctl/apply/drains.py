"""Keep jobs off the nodes that an apply disturbs: drain, wait, and give back only what was taken."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fabricctl.apply.disruption import Uses, use_text
from fabricctl.apply.record import RecordStore
from fabricctl.apply.rollout import Tools
from fabricctl.apply.usage import ask
from fabricctl.errors import FabricctlError
from fabricctl.model.codec import decode, encode
from fabricctl.model.fabric import Fabric
from fabricctl.model.run import Run
from fabricctl.model.usage import Use
from fabricctl.model.verdict import Outcome
from fabricctl.plugin import finder
from fabricctl.plugin.protocols import Scheduler

KIND = "drain"
"""Kind of the store's records that hold a :class:`DrainRecord`."""

POLL_S = 15.0
_REMIND_S = 600.0
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class DrainRecord:
    """What a run drained: written before it does, so that a killed run can be found.

    Parameters
    ----------
    reason
        The text the nodes are drained with; it is how they are known again.
    nodes
        Those that may still be drained with it, by their names in the inventory.
    """

    scheduler: str
    reason: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Drained:
    """What became of the nodes that a run drained.

    Parameters
    ----------
    nodes
        Those that were drained while their settings were changed.
    undrained
        Those that take jobs again.
    left
        By node that stays drained: why.
    outcome
        How the verify of them ended; PASS if none was needed.
    """

    scheduler: str
    reason: str
    nodes: tuple[str, ...]
    undrained: tuple[str, ...] = ()
    left: Mapping[str, str] = field(default_factory=dict)
    outcome: Outcome = Outcome.PASS


@dataclass
class Drain:
    """The nodes that one run holds.

    Parameters
    ----------
    nodes
        Drained by this run and by nobody else.
    """

    fabric: Fabric
    tools: Tools
    store: RecordStore
    scheduler: Scheduler
    run_id: str
    nodes: list[str] = field(default_factory=list)

    @property
    def reason(self) -> str:
        """The text that marks these drains as this run's."""
        return reason_of(self.run_id)

    def take(self, nodes: Sequence[str]) -> tuple[str, ...]:
        """Drain those of `nodes` that are not drained yet, and return all that take no new jobs now.

        A node of which the scheduler knows nothing is left as it is.

        Raises
        ------
        FabricctlError
            The scheduler says no; what it drained all the same has been given back.
        """
        uses = self._ask(nodes)
        new = [n for n in nodes if uses[n].state is not Use.UNKNOWN and not uses[n].drained]
        others = [n for n in nodes if uses[n].drained]
        if others:
            self.tools.report(f"drained already, not by this run: {_few(others)}")
        if new:
            self.nodes = new
            record = DrainRecord(self.scheduler.name, self.reason, tuple(new))
            self.store.put_record(self.run_id, KIND, encode(record))
            self.tools.report(f'draining {_few(new)} as "{self.reason}" ({self.scheduler.name})')
            self.scheduler.drain([called(self.fabric, node) for node in new], self.reason)
            self.nodes = self._ours(new)
        return (*others, *self.nodes)

    def wait(self, nodes: Sequence[str], wait_s: float) -> None:
        """Return when no job runs on any of `nodes`, or when `wait_s` seconds have passed."""
        end, told, next_word = self.tools.now() + wait_s, "", 0.0
        while nodes:
            text = _waiting(self._ask(nodes))
            now = self.tools.now()
            if text and (text != told or now >= next_word):
                self.tools.report(f"waiting, {max(end - now, 0) / 60:.0f} min left: {text}")
                told, next_word = text, now + _REMIND_S
            if not text or now >= end:
                return
            self.tools.sleep(min(POLL_S, end - now))

    def give_back(self, nodes: Iterable[str]) -> dict[str, str]:
        """Undrain those of `nodes` that this run drained, and return by node why one stays drained."""
        wanted = [node for node in nodes if node in self.nodes]
        if not wanted:
            return {}
        given = give_back(self.fabric, self.scheduler, self.reason, wanted)
        self.nodes = [node for node in self.nodes if node not in wanted or node in given.left]
        keep_left(self.store, self.run_id, self.scheduler.name, self.nodes)
        done = [node for node in wanted if node not in given.left and node not in given.theirs]
        for line in (*([f"undrained: {_few(done)}"] if done else ()), *given.lines()):
            self.tools.report(line)
        return dict(given.left)

    def abandon(self) -> None:
        """Undrain everything that this run drained, on the way out; what that fails for is said."""
        try:
            self.nodes = self._ours(self.nodes)
            left = self.give_back(list(self.nodes))
        except (KeyboardInterrupt, FabricctlError) as exc:
            left = dict.fromkeys(self.nodes, str(exc) or "interrupted again")
        if left:
            self.tools.report(stays(self.fabric, self.scheduler, left))

    def report_left(self, why: str) -> None:
        """Say that what this run drained stays so, and how to end that."""
        if self.nodes:
            self.tools.report(stays(self.fabric, self.scheduler, dict.fromkeys(self.nodes, why)))

    def result(self) -> Drained:
        """Return what is held now."""
        return Drained(self.scheduler.name, self.reason, tuple(self.nodes))

    def _ask(self, nodes: Sequence[str]) -> Uses:
        return ask(self.fabric, nodes, self.scheduler)

    def _ours(self, nodes: Sequence[str]) -> list[str]:
        """Return those that are ours, or may be: a silent scheduler takes nothing from the list."""
        uses = self._ask(nodes)
        return [n for n in nodes if uses[n].reason == self.reason or uses[n].state is Use.UNKNOWN]


def reason_of(run_id: str) -> str:
    """Return the text that nodes are drained with by a run."""
    return f"fabricctl {run_id}"


def called(fabric: Fabric, node: str) -> str:
    """Return the scheduler's name for a node."""
    return fabric.device(node).scheduler_node or node


def stays(fabric: Fabric, scheduler: Scheduler, left: Mapping[str, str]) -> str:
    """Return one line: which nodes stay drained, why, and how to end that."""
    whys = list(dict.fromkeys(left.values()))
    by_hand = scheduler.by_hand([called(fabric, node) for node in left])
    more = f" and {len(whys) - 1} other reasons" if len(whys) > 1 else ""
    return f"{_few(left)} {_verb(left, 'stays', 'stay')} drained: {whys[0]}{more}; to end that: {by_hand}"


@dataclass(frozen=True, slots=True)
class GivenBack:
    """What came of undraining.

    Parameters
    ----------
    left
        By node that is still drained by us, or may be: why.
    theirs
        By node that another has drained in the meantime: with which words. It is not ours to undrain.
    """

    left: Mapping[str, str]
    theirs: Mapping[str, str]

    def lines(self) -> list[str]:
        """Say whose drains were left alone."""
        return [
            f'{node} was drained by another in the meantime ("{why}")' for node, why in self.theirs.items()
        ]


def give_back(fabric: Fabric, scheduler: Scheduler, reason: str, nodes: Sequence[str]) -> GivenBack:
    """Undrain what is drained with `reason`, and nothing else."""
    try:
        scheduler.undrain([called(fabric, node) for node in nodes], reason)
        refused = ""
    except FabricctlError as exc:
        refused = str(exc)
    left, theirs = {}, {}
    for node, use in ask(fabric, nodes, scheduler).items():
        if use.drained and use.reason == reason:
            left[node] = refused or f"{scheduler.name} did not undrain it"
        elif use.drained:
            theirs[node] = use.reason
        elif use.state is Use.UNKNOWN:
            left[node] = refused or f"whether it is undrained is not known: {use.why}"
    return GivenBack(left, theirs)


def keep_left(store: RecordStore, run_id: str, scheduler: str, nodes: Iterable[str]) -> None:
    """Record which nodes a run still has drained."""
    store.update_record(run_id, KIND, encode(DrainRecord(scheduler, reason_of(run_id), tuple(nodes))))


def tell_left(fabric: Fabric, store: RecordStore, tools: Tools) -> None:
    """Say which nodes earlier runs left drained, and how to end that; forget those that are not any more."""
    for run, payload in store.records(KIND, fabric.source):
        record = decode(DrainRecord, payload)
        nodes = [node for node in record.nodes if fabric.has_device(node)]
        if nodes:
            _tell(run, replace(record, nodes=tuple(nodes)), fabric, store, tools)


def _tell(run: Run, record: DrainRecord, fabric: Fabric, store: RecordStore, tools: Tools) -> None:
    scheduler = finder.scheduler(record.scheduler)
    uses = ask(fabric, record.nodes, scheduler)
    still = [n for n, use in uses.items() if use.reason == record.reason and use.drained]
    unsure = [n for n, use in uses.items() if use.state is Use.UNKNOWN and n not in still]
    keep_left(store, run.id, record.scheduler, [*still, *unsure])
    for names, verb in ((still, f"{_verb(still, 'is', 'are')} still"), (unsure, "may still be")):
        if names:
            by_hand = scheduler.by_hand([called(fabric, node) for node in names])
            tools.report(f"{_few(names)} {verb} drained by {run.id}; to end that: {by_hand}")


def _verb(names: Sequence[str] | Mapping[str, str], one: str, several: str) -> str:
    return one if len(names) == 1 else several


def _waiting(uses: Uses) -> str:
    texts = [text for node, use in uses.items() if (text := use_text(node, use))]
    rest = len(texts) - _SHOWN
    return ", ".join(texts[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")


def _few(names: Iterable[str]) -> str:
    listed = list(names)
    rest = len(listed) - 2 * _SHOWN
    return ", ".join(listed[: 2 * _SHOWN]) + (f" and {rest} more" if rest > 0 else "")
