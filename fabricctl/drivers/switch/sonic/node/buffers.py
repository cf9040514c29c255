"""Rows of queues and priority groups, whose keys may be ranges, and what the buffer manager derives."""

from __future__ import annotations

from typing import Any

from fabricctl.drivers.switch.sonic.node import chain
from fabricctl.drivers.switch.sonic.node.chain import Box
from fabricctl.drivers.switch.sonic.node.tables import (
    DERIVED,
    DYNAMIC,
    INDEXES,
    Config,
    Fields,
    Odd,
    by_index,
    fields_of,
    indexes,
    number,
    rows_of,
    runs,
)

_INGRESS_LOSSY = ("ingress_lossy_profile",)
_EGRESS_LOSSLESS = ("egress_lossless_profile", "q_lossless_profile")
_EGRESS_LOSSY = ("egress_lossy_profile", "q_lossy_profile")


def put_field(config: Config, table: str, port: str, index: int, field: str, value: str) -> None:
    """Give one index a field, or take it away if `value` is empty.

    A row with a range that holds the index becomes one row for each of its indexes; nothing overlaps.
    """
    now = by_index(config, table, port).get(index, {})
    if now.get(field, "") == value:
        return
    rows = config.setdefault(table, {})
    for key, numbers in rows_of(config, table, port).items():
        if index in numbers and len(numbers) > 1:
            old = rows.pop(key)
            rows.update({f"{port}|{each}": dict(old) for each in numbers})
    row = rows.setdefault(f"{port}|{index}", {})
    if value:
        row[field] = value
    else:
        row.pop(field, None)
    if not row:
        del rows[f"{port}|{index}"]


def set_groups(config: Config, goal: Any, box: Box) -> None:
    """Give headroom to exactly the groups of the lossless classes.

    With the dynamic model by rows of ours; with the traditional one the buffer manager makes the rows from
    ``pfc_enable``, but leaves those that are too many.
    """
    if chain.is_dynamic(config):
        if "lossless_buffers" in goal.names:
            _set_dynamic(config, goal)
    else:
        _set_traditional(config, goal, box)


def _set_dynamic(config: Config, goal: Any) -> None:
    if not chain.has_buffers(config):
        raise Odd("the switch has no buffer pools (BUFFER_POOL is empty)")
    groups = chain.tc_group(config, goal.port)
    meant = {groups[number(str(each), 0, 7)] for each in goal.wanted["lossless_buffers"]}
    if chain.UNMAPPED in meant:
        raise Odd("no map leads the lossless classes to a priority group")
    now = chain.lossless_groups(config, goal.port)
    for each in INDEXES:
        if each in meant and each not in now:
            put_field(config, "BUFFER_PG", goal.port, each, "profile", DYNAMIC)
        elif each in now and each not in meant:
            lossy = _first(config, _INGRESS_LOSSY) if each in groups else ""
            put_field(config, "BUFFER_PG", goal.port, each, "profile", lossy)


def _set_traditional(config: Config, goal: Any, box: Box) -> None:
    port = goal.port
    enabled = chain.pfc_priorities(config, port)
    if "lossless_buffers" in goal.names and tuple(goal.wanted["lossless_buffers"]) != tuple(enabled):
        raise Odd("the traditional buffer model gives headroom to PFC's priorities, no others")
    for key in stale(config, port):
        del config["BUFFER_PG"][key]
    if "lossless_buffers" not in goal.names or not enabled or chain.are_reclaimed(config, port, box):
        return
    length = f"{chain.cable_length_m(config, port)}m"
    check_length(config, port, length, box)
    # The buffer manager acts on a change of PFC, speed or cable. Where there is none, a row is put back.
    profile = "{}{}_{}_profile".format(DERIVED, chain.port_of(config, port).get("speed", ""), length)
    if profile in config.get("BUFFER_PROFILE", {}) and "pfc_priorities" not in goal.names:
        for each in set(enabled) - set(by_index(config, "BUFFER_PG", port)):
            config.setdefault("BUFFER_PG", {})[f"{port}|{each}"] = {"profile": profile}


