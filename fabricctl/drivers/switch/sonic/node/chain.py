"""What CONFIG_DB says of one port, in the words of the policy: every link from the DSCP to the mark."""

from __future__ import annotations

from types import MappingProxyType
from typing import Mapping, NamedTuple, Tuple

from fabricctl.drivers.switch.sonic.node.tables import (
    DERIVED,
    DYNAMIC,
    GLOBAL,
    INDEXES,
    Config,
    Fields,
    Odd,
    by_index,
    fields_of,
    name_of,
    number,
    priorities,
    referred,
    row_of,
)

Numbers = Tuple[int, ...]

UNMAPPED = -1
"""In tuples of queues and groups: no map says where it goes."""
DSCPS = 64
DEFAULT_MTU = "9100"
"""MTU of a port that says none (portmgrd)."""
MAPS: dict[str, str] = {
    "dscp_to_tc_map": "DSCP_TO_TC_MAP",
    "dot1p_to_tc_map": "DOT1P_TO_TC_MAP",
    "tc_to_queue_map": "TC_TO_QUEUE_MAP",
    "tc_to_pg_map": "TC_TO_PRIORITY_GROUP_MAP",
    "pfc_to_queue_map": "MAP_PFC_PRIORITY_TO_QUEUE",
    "pfc_to_pg_map": "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP",
}
"""Table of the objects that a field of ``PORT_QOS_MAP`` refers to."""
COLOURS = ("green", "yellow", "red")
_ROUND_ROBIN = frozenset({"DWRR", "WRR"})


class Box(NamedTuple):
    """What is so of the whole switch and not written in CONFIG_DB.

    Parameters
    ----------
    asic
        ``asic_type`` of the image: ``mellanox``, ``broadcom``, ``vs``, ...; empty if it does not say.
    rows
        Lines of ``pg_profile_lookup.ini``: by speed in Mb/s the cable lengths (``5m``) that the traditional
        buffer model has headroom for.
    refusal
        Why nothing can be read or set here (several ASICs); empty if it can.
    """

    asic: str = ""
    rows: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    refusal: str = ""


def metadata(config: Config) -> Fields:
    """Return what the switch says of itself."""
    return fields_of(config, "DEVICE_METADATA", "localhost")


def is_dynamic(config: Config) -> bool:
    """Say whether the buffer manager works out headroom by itself; otherwise it looks it up in a table."""
    return metadata(config).get("buffer_model") == "dynamic"


def is_mellanox(config: Config, box: Box) -> bool:
    """Say whether PFC priorities are led to groups by a map, and buffers of ports that are off reclaimed."""
    if box.asic in {"mellanox", "barefoot"}:
        return True
    return box.asic in {"", "vs"} and "mlnx" in metadata(config).get("platform", "")


def port_of(config: Config, port: str) -> Fields:
    """Return the port's own row; Odd if the switch has no such port."""
    if port not in config.get("PORT", {}):
        raise Odd(f"the switch has no port {port}")
    return config["PORT"][port]


def mtu_bytes(config: Config, port: str) -> int:
    """Return the MTU: the IP packet's, without Ethernet's header."""
    return number(port_of(config, port).get("mtu", DEFAULT_MTU), 68, 9216)


def pfc_asymmetric(config: Config, port: str) -> bool:
    """Say whether the port heeds pauses of all priorities."""
    return port_of(config, port).get("pfc_asym", "off") == "on"


def qos(config: Config, port: str) -> Fields:
    """Return the port's row in ``PORT_QOS_MAP``; its DSCP map is the switch's if it has none."""
    port_of(config, port)
    own = dict(row_of(config, "PORT_QOS_MAP", port))
    whole = fields_of(config, "PORT_QOS_MAP", GLOBAL)
    if "dscp_to_tc_map" in whole:
        own.setdefault("dscp_to_tc_map", whole["dscp_to_tc_map"])
    return own


