"""Read what NX-OS shows of the ports at work: counters, PFC, queues, neighbours.

With ``| json`` a table's rows are a dict where there is one row and a list where there are several. The
shapes are those of Cisco's command reference and of public collectors; the watchdog's is not documented, so
that is read from the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fabricctl.drivers.switch.nxos import terms
from fabricctl.model import facts
from fabricctl.model.reading import Entry, Known
from fabricctl.plugin.answers import Unread, entries, entry, first, parsed, text
from fabricctl.plugin.protocols import Answers

INTERFACE = "show interface | json"
PFC = "show interface priority-flow-control | json"
QUEUES = "show queuing interface | json"
WATCHDOG = "show queuing pfc-queue detail"
NEIGHBOURS = "show lldp neighbors detail | json"
VERSION = "show version | json"
UPTIME = "show system uptime"
COUNTING = frozenset({INTERFACE, QUEUES, WATCHDOG})
"""The lines whose answers hold counters."""

_NAME = re.compile(r"(?:Ethernet|Eth)(\d[\d/]*)")
_ERRORS = {
    "rx_errors": "eth_inerr",
    "tx_errors": "eth_outerr",
    "rx_dropped": "eth_indiscard",
    "tx_dropped": "eth_outdiscard",
    "rx_pauses": "eth_inpause",
    "tx_pauses": "eth_outpause",
}
_SPEEDS = {"Mb/s": 1, "Gb/s": 1000}
_STORMS = {
    "Shutdown": "storms_detected",
    "Restored": "storms_restored",
    "Aggregate pkts dropped": "dropped_packets",
}


@dataclass
class Said:
    """What a device printed; each table is parsed once for all its ports."""

    answers: Answers
    _tables: dict[str, Any] = field(default_factory=dict)

    def table(self, key: str) -> Any:
        """Return the JSON that a line printed; Unread if there is none."""
        if key not in self._tables:
            self._tables[key] = parsed(self.answers, key)
        return self._tables[key]


def rows(holder: Any, name: str) -> list[Any]:
    """Return the rows of a table, however many there are; none if there is no such table."""
    tables = holder.get(f"TABLE_{name}", [])
    found: list[Any] = []
    for table in tables if isinstance(tables, list) else [tables]:
        row = table[f"ROW_{name}"]
        found += row if isinstance(row, list) else [row]
    return found


def port_name(said: str) -> str:
    """Return the port that ``Eth1/1`` or ``Ethernet1/1 Interface PFC watchdog`` is about; empty for none."""
    found = _NAME.search(said)
    return f"Ethernet{found[1]}" if found else ""


def read_facts(name: str, said: Said) -> dict[str, Entry]:
    """Return what is so of a port."""
    return {
        facts.LINK_STATE: entry(lambda: _state(_interface(said, name)["state"])),
        facts.SPEED: entry(lambda: _speed(_interface(said, name)["eth_speed"])),
        facts.MAC: entry(lambda: _mac(_interface(said, name)["eth_hw_addr"])),
        facts.PARTNER: entry(lambda: _partner(said, name)),
        facts.LINK_DOWNS: entry(_no_count),
        facts.FIRMWARE: entry(lambda: version(said)),
        facts.DRIVER: entry(lambda: str(said.table(VERSION)["chassis_id"]).strip()),
    }


def version(said: Said) -> str:
    """Return the release of NX-OS."""
    found = said.table(VERSION)
    return str(found.get("nxos_ver_str") or found["kickstart_ver_str"])


def boot_mark(said: Said) -> str:
    """Return when the system started, in its own words: that changes with every boot."""
    found = re.search(r"^System start time:\s*(.+?)\s*$", text(said.answers, UPTIME), re.MULTILINE)
    if not found:
        raise Unread("show system uptime names no start time")
    return " ".join(found[1].split())


def mtu(name: str, said: Said) -> int:
    """Return the MTU that a port reports; it is the configured one where none is shown as configured."""
    return int(_interface(said, name)["eth_mtu"])


def pfc_works(name: str, said: Said) -> bool:
    """Return whether PFC is on at a port in operation: with mode ``auto`` that is what DCBX agreed on."""
    return str(_pfc(said, name)["oper"]).strip().lower().startswith("on")


def default_queuing(name: str, said: Said) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Return scheduler and bandwidth of each queue as the port has them at work."""
    schedulers, percents = ["ets"] * terms.QUEUES, [0] * terms.QUEUES
    queues = [row for row in rows(_queuing(said, name, "Egress"), "qosgrp_cfg") if _is_queue(row["qosgrp"])]
    if {int(row["qosgrp"]) for row in queues} != set(range(terms.QUEUES)):
        raise Unread("NX-OS does not show eight queues for the port, and no queuing policy is bound to it")
    for row in queues:
        queue = int(row["qosgrp"])
        if str(row.get("priority", "-")).strip() not in {"-", "0", ""}:
            schedulers[queue] = "strict"
        else:
            percents[queue] = int(row["bandwidth"])
    return tuple(schedulers), tuple(percents)


