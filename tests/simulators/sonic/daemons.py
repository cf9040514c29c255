"""What SONiC's daemons make of a change of CONFIG_DB: buffermgrd, orchagent and the ports' links.

Only what fabricctl has to reckon with, after sonic-swss: derived rows of the traditional buffer model,
computed headroom, links that follow ``admin_status``; and complaints about what orchagent cannot do.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from resp import APPL_DB, Redis

LOOKUP = {
    ("100000", "5m"): ("18432", "49152"),
    ("100000", "40m"): ("18432", "61440"),
    ("100000", "300m"): ("18432", "104448"),
}
"""Lines of pg_profile_lookup.ini: by speed and cable xon and xoff."""


class Daemons:
    """React to changes, one at a time."""

    def __init__(self, folder: Path, faults: dict[str, Any]) -> None:
        self.folder, self.faults = folder, faults

    def react(self, old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
        """Return CONFIG_DB as it is once the daemons have seen a change."""
        found = {
            **new,
            **{table: dict(new[table]) for table in ("BUFFER_PG", "BUFFER_PROFILE") if table in new},
        }
        if not is_dynamic(new):
            for port in new.get("PORT", {}):
                if _seen(old, port) != _seen(new, port):
                    self._traditional(found, port)
        self._watchdog(old, new)
        self._overlaps(found)
        return found

    def log(self, line: str) -> None:
        with (self.folder / "syslog").open("a") as file:
            file.write(line + "\n")

    def _traditional(self, config: dict[str, Any], port: str) -> None:
        enabled, speed, length, admin = _seen(config, port)
        profile = f"pg_lossless_{speed}_{length}_profile"
        groups = config.setdefault("BUFFER_PG", {})
        made = [f"{port}|{span}" for span in spans(enabled or "")]
        if admin == "down" and _mellanox(config):
            for key in made:
                if groups.get(key, {}).get("profile") == profile:
                    del groups[key]
        elif length == "0m" or enabled is None:
            return
        elif (speed, length) not in LOOKUP:
            what = f"No PG profile configured for speed {speed} and cable length {length}"
            self.log(f"Unable to create/update PG profile for port {port}. {what}")
        elif not self.faults.get("no_headroom"):
            xon, xoff = LOOKUP[speed, length]
            fields = {
                "pool": "ingress_lossless_pool",
                "xon": xon,
                "xoff": xoff,
                "size": "0",
                "dynamic_th": "0",
            }
            config.setdefault("BUFFER_PROFILE", {}).setdefault(profile, fields)
            for key in made:
                groups[key] = {"profile": profile}

    def _watchdog(self, old: dict[str, Any], new: dict[str, Any]) -> None:
        for port, row in new.get("PFC_WD", {}).items():
            if port == "GLOBAL":
                continue
            fresh = old.get("PFC_WD", {}).get(port) != row
            enabled = new.get("PORT_QOS_MAP", {}).get(port, {}).get("pfc_enable", "")
            had = old.get("PORT_QOS_MAP", {}).get(port, {}).get("pfc_enable", "")
            if not enabled and (fresh or had):
                self.log(f"Failed to start PFC Watchdog on port {port}")

    def _overlaps(self, config: dict[str, Any]) -> None:
        for table in ("BUFFER_PG", "BUFFER_QUEUE", "QUEUE"):
            seen: set[tuple[str, int]] = set()
            for key in config.get(table, {}):
                port, _, span = key.partition("|")
                first, _, last = span.partition("-")
                for index in range(int(first), int(last or first) + 1):
                    if (port, index) in seen:
                        self.log(f"{table}: {port}|{index} is set twice")
                    seen.add((port, index))

    def publish(self, config: dict[str, Any]) -> None:
        """Write what is in force to APPL_DB."""
        redis = Redis(str(self.folder / "redis.sock"), APPL_DB)
        stale = [key for pattern in ("BUFFER_*", "PORT_TABLE:*") for key in redis.call("KEYS", pattern)]
        commands: list[tuple[str, ...]] = [("DEL", key) for key in stale]
        dead = self.faults.get("dead_links", [])
        for port, fields in config.get("PORT", {}).items():
            up = fields.get("admin_status") == "up" and port not in dead
            words = (
                "oper_status",
                "up" if up else "down",
                "speed",
                fields.get("speed", "100000"),
                "fec",
                "rs",
            )
            commands.append(("HSET", f"PORT_TABLE:{port}", *words))
        for key, row in config.get("BUFFER_PG", {}).items():
            port, _, span = key.partition("|")
            name = row.get("profile", "NULL")
            if name == "NULL":
                length = config.get("CABLE_LENGTH", {}).get("AZURE", {}).get(port, "5m")
                name = f"pg_lossless_100000_{length}_mtu9216_profile"
                xoff = str(45056 + 200 * int(length[:-1]))
                commands.append(("HSET", f"BUFFER_PROFILE_TABLE:{name}", "xoff", xoff, "size", "65536"))
            commands.append(("HSET", f"BUFFER_PG_TABLE:{port}:{span}", "profile", name))
        for name, fields in config.get("BUFFER_PROFILE", {}).items():
            pairs = [word for pair in fields.items() for word in pair]
            commands.append(("HSET", f"BUFFER_PROFILE_TABLE:{name}", *pairs))
        redis.calls(commands)
        redis.close()


def is_dynamic(config: dict[str, Any]) -> bool:
    found = config.get("DEVICE_METADATA", {}).get("localhost", {}).get("buffer_model")
    return bool(found == "dynamic")


def _mellanox(config: dict[str, Any]) -> bool:
    return "mlnx" in config.get("DEVICE_METADATA", {}).get("localhost", {}).get("platform", "")


def _seen(config: dict[str, Any], port: str) -> tuple[str | None, str, str, str]:
    fields = config.get("PORT", {}).get(port, {})
    return (
        config.get("PORT_QOS_MAP", {}).get(port, {}).get("pfc_enable"),
        fields.get("speed", ""),
        config.get("CABLE_LENGTH", {}).get("AZURE", {}).get(port, "0m"),
        fields.get("admin_status", "down"),
    )


def spans(enabled: str) -> list[str]:
    """Return ``3,4`` as the buffer manager's keys have it: ``3-4``."""
    numbers = sorted(int(each) for each in enabled.split(",") if each)
    found: list[list[int]] = []
    for each in numbers:
        if found and found[-1][1] == each - 1:
            found[-1][1] = each
        else:
            found.append([each, each])
    return [str(first) if first == last else f"{first}-{last}" for first, last in found]
