"""CONFIG_DB as ``sonic-cfggen -d --print-data`` prints it: tables, keys with ranges, references."""

from __future__ import annotations

from typing import Any, Dict, Iterable

Fields = Dict[str, str]
Config = Dict[str, Dict[str, Fields]]
"""By table and key; all values are strings."""

INDEXES = range(8)
"""Priorities, traffic classes, queues and priority groups that RoCE can use."""
GLOBAL = "global"
"""Key of ``PORT_QOS_MAP`` for what holds on all ports without a map of their own."""
DERIVED = "pg_lossless_"
"""Start of the names of profiles that the buffer manager makes from speed and cable length."""
DYNAMIC = "NULL"
"""Profile of a priority group whose headroom the dynamic buffer manager works out."""
PREFIX = "fabricctl_"
"""Start of the names of objects that are ours."""


class Odd(ValueError):  # noqa: N818  a reason why there is no value, not an error of the program
    """The configuration does not say what is asked, or says something that SONiC itself would not take."""


def config_of(document: Any) -> Config:
    """Return a parsed configuration without what has not its form; Odd if nothing has."""
    if not isinstance(document, dict):
        raise Odd("the configuration is no JSON object")
    config: Config = {}
    for table, rows in document.items():
        if isinstance(rows, dict):
            whole = {key: _fields(fields) for key, fields in rows.items() if isinstance(fields, dict)}
            config[table] = whole
    return config


def _fields(fields: dict[str, Any]) -> Fields:
    # A leaf-list is printed as a list; none of the tables that are used here has one.
    return {name: value for name, value in fields.items() if isinstance(value, str)}


def fields_of(config: Config, table: str, key: str) -> Fields:
    """Return the fields of a row, none if there is no such row."""
    return config.get(table, {}).get(key, {})


def number(text: str, lowest: int, highest: int) -> int:
    """Return `text` as a number within bounds; Odd otherwise."""
    if not text.isascii() or not text.isdigit() or not lowest <= int(text[:20]) <= highest:
        raise Odd(f"{text!r:.40} is not within {lowest}..{highest}")
    return int(text)


def indexes(text: str) -> tuple[int, ...]:
    """Return the numbers of the last part of a key: ``3``, ``3-4`` or ``0,2``."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        start = number(first, 0, 63)
        found.extend(range(start, (number(last, start, 63) if dash else start) + 1))
    return tuple(found)


def priorities(text: str) -> tuple[int, ...]:
    """Return ``3,4`` as ascending numbers; empty text is none."""
    return tuple(sorted({number(part.strip(), 0, 7) for part in text.split(",")})) if text.strip() else ()


def listed(numbers: Iterable[int]) -> str:
    """Return numbers as SONiC lists them: ``3,4``."""
    return ",".join(str(each) for each in sorted(numbers))


def runs(numbers: Iterable[int]) -> set[str]:
    """Return numbers as the buffer manager writes them in keys: ``3-4`` for neighbours, ``6`` for one."""
    found: list[list[int]] = []
    for each in sorted(set(numbers)):
        if found and found[-1][1] == each - 1:
            found[-1][1] = each
        else:
            found.append([each, each])
    return {str(first) if first == last else f"{first}-{last}" for first, last in found}


def rows_of(config: Config, table: str, port: str) -> dict[str, tuple[int, ...]]:
    """Return by key the indexes that rows of a port stand for.

    Older releases put several ports in one key (``PORT,PORT|3``).
    """
    found = {}
    for key in config.get(table, {}):
        ports, bar, rest = key.partition("|")
        if bar and port in ports.split(","):
            found[key] = indexes(rest)
    return found


def by_index(config: Config, table: str, port: str) -> dict[int, Fields]:
    """Return by index what the rows of a port say; Odd if two rows speak of the same index."""
    found: dict[int, Fields] = {}
    for key, numbers in rows_of(config, table, port).items():
        for each in numbers:
            if each in found:
                raise Odd(f"{table} has several rows for {port}|{each}")
            found[each] = config[table][key]
    return found


def row_of(config: Config, table: str, port: str) -> Fields:
    """Return the row of a port in a table with one row a port."""
    for key, fields in config.get(table, {}).items():
        if port in key.split(","):
            return fields
    return {}


def name_of(reference: str) -> str:
    """Return the name that a field refers to; releases before 202111 write ``[TABLE|name]``."""
    if reference.startswith("[") and reference.endswith("]"):
        return reference[1:-1].rpartition("|")[2]
    return reference


def referred(config: Config, table: str, reference: str) -> Fields:
    """Return the object that a field refers to; Odd if there is none."""
    name = name_of(reference)
    if name not in config.get(table, {}):
        raise Odd(f"there is no {table}|{name}, which is referred to")
    return config[table][name]


def shared_key(config: Config, table: str, port: str) -> str | None:
    """Return a key that speaks of this port and of others, None if there is none."""
    for key in config.get(table, {}):
        ports = key.partition("|")[0].split(",")
        if port in ports and len(ports) > 1:
            return key
    return None
