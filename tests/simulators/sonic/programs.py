"""SONiC's programs, and systemd's, by the name that they are called by."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import daemons
import updater
from resp import APPL_DB, CONFIG_DB, COUNTERS_DB, STATE_DB, Redis, RedisError

DATABASES = {"CONFIG_DB": CONFIG_DB, "APPL_DB": APPL_DB, "COUNTERS_DB": COUNTERS_DB, "STATE_DB": STATE_DB}
_HEADS = {"apply-patch": "Failed to apply patch due to:", "rollback": "Failed to rollback config"}


class Call:
    """One call of a program: what it prints, and how it ends."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out: list[str] = []
        self.err: list[str] = []
        file = folder / "faults.json"
        self.faults: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
        self.updater = updater.Updater(folder, self.faults, self.say)

    def say(self, line: object) -> None:
        self.out.append(f"{line}\n")

    def run(self, name: str, words: list[str]) -> int:
        """Do what the program does; what it does not know is an error."""
        with (self.folder / "log").open("a") as file:
            file.write(f"{name} {' '.join(words)[:300]}\n")
        try:
            return PROGRAMS[name](self, words)
        except RedisError as exc:
            self.err.append(f"{exc}\n")
            return 1

    def refused(self, program: str, words: list[str]) -> int:
        self.err.append(f"Usage: {program} [OPTIONS] COMMAND [ARGS]...\nTry '{program} -h' for help.\n\n")
        self.err.append(f'Error: No such command "{words[0] if words else ""}".\n')
        return 2


def _cfggen(call: Call, words: list[str]) -> int:
    if words != ["-d", "--print-data"]:
        return call.refused("sonic-cfggen", words)
    call.say(json.dumps(call.updater.now(), indent=4, sort_keys=True))
    return 0


def _db_cli(call: Call, words: list[str]) -> int:
    changes = words[0] == "CONFIG_DB" and words[1].lower() in {"hset", "hdel", "del"}
    before = call.updater.now() if changes else {}
    redis = Redis(str(call.folder / "redis.sock"), DATABASES[words[0]])
    answer = redis.call(*words[1:])
    redis.close()
    if changes:
        now = call.updater.now()
        call.updater.write(now, daemons.Daemons(call.folder, call.faults).react(before, now))
    for line in answer if isinstance(answer, list) else [answer]:
        call.say("" if line is None else line)
    return 0


def _config(call: Call, words: list[str]) -> int:
    verb, rest = words[0], words[1:]
    if verb not in _CONFIG:
        return call.refused("config", words)
    try:
        return _CONFIG[verb](call, rest)
    except updater.UpdaterError as exc:
        call.err.append(f"{_HEADS.get(verb, 'Failed')} {exc}\n")
        call.err.append(f"Usage: config {verb} [OPTIONS]\nTry 'config {verb} -h' for help.\n\nError: {exc}\n")
        return 2


def _apply_patch(call: Call, words: list[str]) -> int:
    dry = "-d" in words
    if dry:
        call.say("** DRY RUN EXECUTION **")
    elif call.faults.get("drop_session"):
        (call.folder / "drop").touch()
    call.updater.apply(json.loads(Path(words[-1]).read_text()), dry=dry)
    call.say("Patch applied successfully.")
    return 0


def _save(call: Call, words: list[str]) -> int:
    said = call.faults.get("refuse_save")
    if words != ["-y"] or said:
        raise updater.UpdaterError(said or "Aborted!")
    file = call.folder / "etc/sonic/config_db.json"
    file.write_text(json.dumps(call.updater.now(), indent=4, sort_keys=True))
    call.say(f"Running command: /usr/local/bin/sonic-cfggen -d --print-data > {file}")
    return 0


def _interface(call: Call, words: list[str]) -> int:
    verb, port = words[0], words[1]
    now = call.updater.now()
    if verb not in {"startup", "shutdown"} or port not in now["PORT"]:
        call.err.append("Error: Interface name is invalid. Please enter a valid interface name!!\n")
        return 2
    row = {**now["PORT"][port], "admin_status": "up" if verb == "startup" else "down"}
    call.updater.write(now, {**now, "PORT": {**now["PORT"], port: row}})
    return 0


def _checkpoint(call: Call, words: list[str]) -> int:
    call.updater.checkpoint(words[0])
    return 0


def _delete(call: Call, words: list[str]) -> int:
    call.updater.delete(words[0])
    return 0


def _rollback(call: Call, words: list[str]) -> int:
    call.updater.rollback(words[0])
    return 0


def _names(call: Call, _words: list[str]) -> int:
    call.say(json.dumps(call.updater.names(), indent=4))
    return 0


_CONFIG: Mapping[str, Callable[[Call, list[str]], int]] = {
    "apply-patch": _apply_patch,
    "checkpoint": _checkpoint,
    "delete-checkpoint": _delete,
    "interface": _interface,
    "list-checkpoints": _names,
    "rollback": _rollback,
    "save": _save,
}


def _show(call: Call, words: list[str]) -> int:
    if words != ["pfc", "priority"]:
        return call.refused("show", words)
    rows = call.updater.now().get("PORT_QOS_MAP", {})
    call.say("\nInterface    Lossless priorities\n-----------  ---------------------")
    for port in sorted(set(rows) - {"global"}):
        call.say(f"{port:<11}  {rows[port].get('pfc_enable', 'N/A')}")
    call.say("")
    return 0


def _systemd_run(call: Call, words: list[str]) -> int:
    unit = next(word.removeprefix("--unit=") for word in words if word.startswith("--unit="))
    timer = call.folder / "timers" / f"{unit}.timer"
    if call.faults.get("no_timers") or timer.exists():
        call.err.append(f"Failed to start transient timer unit: Unit {unit}.timer was already loaded.\n")
        return 1
    timer.write_text("\n".join(words))
    return 0


def _systemctl(call: Call, words: list[str]) -> int:
    present = [call.folder / "timers" / unit for unit in words[1:] if not unit.startswith("-")]
    if words[0] == "is-active":
        return 0 if all(unit.exists() for unit in present) else 3
    for unit in present:
        unit.unlink(missing_ok=True)
    return 0


def _lldpctl(call: Call, _words: list[str]) -> int:
    call.out.append((call.folder / "lldp.json").read_text())
    return 0


PROGRAMS: Mapping[str, Callable[[Call, list[str]], int]] = {
    "config": _config,
    "lldpctl": _lldpctl,
    "show": _show,
    "sonic-cfggen": _cfggen,
    "sonic-db-cli": _db_cli,
    "systemctl": _systemctl,
    "systemd-run": _systemd_run,
}
