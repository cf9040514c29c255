"""The PCI functions behind fabric ports and GPUs, and every bridge above them, as sysfs has them.

What a bond carries is its members'; the link of a virtual function is its physical function's. Capabilities
are read from configuration space, as the PCI Local Bus and PCI Express Base specifications lay it out
(``include/uapi/linux/pci_regs.h`` of the kernel has the offsets).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fabricctl.linkparts.hosts import whole
from fabricctl.model.fabric import Device, Role
from fabricctl.model.names import PortId
from fabricctl.plugin.answers import Unread
from fabricctl.plugin.protocols import Answer, Answers, Query

_KEY = "pci"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,63}")
_FUNCTION = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_OF_FUNCTION = (
    "uevent",
    "numa_node",
    "local_cpulist",
    "current_link_speed",
    "current_link_width",
    "max_link_speed",
    "max_link_width",
    "driver/module/version",
)
# Addresses of PCI functions have colons too, and so may what is in a file.
_FILE = re.compile(rf"(/.*?/(?:{'|'.join(_OF_FUNCTION)}|fw_ver|board_id|online|product_name|osrelease)):(.*)")
_HEX = re.compile(r"([0-9a-f]{6,})((?: [0-9a-f]{2})*)\s*")

SHELL = """\
fn() {
    at=$(readlink -f "$1") || return
    while [ -n "$at" ]; do
        case ${at##*/} in *:??:??.?) [ ! -e "$at/config" ] || { echo "$at"; return; } ;; esac
        at=${at%/*}
    done
}
pci_functions() {
    read -r slaves <"/sys/class/net/$1/bonding/slaves" || slaves=
    for slave in $slaves; do fn "/sys/class/net/$slave/device"; done
    [ -z "$slaves" ] || return
    for folder in "net/$1" "infiniband/$2" "infiniband/$1"; do
        found=$(fn "/sys/class/$folder/device")
        [ -z "$found" ] || { echo "$found"; return; }
    done
}
"""
"""Defines ``pci_functions PORT RDMA``: prints the sysfs folders of the PCI functions behind a port."""

_ASK = """\
seen=' ' files='/sys/devices/system/node/online /sys/class/dmi/id/product_name /proc/sys/kernel/osrelease'
above() {
    up=$1
    while case ${up##*/} in *:??:??.?) ;; *) false ;; esac; do
        case $seen in *" $up "*) ;; *) seen="$seen$up " ;; esac
        up=${up%/*}
    done
}
verbs() {
    for name in fw_ver board_id; do
        path=/sys/class/infiniband/$1/$name
        case " $files " in *" $path "*) ;; *) files="$files $path" ;; esac
    done
}
while [ $# -gt 1 ]; do
    [ -e "/sys/class/net/$1" ] || [ -e "/sys/class/infiniband/$1" ] || [ -e "/sys/class/infiniband/$2" ] || {
        printf 'absent %s\\n' "$1"
        shift 2
        continue
    }
    printf 'port %s' "$1"
    for found in $(pci_functions "$1" "$2" 2>/dev/null); do
        printf ' %s' "$found"
        above "$found"
    done
    echo
    verbs "$2"
    for one in "/sys/class/net/$1/device/infiniband"/*; do
        [ -e "$one" ] || continue
        printf 'carries %s %s\\n' "$1" "${one##*/}"
        verbs "${one##*/}"
    done
    shift 2
done
for found in $seen; do
    [ -e "$found/physfn" ] || continue
    real=$(readlink -f "$found/physfn")
    printf 'virtual %s %s\\n' "$found" "$real"
    above "$real"
