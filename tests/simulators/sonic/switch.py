"""A SONiC switch for tests: real scripts under /bin/sh, a real Redis behind stand-ins for SONiC's programs.

Paths of the switch in a script become paths in a private folder, so that the very text that is pushed is what
runs. A line or a patch that SONiC would refuse is refused in its words.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import Any

CODE = Path(__file__).resolve().parent
if str(CODE) not in sys.path:
    sys.path.append(str(CODE))

import daemons  # noqa: E402  it lies beside this file, in a folder that is no package
import programs  # noqa: E402
import updater  # noqa: E402
from resp import CONFIG_DB, COUNTERS_DB, STATE_DB, Redis, load, store  # noqa: E402

_MOVED = ("/run/fabricctl", "/etc/sonic", "/usr/share/sonic", "/sys/class/net", "/proc/sys/kernel")
VERSION = "SONiC.20241110.12"


class Switch:
    """One switch in a folder; close it to stop its Redis."""

    def __init__(self, folder: Path, config: dict[str, Any], asic: str = "mellanox") -> None:
        self.folder = folder
        for name in ("bin", "timers", "run", "etc/sonic", "calls"):
            (folder / name).mkdir(parents=True)
        for name in programs.PROGRAMS:
            (folder / "bin" / name).symlink_to(CODE / "client")
        # A UNIX socket's path must be short.
        self._socket = Path(tempfile.mkdtemp(prefix="sonic-")) / "redis.sock"
        (folder / "redis.sock").symlink_to(self._socket)
        self._redis = subprocess.Popen(
            [
                "redis-server",
                "--port",
                "0",
                "--unixsocket",
                str(self._socket),
                "--save",
                "",
                "--dir",
                str(folder),
            ],
            stdout=subprocess.DEVNULL,
        )
        self._wait()
        os.mkfifo(folder / "calls/requests")
        self._requests = os.open(folder / "calls/requests", os.O_RDWR)
        threading.Thread(target=self._serve, daemon=True).start()
        self._image(config, asic)
        self.restart(config)
        self.save()
        self.log()

    def _wait(self) -> None:
        until = time.monotonic() + 20
        while True:
            try:
                self._open(CONFIG_DB).close()
            except OSError:
                if time.monotonic() > until or self._redis.poll() is not None:
                    self._redis.kill()
                    self._redis.wait()
                    message = "redis-server did not start"
                    raise RuntimeError(message) from None
                time.sleep(0.01)
            else:
                return

    def _serve(self) -> None:
        """Play the calls of programs until it is closed."""
        with os.fdopen(os.dup(self._requests), closefd=True) as requests:
            for line in iter(requests.readline, ""):
                if line == "end\n":
                    return
                file = self.folder / "calls" / line.strip()
                name, *words = file.with_suffix(".args").read_text().split("\0")[:-1]
                call = programs.Call(self.folder)
                try:
                    status = call.run(name, words)
                except Exception:  # noqa: BLE001  the test that called it sees why
                    call.err.append(traceback.format_exc())
                    status = 70
                file.with_suffix(".out").write_text("".join(call.out))
                file.with_suffix(".err").write_text("".join(call.err))
                with file.open("w") as reply:
                    reply.write(f"{status}\n")

    def close(self) -> None:
        os.write(self._requests, b"end\n")
        os.close(self._requests)
        self._redis.kill()
        self._redis.wait()
        shutil.rmtree(self._socket.parent)

    # Its state

    def config(self) -> dict[str, Any]:
        """Return CONFIG_DB."""
        redis = self._open(CONFIG_DB)
        found = load(redis)
        redis.close()
        return found

    def restart(self, config: dict[str, Any]) -> None:
        """Begin anew with a configuration, as after a boot."""
        for database in (0, CONFIG_DB, COUNTERS_DB, STATE_DB):
            redis = self._open(database)
            redis.call("FLUSHDB")
            redis.close()
        updater.Updater(self.folder, self.faults(), lambda _: None).write({}, config)
        self.count()

    def reboot(self) -> None:
        """Lose what is in memory; begin with what is saved."""
        for name in ("run", "timers"):
            shutil.rmtree(self.folder / name)
            (self.folder / name).mkdir()
        self.restart(json.loads((self.folder / "etc/sonic/config_db.json").read_text()))

    def change(self, table: str, key: str, **fields: str | None) -> None:
        """Change a row behind everybody's back; None takes a field away, no fields the row."""
        old = self.config()
        new = json.loads(json.dumps(old))
        rows = new.setdefault(table, {})
        row = {**rows.get(key, {}), **fields}
        rows[key] = {name: value for name, value in row.items() if value is not None}
        if not fields or not rows[key]:
            del rows[key]
        redis = self._open(CONFIG_DB)
        store(redis, old, new)
        watching = daemons.Daemons(self.folder, self.faults())
        after = watching.react(old, new)
        store(redis, new, after)
        redis.close()
        watching.publish(after)

    def row(self, table: str, key: str) -> dict[str, str] | None:
        found: dict[str, str] | None = self.config().get(table, {}).get(key)
        return found

    def save(self) -> None:
        (self.folder / "etc/sonic/config_db.json").write_text(json.dumps(self.config(), indent=4))

    def count(self, **queue_3: str) -> None:
        """Give the ports counters; more of queue 3 by field."""
        redis = self._open(COUNTERS_DB)
        for number, port in enumerate(self.config()["PORT"], 1):
            oid = f"oid:0x10000000000{number:02x}"
            rows = {"SAI_PORT_STAT_IF_IN_ERRORS": "0", "SAI_PORT_STAT_IF_OUT_DISCARDS": "7"}
            rows |= {
                f"SAI_PORT_STAT_PFC_{p}_{way}_PKTS": str(100 * p) for p in range(8) for way in ("RX", "TX")
            }
            self._counters(redis, "COUNTERS_PORT_NAME_MAP", port, oid, rows)
            for index in range(8):
                of_queue = {
                    "SAI_QUEUE_STAT_PACKETS": "1234",
                    "SAI_QUEUE_STAT_DROPPED_PACKETS": "5",
                    "SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS": "9",
                }
                of_queue |= queue_3 if index == 3 else {}
                name = f"{port}:{index}"
                self._counters(redis, "COUNTERS_QUEUE_NAME_MAP", name, f"{oid}q{index}", of_queue)
                self._counters(redis, "COUNTERS_PG_NAME_MAP", name, f"{oid}g{index}", {})
                peaks = {
                    f"USER_WATERMARKS:{oid}q{index}": ("SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES", "4096"),
                    f"USER_WATERMARKS:{oid}g{index}": (
                        "SAI_INGRESS_PRIORITY_GROUP_STAT_XOFF_ROOM_WATERMARK_BYTES",
                        "208",
                    ),
                }
                redis.calls([("HSET", key, *pair) for key, pair in peaks.items()])
        redis.close()

    @staticmethod
    def _counters(redis: Redis, table: str, name: str, oid: str, fields: dict[str, str]) -> None:
        redis.call("HSET", table, name, oid)
        if fields:
            redis.call("HSET", f"COUNTERS:{oid}", *(word for pair in fields.items() for word in pair))

    def _open(self, database: int) -> Redis:
        return Redis(str(self._socket), database)

    def _image(self, config: dict[str, Any], asic: str) -> None:
        said = config["DEVICE_METADATA"]["localhost"]
        rows = "".join(
            f"{speed} {length} 0 {xon} {xoff} 0\n" for (speed, length), (xon, xoff) in daemons.LOOKUP.items()
        )
        folder = f"usr/share/sonic/device/{said['platform']}"
        files = {
            "etc/sonic/sonic_version.yml": f"build_version: '{VERSION}'\nasic_type: {asic}\n",
            f"{folder}/asic.conf": "NUM_ASIC=1\n",
            f"{folder}/{said['hwsku']}/pg_profile_lookup.ini": f"# PG lossless profiles.\n{rows}",
            "proc/sys/kernel/random/boot_id": "5f0ce2d1-2a63-4d7c-9a4e-0f1c4d1f7f11\n",
            "proc/sys/kernel/osrelease": "6.1.0-29-2-amd64\n",
            "lldp.json": json.dumps(
                {"lldp": [{"interface": [self._neighbour(port) for port in config["PORT"]]}]}
            ),
        }
        for port in config["PORT"]:
            files |= {
                f"sys/class/net/{port}/address": "00:01:02:03:04:05\n",
                f"sys/class/net/{port}/carrier_down_count": "2\n",
                f"sys/class/net/{port}/mtu": "9100\n",
            }
        for path, text in files.items():
            self.file(path, text)

    def file(self, path: str, text: str) -> None:
        """Write a file of the switch."""
        target = self.folder / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)

    @staticmethod
    def _neighbour(port: str) -> dict[str, Any]:
        number = port.removeprefix("Ethernet")
        return {
            "name": port,
            "via": "LLDP",
            "chassis": [{"id": [{"type": "mac", "value": "00:00"}], "name": [{"value": f"node{number}"}]}],
            "port": [{"id": [{"type": "ifname", "value": "eth1"}]}],
        }

    # What goes wrong, and what was done

    def fail(self, **faults: Any) -> None:
        """Set what goes wrong from now on; nothing if no fault is given."""
        (self.folder / "faults.json").write_text(json.dumps(faults))

    def faults(self) -> dict[str, Any]:
        file = self.folder / "faults.json"
        return json.loads(file.read_text()) if file.exists() else {}

    def log(self) -> list[str]:
        """Return the programs that were called since the last call."""
        file = self.folder / "log"
        lines = file.read_text().splitlines() if file.exists() else []
        file.write_text("")
        return lines

    def syslog(self) -> list[str]:
        """Return what the daemons complained about."""
        file = self.folder / "syslog"
        return file.read_text().splitlines() if file.exists() else []

    def timers(self) -> list[str]:
        return sorted(file.name for file in (self.folder / "timers").iterdir())

    def leftovers(self) -> list[str]:
        """Return what lies there of a change: folders and checkpoints."""
        places = (self.folder / "run/fabricctl", self.folder / "etc/sonic/checkpoints")
        files = [file.name for place in places if place.is_dir() for file in place.iterdir()]
        return sorted(name for name in files if name != "lock")

    def fire(self) -> list[subprocess.CompletedProcess[str]]:
        """Let the timers run out, the earliest first."""
        done = []
        for timer in sorted((self.folder / "timers").glob("*.timer")):
            if timer.exists():
                script = timer.read_text().splitlines()[-1]
                timer.unlink()
                done.append(self.shell(f"/bin/sh {script}\n"))
        return done

    # Running scripts

    def here(self, text: str) -> str:
        """Return a script with the switch's paths as paths in the folder."""
        for path in _MOVED:
            text = text.replace(path, f"{self.folder}{path}")
        return text

    def environment(self) -> dict[str, str]:
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
            "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin",
            "SONIC_SIM": str(self.folder),
        }

    def shell(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a script that has paths of the folder already."""
        return subprocess.run(
            ["/bin/sh", "-s"],
            input=script,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env=self.environment(),
        )

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run what is pushed, as the switch would."""
        done = self.shell(self.here(script))
        done.stdout = done.stdout.replace(str(self.folder), "")
        done.stderr = done.stderr.replace(str(self.folder), "")
        return done
