"""Change a switch through NVUE: stage, apply with NVUE's own timer, confirm or take back.

Runs as a program of its own (Python 3.7 or later): on the switch with ``nv``, on the controller with REST.
What an apply left to be confirmed lies in a folder of its own under ``/run/fabricctl`` (or the one that
``FABRICCTL_RUN`` names), which is gone after a reboot.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fabricctl.drivers.switch.cumulus import channels, goal
from fabricctl.drivers.switch.cumulus.tree import Odd

if TYPE_CHECKING:  # Python 3.7 cannot evaluate dict[str, Any]
    from collections.abc import Iterator
    from typing import Any

    from fabricctl.drivers.switch.cumulus.tree import Tree

    Order = dict[str, Any]
    Channel = channels.Cli | channels.Rest

RC_BUSY = 75
RC_UNARMED = 77
RC_TOO_LATE = 78
"""As in ``fabricctl/apply/compose.py``: another change waits, no timer could be armed, it was reverted."""

REST = "FABRICCTL_REST"
"""Environment: how REST is reached, as JSON: host, port, user, password_file, ca_file."""
STATE = "FABRICCTL_RUN"
"""Environment: the folder in place of ``/run/fabricctl``."""

_FOLDER = "/run/fabricctl"
_RECORD = "nvue.json"
_APPLIED = frozenset({"applied", "applied_and_saved", "auto_save", "auto_saving", "saved", "save", "saving"})
_FAILED = frozenset(
    {"apply_error", "apply_fail", "ays_fail", "confirm_fail", "invalid", "ready_error", "verify_error"}
)
_WAITS = "confirm"
_AT_WORK = frozenset({"apply", "ays", "ays_yes", "ready", "readying", "reloading", "reloaded", "verifying"})
_LOCK_S = 60.0
_SETTLE_S = 120.0
_ANSWER_S = 60.0
_LOOK_S = 0.5


class Stop(Exception):  # noqa: N818  the end of the program, with its exit status
    """Say why, and end with this exit status."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


def main(path: str) -> int:
    """Do what the order in the file says; return the exit status."""
    order: Order = json.loads(Path(path).read_text(encoding="utf-8"))
    try:
        with _lock():
            {"push": _push, "revert": _revert, "confirm": _confirm}[order["do"]](_channel(), order)
    except Stop as exc:
        _say(str(exc))
        return exc.status
    except (channels.Failed, goal.Refusal, Odd) as exc:
        _say(str(exc))
        return 1
    return 0


def _say(why: str) -> None:
    print(f"fabricctl: {why}", file=sys.stderr)  # noqa: T201  what the controller reads


def _channel() -> Channel:
    said = os.environ.get(REST)
    if not said:
        return channels.Cli()
    way = json.loads(said)
    password = (Path(way["password_file"]).read_text(encoding="utf-8").splitlines() or [""])[0]
    return channels.Rest(way["host"], way["port"], way["user"], password, way["ca_file"])


def _home() -> Path:
    return Path(os.environ.get(STATE) or _FOLDER)


@contextmanager
def _lock() -> Iterator[None]:
    os.umask(0o077)
    _home().mkdir(parents=True, exist_ok=True)
    with (_home() / "lock").open("w") as file:
        until = time.monotonic() + _LOCK_S
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > until:
                    raise Stop(RC_BUSY, "another change is at work on this switch; try again") from None
                time.sleep(_LOOK_S)
        yield


def _push(nvue: Channel, order: Order) -> None:
    name = f"{order['apply']}.{order['slot']:04d}"
    _refuse_others(nvue)
    goals = {item["port"]: item["set"] for item in order["goals"]}
    removed, added = goal.change(nvue.applied(), goals)
    if removed or added:
        revision = _staged(nvue, removed, added)
        _record(name, {"revision": revision, "goals": goals})
        _apply(nvue, revision, order, name)
        _prove(nvue, goals)
    else:
        _record(name, None)
    for port in goals:
        print(f"fabricctl-port {port} 0")  # noqa: T201  what the controller reads


def _refuse_others(nvue: Channel) -> None:
    """Refuse where a change waits to be confirmed, or is staged: to apply would apply that too."""
    records = _records()
    _refuse_waiting(nvue, records)
    for name, _ in records:
        _forget(name)
    if nvue.staged():
        raise Stop(RC_BUSY, "changes are staged here and not applied (nv config diff): apply or detach them")


def _refuse_waiting(nvue: Channel, records: list[tuple[str, Order | None]]) -> None:
    """Refuse where a change waits to be confirmed, whoever made it; name its apply if it is one of ours."""
    states = nvue.revisions()
    waiting = ""
    for revision, state in (states or {}).items():
        if state == _WAITS or state in _AT_WORK:
            ours = [name[:-5] for name, record in records if record and record["revision"] == revision]
            waiting = ours[-1] if ours else f"revision {revision}"
    if states is None:
        waiting = next((name[:-5] for name, rec in records if rec and not goal_is_gone(nvue, rec)), "")
    if waiting:
        raise Stop(RC_BUSY, f"{waiting} waits to be confirmed here; confirm it or let its timer revert it")


def goal_is_gone(nvue: Channel, record: Order) -> bool:
    """Say whether what a record's push had set is not so any more."""
    removed, added = goal.change(nvue.applied(), record["goals"])
    return bool(removed or added)


