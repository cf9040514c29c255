"""``config apply-patch``, ``checkpoint`` and ``rollback`` as SONiC's updater does them, words included."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yang
from daemons import Daemons
from resp import CONFIG_DB, Redis, load, store

FLAPPING = ("BUFFER_PG", "BUFFER_QUEUE", "PORT_QOS_MAP", "QUEUE")
LISTED = ("ACS-MSN2700", "ACS-MSN3700", "Arista-7060CX-32S-C32")
"""Hardware SKUs on which the updater changes PFC_WD."""
_BACKEND = ("BUFFER_PG", "BUFFER_PROFILE", "FLEX_COUNTER_TABLE")
_VALIDATOR = "generic_config_updater.field_operation_validators.rdma_config_update_validator"


class UpdaterError(Exception):
    """What the updater ends with."""


class Updater:
    """The updater on one switch; `say` prints a line."""

    def __init__(self, folder: Path, faults: dict[str, Any], say: Any) -> None:
        self.folder, self.faults, self.say = folder, faults, say
        self.daemons = Daemons(folder, faults)
        self.checkpoints = folder / "etc/sonic/checkpoints"

    def now(self) -> dict[str, Any]:
        redis = Redis(str(self.folder / "redis.sock"), CONFIG_DB)
        config = load(redis)
        redis.close()
        return config

    def write(self, old: dict[str, Any], new: dict[str, Any], *, publish: bool = True) -> dict[str, Any]:
        """Write a change and what the daemons make of it; return what came of both."""
        redis = Redis(str(self.folder / "redis.sock"), CONFIG_DB)
        store(redis, old, new)
        after = self.daemons.react(old, new)
        store(redis, new, after)
        redis.close()
        if publish:
            self.daemons.publish(after)
        return after

    def apply(self, patch: list[dict[str, Any]], *, dry: bool) -> None:
        """Apply a patch, or say what would be done."""
        old = self.now()
        target = self._simulated(patch, old)
        said = self.faults.get("refuse_dry" if dry else "refuse")
        if said:
            raise UpdaterError(said)
        for line in (
            "Patch application starting.",
            f"Patch: {json.dumps(patch)}",
        ):
            self.say(f"Patch Applier: localhost: {line}")
        self.say("Patch Applier: localhost getting current config db.")
        self.say("Patch Applier: localhost: simulating the target full config after applying the patch.")
        validating = "validating all JsonPatch operations are permitted on the specified fields"
        self.say(f"Patch Applier: localhost: {validating}")
        self._permitted(old, target)
        self.say("Patch Applier: localhost: validating target config does not have empty tables,")
        self.say("                            since they do not show up in ConfigDb.")
        empty = ", ".join(table for table, rows in target.items() if not rows)
        if empty:
            what = f"it will result in empty tables which is not allowed in ConfigDb. Table: {empty}"
            raise UpdaterError(f"localhost: given patch is not valid because {what}")
        self.say("Patch Applier: localhost: sorting patch updates.")
        changes = list(_sorted(patch, old))
        count = len(changes)
        plural = "" if count == 1 else "s"
        colon = ":" if count else "."
        self.say(f"Patch Applier: The localhost patch was converted into {count} change{plural}{colon}")
        self.say(f"Patch Applier: localhost: applying {count} change{plural} in order{colon}")
        now = old
        for number, change in enumerate(changes, 1):
            self.say(f"Patch Applier:   * {json.dumps(change)}")
            if dry:
                self.say(f"** DryRun: Would apply {json.dumps(change)}")
                continue
            if self.faults.get("break_after") == number - 1:
                raise UpdaterError("the updater was interrupted")
            time.sleep(self.faults.get("slow_s", 0))
            now = self.write(now, self._rounded(patched(now, change)), publish=number == count)
        self.say("Patch Applier: localhost: verifying patch updates are reflected on ConfigDB.")
        if not dry and not self.faults.get("round") and _front(self.now()) != _front(target):
            raise UpdaterError(
                "localhost: after applying patch to config, there are still some parts not updated"
            )
        self.say("Patch Applier: localhost patch application completed.")

    def checkpoint(self, name: str) -> None:
        self.say("Config Rollbacker: Config checkpoint starting.")
        self.say(f"Config Rollbacker: Checkpoint name: {name}.")
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        self._file(name).write_text(json.dumps(self.now()))
        self.say("Config Rollbacker: Config checkpoint completed.")
        self.say("Checkpoint created successfully.")

    def delete(self, name: str) -> None:
        if not self._file(name).exists():
            raise UpdaterError(f"Checkpoint '{name}' does not exist")
        self._file(name).unlink()
        self.say("Checkpoint deleted successfully.")

    def names(self) -> list[str]:
        return sorted(file.name.removesuffix(".cp.json") for file in self.checkpoints.glob("*.cp.json"))

    def rollback(self, name: str) -> None:
        self.say("Config Rollbacker: Config rollbacking starting.")
        self.say(f"Config Rollbacker: Checkpoint name: {name}.")
        if not self._file(name).exists():
            raise UpdaterError(f"Checkpoint '{name}' does not exist")
        said = self.faults.get("refuse_rollback")
        if said:
            raise UpdaterError(said)
        target = json.loads(self._file(name).read_text())
        self.apply(difference(self.now(), target), dry=False)
        self.say("Config Rollbacker: Config rollbacking completed.")
        self.say("Config rolled back successfully.")

    def _file(self, name: str) -> Path:
        return self.checkpoints / f"{name}.cp.json"

    def _simulated(self, patch: list[dict[str, Any]], old: dict[str, Any]) -> dict[str, Any]:
        try:
            target = patched(old, patch)
        except KeyError as exc:
            raise UpdaterError(
                f"Validate json patch: {patch} failed due to: member {exc} not found in {old}"
            ) from exc
        wrong = yang.complaint(target)
        if wrong:
            why = f"Data Loading Failed\nfailed to parse data tree: {wrong}"
            raise UpdaterError(f"Validate json patch: {patch} failed due to: {why}")
        return target

    def _permitted(self, old: dict[str, Any], target: dict[str, Any]) -> None:
        sku = old.get("DEVICE_METADATA", {}).get("localhost", {}).get("hwsku", "")
        for op in difference(old, target):
            table = op["path"].split("/")[1]
            if op["op"] == "remove" and op["path"] in {"/PFC_WD/GLOBAL", "/PFC_WD/GLOBAL/POLL_INTERVAL"}:
                what = f"Operation: remove is illegal on field: {op['path']}"
                raise UpdaterError(f"Given patch operation is invalid. {what}")
            if (table == "PFC_WD" and sku not in LISTED) or table == "BUFFER_POOL":
                what = f"validating function {_VALIDATOR} returned False"
                raise UpdaterError(f"Modification of {table} table is illegal- {what}")

    def _rounded(self, config: dict[str, Any]) -> dict[str, Any]:
        step = self.faults.get("round", 0)
        if step:
            for fields in config.get("WRED_PROFILE", {}).values():
                for name in list(fields):
                    if name.endswith("_threshold"):
                        fields[name] = str(int(fields[name]) // step * step)
        return config


def patched(config: dict[str, Any], patch: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a configuration with an RFC 6902 patch; KeyError names what is not there."""
    found = dict(config)
    for op in patch:
        *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in op["path"].split("/")[1:]]
        place = found
        for part in parents:
            # Only what changes is copied.
            place[part] = dict(place[part])
            place = place[part]
        if op["op"] in {"remove", "replace"} and last not in place:
            raise KeyError(last)
        if op["op"] == "remove":
            del place[last]
        else:
            place[last] = json.loads(json.dumps(op["value"]))
    return found


