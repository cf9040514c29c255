"""From goals to the configuration that fulfils them: a pure function of CONFIG_DB as it is at this moment."""

from __future__ import annotations

import copy
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Sequence

from fabricctl.drivers.switch.sonic.node import buffers, chain, objects
from fabricctl.drivers.switch.sonic.node.chain import UNMAPPED, Box
from fabricctl.drivers.switch.sonic.node.tables import (
    INDEXES,
    PREFIX,
    Config,
    Fields,
    Odd,
    by_index,
    fields_of,
    listed,
    number,
    referred,
    shared_key,
)

Wanted = Mapping[str, Any]
PER_PORT = ("PORT_QOS_MAP", "QUEUE", "BUFFER_PG", "BUFFER_QUEUE")
"""Tables with rows of ports in which older releases put several ports in one key."""


class Goal(NamedTuple):
    """What is to be done to one port: set `names` to what `wanted` says; the rest of it is context."""

    port: str
    names: tuple[str, ...]
    wanted: Wanted


def build(config: Config, goals: Sequence[Goal], box: Box) -> tuple[Config, dict[str, list[str]]]:
    """Return the configuration that fulfils the goals, and by port why it is not even tried.

    A port of which one setting cannot be had keeps everything as it is.
    """
    result = config
    refused: dict[str, list[str]] = {}
    for goal in goals:
        tried = copy.deepcopy(result)
        problems = _set_port(tried, goal, box)
        if problems:
            refused[goal.port] = problems
        else:
            result = tried
    return objects.without_unused(result), refused


def _set_port(config: Config, goal: Goal, box: Box) -> list[str]:
    problems = []
    try:
        _check_port(config, goal.port)
    except Odd as exc:
        return [f"{goal.names[0]}: {exc}"] if goal.names else []
    for names, setter in _SETTERS:
        asked = [name for name in goal.names if name in names]
        if asked:
            try:
                setter(config, goal, box)
            except (Odd, KeyError, TypeError, IndexError) as exc:
                why = str(exc) if isinstance(exc, Odd) else f"is not given: {exc!r}"
                problems.append(f"{asked[0]}: {why}")
    known = {name for names, _ in _SETTERS for name in names}
    problems += [f"{name}: is not known here" for name in goal.names if name not in known]
    return problems


def _check_port(config: Config, port: str) -> None:
    """Refuse a port that is not there, or has no rows of its own."""
    chain.port_of(config, port)
    for table in PER_PORT:
        key = shared_key(config, table, port)
        if key is not None:
            raise Odd(f"{table}|{key} is one row for several ports; give each port a row of its own")


def _row(config: Config, table: str, key: str) -> Fields:
    return config.setdefault(table, {}).setdefault(key, {})


def _put(row: Fields, field: str, value: str) -> None:
    if value:
        row[field] = value
    else:
        row.pop(field, None)


# One setter for settings that are one thing in CONFIG_DB


def _mtu(config: Config, goal: Goal, _box: Box) -> None:
    mtu = number(str(goal.wanted["mtu_bytes"]), 68, 9216)
    chain.port_of(config, goal.port)["mtu"] = str(mtu)


def _asymmetric(config: Config, goal: Goal, _box: Box) -> None:
    wanted = bool(goal.wanted["sonic.pfc_asymmetric"])
    if chain.pfc_asymmetric(config, goal.port) is not wanted:
        chain.port_of(config, goal.port)["pfc_asym"] = "on" if wanted else "off"


def _classify(config: Config, goal: Goal, _box: Box) -> None:
    row = _row(config, "PORT_QOS_MAP", goal.port)
    kind = goal.wanted.get("trust", "dscp")
    if kind == "none":
        row.pop("dscp_to_tc_map", None)
        row.pop("dot1p_to_tc_map", None)
        if chain.trust(config, goal.port) != "none":
            raise Odd("PORT_QOS_MAP|global binds a map on every port")
    elif kind == "dscp":
        row.pop("dot1p_to_tc_map", None)
        wanted = goal.wanted.get("dscp_priority") or chain.dscp_priority(config, goal.port)
        _bind(config, goal.port, "dscp_to_tc_map", wanted)
    else:
        raise Odd(f"trust {kind!r:.20} cannot be set: its DOT1P map is not ours to make")


def _queues(config: Config, goal: Goal, _box: Box) -> None:
    numbers = goal.wanted["priority_tc"]
    if goal.wanted.get("trust") == "none" and not any(numbers):
        numbers = (UNMAPPED,) * len(numbers)  # nothing classifies: a port as it is without QoS
    _bind(config, goal.port, "tc_to_queue_map", numbers)


def _groups(config: Config, goal: Goal, _box: Box) -> None:
    _bind(config, goal.port, "tc_to_pg_map", goal.wanted["sonic.tc_group"])