done
for found in /sys/bus/pci/devices/*; do
    read -r class <"$found/class" && read -r vendor <"$found/vendor" || continue
    case $vendor:$class in 0x10de:0x03*|0x1002:0x03*|0x8086:0x0380*|0x????:0x1200*) ;; *) continue ;; esac
    [ ! -e "$found/physfn" ] || continue
    found=$(readlink -f "$found")
    printf 'gpu %s\\n' "$found"
    above "$found"
done 2>/dev/null
for found in $seen; do
    printf 'config %s\\n' "$found"
    od -Ax -tx1 -N4096 "$found/config"
    for name in @files@; do
        files="$files $found/$name"
    done
done
grep -H "" $files
echo done
""".replace("@files@", " ".join(_OF_FUNCTION))

EXPRESS, ACS = 0x10, 0x0D
"""Numbers of the PCI Express capability and of the extended capability Access Control Services."""
_STATUS, _HAS_LIST, _FIRST = 0x06, 0x10, 0x34
_EXTENDED, _SPACE = 0x100, 0x1000


@dataclass(slots=True)
class Function:
    """A PCI function.

    Parameters
    ----------
    path
        Its folder in sysfs: those of the bridges above it are in it.
    files
        What is in its files, by name; what could not be read is not in it.
    config
        Its configuration space, as much of it as could be read: 64 bytes without privileges, 256 of a
        conventional device, 4096 of a PCI Express device.
    """

    path: str
    files: dict[str, str] = field(default_factory=dict)
    config: bytes = b""

    @property
    def address(self) -> str:
        """``0000:17:00.0``."""
        return self.path.rpartition("/")[2]

    @property
    def slot(self) -> str:
        """The address without the function: functions of one card share it."""
        return self.address.rpartition(".")[0]

    def uevent(self, name: str) -> str:
        """Return what the kernel says of it (``DRIVER``, ``PCI_ID``), empty if nothing."""
        for line in self.files.get("uevent", "").splitlines():
            label, _, value = line.partition("=")
            if label == name:
                return value
        return ""

    @property
    def vendor(self) -> str:
        """Four hexadecimal digits, empty if not known."""
        return self.uevent("PCI_ID").partition(":")[0].lower()

    def capability(self, number: int) -> int | None:
        """Return where a capability begins, None if the function has none; Unread if that is not known."""
        config = self.config
        if len(config) <= _EXTENDED // 4:
            raise Unread(f"the configuration space of {self.address} can only be read by root")
        if not config[_STATUS] & _HAS_LIST:
            return None
        at, steps = config[_FIRST] & 0xFC, 0
        while at and at + 1 < len(config) and steps < _EXTENDED // 4:
            if config[at] == number:
                return at
            at, steps = config[at + 1] & 0xFC, steps + 1
        return None

    def extended(self, number: int) -> int | None:
        """Return where an extended capability begins, None if there is none; Unread if that is not known."""
        if self.capability(EXPRESS) is None:
            return None
        if len(self.config) <= _EXTENDED:
            raise Unread(
                f"only {len(self.config)} bytes of the configuration space of {self.address} can be read"
            )
        at, steps = _EXTENDED, 0
        while _EXTENDED <= at <= len(self.config) - 4 and steps < len(self.config) // 4:
            head = int.from_bytes(self.config[at : at + 4], "little")
            if head & 0xFFFF == number:
                return at
            at, steps = head >> 20 & 0xFFC, steps + 1
        return None

    def word(self, at: int, size: int = 2) -> int:
        """Return a little-endian number of the configuration space."""
        if at + size > len(self.config):
            raise Unread(f"the configuration space of {self.address} ends before byte {at + size}")
        return int.from_bytes(self.config[at : at + size], "little")


@dataclass(slots=True)
class Tree:
    """What was found on a node.

    Parameters
    ----------
    ports
        By port name: the folders of the PCI functions that carry it; none for a software device.
    absent
        Names of ports that are not there.
    carries
        By port name: verbs devices of its PCI function.
    virtual
        By the folder of a virtual function: that of its physical function; in a guest it is not known.
    gpus
        Folders of GPUs; display adapters of servers' management are none.
    functions
        By folder: all of these, and the bridges above.
    files
        What is in other files, by path.
    """

    ports: dict[str, tuple[str, ...]] = field(default_factory=dict)
    absent: tuple[str, ...] = ()
    carries: dict[str, tuple[str, ...]] = field(default_factory=dict)
    virtual: dict[str, str] = field(default_factory=dict)
    gpus: tuple[str, ...] = ()
    functions: dict[str, Function] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)

    def of(self, port: PortId) -> tuple[Function, ...]:
        """Return the functions that carry a port; Unread if the port was not looked for."""
        if port.port in self.absent:
            raise Unread(f"there is no network interface or verbs device {port.port}")
        if port.port not in self.ports:
            raise Unread(f"the PCI device of {port.port} was not looked for")
        return tuple(self.functions[path] for path in self.ports[port.port])

    def physical(self, function: Function) -> Function:
        """Return the physical function of a virtual one, else itself."""
        return self.functions.get(self.virtual.get(function.path, ""), function)

    def above(self, function: Function) -> tuple[Function, ...]:
        """Return the bridges above a function, the nearest first."""
        found, path = [], function.path.rpartition("/")[0]
        while _FUNCTION.fullmatch(path.rpartition("/")[2]):
            found.append(self.functions.get(path) or Function(path))
            path = path.rpartition("/")[0]
        return tuple(found)


def named(device: Device) -> list[str]:
    """Return name and verbs device of each port that can be asked about, in one list.

    Where the inventory names no verbs device the port may be called by it, as on InfiniBand.
    """
    words = []
    for port in device.ports:
        name, verbs = port.id.port, port.verbs_device
        if _NAME.fullmatch(name):
            words += [name, verbs if _NAME.fullmatch(verbs) else name]
    return words


def queries(device: Device) -> tuple[Query, ...]:
    """Ask a node for the PCI functions behind its ports, and for GPUs; a switch for nothing."""
    if device.role is not Role.NODE:
        return ()
    return (Query(_KEY, ("sh", "-c", f"{SHELL}{_ASK}", "sh", *named(device))),)


def read(answers: Answers) -> Tree:
    """Return what was found, not to be changed; Unread if it was not said."""
    answer = answers.get(_KEY)
    if answer is None:
        raise Unread("not asked")
    return _read(answer)


@functools.lru_cache(maxsize=8192)
def _read(answer: Answer) -> Tree:
    """Return what was found; kept, for several checks read it for each port of many nodes."""
    answers = {_KEY: answer}
    tree = Tree()
    images: dict[str, bytearray] = {}
    current: bytearray | None = None
    repeat = False
    for line in whole(answers, _KEY):
        row = _HEX.fullmatch(line)
        if line.startswith("config "):
            current, repeat = images.setdefault(line[7:], bytearray()), False
        elif row and current is not None:
            _add(current, int(row[1], 16), bytes.fromhex(row[2]), repeat=repeat)
            repeat = False
        elif line == "*":
            repeat = True
        elif line.startswith("/"):
            held = _FILE.fullmatch(line)
            if held:
                tree.files[held[1]] = f"{tree.files.get(held[1], '')}\n{held[2]}".strip()
        else:
            _found(tree, line.split())
    _gather(tree, images)
    return tree


def _add(image: bytearray, at: int, row: bytes, *, repeat: bool) -> None:
    """Add a row of ``od``, which leaves out rows that are as the one before."""
    if repeat and image:
        last = bytes(image[-16:])
        while len(image) < min(at, _SPACE):
            image += last
    if at == len(image):
        image += row


def _found(tree: Tree, words: Sequence[str]) -> None:
    match words:
        case ["port", name, *paths]:
            tree.ports[name] = tuple(paths)
        case ["absent", name]:
            tree.absent = (*tree.absent, name)
        case ["carries", name, device]:
            tree.carries[name] = (*tree.carries.get(name, ()), device)
        case ["virtual", path, real]:
            tree.virtual[path] = real
        case ["gpu", path]:
            tree.gpus = (*tree.gpus, path)
        case _:
            pass


def _gather(tree: Tree, images: Mapping[str, bytearray]) -> None:
    """Give each function its files."""
    listed = (*(path for paths in tree.ports.values() for path in paths), *tree.virtual.values(), *tree.gpus)
    for path in (*images, *listed):
        tree.functions.setdefault(path, Function(path, config=bytes(images.get(path, b""))))
    for path in tuple(tree.files):
        for name in _OF_FUNCTION:
            owner = tree.functions.get(path.removesuffix(f"/{name}"))
            if owner is not None:
                owner.files[name] = tree.files.pop(path)
                break
