"""What apply, rollback and confirm share: asking, and showing what came of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import click

from fabricctl.apply.carry import Result, clock
from fabricctl.apply.record import State
from fabricctl.apply.show import fault_line, held_lines, pending_line, plan_lines
from fabricctl.cli.common import emit_json, tell
from fabricctl.cli.exits import Exit, exit_for
from fabricctl.errors import UsageError
from fabricctl.model.plan import Plan
from fabricctl.model.words import count


def asker(*, yes: bool, question: str) -> Callable[[Plan], bool]:
    """Return what shows a plan and asks whether to go on.

    Parameters
    ----------
    yes
        Go on without asking.
    """

    def agree(plan: Plan) -> bool:
        for line in plan_lines(plan):
            tell(line)
        if yes:
            return True
        if not sys.stdin.isatty():
            raise UsageError(
                "nobody can be asked: there is no terminal", next_step="add --yes, or see the plan"
            )
        return click.confirm(question, err=True)

    return agree


def finish(result: Result | None, started: float, *, as_json: bool, simulated: str) -> None:
    """Print what came of a change and exit with its code.

    Parameters
    ----------
    result
        None: it was not agreed to.
    started
        Monotonic time at which the command began, in seconds.
    """
    if result is None:
        tell("nothing was changed")
        raise SystemExit(Exit.PENDING)
    seconds = time.monotonic() - started
    if as_json:
        emit_json(_facts(result, seconds, simulated))
    else:
        for line in _lines(result, seconds, simulated):
            click.echo(line)
    code = exit_for([result.outcome])
    if (code is Exit.PASS and result.pending) or result.waits_for_nodes:
        code = Exit.PENDING
    elif code is Exit.PASS and result.faults:
        code = Exit.FAILED
    if code is not Exit.PASS:
        raise SystemExit(code)


def _lines(result: Result, seconds: float, simulated: str) -> list[str]:
    lines = [f"{port}: failed: {why}" for port, why in result.failed.items()]
    lines += list(held_lines(result.held))
    lines += [f"{name}: not changed: {why}" for name, why in result.plan.unknown.items()]
    lines += [pending_line(item) for item in result.pending]
    lines += [fault_line(finding) for finding in result.faults]
    lines += list(result.notes)
    if result.state is State.WAITING:
        until = clock(result.deadline)
        lines.append(f'not confirmed: the devices revert at {until}; "fabricctl confirm" keeps it')
    lines.append(_summary(result, seconds))
    if simulated:
        lines.append(f"simulated: {simulated}")
    return lines


def _summary(result: Result, seconds: float) -> str:
    changed = len(result.plan.steps)
    name = f"{result.run.id}: " if result.run else ""
    if not result.tasks:
        idle = "nothing to do" if not changed and not result.plan.unknown else "nothing was changed"
        if result.faults and idle == "nothing to do":
            idle = f"nothing to set; {count(len(result.faults), 'fault')} that no setting mends"
        return f"{name}{idle}; 0 tasks on 0 devices; {_proof(result)}; {seconds:.1f} s"
    counts = result.tasks.values()
    sent = f"{count(sum(counts), 'task')} on {count(len(counts), 'device')}, at most {max(counts)} each"
    planned = f"{count(changed, 'setting')} to change on {count(len(result.plan.devices), 'device')}"
    if result.state is State.REVERTED:
        planned = f"{count(changed, 'setting')} taken back on {count(len(result.plan.devices), 'device')}"
    return f"{name}{result.state}; {planned}; {sent}; {_proof(result)}; {seconds:.1f} s"


def _proof(result: Result) -> str:
    as_what = "as before" if result.state is State.REVERTED else "as intended"
    left = f", {count(len(result.plan.unread), 'device')} not read" if result.plan.unread else ""
    left += f", {count(len(result.plan.unread_ports), 'port')} not read" if result.plan.unread_ports else ""
    waiting = f", {len(result.pending)} stored and pending until a reset" if result.pending else ""
    return f"read back: {result.proven} of {count(result.total, 'setting')} {as_what}{waiting}{left}"


def _facts(result: Result, seconds: float, simulated: str) -> dict[str, object]:
    return {
        "run": result.run.id if result.run else None,
        "state": result.state,
        "outcome": result.outcome,
        "plan": result.plan,
        "read_back": {"as_intended": result.proven, "settings": result.total},
        "tasks": result.tasks,
        "pending": result.pending,
        "failed": result.failed,
        "not_attempted": result.held,
        "in_use": result.in_use,
        "scheduler": result.plan.scheduler,
        "drain": result.drain,
        "reverts_at": result.deadline,
        "notes": result.notes,
        "faults": result.faults,
        "seconds": round(seconds, 1),
        "simulated": simulated,
    }
