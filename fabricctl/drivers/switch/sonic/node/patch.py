"""The difference of two configurations as RFC 6902 patches, in the order in which SONiC can take them."""

from __future__ import annotations

import copy
from typing import AbstractSet, Any, Dict, Iterable, NamedTuple, Optional

from fabricctl.drivers.switch.sonic.node.buffers import derived_groups, stale, without_groups_derived
from fabricctl.drivers.switch.sonic.node.tables import Config, Fields, indexes

Op = Dict[str, Any]
_Row = Optional[Dict[str, Optional[str]]]
Undo = Dict[str, Dict[str, _Row]]
"""By table and key: the row as it was, None for none. Of ``PORT`` only fields that differ, None for none."""

WATCHDOG = "PFC_WD"
GROUPS = "BUFFER_PG"
_COUNTERS = "FLEX_COUNTER_TABLE"
_INDEXED = ("QUEUE", GROUPS, "BUFFER_QUEUE")
_FLAPPING = ("PORT_QOS_MAP", *_INDEXED)
_PORTS = "PORT"
_PORT_TABLES = (_PORTS, *_FLAPPING, WATCHDOG)
_LENGTHS = "CABLE_LENGTH"
_ADMIN = "admin_status"


class Way(NamedTuple):
    """How to get from one configuration to another.

    Parameters
    ----------
    held
        Ports that are kept off over all of it: rows that would overlap with new ones go first, and the
        updater would switch the port off and on for each part.
    first, second, last
        Configurations on the way; derived rows are left out of all.
    gone, made
        Rows of the traditional buffer manager that are too many, and that it would not make by itself.
    """

    held: tuple[str, ...]
    first: Config
    second: Config
    last: Config
    gone: tuple[str, ...]
    made: dict[str, Fields]


def way(current: Config, target: Config) -> Way:
    """Return how to get to the target in an order that the switch can take.

    A watchdog goes before the PFC that it watches and comes after it: orchagent starts none without PFC.
    """
    old, new = without_groups_derived(current), without_groups_derived(target)
    overlapping = [
        (table, key) for table in _INDEXED for key in _overlapping(old.get(table, {}), new.get(table, {}))
    ]
    gone = sorted(set(derived_groups(current)) - set(derived_groups(target)))
    keys = [*(key for _, key in overlapping), *gone]
    held = sorted({key.partition("|")[0] for key in keys})
    held = [port for port in held if old[_PORTS].get(port, {}).get(_ADMIN) == "up"]
    first = copy.deepcopy(old)
    for port in held:
        first[_PORTS][port][_ADMIN] = "down"
    for key in set(old.get(WATCHDOG, {})) - set(new.get(WATCHDOG, {})):
        del first[WATCHDOG][key]
    for table, key in overlapping:
        del first[table][key]
    second = copy.deepcopy(new)
    for table in (WATCHDOG, _COUNTERS):
        second.pop(table, None)
        if table in first:
            second[table] = copy.deepcopy(first[table])
    made = {key: row for key, row in derived_groups(target).items() if key not in derived_groups(current)}
    return Way(tuple(held), first, second, new, tuple(gone), made)


def _overlapping(old: dict[str, Fields], new: dict[str, Fields]) -> list[str]:
    """Return keys that go and share an index with a new key: to remove them after it would undo that."""
    fresh = {place for key in set(new) - set(old) for place in _places(key)}
    return [key for key in sorted(set(old) - set(new)) if fresh & _places(key)]


def _places(key: str) -> set[tuple[str, int]]:
    ports, _, rest = key.partition("|")
    return {(port, each) for port in ports.split(",") for each in indexes(rest)}


def diff(current: Config, target: Config) -> list[Op]:
    """Return what turns `current` into `target`; a table that would be empty is removed, as SONiC wants."""
    found: list[Op] = []
    for table in sorted(set(current) | set(target)):
        old, new = current.get(table, {}), target.get(table, {})
        if old and not new:
            found.append({"op": "remove", "path": _path(table)})
        elif new and not old:
            found.append({"op": "add", "path": _path(table), "value": new})
        else:
            for key in sorted(set(old) | set(new)):
                found += _row(_path(table, key), old.get(key), new.get(key))
    return found


