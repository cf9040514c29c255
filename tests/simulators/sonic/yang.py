"""The constraints of SONiC's YANG models on the tables that fabricctl writes, in libyang's words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

Config = Mapping[str, Mapping[str, Mapping[str, str]]]

_MAPS = {
    "dscp_to_tc_map": "DSCP_TO_TC_MAP",
    "dot1p_to_tc_map": "DOT1P_TO_TC_MAP",
    "tc_to_queue_map": "TC_TO_QUEUE_MAP",
    "tc_to_pg_map": "TC_TO_PRIORITY_GROUP_MAP",
    "pfc_to_queue_map": "MAP_PFC_PRIORITY_TO_QUEUE",
    "pfc_to_pg_map": "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP",
}
_LISTS = ("pfc_enable", "pfcwd_sw_enable")
_COLOURS = ("green", "yellow", "red")
_NAME = re.compile(r"[a-zA-Z0-9][-a-zA-Z0-9_]{0,31}")
_ECN = {"ecn_none", "ecn_all"} | {
    f"ecn_{colours}" for colours in ("green", "yellow", "red", "green_yellow", "green_red", "yellow_red")
}


def complaint(config: Config) -> str:
    """Return the first thing that is wrong, empty if nothing is."""
    for check in (
        _ports,
        _port_maps,
        _map_contents,
        _queues,
        _buffers,
        _profiles,
        _schedulers,
        _cables,
        _watchdog,
    ):
        for wrong in check(config):
            return wrong
    return ""


def _range(text: Any, lowest: int, highest: int) -> Iterator[str]:
    if not str(text).isdecimal():
        yield f'Invalid type uint value "{text}".'
    elif not lowest <= int(text) <= highest:
        yield f'Unsatisfied range - value "{text}" is out of the allowed range.'


def _pattern(text: str, pattern: str) -> Iterator[str]:
    if not re.fullmatch(pattern, text):
        yield f'Unsatisfied pattern - "{text}" does not conform to "{pattern}".'


def _reference(config: Config, table: str, text: str) -> Iterator[str]:
    if text not in config.get(table, {}):
        yield f'Invalid leafref value "{text}" - no target instance "{table}" with the same value.'


def _known(fields: Mapping[str, str], names: set[str]) -> Iterator[str]:
    for name in set(fields) - names:
        yield f'Node "{name}" not found.'


def _ports(config: Config) -> Iterator[str]:
    for fields in config.get("PORT", {}).values():
        yield from _range(fields.get("mtu", "9100"), 68, 9216)
        yield from _pattern(fields.get("pfc_asym", "off"), "on|off")
        yield from _pattern(fields.get("admin_status", "down"), "up|down")


def _port_maps(config: Config) -> Iterator[str]:
    for port, fields in config.get("PORT_QOS_MAP", {}).items():
        if port != "global":
            yield from _reference(config, "PORT", port)
        yield from _known(fields, {*_MAPS, *_LISTS, "scheduler", "tc_to_dscp_map"})
        for field, table in _MAPS.items():
            if field in fields:
                yield from _reference(config, table, fields[field])
        for field in _LISTS:
            yield from _pattern(fields.get(field, ""), "([0-7](,[0-7])*)?")


def _map_contents(config: Config) -> Iterator[str]:
    for table in _MAPS.values():
        most = 63 if table == "DSCP_TO_TC_MAP" else 7
        for name, fields in config.get(table, {}).items():
            yield from _pattern(name, _NAME.pattern)
            for key, value in fields.items():
                yield from _range(key, 0, most)
                yield from _range(value, 0, 7)


def _queues(config: Config) -> Iterator[str]:
    for key, fields in config.get("QUEUE", {}).items():
        port, _, index = key.partition("|")
        yield from _reference(config, "PORT", port)
        yield from _pattern(index, "[0-9]+(-[0-9]+)?")
        yield from _known(fields, {"scheduler", "wred_profile"})
        for field, table in (("scheduler", "SCHEDULER"), ("wred_profile", "WRED_PROFILE")):
            if field in fields:
                yield from _reference(config, table, fields[field])


def _buffers(config: Config) -> Iterator[str]:
    for table in ("BUFFER_PG", "BUFFER_QUEUE"):
        for key, fields in config.get(table, {}).items():
            port, _, index = key.partition("|")
            yield from _reference(config, "PORT", port)
            yield from _pattern(index, "[0-7](-[0-7])?" if table == "BUFFER_PG" else "[0-9]+(-[0-9]+)?")
            profile = fields.get("profile", "NULL" if table == "BUFFER_PG" else "")
            if profile != "NULL" or table == "BUFFER_QUEUE":
                yield from _reference(config, "BUFFER_PROFILE", profile)
    for fields in config.get("BUFFER_PROFILE", {}).values():
        yield from _reference(config, "BUFFER_POOL", fields.get("pool", ""))


def _profiles(config: Config) -> Iterator[str]:
    for name, fields in config.get("WRED_PROFILE", {}).items():
        yield from _pattern(name, _NAME.pattern)
        if fields.get("ecn", "ecn_none") not in _ECN:
            yield f'Invalid enumeration value "{fields["ecn"]}".'
        for colour in _COLOURS:
            yield from _pattern(fields.get(f"wred_{colour}_enable", "false"), "true|false")
            yield from _range(fields.get(f"{colour}_drop_probability", "100"), 0, 100)
            low, high = fields.get(f"{colour}_min_threshold", "0"), fields.get(f"{colour}_max_threshold")
            yield from _range(low, 0, 2**64 - 1)
            if high is not None:
                yield from _range(high, 0, 2**64 - 1)
                if int(low) > int(high):
                    yield f"{colour.title()} max threshold must be greater than or equal to min threshold"


def _schedulers(config: Config) -> Iterator[str]:
    for fields in config.get("SCHEDULER", {}).values():
        yield from _pattern(fields.get("type", "WRR"), "DWRR|WRR|STRICT")
        yield from _range(fields.get("weight", "1"), 1, 100)


def _cables(config: Config) -> Iterator[str]:
    for lengths in config.get("CABLE_LENGTH", {}).values():
        for port, length in lengths.items():
            yield from _reference(config, "PORT", port)
            yield from _pattern(length, "[0-9]+m|None")


def _watchdog(config: Config) -> Iterator[str]:
    poll = config.get("PFC_WD", {}).get("GLOBAL", {}).get("POLL_INTERVAL", "100")
    yield from _range(poll, 100, 1000)
    for port, fields in config.get("PFC_WD", {}).items():
        if port == "GLOBAL":
            continue
        yield from _reference(config, "PORT", port)
        yield from _known(fields, {"action", "detection_time", "restoration_time", "pfc_stat_history"})
        yield from _pattern(fields.get("action", "drop"), "drop|forward|alert")
        for field, most in (("detection_time", 5000), ("restoration_time", 60_000)):
            if field in fields:
                yield from _range(fields[field], 100, most)
                if int(fields[field]) < int(poll):
                    yield f"{field} must be greater than or equal to POLL_INTERVAL"