def _bind(config: Config, port: str, field: str, numbers: Sequence[int]) -> None:
    """Bind a map with exactly this content; all unmapped is no map."""
    row = _row(config, "PORT_QOS_MAP", port)
    content = {str(at): str(number(str(each), 0, 7)) for at, each in enumerate(numbers) if each != UNMAPPED}
    _put(row, field, objects.map_named(config, field, row.get(field, ""), content) if content else "")


def _pfc(config: Config, goal: Goal, _box: Box) -> None:
    row = _row(config, "PORT_QOS_MAP", goal.port)
    enabled = [number(str(each), 0, 7) for each in goal.wanted["pfc_priorities"]]
    if enabled or "pfc_enable" in row:
        # Not taken away: orchagent switches PFC off by an empty list.
        row["pfc_enable"] = listed(enabled)


def _pfc_queue(config: Config, goal: Goal, _box: Box) -> None:
    _bind_enabled(config, goal, "pfc_to_queue_map", "sonic.pfc_queue")


def _pfc_group(config: Config, goal: Goal, box: Box) -> None:
    enabled = _enabled(config, goal)
    if chain.is_mellanox(config, box):
        _bind_enabled(config, goal, "pfc_to_pg_map", "sonic.pfc_group")
    elif tuple(goal.wanted["sonic.pfc_group"]) == tuple(enabled):
        _row(config, "PORT_QOS_MAP", goal.port).pop("pfc_to_pg_map", None)
    else:
        raise Odd("this ASIC has no map from PFC priorities to groups")


def _enabled(config: Config, goal: Goal) -> Sequence[int]:
    found: Sequence[int] = goal.wanted.get("pfc_priorities", chain.pfc_priorities(config, goal.port))
    return found


def _bind_enabled(config: Config, goal: Goal, field: str, setting: str) -> None:
    """Bind a map that is as it was for priorities without PFC."""
    row = _row(config, "PORT_QOS_MAP", goal.port)
    content: dict[str, str] = {}
    if field in row:
        content.update(config.get(chain.MAPS[field], {}).get(row[field], {}))
    elif field == "pfc_to_queue_map":
        content.update({str(each): str(each) for each in INDEXES})
    values = list(goal.wanted[setting])
    for priority, each in zip(_enabled(config, goal), values):
        content.pop(str(priority), None)
        if each != UNMAPPED:
            content[str(priority)] = str(number(str(each), 0, 7))
    if not values and not row.get(field, "").startswith(PREFIX):
        return  # without PFC it does nothing; one of ours goes
    if all(each == UNMAPPED for each in values):
        content = {}
    _put(row, field, objects.map_named(config, field, row.get(field, ""), content) if content else "")


def _schedule(config: Config, goal: Goal, _box: Box) -> None:
    kinds = goal.wanted.get("tc_scheduler") or chain.tc_scheduler(config, goal.port)
    shares = goal.wanted.get("tc_bandwidth_percent") or chain.tc_bandwidth(config, goal.port)
    for queue in INDEXES:
        if kinds[queue] not in {"strict", "ets"}:
            raise Odd(f"a queue cannot be {kinds[queue]!r:.20}")
        share = number(str(shares[queue]), 0, 100)
        now = fields_of(config, "QUEUE", f"{goal.port}|{queue}").get("scheduler", "")
        # A queue that no class leads to has no scheduler: a weight of 0 cannot be written.
        kind = "STRICT" if kinds[queue] == "strict" else "DWRR"
        name = objects.scheduler_named(config, now, kind, share) if kind == "STRICT" or share else ""
        buffers.put_field(config, "QUEUE", goal.port, queue, "scheduler", name)


def _mark(config: Config, goal: Goal, _box: Box) -> None:
    on = _is_to_mark(goal)
    before = by_index(config, "QUEUE", goal.port)
    meant = _marking_queues(config, goal) if on else ()
    content = _profile(config, goal) if meant else {}
    for queue in INDEXES:
        now = before.get(queue, {}).get("wred_profile", "")
        if queue in meant:
            name = objects.profile_named(config, now, content)
            buffers.put_field(config, "QUEUE", goal.port, queue, "wred_profile", name)
        elif now and chain.marks(referred(config, "WRED_PROFILE", now)):
            buffers.put_field(config, "QUEUE", goal.port, queue, "wred_profile", "")


def _is_to_mark(goal: Goal) -> bool:
    """Say whether the port is to mark; thresholds are only asked for where it is.

    What is not asked for is no wish: a port whose PFC was changed by hand does not mark on all that PFC has
    now, and is to mark again on the queues that are asked for.
    """
    if "ecn" in goal.names:
        return bool(goal.wanted["ecn"])
    if "sonic.ecn_queues" in goal.names:
        return bool(goal.wanted["sonic.ecn_queues"])
    return True