def difference(old: dict[str, Any], new: dict[str, Any], path: str = "") -> list[dict[str, Any]]:
    """Return the patch from one tree to another."""
    found: list[dict[str, Any]] = []
    for key in sorted(set(old) | set(new)):
        place = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
        if key not in new:
            found.append({"op": "remove", "path": place})
        elif key not in old:
            found.append({"op": "add", "path": place, "value": new[key]})
        elif isinstance(old[key], dict) and isinstance(new[key], dict):
            found += difference(old[key], new[key], place)
        elif old[key] != new[key]:
            found.append({"op": "replace", "path": place, "value": new[key]})
    return found


def _front(config: dict[str, Any]) -> dict[str, Any]:
    return {table: rows for table, rows in config.items() if table not in _BACKEND}


def _sorted(patch: list[dict[str, Any]], config: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """Yield changes in an order that keeps references whole, with ports off for what needs it."""
    switched = {op["path"].split("/")[2]: op for op in patch if op["path"].endswith("/admin_status")}
    plain: list[dict[str, Any]] = []
    by_port: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for op in patch:
        parts = op["path"].split("/")[1:]
        keys = parts[1:2] or list(op.get("value") or config.get(parts[0], {}))
        ports = sorted({key.partition("|")[0] for key in keys} - {"global"})
        if parts[0] in FLAPPING and ports:
            by_port.setdefault(tuple(ports), []).append(op)
        elif op not in switched.values():
            plain.append(op)
    yield from ([op] for op in switched.values() if op["value"] == "down")
    yield from ([op] for op in plain if op["op"] != "remove")
    for ports, ops in by_port.items():
        on = [port for port in ports if config.get("PORT", {}).get(port, {}).get("admin_status") == "up"]
        on = [port for port in on if port not in switched]
        yield from ([_admin(port, "down")] for port in on)
        # SONiC knows nothing of ranges: what overlaps may be added before the other is removed.
        yield from ([op] for op in ops)
        yield from ([_admin(port, "up")] for port in on)
    yield from ([op] for op in switched.values() if op["value"] == "up")
    yield from ([op] for op in plain if op["op"] == "remove")


def _admin(port: str, value: str) -> dict[str, Any]:
    return {"op": "replace", "path": f"/PORT/{port}/admin_status", "value": value}
