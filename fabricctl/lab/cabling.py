"""Replug cables of a running lab.

A cable is two sockets with a path each, and QEMU looks its peer's path up anew for every frame. Two cables
are swapped by putting each socket at the path where the other was; no guest is restarted.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from fabricctl.errors import LabError, UsageError
from fabricctl.lab.boot import socket_path

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from fabricctl.lab.fabric import End, Fabric
    from fabricctl.lab.state import Fault

_OWN = ".own"
"""Ending of a second name of a socket, by which it is found again wherever its first name is."""


def end_at(fabric: Fabric, guest: str, port: str) -> End:
    """Return the cabled end at a guest's port.

    Raises
    ------
    UsageError
        There is no such guest, or no cable in that port.
    """
    ports = {end.port: end for end in fabric.ends(fabric.guest(guest).name)}
    if port not in ports:
        raise UsageError(
            f"no cable is plugged into {port!r}",
            where=guest,
            next_step=f"choose one of: {', '.join(ports)}",
        )
    return ports[port]


def ends_of(fabric: Fabric, swap: Fault) -> tuple[End, End, End, End]:
    """Return the ends of two swapped cables as they are meant: near, far, the other near, the other far."""
    near = end_at(fabric, swap.guest, swap.port)
    other = end_at(fabric, *swap.partner.split("/", 1))
    far, other_far = fabric.peer(near), fabric.peer(other)
    if far is None or other_far is None:
        raise LabError("a cable has one end only", next_step="report this bug")
    return near, far, other, other_far


def check(fabric: Fabric, wish: Fault, faults: Iterable[Fault]) -> None:
    """Refuse a swap that is none, that joins ports of another kind, or whose cables are in a fault already.

    Raises
    ------
    UsageError
        Says what to do instead.
    """
    ends = ends_of(fabric, wish)
    near, far, other, other_far = ends
    kinds = [(fabric.guest(end.guest).role, fabric.guest(end.guest).tier) for end in ends]
    if {near, far} == {other, other_far}:
        raise UsageError("a cable cannot be swapped with itself", next_step="name another port with --with")
    if kinds[:2] != kinds[2:]:
        # Leaves joined past their spine, or a switch to itself, would be a loop in which frames never end.
        raise UsageError(
            f"{near.guest} and {other.guest} are cabled to devices of another kind",
            next_step="swap a node's cable with that of another node, an uplink with another uplink",
        )
    places = {(end.guest, end.port) for end in ends}
    for fault in faults:
        held = {(fault.guest, fault.port)}
        if fault.kind == "swap":
            held = {(end.guest, end.port) for end in ends_of(fabric, fault)}
        if fault.kind in {"swap", "link-down"} and held & places:
            raise UsageError(
                f"a cable of {fault.guest} {fault.port} is pulled or swapped already",
                next_step="put it back first: fabricctl lab clear",
            )


def current(fabric: Fabric, faults: Iterable[Fault]) -> Fabric:
    """Return the fabric as it is cabled now."""
    now = fabric
    for fault in faults:
        if fault.kind == "swap":
            near, _, other, _ = ends_of(fabric, fault)
            now = now.swapped(near, other)
    return now


def swap(run: Path, ends: tuple[End, End, End, End]) -> None:
    """Plug two cables' near ends into each other's ports.

    Nothing is lost if this is done half: the second names stay, and `restore` goes by them.
    """
    for end in ends:
        if not _own(run, end).exists():
            os.link(socket_path(run, end), _own(run, end))
    near, far, other, other_far = ends
    for here, there in ((near, other), (other, near), (far, other_far), (other_far, far)):
        _put(_own(run, there), socket_path(run, here))


def restore(run: Path, ends: Iterable[End]) -> None:
    """Plug cables in as they are meant."""
    for end in ends:
        own = _own(run, end)
        if own.exists():
            _put(own, socket_path(run, end))
            own.unlink()


def _own(run: Path, end: End) -> Path:
    path = socket_path(run, end)
    return path.with_name(f"{path.name}{_OWN}")


def _put(own: Path, path: Path) -> None:
    """Give the socket called `own` the name `path` as well, at once: no frame finds nobody there."""
    beside = path.with_name(f"{path.name}.new")
    beside.unlink(missing_ok=True)
    os.link(own, beside)
    beside.rename(path)
    # Renaming to another name of the same socket does nothing, and leaves it.
    beside.unlink(missing_ok=True)