def _row(path: str, old: Fields | None, new: Fields | None) -> Iterable[Op]:
    if new is None:
        return [{"op": "remove", "path": path}]
    if old is None:
        return [{"op": "add", "path": path, "value": new}]
    found: list[Op] = []
    for field in sorted(set(old) | set(new)):
        place = f"{path}{_path(field)}"
        if field not in new:
            found.append({"op": "remove", "path": place})
        elif field not in old:
            found.append({"op": "add", "path": place, "value": new[field]})
        elif old[field] != new[field]:
            found.append({"op": "replace", "path": place, "value": new[field]})
    return found


def _path(*parts: str) -> str:
    return "".join("/{}".format(part.replace("~", "~0").replace("/", "~1")) for part in parts)


def touched_ports(ops: Iterable[Op]) -> tuple[str, ...]:
    """Return the ports that SONiC's updater switches off and on again for a patch."""
    found = []
    for op in ops:
        parts = op["path"].split("/")[1:]
        keys = parts[1:2] or list(op.get("value", {}))
        if parts[0] in _FLAPPING:
            found += [key.partition("|")[0].replace("~1", "/") for key in keys]
    return tuple(sorted(set(found)))


def undo_of(current: Config, target: Config, held: Iterable[str] = ()) -> Undo:
    """Return the rows that differ, as they are now, and whether ports that are kept off were on."""
    found: Undo = {}
    for table in set(current) | set(target):
        old, new = current.get(table, {}), target.get(table, {})
        rows = {key: old.get(key) for key in set(old) | set(new) if old.get(key) != new.get(key)}
        if rows and table != _PORTS:
            found[table] = {key: None if row is None else {**row} for key, row in rows.items()}
    ports = {}
    for port, before in current[_PORTS].items():
        after = target[_PORTS][port]
        names = {name for name in {*before, *after} if before.get(name) != after.get(name)}
        names |= {_ADMIN} if port in held else set()
        if names:
            ports[port] = {name: before.get(name) for name in names}
    if ports:
        found[_PORTS] = {**ports}
    return found


def undone(config: Config, undo: Undo, ports: Iterable[str] = ()) -> Config:
    """Return a configuration with rows as they were: those of `ports`, or all of them.

    What is not a port's own (profiles, the watchdog's poll) is taken away only with all; what a row refers to
    comes back with it. What the buffer manager makes of a row that comes back is its own matter.
    """
    found = copy.deepcopy(config)
    chosen = frozenset(ports)
    for table, rows in undo.items():
        for key, row in rows.items():
            mine = table in _PORT_TABLES and key.partition("|")[0] in chosen
            if not chosen or mine:
                _restore(found, table, key, row)
            elif table == _LENGTHS:
                _restore_lengths(found, key, row, chosen)
            elif table not in _PORT_TABLES and row is not None:
                found.setdefault(table, {}).setdefault(key, _whole(row))
    for port in (chosen or _ports_of(undo)) & set(found.get(_PORTS, {})):
        for key in stale(found, port):
            del found[GROUPS][key]
    return {table: rows for table, rows in found.items() if rows}


def _ports_of(undo: Undo) -> AbstractSet[str]:
    return {key.partition("|")[0] for table in _PORT_TABLES for key in undo.get(table, {})}


def _restore(config: Config, table: str, key: str, row: _Row) -> None:
    if table == _PORTS:
        if row is not None and key in config.get(table, {}):
            merged = {**config[table][key], **row}
            config[table][key] = {name: value for name, value in merged.items() if value is not None}
    elif row is None:
        config.get(table, {}).pop(key, None)
    else:
        config.setdefault(table, {})[key] = _whole(row)


def _whole(row: dict[str, str | None]) -> Fields:
    return {name: value for name, value in row.items() if value is not None}


def _restore_lengths(config: Config, key: str, row: _Row, ports: Iterable[str]) -> None:
    lengths = config.setdefault(_LENGTHS, {}).setdefault(key, {})
    for port in ports:
        length = (row or {}).get(port)
        if length is not None:
            lengths[port] = length
        else:
            lengths.pop(port, None)
    if not lengths:
        del config[_LENGTHS][key]