def headroom(name: str, said: Said, strict: int) -> tuple[int, ...]:
    """Return the bytes between pause threshold and end of the buffer, of each class whose buffer is fixed."""
    found = [0] * terms.QUEUES
    sized = False
    for row in rows(_queuing(said, name, "Ingress"), "qosgrp_cfg"):
        if (
            _is_queue(row["qosgrp"])
            and _is_number(row.get("buffer-size"))
            and _is_number(row.get("pause-threshold"))
        ):
            spare = int(row["buffer-size"]) - int(row["pause-threshold"])
            found[terms.swapped(int(row["qosgrp"]), strict)] = spare
            sized = True
    if not sized:
        raise Unread("NX-OS computes the headroom and shows none for the port")
    return tuple(found)


def read_counters(name: str, said: Said, strict: int) -> dict[str, Entry]:
    """Return the counters of a port; those of queues are named by the policy's class."""
    found: dict[str, Entry] = {}
    readers: tuple[Callable[[], Mapping[str, Entry]], ...] = (
        lambda: _errors(_interface(said, name)),
        lambda: _pauses(name, said),
        lambda: _queues(name, said, strict),
        lambda: _storms(name, said, strict),
    )
    for reader in readers:
        found |= entries(reader)
    return found


def _interface(said: Said, name: str) -> Any:
    return first(
        rows(said.table(INTERFACE), "interface"),
        lambda row: row.get("interface") == name,
        f"NX-OS shows no port {name}",
    )


def _pfc(said: Said, name: str) -> Any:
    modules = rows(said.table(PFC), "module")
    found = (row for module in modules for row in rows(module, "pfc_interface"))
    return first(
        found, lambda row: port_name(str(row["if_name_str"])) == name, f"NX-OS shows no PFC of {name}"
    )


def _queuing(said: Said, name: str, way: str) -> Any:
    modules = rows(said.table(QUEUES), "module")
    found = (row for module in modules for row in rows(module, "queuing_interface"))
    return first(
        found,
        lambda row: row.get("dir") == way and port_name(str(row["if_name_str"])) == name,
        f"NX-OS shows no {way.lower()} queues of {name}",
    )


def _errors(row: Any) -> Mapping[str, Entry]:
    return {ours: Known(int(row[theirs])) for ours, theirs in _ERRORS.items() if _is_number(row.get(theirs))}


def _pauses(name: str, said: Said) -> Mapping[str, Entry]:
    """Return pause frames by priority; the priority is that of the frame, whatever queue it pauses."""
    found: dict[str, Entry] = {}
    for row in rows(_queuing(said, name, "Ingress"), "pfc_stats"):
        for ours, theirs in (("rx_frames", "rx-pause-count"), ("tx_frames", "tx-pause-count")):
            if _is_number(row.get(theirs)):
                found[f"pfc{int(row['cos'])}.{ours}"] = Known(int(row[theirs]))
    return found


_QUEUED = (("drop", "dropped_packets"), ("ecn", "ecn_marked_packets"), ("tx", "tx_packets"))
"""What a word in the name of a statistic of a queue says that it counts; the first that is in it."""


