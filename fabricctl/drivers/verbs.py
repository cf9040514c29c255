"""Read verbs devices with sysfs, ``ibv_devinfo`` and rdma_cm's configfs."""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Mapping

from fabricctl.drivers import files
from fabricctl.model import facts, settings
from fabricctl.model.fabric import Port
from fabricctl.model.reading import Entry
from fabricctl.plugin.answers import Unread, entries, entry, text
from fabricctl.plugin.protocols import Answers, Query

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_GID = re.compile(r"^\s*GID\[\s*(\d+)\]:\s+([0-9A-Fa-f:.]+)(?:, (\S.*))?$", re.MULTILINE)
_MTU = re.compile(r"^\s*active_mtu:\s*(\d+) \(\d\)\s*$", re.MULTILINE)
_TOS_MAX = 255

# rdma_cm shows a device's defaults only in a folder that somebody makes; it is removed again if it was ours.
_CMA = """\
cd /sys/kernel/config/rdma_cm || exit
[ -d "$1" ] || { mkdir "$1" && trap 'rmdir "$1"' EXIT; } || exit
for name in mode tos; do
    read -r value <"$1/ports/1/default_roce_$name" || exit
    echo "$value"
done
"""


def paths(port: Port) -> tuple[str, ...]:
    """Return the files to read of a port's verbs device; none if the inventory names no device."""
    if not _NAME.fullmatch(port.rdma):
        return ()
    root = f"/sys/class/infiniband/{port.rdma}"
    folders = [f"{root}/ports/1/{name}" for name in ("state", "hw_counters", "counters")]
    return (f"{root}/parent", f"{root}/fw_ver", *folders)


def queries(port: Port) -> tuple[Query, ...]:
    """Ask for the verbs device of `port`; nothing if the inventory names none."""
    if not _NAME.fullmatch(port.rdma):
        return ()
    return (
        # It walks the GID table itself: thousands of files in sysfs take far longer.
        Query(f"ibv_devinfo {port.rdma}", ("ibv_devinfo", "-v", "-d", port.rdma, "-i", "1")),
        Query(f"rdma_cm {port.rdma}", ("sh", "-c", _CMA, "sh", port.rdma)),
    )


def read_settings(port: Port, answers: Answers) -> dict[str, Entry]:
    """Return rdma_cm's defaults for RoCE."""
    return {
        settings.ROCE_MODE: entry(lambda: _cma(port, answers)[0]),
        settings.ROCE_TOS: entry(lambda: _tos(_cma(port, answers)[1])),
    }


def read_facts(port: Port, answers: Answers) -> dict[str, Entry]:
    """Return state, active MTU, GIDs and firmware of the verbs port."""
    return {
        facts.RDMA_DEVICE: entry(lambda: _device(port, answers)),
        facts.RDMA_STATE: entry(lambda: _state(port, answers)),
        facts.RDMA_MTU: entry(lambda: _active_mtu(port, answers)),
        facts.GIDS: entry(lambda: _gids(port, answers)),
        facts.FIRMWARE: entry(lambda: _firmware(port, answers)),
    }


def read_counters(port: Port, answers: Answers) -> Mapping[str, Entry]:
    """Return the device's counters as it spells them, ``hw_counters`` and ``counters`` together."""

    def read() -> Mapping[str, Entry]:
        base = f"{_root(port)}/ports/1/"
        found: dict[str, Entry] = {}
        for path, value in files.under(answers, base).items():
            folder, _, name = path.removeprefix(base).partition("/")
            if folder in {"hw_counters", "counters"} and name != "lifespan":
                found[name] = entry(functools.partial(int, value))
        return found

    return entries(read)


def parent(port: Port, answers: Answers) -> str:
    """Return the netdev that carries a software device (rxe, siw); Unread for any other."""
    return _file(port, answers, "parent")


def _root(port: Port) -> str:
    if not port.rdma:
        raise Unread("the inventory names no verbs device (rdma: in fabric_ports)")
    return f"/sys/class/infiniband/{port.rdma}"


def _file(port: Port, answers: Answers, name: str) -> str:
    root = _root(port)
    if not files.under(answers, f"{root}/"):
        raise Unread(f"there is no verbs device {port.rdma}")
    return files.content(answers, f"{root}/{name}")


def _state(port: Port, answers: Answers) -> str:
    _, colon, state = _file(port, answers, "ports/1/state").partition(":")
    if not colon or not state.strip():
        raise Unread("unparsable: the port's state")
    return state.strip()


def _device(port: Port, answers: Answers) -> str:
    _state(port, answers)
    return port.rdma


def _firmware(port: Port, answers: Answers) -> str:
    version = _file(port, answers, "fw_ver")
    if not version:
        raise Unread("the device has no firmware version")
    return version


def _devinfo(port: Port, answers: Answers) -> str:
    _state(port, answers)
    return text(answers, f"ibv_devinfo {port.rdma}")


def _active_mtu(port: Port, answers: Answers) -> int:
    found = _MTU.search(_devinfo(port, answers))
    if not found:
        raise Unread("ibv_devinfo names no active_mtu")
    return int(found[1])


def _gids(port: Port, answers: Answers) -> tuple[str, ...]:
    said = _devinfo(port, answers)
    return tuple(f"{int(index)} {kind or 'IB'} {_address(gid)}" for index, gid, kind in _GID.findall(said))


def _address(gid: str) -> str:
    address = ipaddress.IPv6Address(gid)
    return f"::ffff:{address.ipv4_mapped}" if address.ipv4_mapped else str(address)


def _cma(port: Port, answers: Answers) -> tuple[str, str]:
    _root(port)
    mode, tos = text(answers, f"rdma_cm {port.rdma}").splitlines()
    return mode.strip(), tos.strip()


def _tos(said: str) -> int:
    tos = int(said)
    if not 0 <= tos <= _TOS_MAX:
        raise Unread(f"unparsable: {tos} is no type of service")
    return tos
