"""What sysfs says of verbs devices: ports, GID tables, counters."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Union

from fabricctl.agent.gid import Gid
from fabricctl.agent.wire import SETUP, Refusal

ROOT = Path("/sys")
"""Where sysfs is mounted."""
NO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"
NETDEV_COUNTERS = ("rx_dropped", "rx_missed_errors", "rx_errors", "tx_dropped", "tx_errors")
"""Drops in the host's own stack, which would look like loss in the fabric."""
WRAP = 1 << 32
"""Several NICs count in 32 bits."""


@dataclass(frozen=True)
class VerbsPort:
    """A port of a verbs device and the network device on it.

    Parameters
    ----------
    number
        From 1.
    netdev
        Empty on InfiniBand without IPoIB.
    """

    device: str
    number: int
    netdev: str
    root: Path

    @property
    def folder(self) -> Path:
        """Where sysfs keeps the port."""
        return self.root / "class" / "infiniband" / self.device / "ports" / str(self.number)

    @property
    def is_infiniband(self) -> bool:
        """Whether its link layer is InfiniBand."""
        return text(self.folder / "link_layer") == "InfiniBand"

    @property
    def is_iwarp(self) -> bool:
        """Whether it is RDMA over TCP; a driver that can do both says what it was loaded for."""
        return (text(self.root / "class" / "infiniband" / self.device / "node_type") or "").endswith("RNIC")

    @property
    def state(self) -> str:
        """``ACTIVE``, ``DOWN``, ...; empty if unknown."""
        return (text(self.folder / "state") or "").rpartition(":")[2].strip()


def text(path: Union[Path, str]) -> Optional[str]:
    """Return a file's text without white space around it, None if it cannot be read."""
    # Plain calls: a soft-RoCE port has 1,024 GID entries, and a file object for each takes a second.
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        return os.read(handle, 4096).decode("ascii", "replace").strip()
    except OSError:  # an empty GID entry reads as "Invalid argument"
        return None
    finally:
        os.close(handle)


def devices(root: Path) -> list[str]:
    """Return the names of all verbs devices."""
    folder = root / "class" / "infiniband"
    return sorted(p.name for p in folder.iterdir()) if folder.is_dir() else []


def find_port(netdev: str, device: str, root: Path) -> VerbsPort:
    """Return the verbs port on network device `netdev`.

    Parameters
    ----------
    device
        Verbs device of the inventory; empty to look through all.

    Raises
    ------
    Refusal
        There is no verbs device, or none on that port (kind ``setup``).
    """
    known = devices(root)
    if not known:
        raise Refusal(
            SETUP,
            "no RDMA device; load the NIC's driver (mlx5_ib, bnxt_re, irdma), or for soft-RoCE:"
            f" modprobe rdma_rxe && rdma link add rxe0 type rxe netdev {netdev}",
        )
    if device and device not in known:
        raise Refusal(SETUP, f"no RDMA device {device}, there is {', '.join(known)}; correct the inventory")
    ports = [p for d in ([device] if device else known) for p in _ports(d, root)]
    for port in ports:
        if port.is_infiniband and (device or netdev == port.device):
            return port
        if netdev in _netdevs(port):
            return VerbsPort(port.device, port.number, netdev, root)
    raise Refusal(
        SETUP,
        f"no port of {device or 'any RDMA device'} is on {netdev}: it is down, or belongs to another one;"
        f" see: rdma link; is {netdev} up?",
    )


def _ports(device: str, root: Path) -> Iterator[VerbsPort]:
    folder = root / "class" / "infiniband" / device / "ports"
    numbers = sorted(int(p.name) for p in folder.iterdir()) if folder.is_dir() else []
    return (VerbsPort(device, number, "", root) for number in numbers)


def _netdevs(port: VerbsPort) -> Iterator[str]:
    folder = port.folder / "gid_attrs" / "ndevs"
    indexes = sorted(int(p.name) for p in folder.iterdir()) if folder.is_dir() else []
    return (name for name in (text(folder / str(index)) for index in indexes) if name)


def gid_table(port: VerbsPort) -> list[Gid]:
    """Return the non-empty entries of the port's GID table, by index."""
    folder = str(port.folder / "gids")
    if not os.path.isdir(folder):  # noqa: PTH112  as in text()
        return []
    indexes = sorted(int(name) for name in os.listdir(folder))  # noqa: PTH208
    filled = (index for index in indexes if text(f"{folder}/{index}") not in {None, NO_GID})
    return [entry for entry in (gid_entry(port, index) for index in filled) if entry is not None]


def gid_entry(port: VerbsPort, index: int) -> Optional[Gid]:
    """Return one entry of the port's GID table, None if it is empty."""
    gid = text(port.folder / "gids" / str(index))
    if gid is None or gid == NO_GID:
        return None
    kind = text(port.folder / "gid_attrs" / "types" / str(index)) or ""
    netdev = text(port.folder / "gid_attrs" / "ndevs" / str(index)) or ""
    return Gid(index, gid, kind, netdev)


def counters(port: VerbsPort) -> dict[str, int]:
    """Return the port's counters as they are now; one that cannot be read is left out.

    The kernel may keep hardware counters for some milliseconds (``lifespan``): that long is waited first.
    """
    hardware = port.folder / "hw_counters"
    lifespan = text(hardware / "lifespan")
    if lifespan and lifespan.isdigit():
        time.sleep(min(int(lifespan), 1000) / 1000)
    paths = {p.name: p for folder in (port.folder / "counters", hardware) for p in _files(folder)}
    if port.netdev:
        folder = port.root / "class" / "net" / port.netdev / "statistics"
        paths.update({f"netdev_{name}": folder / name for name in NETDEV_COUNTERS})
    values = {name: text(path) for name, path in paths.items() if name != "lifespan"}
    return {name: int(value) for name, value in values.items() if value is not None and value.isdigit()}


def _files(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def deltas(before: dict[str, int], after: dict[str, int]) -> dict[str, Optional[int]]:
    """Return by how much each counter rose; None where it went back, for it was reset.

    One of 32 bits may have wrapped: then it rose by less than half of its range, or a reset to a small number
    would pass for a rise by thousands of millions.
    """
    rises: dict[str, Optional[int]] = {}
    for name in sorted(before.keys() & after.keys()):
        rise = after[name] - before[name]
        if rise < 0 and before[name] < WRAP and rise + WRAP < WRAP // 2:
            rise += WRAP
        rises[name] = rise if rise >= 0 else None
    return rises