def stale(config: Config, port: str) -> set[str]:
    """Return the keys of derived rows that the buffer manager would not make of ``pfc_enable`` as it is."""
    if chain.is_dynamic(config):
        return set()
    made = {f"{port}|{each}" for each in runs(chain.pfc_priorities(config, port))}
    return {key for key in rows_of(config, "BUFFER_PG", port) if is_derived(config, key) and key not in made}


def is_derived(config: Config, key: str) -> bool:
    """Say whether a row of ``BUFFER_PG`` is the traditional buffer manager's own."""
    profile = chain.name_or_none(fields_of(config, "BUFFER_PG", key).get("profile"))
    return profile is not None and profile.startswith(DERIVED)


def derived_groups(config: Config) -> dict[str, Fields]:
    """Return the rows of ``BUFFER_PG`` that are the traditional buffer manager's own."""
    return {key: row for key, row in config.get("BUFFER_PG", {}).items() if is_derived(config, key)}


def without_groups_derived(config: Config) -> Config:
    """Return the configuration without those rows.

    The updater is not asked to change them: the buffer manager does so at the same time, and older releases
    fail on a row that is gone already.
    """
    found = dict(config)
    derived = derived_groups(config)
    found["BUFFER_PG"] = {key: row for key, row in config.get("BUFFER_PG", {}).items() if key not in derived}
    return {table: rows for table, rows in found.items() if rows}


def without_derived(config: Config) -> Config:
    """Return the configuration without anything that the traditional buffer manager writes into it."""
    found = without_groups_derived(config)
    profiles = config.get("BUFFER_PROFILE", {})
    found["BUFFER_PROFILE"] = {key: row for key, row in profiles.items() if not key.startswith(DERIVED)}
    return {table: rows for table, rows in found.items() if rows}


def awaited(config: Config, port: str, box: Box) -> set[int]:
    """Return the groups for which the traditional buffer manager still has to make a row."""
    if chain.is_dynamic(config) or chain.are_reclaimed(config, port, box):
        return set()
    found: set[int] = set()
    for key in rows_of(config, "BUFFER_PG", port):
        if is_derived(config, key):
            found |= set(indexes(key.partition("|")[2]))
    return set(chain.pfc_priorities(config, port)) - found


def set_queues(config: Config, goal: Any, _box: Box) -> None:
    """Give exactly the lossless queues a lossless buffer profile."""
    meant = {number(str(each), 0, 7) for each in goal.wanted["sonic.lossless_queues"]}
    now = set(chain.lossless_queues(config, goal.port))
    for each in sorted(meant - now):
        profile = _first(config, _EGRESS_LOSSLESS) or _used(config, lossless=True)
        if not profile:
            raise Odd(
                "the switch has no lossless egress profile in BUFFER_PROFILE; its image's template makes one"
            )
        put_field(config, "BUFFER_QUEUE", goal.port, each, "profile", profile)
    for each in sorted(now - meant):
        profile = _first(config, _EGRESS_LOSSY) or _used(config, lossless=False)
        put_field(config, "BUFFER_QUEUE", goal.port, each, "profile", profile)


def _first(config: Config, names: Any) -> str:
    return next((name for name in names if name in config.get("BUFFER_PROFILE", {})), "")


def _used(config: Config, *, lossless: bool) -> str:
    """Return the profile that other queues have for it, the first by name; empty if none has."""
    found: dict[str, Fields] = {}
    for row in config.get("BUFFER_QUEUE", {}).values():
        name = chain.name_or_none(row.get("profile"))
        if name and chain.is_lossless_queue(config, row) is lossless:
            found[name] = row
    return min(found, default="")


def check_length(config: Config, port: str, length: str, box: Box) -> None:
    """Refuse a cable length for which the traditional buffer model has no headroom in its table.

    Raises
    ------
    Odd
        There is no such line; where the table is not known, only 0 m is refused.
    """
    if chain.is_dynamic(config):
        return
    speed = chain.port_of(config, port).get("speed", "")
    known = box.rows.get(speed, ())
    if length == "0m":
        raise Odd("the traditional buffer model makes no headroom for a cable of 0 m")
    if box.rows and length not in known:
        lines = ", ".join(known) or "none"
        step = "write the next longer one as cable_length_m in the inventory"
        raise Odd(
            f"pg_profile_lookup.ini has no line for {length} at {speed} Mb/s, so there would be no headroom; "
            f"it has {lines}: {step}"
        )