def _staged(nvue: Channel, removed: Tree, added: Tree) -> str:
    revision = nvue.stage(removed, added)
    stray = goal.beyond(nvue.staged(), removed, added)
    if stray:
        nvue.unstage(revision)
        raise channels.Failed(f"NVUE would change {stray} too; nothing was changed")
    return revision


def _apply(nvue: Channel, revision: str, order: Order, name: str) -> None:
    try:
        nvue.apply(revision, order["within_s"], f"fabricctl {name}")
        state = _settled(nvue, revision)
    except channels.Failed:
        if _state(nvue, revision) != _WAITS:
            nvue.unstage(revision)
            _forget(name)
        raise
    if state and state != _WAITS:
        _forget(name)
        raise Stop(
            RC_UNARMED,
            f"revision {revision} is {state} and does not wait to be confirmed: nothing takes it back by "
            "itself; see nv config history",
        )


def _settled(nvue: Channel, revision: str) -> str:
    """Return the state of a revision once NVUE is done with it; empty if it cannot be asked for it."""
    until = time.monotonic() + _SETTLE_S
    while True:
        state = _state(nvue, revision)
        if state in _FAILED:
            said = nvue.why(revision)
            why = f": {said}" if said else ""
            raise channels.Failed(f"NVUE did not apply it: revision {revision} is {state}{why}")
        if not state or state == _WAITS or state in _APPLIED:
            return state
        if time.monotonic() > until:
            raise channels.Failed(f"revision {revision} is still {state} after {_SETTLE_S:.0f} s")
        time.sleep(_LOOK_S)


def _state(nvue: Channel, revision: str) -> str:
    states = nvue.revisions() if revision else None
    return (states or {}).get(revision, "")


def _prove(nvue: Channel, goals: Order) -> None:
    removed, added = goal.change(nvue.applied(), goals)
    wrong = [".".join(path) for tree in (removed, added) for path, _ in goal.leaves(tree)]
    if wrong:
        raise channels.Failed(f"NVUE said that it applied it, but {wrong[0]} is not so")


def _confirm(nvue: Channel, order: Order) -> None:
    wanted = {f"{order['apply']}.{slot:04d}" for slot in order["slots"]}
    found = dict(_records())
    for name in sorted(wanted):
        if name not in found:
            raise Stop(RC_TOO_LATE, f"{name} was reverted before it was confirmed")
        _keep(nvue, name, found[name])
    # What another change has set and may yet revert is not to be saved.
    _refuse_waiting(
        nvue, [(name, record) for name, record in _records() if record and not record.get("kept")]
    )
    nvue.save()
    left = nvue.unsaved()
    if left:
        raise channels.Failed(
            "the configuration was not saved: nv config diff startup applied still shows changes"
        )
    for name in wanted:
        _forget(name)


def _keep(nvue: Channel, name: str, record: Order | None) -> None:
    if record is None or record.get("kept"):
        return
    revision = record["revision"]
    state = _state(nvue, revision)
    late = state != _WAITS if state else goal_is_gone(nvue, record)
    if late and not (state in _APPLIED and not goal_is_gone(nvue, record)):
        _forget(name)
        raise Stop(RC_TOO_LATE, f"{name} was reverted before it was confirmed")
    if not late and not _waits_no_more(nvue, record, keep=True):
        raise channels.Failed(f"revision {revision} still waits to be confirmed")
    if goal_is_gone(nvue, record):
        _forget(name)
        raise Stop(RC_TOO_LATE, f"{name} was reverted before it was confirmed")
    _record(name, {**record, "kept": True})


def _waits_no_more(nvue: Channel, record: Order, *, keep: bool) -> bool:
    """Answer the apply that waits, and say whether NVUE has done what it was told.

    What becomes of a revision's name for its state is not written everywhere: to keep it, it must not wait
    any more; to take it back, its settings must be gone.
    """
    nvue.answer(record["revision"], keep=keep)
    until = time.monotonic() + _ANSWER_S
    while True:
        if keep and _state(nvue, record["revision"]) not in {*_AT_WORK, _WAITS, "confirm_yes"}:
            return True
        if not keep and goal_is_gone(nvue, record):
            return True
        if time.monotonic() > until:
            return False
        time.sleep(_LOOK_S)


def _revert(nvue: Channel, order: Order) -> None:
    for name, record in sorted(_records(), reverse=True):
        if not name.startswith(f"{order['apply']}."):
            continue
        if record is not None and not record.get("kept"):
            state = _state(nvue, record["revision"])
            waits = state == _WAITS or (not state and not goal_is_gone(nvue, record))
            if waits and not _waits_no_more(nvue, record, keep=False):
                raise channels.Failed(f"revision {record['revision']} is not taken back; its timer does it")
        _forget(name)


def _records() -> list[tuple[str, Order | None]]:
    """Return by push what waits to be confirmed; None where a push had nothing to change."""
    paths = sorted(_home().glob(f"*/{_RECORD}"))
    return [(path.parent.name, json.loads(path.read_text(encoding="utf-8"))) for path in paths]


def _record(name: str, content: Order | None) -> None:
    folder = _home() / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _RECORD).write_text(json.dumps(content), encoding="utf-8")


def _forget(name: str) -> None:
    shutil.rmtree(_home() / name, ignore_errors=True)
