"""Read link partners with lldpd's ``lldpcli``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fabricctl.model import facts
from fabricctl.model.reading import Entry
from fabricctl.plugin.answers import Unread, entry, parsed
from fabricctl.plugin.protocols import Answers, Query

# Port identifiers that are names; the other kinds (a MAC address, ...) are no use to a reader.
_NAMES = frozenset({"ifname", "local", "ifalias"})


def queries() -> tuple[Query, ...]:
    """Ask for all neighbours at once; ``json0`` keeps its shape whatever their number."""
    return (Query("lldpcli", ("lldpcli", "-f", "json0", "show", "neighbors")),)


def read_facts(name: str, answers: Answers) -> dict[str, Entry]:
    """Return the partner of the netdev as ``device/port``."""
    return {facts.PARTNER: entry(lambda: _partner(name, answers))}


def _partner(name: str, answers: Answers) -> str:
    heard = [item for item in _neighbours(parsed(answers, "lldpcli")) if item.get("name") == name]
    # Beside a host that names itself, one without a name is the firmware of its NIC.
    named = [item for item in heard if not _is_nameless(item)]
    partners = {_name(item) for item in named or heard}
    if not partners:
        raise Unread("no LLDP neighbour is heard on the port")
    if len(partners) > 1:
        raise Unread(f"several LLDP neighbours are heard on the port: {', '.join(sorted(partners))}")
    return partners.pop()


def _neighbours(said: Any) -> Iterator[Mapping[str, Any]]:
    """Walk the interfaces in any of lldpcli's JSON shapes, each with its name under ``name``."""
    for block in _several(said["lldp"]):
        for interface in _several(block.get("interface", [])):
            if "chassis" in interface:
                if interface.get("via", "LLDP") == "LLDP":
                    yield interface
                continue
            # json, not json0: {"eth1": {...}}
            for label, inner in interface.items():
                if inner.get("via", "LLDP") == "LLDP":
                    yield {**inner, "name": label}


def _is_nameless(interface: Mapping[str, Any]) -> bool:
    chassis = _several(interface["chassis"])[0]
    return "id" in chassis and not _value(chassis.get("name"))


def _name(interface: Mapping[str, Any]) -> str:
    chassis = _several(interface["chassis"])[0]
    port = _several(interface["port"])[0]
    if "id" not in chassis and len(chassis) == 1:
        # json, not json0: {"leaf1": {...}}
        device, chassis = next(iter(chassis.items()))
    else:
        device = _value(chassis.get("name")) or _value(chassis["id"])
    identity = _several(port["id"])[0]
    label = _value(identity)
    if identity.get("type") not in _NAMES:
        label = _value(port.get("descr")) or label
    if not device or not label:
        raise Unread("the LLDP neighbour names neither itself nor its port")
    return f"{device}/{label}"


def _value(item: Any) -> str:
    if item is None:
        return ""
    found = _several(item)[0]
    return str(found["value"]) if isinstance(found, dict) else str(found)


def _several(item: Any) -> list[Any]:
    return item if isinstance(item, list) else [item]