def _marking_queues(config: Config, goal: Goal) -> Sequence[int]:
    found: Iterable[int] = goal.wanted.get("sonic.ecn_queues") or chain.lossless_queues_meant(
        config, goal.port
    )
    return tuple(number(str(each), 0, 7) for each in found)


def _profile(config: Config, goal: Goal) -> Fields:
    values = []
    for name, which, most in (
        ("ecn_kmin_bytes", "min", 2**40),
        ("ecn_kmax_bytes", "max", 2**40),
        ("ecn_pmax_percent", "probability", 100),
    ):
        given = goal.wanted[name] if name in goal.wanted else chain.threshold(config, goal.port, which)
        values.append(number(str(given), 0, most))
    kmin, kmax, pmax = values
    if kmin >= kmax:
        raise Odd(f"Kmin {kmin} is not below Kmax {kmax}")
    return objects.profile(kmin, kmax, pmax)


def _cable(config: Config, goal: Goal, box: Box) -> None:
    length = "{}m".format(number(str(goal.wanted["cable_length_m"]), 0, 100_000))
    buffers.check_length(config, goal.port, length, box)
    tables = config.setdefault("CABLE_LENGTH", {})
    names = [name for name, ports in tables.items() if goal.port in ports] or sorted(tables) or ["AZURE"]
    tables.setdefault(names[0], {})[goal.port] = length


def _watch(config: Config, goal: Goal, _box: Box) -> None:
    wanted = goal.wanted
    watched = wanted.get("pfc_watchdog", chain.watchdog(config, goal.port))
    row = _row(config, "PORT_QOS_MAP", goal.port)
    if watched or "pfcwd_sw_enable" in row:
        row["pfcwd_sw_enable"] = listed(number(str(each), 0, 7) for each in watched)
    if not watched:
        config.get("PFC_WD", {}).pop(goal.port, None)
        return
    enabled = _enabled(config, goal)
    if not set(watched) <= set(enabled):
        raise Odd(f"priorities {listed(watched)} are watched, PFC is on for {listed(enabled) or 'none'}")
    entry = _row(config, "PFC_WD", goal.port)
    for setting, field, lowest, highest in (
        ("pfc_watchdog_detect_ms", "detection_time", 100, 5000),
        ("pfc_watchdog_restore_ms", "restoration_time", 100, 60_000),
    ):
        if setting in wanted:
            entry[field] = str(number(str(wanted[setting]), lowest, highest))
    if "pfc_watchdog_action" in wanted:
        action = wanted["pfc_watchdog_action"]
        if action not in {"drop", "forward", "alert"}:
            raise Odd(f"the action cannot be {action!r:.20}")
        entry["action"] = action
    if "detection_time" not in entry:
        raise Odd("no detection time is given, and the watchdog does not start without one")
    if "pfc_watchdog_poll_ms" in wanted:
        poll = number(str(wanted["pfc_watchdog_poll_ms"]), 100, 1000)
        _row(config, "PFC_WD", "GLOBAL")["POLL_INTERVAL"] = str(poll)
    _row(config, "FLEX_COUNTER_TABLE", "PFCWD")["FLEX_COUNTER_STATUS"] = "enable"
    _check_poll(config)


def _check_poll(config: Config) -> None:
    """Refuse a poll that is slower than what any port is to detect: all ports share it."""
    poll = int(fields_of(config, "PFC_WD", "GLOBAL").get("POLL_INTERVAL", "0"))
    for port, entry in config.get("PFC_WD", {}).items():
        for field in ("detection_time", "restoration_time"):
            if field in entry and int(entry[field]) < poll:
                raise Odd(f"the switch looks every {poll} ms, but {field} of {port} is {entry[field]}")


_SETTERS: tuple[tuple[tuple[str, ...], Callable[[Config, Goal, Box], None]], ...] = (
    (("mtu_bytes",), _mtu),
    (("sonic.pfc_asymmetric",), _asymmetric),
    (("trust", "dscp_priority"), _classify),
    (("priority_tc",), _queues),
    (("sonic.tc_group",), _groups),
    (("tc_scheduler", "tc_bandwidth_percent"), _schedule),
    (("cable_length_m",), _cable),
    (("pfc_priorities",), _pfc),
    (("sonic.pfc_queue",), _pfc_queue),
    (("sonic.pfc_group",), _pfc_group),
    (("lossless_buffers", "pfc_priorities", "sonic.tc_group"), buffers.set_groups),
    (("sonic.lossless_queues",), buffers.set_queues),
    (("ecn", "ecn_kmin_bytes", "ecn_kmax_bytes", "ecn_pmax_percent", "sonic.ecn_queues"), _mark),
    (
        (
            "pfc_watchdog",
            "pfc_watchdog_detect_ms",
            "pfc_watchdog_restore_ms",
            "pfc_watchdog_poll_ms",
            "pfc_watchdog_action",
        ),
        _watch,
    ),
)
