"""SONiC's own programs, and systemd's, as the switch has them."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple, Sequence

from fabricctl.drivers.switch.sonic.node import box as boxes
from fabricctl.drivers.switch.sonic.node.chain import Box
from fabricctl.drivers.switch.sonic.node.tables import Config, config_of

CHECKPOINTS = Path("/etc/sonic/checkpoints")
SUFFIX = ".cp.json"

_OPER = """\
local found = {}
for _, port in ipairs(ARGV) do found[port] = redis.call('HGET', 'PORT_TABLE:' .. port, 'oper_status') end
return cjson.encode(found)
"""
_USAGE = re.compile(r"^(Usage|Try) ")
_SHOWN = 600


class Said(NamedTuple):
    """What a program printed, and how it ended."""

    rc: int
    stdout: str
    stderr: str

    @property
    def words(self) -> str:
        """What it said last, as one line: ``Error: ...`` of SONiC's programs may be several lines."""
        lines = [line.strip() for line in (self.stderr or self.stdout).splitlines() if line.strip()]
        lines = [line for line in lines if not _USAGE.match(line)]
        starts = [at for at, line in enumerate(lines) if line.startswith("Error: ")]
        told = lines[starts[-1] :] if starts else lines[-1:]
        return " ".join(told)[:_SHOWN] or f"it ended with exit status {self.rc}"


class ToolError(Exception):
    """A program of the switch failed; the message is what it said."""


def run(*argv: str) -> Said:
    """Run a program without input; one that is not there ends like in a shell."""
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except OSError as exc:
        return Said(127, "", f"{argv[0]}: {exc.strerror}")
    return Said(done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def must(*argv: str) -> str:
    """Run a program and return what it printed; ToolError if it fails."""
    said = run(*argv)
    if said.rc:
        raise ToolError(f"{' '.join(argv[:2])}: {said.words}")
    return said.stdout


def read_config() -> Config:
    """Return CONFIG_DB as it is now; ToolError if it cannot be had."""
    try:
        return config_of(json.loads(must("sonic-cfggen", "-d", "--print-data")))
    except ValueError as exc:
        raise ToolError(f"sonic-cfggen: {exc}") from None


def read_box(config: Config) -> Box:
    """Return what the image's files say of this switch; a file that is not there says nothing."""
    folders = boxes.folders(config)
    asics = _text(folders[0] + "/asic.conf") if folders else ""
    lookup = _text(folders[1] + "/pg_profile_lookup.ini") if folders else ""
    return boxes.box_of(config, _text(boxes.VERSION_FILE), asics, lookup)


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def patch(ops: Sequence[dict[str, Any]], file: Path, *, dry: bool = False) -> Said:
    """Give SONiC's updater a patch; it validates the whole configuration before it changes anything."""
    file.write_text(json.dumps(ops, indent=1), encoding="utf-8")
    return run("config", "apply-patch", *(["-d"] if dry else []), str(file))


def write_rows(ops: Sequence[dict[str, Any]], old: Config, target: Config) -> None:
    """Write the rows that patches change straight into CONFIG_DB; ToolError if that fails.

    Nothing validates them there: they must have been validated before. A row is written anew, not changed, as
    ``pfcwd start`` does it: the watchdog takes new times only so.
    """
    found = []
    for op in ops:
        parts = [part.replace("~1", "/").replace("~0", "~") for part in op["path"].split("/")[1:]]
        keys = parts[1:2] or sorted({*old.get(parts[0], {}), *target.get(parts[0], {})})
        found += [(parts[0], key) for key in keys]
    for table, key in dict.fromkeys(found):
        row = target.get(table, {}).get(key)
        must("sonic-db-cli", "CONFIG_DB", "del", f"{table}|{key}")
        if row:
            pairs = [word for name in sorted(row) for word in (name, row[name])]
            must("sonic-db-cli", "CONFIG_DB", "hset", f"{table}|{key}", *pairs)


def delete_rows(table: str, keys: Sequence[str]) -> None:
    """Take rows out of CONFIG_DB; one that is gone already is no error."""
    for key in keys:
        must("sonic-db-cli", "CONFIG_DB", "del", f"{table}|{key}")


def links(ports: Sequence[str]) -> dict[str, bool]:
    """Return by port whether its link is up; a port that is not said to be up is not."""
    said = run("sonic-db-cli", "APPL_DB", "EVAL", _OPER, "0", *ports)
    try:
        found = json.loads(said.stdout)
        return {port: found.get(port) == "up" for port in ports}
    except (ValueError, AttributeError):
        return dict.fromkeys(ports, False)


def checkpoints() -> list[str]:
    """Return the names of SONiC's checkpoints that are ours."""
    return sorted(file.name[: -len(SUFFIX)] for file in CHECKPOINTS.glob(f"fabricctl-*{SUFFIX}"))


def read_checkpoint(name: str) -> Config:
    """Return what a checkpoint holds; empty if it cannot be read."""
    try:
        return config_of(json.loads((CHECKPOINTS / (name + SUFFIX)).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}
