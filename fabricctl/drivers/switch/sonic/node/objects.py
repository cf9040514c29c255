"""Shared objects: one with the same content is used, else one is made whose name says what it holds.

Objects of others are never changed; those of ours that nothing refers to any more are left out.
"""

from __future__ import annotations

import hashlib
import json
from typing import Callable

from fabricctl.drivers.switch.sonic.node.chain import COLOURS, MAPS
from fabricctl.drivers.switch.sonic.node.tables import INDEXES, PREFIX, Config, Fields, name_of

_LONGEST = 32
_DIGEST_CHARS = 12
_STEMS = {
    "dscp_to_tc_map": "dscp",
    "tc_to_queue_map": "queue",
    "tc_to_pg_map": "group",
    "pfc_to_queue_map": "pfc_queue",
    "pfc_to_pg_map": "pfc_group",
}
_OBJECTS = (*MAPS.values(), "SCHEDULER", "WRED_PROFILE")
_WRED_DEFAULTS = {"ecn": "ecn_none", **{f"{colour}_drop_probability": "100" for colour in COLOURS}}


def map_named(config: Config, field: str, now: str, content: Fields) -> str:
    """Return the name of a map with this content, which is made if there is none."""
    if field == "dscp_to_tc_map":
        pairs = [f"{key}to{content[key]}" for key in sorted(content, key=int) if content[key] != "0"]
        said = "_".join(pairs) or "0"
    else:
        said = "".join(content.get(str(each), "x") for each in INDEXES)
    return _named(config, MAPS[field], now, content, f"{_STEMS[field]}_{said}")


def scheduler_named(config: Config, now: str, kind: str, weight: int) -> str:
    """Return the name of a scheduler, ``STRICT`` or ``DWRR`` with a weight."""
    content = {"type": kind} if kind == "STRICT" else {"type": kind, "weight": str(weight)}
    said = "strict" if kind == "STRICT" else f"dwrr_{weight}"
    return _named(config, "SCHEDULER", now, content, said, _plain_scheduler)


def _plain_scheduler(fields: Fields) -> Fields:
    """Leave out what changes nothing: a strict queue's weight, the unit of a shaper that is not there."""
    ignored = {"weight"} if fields.get("type") == "STRICT" else set()
    if not {"cir", "pir"} & set(fields):
        ignored.add("meter_type")
    return {name: value for name, value in fields.items() if name not in ignored}


def profile(kmin: int, kmax: int, pmax: int) -> Fields:
    """Return what marks all colours alike; without ``wred_*_enable`` nothing would be marked."""
    found: dict[str, str] = {"ecn": "ecn_all"}
    for colour in COLOURS:
        found[f"wred_{colour}_enable"] = "true"
        found[f"{colour}_min_threshold"] = str(kmin)
        found[f"{colour}_max_threshold"] = str(kmax)
        found[f"{colour}_drop_probability"] = str(pmax)
    return found


def profile_named(config: Config, now: str, content: Fields) -> str:
    """Return the name of a WRED profile with this content."""
    values = (
        content["green_min_threshold"],
        content["green_max_threshold"],
        content["green_drop_probability"],
    )
    return _named(config, "WRED_PROFILE", now, content, "{}_{}_{}".format(*values), _whole_profile)


def _whole_profile(fields: Fields) -> Fields:
    return {**_WRED_DEFAULTS, **fields}


def _named(
    config: Config,
    table: str,
    now: str,
    content: Fields,
    said: str,
    plain: Callable[[Fields], Fields] = dict,
) -> str:
    """Return what is bound now, if it is equal; another one that is equal; or a new one."""
    objects = config.setdefault(table, {})
    equal = [name for name, fields in sorted(objects.items()) if plain(fields) == plain(content)]
    current = name_of(now)
    if equal:
        return now if current in equal else equal[0]
    name = PREFIX + said
    if len(name) > _LONGEST:
        packed = json.dumps(content, sort_keys=True).encode()
        name = "{}{}_{}".format(
            PREFIX, said.partition("_")[0], hashlib.sha256(packed).hexdigest()[:_DIGEST_CHARS]
        )
    # Somebody has changed one of ours: it stays as it is for the ports that use it.
    free = [name, *(f"{name[: _LONGEST - 3]}_{each}" for each in range(2, 100))]
    chosen = next(each for each in free if each not in objects)
    objects[chosen] = dict(content)
    return chosen


def without_unused(config: Config) -> Config:
    """Return the configuration without objects of ours that nothing refers to; tables that are empty too."""
    used = {name_of(value) for rows in config.values() for row in rows.values() for value in row.values()}
    found = dict(config)
    for table in _OBJECTS:
        if table in config:
            rows = config[table].items()
            found[table] = {name: row for name, row in rows if name in used or not name.startswith(PREFIX)}
    return {
        table: {key: row for key, row in rows.items() if not _is_left(table, row)}
        for table, rows in found.items()
    }


def _is_left(table: str, row: Fields) -> bool:
    """Say whether a row has lost all it had: such a row does not show in CONFIG_DB."""
    return not row and table in {"PORT_QOS_MAP", "QUEUE", "CABLE_LENGTH"}