def _queues(name: str, said: Said, strict: int) -> Mapping[str, Entry]:
    counts: dict[str, int] = {}
    marked: list[int] = []
    for row in rows(_queuing(said, name, "Egress"), "qosgrp_egress_stats"):
        if not _is_queue(row["eq-qosgrp"]):
            continue  # CONTROL QOS GROUP, SPAN QOS GROUP
        queue = f"queue{terms.swapped(int(row['eq-qosgrp']), strict)}"
        for item in rows(row, "qosgrp_egress_stats_entry"):
            kind, units = str(item["eq-stat-type"]), str(item["eq-stat-units"])
            if not units.startswith("Pkts"):
                continue
            what = next((ours for word, ours in _QUEUED if word in kind.lower()), None)
            if what is None:
                continue
            counter = f"{queue}.{what}"
            counts[counter] = counts.get(counter, 0) + _total(item)
            if what == "ecn_marked_packets":
                marked.append(_total(item))
    found: dict[str, Entry] = {counter: Known(number) for counter, number in counts.items()}
    if marked:
        found["ecn.marked_packets"] = Known(sum(marked))
    return found


def _storms(name: str, said: Said, strict: int) -> Mapping[str, Entry]:
    found: dict[str, Entry] = {}
    queue = ""
    for line in _block(name, text(said.answers, WATCHDOG)):
        if group := re.search(r"QOS GROUP (\d)", line):
            queue = f"watchdog.queue{terms.swapped(int(group[1]), strict)}"
        elif (
            (item := re.fullmatch(r"\|\s*(.+?)\s*\|\s*(\d+)\s*\|", line.strip()))
            and item[1] in _STORMS
            and queue
        ):
            found[f"{queue}.{_STORMS[item[1]]}"] = Known(int(item[2]))
    return found


def _block(name: str, said: str) -> Iterator[str]:
    """Walk the lines about one port: its name begins a block."""
    mine = False
    for line in said.splitlines():
        if line[:1].isalpha() and port_name(line.split()[0]):
            mine = port_name(line.split()[0]) == name
        elif mine:
            yield line


def _total(item: Any) -> int:
    values = (item.get(f"eq-{kind}-stat-value") for kind in ("uc", "oobfc-uc", "mc"))
    return sum(int(value) for value in values if _is_number(value))


def _partner(said: Said, name: str) -> str:
    heard = [
        row for row in rows(said.table(NEIGHBOURS), "nbor_detail") if port_name(str(row["l_port_id"])) == name
    ]
    # Beside a host that names itself, one without a name is the firmware of its NIC.
    named = [row for row in heard if _far_name(row)]
    found = {f"{_far_name(row) or str(row['chassis_id']).strip()}/{_far_port(row)}" for row in named or heard}
    if not found:
        raise Unread("no LLDP neighbour is heard on the port")
    if len(found) > 1:
        raise Unread(f"several LLDP neighbours are heard on the port: {', '.join(sorted(found))}")
    return found.pop()


def _far_name(row: Any) -> str:
    """Return the neighbour's name, empty if it gives none: that is shown as ``null``, as of its port."""
    name = str(row.get("sys_name") or "").strip()
    return "" if name == "null" else name


def _far_port(row: Any) -> str:
    """Return the neighbour's port; a host that names itself by MAC address says the name beside it."""
    port, described = str(row["port_id"]).strip(), str(row.get("port_desc") or "").strip()
    by_address = re.fullmatch(r"[0-9a-f]{4}(\.[0-9a-f]{4}){2}|[0-9a-f]{2}(:[0-9a-f]{2}){5}", port.lower())
    return described if by_address and described not in {"", "null"} else port


def _state(said: object) -> str:
    return "up" if str(said) == "up" else "down"


def _speed(said: object) -> int:
    number, _, unit = str(said).partition(" ")
    if unit not in _SPEEDS or not _is_number(number):
        raise Unread(f"the port has no speed now: {said}")
    return int(number) * _SPEEDS[unit]


def _mac(said: object) -> str:
    digits = str(said).replace(".", "").replace(":", "").lower()
    if not re.fullmatch(r"[0-9a-f]{12}", digits):
        raise Unread(f"unparsable: {said!r} is no hardware address")
    return ":".join(digits[at : at + 2] for at in range(0, 12, 2))


def _no_count() -> int:
    raise Unread("NX-OS says when the link last flapped, not how often")


def _is_queue(said: object) -> bool:
    return re.fullmatch(r"[0-7]", str(said)) is not None


def _is_number(said: object) -> bool:
    return re.fullmatch(r"\d+", str(said)) is not None