def trust(config: Config, port: str) -> str:
    """Return what classifies: ``dscp``, ``pcp``, or ``none`` where no map is bound (all goes to class 0)."""
    bound = [
        word
        for field, word in (("dscp_to_tc_map", "dscp"), ("dot1p_to_tc_map", "pcp"))
        if field in qos(config, port)
    ]
    if len(bound) > 1:
        raise Odd("dscp_to_tc_map and dot1p_to_tc_map are both bound: which one counts is up to the ASIC")
    return bound[0] if bound else "none"


def dscp_priority(config: Config, port: str) -> Numbers:
    """Return the class of every DSCP; all 0 where no map is bound (the default class of a port)."""
    row = qos(config, port)
    if "dscp_to_tc_map" not in row:
        return (0,) * DSCPS
    found = _mapped(config, "dscp_to_tc_map", row, DSCPS)
    for dscp, each in enumerate(found):
        if each == UNMAPPED:
            raise Odd(f"DSCP_TO_TC_MAP|{name_of(row['dscp_to_tc_map'])} says nothing of DSCP {dscp}")
    return found


def priority_tc(config: Config, port: str) -> Numbers:
    """Return the queue of every class; all 0 where no map is bound (so SAI has it)."""
    row = qos(config, port)
    if "tc_to_queue_map" not in row:
        return (0,) * len(INDEXES)
    found = _mapped(config, "tc_to_queue_map", row, len(INDEXES))
    for each in INDEXES:
        if found[each] == UNMAPPED:
            raise Odd(f"TC_TO_QUEUE_MAP|{name_of(row['tc_to_queue_map'])} says nothing of class {each}")
    return found


def tc_group(config: Config, port: str) -> Numbers:
    """Return the priority group of every class."""
    return _mapped(config, "tc_to_pg_map", qos(config, port), len(INDEXES))


def pfc_priorities(config: Config, port: str) -> Numbers:
    """Return the priorities with PFC on."""
    return priorities(qos(config, port).get("pfc_enable", ""))


def pfc_queue(config: Config, port: str) -> Numbers:
    """Return which queue a pause of each PFC priority stops."""
    found = _mapped(config, "pfc_to_queue_map", qos(config, port), len(INDEXES))
    return tuple(found[each] for each in pfc_priorities(config, port))


def pfc_group(config: Config, port: str, box: Box) -> Numbers:
    """Return which priority group asks for a pause of each PFC priority.

    Only some ASICs have a map; on the others it is the group of the same number.
    """
    row = qos(config, port)
    enabled = pfc_priorities(config, port)
    if "pfc_to_pg_map" not in row and not is_mellanox(config, box):
        return enabled
    found = _mapped(config, "pfc_to_pg_map", row, len(INDEXES))
    return tuple(found[each] for each in enabled)


def _mapped(config: Config, field: str, row: Fields, size: int) -> Numbers:
    if field not in row:
        return (UNMAPPED,) * size
    entries = referred(config, MAPS[field], row[field])
    return tuple(
        number(entries[str(each)], 0, 7) if str(each) in entries else UNMAPPED for each in range(size)
    )


# Queues


def schedulers(config: Config, port: str) -> dict[int, Fields]:
    """Return by queue its scheduler; a queue without one is left out."""
    port_of(config, port)
    rows = by_index(config, "QUEUE", port)
    return {
        each: referred(config, "SCHEDULER", rows[each]["scheduler"])
        for each in INDEXES
        if "scheduler" in rows.get(each, {})
    }


def tc_scheduler(config: Config, port: str) -> tuple[str, ...]:
    """Return ``strict`` or ``ets`` of every queue; one without a scheduler has no share of its own: ets."""
    found = schedulers(config, port)
    kinds = {each: fields.get("type", "WRR") for each, fields in found.items()}
    for each, kind in kinds.items():
        if kind != "STRICT" and kind not in _ROUND_ROBIN:
            raise Odd(f"the scheduler of queue {each} has the type {kind!r:.20}")
    return tuple("strict" if kinds.get(each) == "STRICT" else "ets" for each in INDEXES)


