"""Read congestion control of a Broadcom NIC: from Broadcom's configfs, or from the kernel's debugfs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fabricctl.drivers import functions, sections
from fabricctl.model import settings
from fabricctl.model.fabric import Port
from fabricctl.model.reading import Entry, Missing, Value
from fabricctl.plugin.answers import Unread, entry, partial
from fabricctl.plugin.protocols import Answers, Query

ECN_MARKING = "bnxt.ecn_marking"
"""int: ECN field of the RoCE packets that the NIC sends: 0 not ECN-capable, 1 ECT(1), 2 ECT(0)."""
PRIORITY_VLAN = "bnxt.priority_vlan"
"""bool: whether RoCE packets outside a VLAN get a tag of VLAN 0 for their priority."""
ROCE_PRIORITY = "bnxt.roce_priority"
"""int 0..7: priority of RoCE packets."""
ROCE_DSCP = "bnxt.roce_dscp"
"""int 0..63: the DSCP that goes with `ROCE_PRIORITY`."""

_WORDS = {
    "Enabled": 1,
    "Disabled": 0,
    "Not-ECT": 0,
    "ECT(1)": 1,
    "ECT(0)": 2,
    "DCQCN-D": 0,
    "DCQCN-P": 1,
    "TCP": 1,
}
_DEBUGFS_KEY = "bnxt_re debugfs"
_FIRMWARES = frozenset({ROCE_PRIORITY, ROCE_DSCP, settings.CNP_PRIORITY, settings.CNP_DSCP})
_OWNED = (
    "the firmware owns it (fw_service_prof_type_sup is 1): it follows from the DSCP map and the classes, "
    "and the NIC shows none"
)
_NEITHER = (
    "no congestion control in configfs or debugfs: neither Broadcom's bnxt_re nor a kernel from 6.14 on"
)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a setting is: its name in the listing of configfs, its file in debugfs ("" if it has none)."""

    listed: str
    file: str
    highest: int


_PLACES: Mapping[str, _Place] = {
    settings.DCQCN: _Place("ecn_enable", "enable_cc", 1),
    ECN_MARKING: _Place("ecn_marking", "tos_ecn", 2),
    "bnxt.cc_mode": _Place("cc_mode", "cc_mode", 1),
    PRIORITY_VLAN: _Place("VLAN 0", "", 1),
    ROCE_PRIORITY: _Place("roce_prio", "", 7),
    ROCE_DSCP: _Place("roce_dscp", "tos_dscp", 63),
    settings.CNP_PRIORITY: _Place("cnp_prio", "alt_vlan_pcp", 7),
    settings.CNP_DSCP: _Place("cnp_dscp", "alt_vlan_dscp", 63),
    "bnxt.g": _Place("g", "run_avg_weight_g", 255),
    "bnxt.inact_th": _Place("inact_th", "inactivity_cp", 65535),
    "bnxt.init_cr": _Place("init_cr", "init_cr", 65535),
    "bnxt.init_tr": _Place("init_tr", "init_tr", 65535),
}
_BOOLEAN = frozenset({settings.DCQCN, PRIORITY_VLAN})

# The folder is made to be read, and taken away again if it was not there.
_CONFIGFS = """\
sed -n 's/^[[:space:]]*fw_service_prof_type_sup[[:space:]]*:[[:space:]]*/service type: /p' \
    "/sys/kernel/debug/bnxt_re/$1/info" 2>/dev/null
cd /sys/kernel/config/bnxt_re || exit
[ -d "$1" ] || { mkdir "$1" && trap 'rmdir "$1"' EXIT; } || exit
cat "$1/ports/1/cc/apply"
"""
_DEBUGFS = """\
    pci=$(sed -n 's/^PCI_SLOT_NAME=//p' "/sys/class/net/$1/device/uevent") || return
    cd "/sys/kernel/debug/bnxt_re/$pci/cc_config" || return
    for file in {files}; do
        echo "$file: $(cat "$file")"
    done
"""


def queries(ports: Sequence[Port]) -> tuple[Query, ...]:
    """Ask for both places, of all verbs devices and all functions."""
    files = " ".join(place.file for place in _PLACES.values() if place.file)
    devices = dict.fromkeys(port.rdma for port in ports if port.rdma)
    return (
        *(Query(_key(rdma), ("sh", "-c", _CONFIGFS, "sh", rdma)) for rdma in devices),
        sections.query(_DEBUGFS_KEY, ports, _DEBUGFS.format(files=files)),
    )


def read_settings(port: Port, answers: Answers) -> dict[str, Entry]:
    """Return what the NIC itself says it has, not what was staged for it."""
    if plane(port, answers) == "configfs":
        return {name: _listed(name, port, answers) for name in _PLACES}
    return functions.merged(
        port.id.port, answers, lambda each: {name: _from_debugfs(name, each, answers) for name in _PLACES}
    )


def plane(port: Port, answers: Answers) -> str:
    """Return ``configfs``, ``debugfs``, or nothing where neither has congestion control."""
    if "(ecn_enable)" in _listing(port, answers):
        return "configfs"
    try:
        names = functions.of(port.id.port, answers)
    except Unread:
        return ""
    return "debugfs" if any(_files(name, answers) for name in names) else ""


def _key(rdma: str) -> str:
    return f"bnxt_re {rdma}"


def _listing(port: Port, answers: Answers) -> str:
    try:
        return partial(answers, _key(port.rdma))
    except Unread:
        return ""


def _listed(name: str, port: Port, answers: Answers) -> Entry:
    said = _listing(port, answers)
    found = re.search(rf"\({re.escape(_PLACES[name].listed)}\)[ \t]*:[ \t]*(\S+)", said)
    if found:
        return entry(lambda: _value(name, found[1]))
    if name in {settings.CNP_PRIORITY, settings.CNP_DSCP} and "(ecn_enable)\t" in said and _is_off(said):
        return Missing("the NIC shows it only while congestion control is on")
    if name in _FIRMWARES and re.search(r"^service type: 1$", said, re.MULTILINE):
        return Missing(_OWNED, impossible=True)
    return Missing(f"bnxt_re shows no {_PLACES[name].listed}")


def _is_off(said: str) -> bool:
    return bool(re.search(r"\(ecn_enable\)\s*: Disabled", said))


def _from_debugfs(name: str, function: str, answers: Answers) -> Entry:
    found = _files(function, answers)
    place = _PLACES[name]
    if not found:
        said = _section(function, answers)
        if "Permission denied" in said or "not permitted" in said:
            return Missing(f"debugfs cannot be read: {said.splitlines()[-1]}")
        return Missing(_NEITHER, impossible=True)
    if not place.file:
        return Missing("the kernel's bnxt_re has no such value in debugfs", impossible=True)
    if place.file not in found:
        return Missing(f"debugfs shows no {place.file}")
    return entry(lambda: _value(name, found[place.file]))


def _files(function: str, answers: Answers) -> dict[str, str]:
    pairs = (line.partition(": ") for line in _section(function, answers).splitlines())
    known = {place.file for place in _PLACES.values() if place.file}
    return {label: value for label, _, value in pairs if label in known and value}


def _section(function: str, answers: Answers) -> str:
    try:
        return sections.of(_DEBUGFS_KEY, function, answers)
    except Unread:
        return ""


def _value(name: str, word: str) -> Value:
    number = _WORDS[word] if word in _WORDS else int(word, 0)
    if not 0 <= number <= _PLACES[name].highest:
        raise Unread(f"unparsable: {word} is not within 0..{_PLACES[name].highest}")
    return bool(number) if name in _BOOLEAN else number
