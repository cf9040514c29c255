"""What a push, a revert and a confirm do on the switch: ``run.py push|revert|confirm ...``.

A change lies in ``/run/fabricctl/<apply>.<slot>`` until it is confirmed, as on hosts: what it changed, and
this program, which a systemd timer runs to take it back. The folder is in memory and nothing is saved before
the confirm, so a reboot in between brings back what was saved.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import re
import shutil
import sys
import time
from pathlib import Path
from typing import Any, Iterable, Iterator, Sequence

from fabricctl.drivers.switch.sonic.node import buffers, chain, patch, tools
from fabricctl.drivers.switch.sonic.node.chain import Box
from fabricctl.drivers.switch.sonic.node.tables import Config, Odd
from fabricctl.drivers.switch.sonic.node.target import Goal, build
from fabricctl.drivers.switch.sonic.node.tools import ToolError

RUN = Path("/run/fabricctl")
RC_BUSY = 75
RC_UNARMED = 77
RC_TOO_LATE = 78
MARK = "fabricctl-port"
LOCK_S = 60
REVERT_LOCK_S = 300
UP_S = 60
"""Longest wait for links that the updater switched off and on, and for rows of the buffer manager."""
_POLL_S = 0.5
_SLOT = re.compile(r"(.+)\.(\d{4})")
_ILLEGAL = re.compile(r"(?:Modification of (\w+) table is illegal|illegal on field: /(\w+))")


class Ended(Exception):  # noqa: N818  an exit status with what there is to say, not always an error
    """It ends here with this exit status; what there was to say has been said."""

    def __init__(self, rc: int, why: str) -> None:
        super().__init__(why)
        self.rc = rc


def main(argv: Sequence[str]) -> int:
    """Do one thing and return the exit status."""
    verb, apply_id, rest = argv[0], argv[1], list(argv[2:])
    try:
        if verb == "push":
            return _push(apply_id, rest[0], Path(rest[1]), int(rest[2]))
        if verb == "revert":
            return _revert(apply_id, rest)
        return _confirm(apply_id, rest)
    except Ended as end:
        _tell(str(end))
        return end.rc
    except (Odd, ToolError) as exc:
        _tell(str(exc))
        return 1


# Push


def _push(apply_id: str, slot: str, new: Path, within_s: int) -> int:
    with _locked(LOCK_S):
        _refuse_others(apply_id)
        folder = RUN / f"{apply_id}.{slot}"
        if folder.exists():
            raise Ended(RC_BUSY, f"{folder.name} is on this switch already")
        goals = [Goal(g["port"], tuple(g["names"]), g["wanted"]) for g in _read(new / "goals.json")]
        current = tools.read_config()
        box = tools.read_box(current)
        if box.refusal:
            raise Ended(1, box.refusal)
        target, refused = build(current, goals, box)
        change = _Change(current, target, new)
        why = change.rehearse()
        _keep(new, {} if why else patch.undo_of(current, target, change.way.held), goals)
        if why:
            (new / "settled").touch()
            new.rename(folder)
            raise Ended(1, f"nothing was changed, the switch refuses: {why}")
        tools.must("config", "checkpoint", _checkpoint(apply_id, slot))
        new.rename(folder)
        change.folder = folder
        _arm(folder, within_s)
        up = change.was_up()
        why = change.make()
        late = {} if why else _wait(up, [goal.port for goal in goals], box)
        return _report(goals, refused, late, why)


class _Change:
    """From one configuration to another."""

    def __init__(self, current: Config, target: Config, folder: Path) -> None:
        self.current, self.target, self.folder = current, target, folder
        self.way = patch.way(current, target)
        self.ops = patch.diff(buffers.without_groups_derived(current), self.way.last)
        self._direct = False

    def rehearse(self) -> str:
        """Return why the switch would refuse it, empty if it would not; nothing is changed."""
        if not self.ops:
            return ""
        said = tools.patch(self.ops, self.folder / "patch.json", dry=True)
        if said.rc and patch.WATCHDOG in _illegal(said.words):
            # The updater has a list of hardware on which it touches the watchdog. On others it is written
            # straight into CONFIG_DB; its values have been validated here.
            self._direct = True
            rest = [op for op in self.ops if not _is_watchdog(op)]
            if not rest:
                return ""
            said = tools.patch(rest, self.folder / "patch.json", dry=True)
        return said.words if said.rc else ""

    def was_up(self) -> list[str]:
        """Return the ports that the change switches off and on, and whose link is up."""
        ports = sorted({*patch.touched_ports(self.ops), *self.way.held})
        state = tools.links(ports) if ports else {}
        return [port for port in ports if state[port]]

    def make(self) -> str:
        """Change it, and return why a part of it failed; empty if none did."""
        why = self._make()
        if why and self.way.held:
            # The rest is for the revert; a port that was on is not left off until then.
            for port in self.way.held:
                tools.run("config", "interface", "startup", port)
        return why

    def _make(self) -> str:
        now = buffers.without_groups_derived(self.current)
        for number, stage in enumerate((self.way.first, self.way.second, self.way.last), 1):
            ops = patch.diff(now, stage)
            straight = [op for op in ops if self._direct and _is_watchdog(op)]
            rest = [op for op in ops if op not in straight]
            if rest:
                said = tools.patch(rest, self.folder / f"patch-{number}.json")
                if said.rc:
                    return said.words
            try:
                tools.write_rows(straight, now, stage)
                if stage is self.way.first:
                    tools.delete_rows(patch.GROUPS, self.way.gone)
            except ToolError as exc:
                return str(exc)
            now = stage
        return self._make_derived()

    def _make_derived(self) -> str:
        missing = (
            set(self.way.made) - set(tools.read_config().get(patch.GROUPS, {})) if self.way.made else set()
        )
        ops = [{"path": f"/{patch.GROUPS}/{key}"} for key in sorted(missing)]
        try:
            tools.write_rows(ops, {}, self.target)
        except ToolError as exc:
            return str(exc)
        return ""


def _illegal(words: str) -> tuple[str, ...]:
    return tuple(name for found in _ILLEGAL.findall(words) for name in found if name)


def _is_watchdog(op: dict[str, object]) -> bool:
    return str(op["path"]).split("/")[1] == patch.WATCHDOG


def _wait(up: Iterable[str], ports: Sequence[str], box: Box) -> dict[str, str]:
    """Wait for links and for rows of the buffer manager; return by port what did not come."""
    until = time.monotonic() + UP_S
    while True:
        missing = _missing(list(up), ports, box)
        if not missing or time.monotonic() > until:
            return missing
        time.sleep(_POLL_S)


def _missing(up: list[str], ports: Sequence[str], box: Box) -> dict[str, str]:
    state = tools.links(up) if up else {}
    down = f"the link is not up again after {UP_S} s"
    missing = {port: down for port, is_up in state.items() if not is_up}
    config = tools.read_config()
    if not chain.is_dynamic(config):
        for port in ports:
            with contextlib.suppress(Odd):
                if buffers.awaited(config, port, box):
                    missing[port] = f"lossless_buffers: the buffer manager made no headroom within {UP_S} s"
    return missing


def _report(goals: Iterable[Goal], refused: dict[str, list[str]], late: dict[str, str], why: str) -> int:
    failed = False
    for goal in goals:
        reasons = refused.get(goal.port) or [each for each in (why, late.get(goal.port, "")) if each]
        for reason in reasons:
            _tell(f"{goal.port}: {reason}")
        _say(f"{MARK} {goal.port} {int(bool(reasons))}")
        failed = failed or bool(reasons)
    return int(failed)


def _keep(folder: Path, undo: patch.Undo, goals: Iterable[Goal]) -> None:
    (folder / "undo.json").write_text(json.dumps(undo), encoding="utf-8")
    (folder / "ports.json").write_text(json.dumps([goal.port for goal in goals]), encoding="utf-8")


def _arm(folder: Path, within_s: int) -> None:
    unit = f"fabricctl-revert-{folder.name}"
    said = tools.run(
        "systemd-run",
        "--quiet",
        "--collect",
        f"--unit={unit}",
        f"--on-active={within_s}s",
        "--timer-property=AccuracySec=1s",
        "/bin/sh",
        str(folder / "revert.sh"),
    )
    if said.rc:
        tools.run("config", "delete-checkpoint", _checkpoint_of(folder))
        shutil.rmtree(str(folder), ignore_errors=True)
        why = "the timer that would revert could not be started (systemd-run); nothing was changed"
        raise Ended(RC_UNARMED, f"{why}: {said.words}")


# Revert


def _revert(apply_id: str, ports: Sequence[str]) -> int:
    with _locked(REVERT_LOCK_S):
        folders = _folders(apply_id)
        if not folders:
            return 0
        if not ports:
            for folder in folders:
                (folder / "reverting").touch()
        current = tools.read_config()
        target = current
        for folder in reversed(folders):
            target = patch.undone(target, _read(folder / "undo.json"), ports)
        change = _Change(current, target, folders[0])
        up = change.was_up()
        why = change.rehearse() or change.make()
        if why and not ports:
            why = _roll_back(folders[0], target, why)
        if not why:
            _wait(up, list(ports), tools.read_box(current))
        for port in ports:
            _say(f"{MARK} {port} {int(bool(why))}")
        if why:
            raise Ended(1, f"not reverted: {why}")
        _settle(folders, ports)
        return 0


def _roll_back(first: Path, target: Config, why: str) -> str:
    """Let SONiC itself roll back where that takes back nothing but ours; return why it is not done.

    It is not the first means: its updater may add a row before it removes another that overlaps, and start a
    watchdog before PFC is on.
    """
    name = _checkpoint_of(first)
    if buffers.without_derived(target) != buffers.without_derived(tools.read_checkpoint(name)):
        return why
    said = tools.run("config", "rollback", name)
    return f"{why}; config rollback: {said.words}" if said.rc else ""


def _settle(folders: Sequence[Path], ports: Sequence[str]) -> None:
    """Forget what is taken back; a push of which all ports are stays known until the apply is confirmed."""
    left = []
    for folder in folders:
        rest = [port for port in _read(folder / "ports.json") if ports and port not in ports]
        if rest:
            (folder / "ports.json").write_text(json.dumps(rest), encoding="utf-8")
            _forget_ports(folder, ports)
            left.append(folder)
        else:
            tools.run("systemctl", "stop", f"fabricctl-revert-{folder.name}.timer")
            (folder / "settled").touch()
    if all((folder / "settled").exists() for folder in folders):
        for folder in folders:
            _remove(folder)


def _forget_ports(folder: Path, ports: Sequence[str]) -> None:
    """Take ports out of what an undo restores: they are as they were, and may have changed since."""
    undo = _read(folder / "undo.json")
    for table in undo:
        undo[table] = {key: row for key, row in undo[table].items() if key.partition("|")[0] not in ports}
    (folder / "undo.json").write_text(json.dumps(undo), encoding="utf-8")


# Confirm


def _confirm(apply_id: str, slots: Sequence[str]) -> int:
    with _locked(LOCK_S):
        folders = [RUN / f"{apply_id}.{slot}" for slot in slots]
        for folder in folders:
            if not folder.is_dir() or (folder / "reverting").exists():
                raise Ended(RC_TOO_LATE, f"{folder.name} was reverted before it was confirmed")
        _refuse_others(apply_id)
        # First saved, then stopped: if it cannot be saved, the switch takes the change back by itself.
        tools.must("config", "save", "-y")
        for folder in folders:
            unit = f"fabricctl-revert-{folder.name}"
            tools.run("systemctl", "stop", f"{unit}.timer", f"{unit}.service")
            _remove(folder)
        return 0


# What lies on the switch


def _folders(apply_id: str) -> list[Path]:
    """Return the pushes of an apply, the earliest first."""
    found = sorted(path for path in RUN.glob("*.*") if _SLOT.fullmatch(path.name))
    return [path for path in found if path.name.rpartition(".")[0] == apply_id]


def _refuse_others(apply_id: str) -> None:
    """End if another apply waits to be confirmed; forget what is left of those that have no timer."""
    live = []
    for folder in sorted(path for path in RUN.glob("*.*") if _SLOT.fullmatch(path.name)):
        other = folder.name.rpartition(".")[0]
        if other == apply_id:
            live.append(_checkpoint_of(folder))
        elif tools.run("systemctl", "is-active", "--quiet", f"fabricctl-revert-{folder.name}.timer").rc == 0:
            step = "confirm it or let its timer revert it"
            raise Ended(RC_BUSY, f"{other} waits to be confirmed here; {step}")
        else:
            _remove(folder)
    for name in tools.checkpoints():
        if name not in live:
            tools.run("config", "delete-checkpoint", name)


def _remove(folder: Path) -> None:
    if _checkpoint_of(folder) in tools.checkpoints():
        tools.run("config", "delete-checkpoint", _checkpoint_of(folder))
    shutil.rmtree(str(folder), ignore_errors=True)


def _checkpoint(apply_id: str, slot: str) -> str:
    return f"fabricctl-{apply_id}-{slot}"


def _checkpoint_of(folder: Path) -> str:
    apply_id, _, slot = folder.name.rpartition(".")
    return _checkpoint(apply_id, slot)


@contextlib.contextmanager
def _locked(longest_s: int) -> Iterator[None]:
    """Hold the lock that all changes of ours on a device take; the descriptor is not handed on."""
    RUN.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (RUN / "lock").open("w") as file:
        until = time.monotonic() + longest_s
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > until:
                    step = "try again when it is done"
                    raise Ended(RC_BUSY, f"another change is at work on this device; {step}") from None
                time.sleep(_POLL_S)
        yield


def _read(file: Path) -> Any:
    return json.loads(file.read_text(encoding="utf-8"))


def _say(line: str) -> None:
    # A connection that broke must not end the change halfway.
    with contextlib.suppress(OSError):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def _tell(line: str) -> None:
    with contextlib.suppress(OSError):
        plain = " ".join(line.split()).encode("ascii", "replace").decode()
        sys.stderr.write(f"fabricctl: {plain}\n")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