def tc_bandwidth(config: Config, port: str) -> Numbers:
    """Return the weights as percents of their sum; the rest of the division goes to the largest fractions."""
    found = schedulers(config, port)
    weights = {
        each: number(fields.get("weight", "1"), 1, 255)
        for each, fields in found.items()
        if fields.get("type", "WRR") in _ROUND_ROBIN
    }
    total = sum(weights.values())
    shares = {each: 100 * weight // total for each, weight in weights.items()}
    fractions = sorted(weights, key=lambda each: (-(100 * weights[each] % total), each))
    for each in fractions[: 100 - sum(shares.values())]:
        shares[each] += 1
    return tuple(shares.get(each, 0) for each in INDEXES)


def profiles(config: Config, port: str) -> dict[int, Fields]:
    """Return by queue its WRED profile; a queue without one is left out."""
    port_of(config, port)
    rows = by_index(config, "QUEUE", port)
    return {
        each: referred(config, "WRED_PROFILE", rows[each]["wred_profile"])
        for each in INDEXES
        if "wred_profile" in rows.get(each, {})
    }


def marks(profile: Fields) -> bool:
    """Say whether a profile marks: all colours, and with WRED on for each (without it nothing does)."""
    on = all(profile.get(f"wred_{colour}_enable", "false").lower() == "true" for colour in COLOURS)
    return on and profile.get("ecn") == "ecn_all"


def ecn_queues(config: Config, port: str) -> Numbers:
    """Return the queues that mark."""
    return tuple(each for each, profile in sorted(profiles(config, port).items()) if marks(profile))


def lossless_queues_meant(config: Config, port: str) -> Numbers:
    """Return the queues that must mark if the port does: those of PFC, else all with WRED."""
    queues = priority_tc(config, port)
    meant = {queues[each] for each in pfc_priorities(config, port)} or set(profiles(config, port))
    return tuple(sorted(meant))


def ecn(config: Config, port: str) -> bool:
    """Say whether the lossless queues mark, all of them."""
    meant, found = lossless_queues_meant(config, port), ecn_queues(config, port)
    return bool(meant) and set(meant) <= set(found)


def threshold(config: Config, port: str, which: str) -> int:
    """Return ``min`` or ``max`` in bytes, or ``probability`` in percent, of the queues that mark.

    Raises
    ------
    Odd
        No queue marks, or queues or colours differ.
    """
    every = profiles(config, port)
    found: set[int] = set()
    for each in ecn_queues(config, port):
        found |= {_threshold(every[each], colour, which) for colour in COLOURS}
    if not found:
        raise Odd("no queue marks")
    if len(found) > 1:
        values = ", ".join(str(each) for each in sorted(found))
        raise Odd(f"colours or queues differ: {values}")
    return found.pop()


def _threshold(profile: Fields, colour: str, which: str) -> int:
    # Releases from 2026 on can have thresholds for marks beside those for drops.
    if which == "probability":
        text = profile.get(f"{colour}_drop_probability", "100")
        return number(profile.get(f"ecn_{colour}_mark_probability", text), 0, 100)
    plain = f"{colour}_{which}_threshold"
    for name in (f"ecn_{plain}", plain):
        if name in profile:
            return number(profile[name], 0, 2**63)
    raise Odd(f"a profile that marks has no {plain}")


# Buffers


def is_lossless_group(config: Config, row: Fields) -> bool:
    """Say whether a priority group has headroom: by the buffer manager, or its profile has some."""
    profile = name_or_none(row.get("profile"))
    if profile is None:
        return False
    if profile == DYNAMIC or profile.startswith(DERIVED):
        return True
    return fields_of(config, "BUFFER_PROFILE", profile).get("xoff", "0") not in {"", "0"}


def is_lossless_queue(config: Config, row: Fields) -> bool:
    """Say whether a queue keeps what it cannot send, by the name of its profile, or of the profile's pool."""
    profile = name_or_none(row.get("profile"))
    if profile is None:
        return False
    if "lossy" in profile or "lossless" in profile:
        return "lossless" in profile
    return "lossless" in fields_of(config, "BUFFER_PROFILE", profile).get("pool", "")


def name_or_none(reference: str | None) -> str | None:
    """Return the name that a profile field refers to; None for none, as ``0`` was once written."""
    if not reference or reference in {"0", "[BUFFER_PROFILE|0]"}:
        return None
    return reference[1:-1].rpartition("|")[2] if reference.startswith("[") else reference


def has_buffers(config: Config) -> bool:
    """Say whether the switch has buffer pools at all; the image's template makes them."""
    return bool(config.get("BUFFER_POOL"))


def lossless_groups(config: Config, port: str) -> set[int]:
    """Return the priority groups with headroom."""
    port_of(config, port)
    rows = by_index(config, "BUFFER_PG", port)
    return {each for each, row in rows.items() if is_lossless_group(config, row)}


def lossless_buffers(config: Config, port: str, box: Box) -> Numbers:
    """Return the classes whose priority group has headroom.

    The traditional buffer manager takes the rows away while a port is off, and brings them back.
    """
    groups = lossless_groups(config, port)
    if are_reclaimed(config, port, box):
        groups |= set(pfc_priorities(config, port))
    found = tc_group(config, port)
    return tuple(each for each in INDEXES if found[each] in groups)


def are_reclaimed(config: Config, port: str, box: Box) -> bool:
    """Say whether the rows with headroom are gone only because the port is off."""
    off = port_of(config, port).get("admin_status", "down") == "down"
    return off and not is_dynamic(config) and is_mellanox(config, box)


def lossless_queues(config: Config, port: str) -> Numbers:
    """Return the queues with a lossless buffer profile."""
    port_of(config, port)
    rows = by_index(config, "BUFFER_QUEUE", port)
    return tuple(each for each in INDEXES if is_lossless_queue(config, rows.get(each, {})))


def cable_length_m(config: Config, port: str) -> int:
    """Return the cable's length in metres; Odd if the switch has none for the port."""
    port_of(config, port)
    for lengths in config.get("CABLE_LENGTH", {}).values():
        if port in lengths:
            if not lengths[port].endswith("m"):
                raise Odd(f"CABLE_LENGTH is {lengths[port]!r:.20}")
            return number(lengths[port][:-1], 0, 100_000)
    raise Odd("CABLE_LENGTH says nothing of the port")


# The watchdog


def watchdog(config: Config, port: str) -> Numbers:
    """Return the priorities that are watched: the port is, and the counters that it looks at are polled."""
    row = fields_of(config, "PFC_WD", port)
    polled = fields_of(config, "FLEX_COUNTER_TABLE", "PFCWD").get("FLEX_COUNTER_STATUS") == "enable"
    watched = priorities(qos(config, port).get("pfcwd_sw_enable", ""))
    return watched if row and polled else ()


def watchdog_ms(config: Config, port: str, field: str) -> int:
    """Return ``detection_time``, ``restoration_time`` or ``POLL_INTERVAL`` of a watched port."""
    row = _watched(config, port)
    if field == "POLL_INTERVAL":
        row = fields_of(config, "PFC_WD", "GLOBAL")
    if field not in row:
        raise Odd(f"PFC_WD has no {field} for it")
    return number(row[field], 0, 10**6)


def watchdog_action(config: Config, port: str) -> str:
    """Return what becomes of a stormed queue's packets; ``drop`` if the port does not say."""
    return _watched(config, port).get("action", "drop")


def _watched(config: Config, port: str) -> Fields:
    port_of(config, port)
    row = fields_of(config, "PFC_WD", port)
    if not row:
        raise Odd("PFC_WD has no row for the port")
    return row
