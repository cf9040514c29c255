"""Programs of users can open the verbs devices: nodes in ``/dev/infiniband``, their permissions, the library.

Passes if each verbs device of the inventory has its ``/dev/infiniband/uverbsN``, ``/dev/infiniband/rdma_cm``
is there, all may read and write them (or a group, then it is told), and libibverbs sees the device; where
``ibv_devinfo`` is not installed, that the library was not asked is told.
Fails if a node is absent, is no character device, or only its owner may open it (then RDMA works for root or
in privileged containers alone); if there is no such verbs device; and if libibverbs does not find a device
that the kernel has: then the library does not fit the driver.
Unknown if the node's answer cannot be read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from fabricctl.linkparts.hosts import each, whole
from fabricctl.model.fabric import Device, LinkLayer, Port
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.answers import Unread, text
from fabricctl.plugin.protocols import Answers, Query
from fabricctl.plugin.surveying import Need, Observation, Survey, cable

_NAME = "device_nodes"
_CM = "/dev/infiniband/rdma_cm"
_LIBRARY = "ibv_devinfo -l"
_ASK = f"""\
for one in /sys/class/infiniband/*; do
    [ ! -e "$one" ] || printf 'device %s\\n' "${{one##*/}}"
done
for one in /sys/class/infiniband_verbs/uverbs*; do
    read -r device <"$one/ibdev" || continue
    printf 'uverbs %s %s\\n' "$device" "${{one##*/}}"
done 2>/dev/null
for one in ib_uverbs rdma_ucm; do [ ! -d "/sys/module/$one" ] || printf 'module %s\\n' "$one"; done
for one in /dev/infiniband/uverbs* {_CM}; do
    [ ! -e "$one" ] || stat -L -c 'node %n %a %U %G %F' "$one"
done
echo done
"""
_MODE = re.compile(r"[0-7]{1,4}")
_ALL, _GROUP = 0o006, 0o060
_CHARACTER = "character special file"


@dataclass(frozen=True, slots=True)
class _DeviceNode:
    """A file in ``/dev``: its mode in octal digits, its owner and group, and what kind of file it is."""

    mode: int
    owner: str
    group: str
    kind: str


@dataclass(slots=True)
class _Found:
    devices: set[str] = field(default_factory=set)
    uverbs: dict[str, str] = field(default_factory=dict)
    modules: set[str] = field(default_factory=set)
    nodes: dict[str, _DeviceNode] = field(default_factory=dict)


class _Wrong(Exception):  # noqa: N818  no error of the program
    """A device cannot be used: what is wrong, and what to do."""

    def __init__(self, what: str, next_step: str) -> None:
        super().__init__(what)
        self.next_step = next_step


class _DeviceNodes:
    name = _NAME
    needs = Need.ANSWERS

    def queries(self, device: Device) -> tuple[Query, ...]:
        """Ask for the nodes, and the library for its devices."""
        if not any(map(_verbs, device.ports)):
            return ()
        return (Query("uverbs", ("sh", "-c", _ASK)), Query(_LIBRARY, ("ibv_devinfo", "-l")))

    def judge(self, survey: Survey) -> tuple[Finding, ...]:
        """Judge every verbs device of every node, and its rdma_cm."""
        if not any(_verbs(port) for port in survey.fabric.node_ports()):
            return ()
        return each(self.name, survey, lambda device, seen: _judge(survey, device, seen))


def _verbs(port: Port) -> str:
    """Return the verbs device of a port; on InfiniBand a port may be called by it."""
    return port.verbs_device or (port.id.port if port.link_layer is LinkLayer.INFINIBAND else "")


def _judge(survey: Survey, device: Device, seen: Observation) -> Iterator[Finding]:
    ports = [port for port in device.ports if _verbs(port)]
    if not ports:
        return
    try:
        found = _read(seen.answers)
    except Unread as exc:
        step = f"on {device.name}: ls -l /dev/infiniband"
        yield Finding(_NAME, device.name, Outcome.UNKNOWN, str(exc), next_step=step)
        return
    for port in ports:
        yield _say(cable(survey.fabric, port.id), str(port.id), lambda: _device(found, port, seen.answers))  # noqa: B023
    yield _say(device.name, device.name, lambda: _connections(found))


def _say(subject: str, culprit: str, judged: Callable[[], str]) -> Finding:
    try:
        what = judged()
    except _Wrong as exc:
        return Finding(_NAME, subject, Outcome.FAIL, str(exc), next_step=exc.next_step, culprit=culprit)
    return Finding(_NAME, subject, Outcome.PASS, what)


def _device(found: _Found, port: Port, answers: Answers) -> str:
    """Return what is right about a port's verbs device; _Wrong if something is not."""
    name = _verbs(port)
    if name not in found.devices:
        step = "see that the NIC's RDMA driver is loaded (mlx5_ib, bnxt_re, irdma, ...), and rdma link"
        raise _Wrong(f"there is no verbs device {name}", step)
    node = found.uverbs.get(name)
    if node is None:
        loaded = "is" if "ib_uverbs" in found.modules else "is not"
        raise _Wrong(
            f"{name} has no uverbs device, the module ib_uverbs {loaded} loaded",
            "modprobe ib_uverbs, and for each boot a line ib_uverbs in /etc/modules-load.d/rdma.conf",
        )
    path = f"/dev/infiniband/{node}"
    return f"{name}: {_opened(found, path)}; {_by_library(name, answers)}"


def _connections(found: _Found) -> str:
    if _CM not in found.nodes and "rdma_ucm" not in found.modules:
        raise _Wrong(
            f"there is no {_CM}: the module rdma_ucm is not loaded",
            "modprobe rdma_ucm, and for each boot a line rdma_ucm in /etc/modules-load.d/rdma.conf",
        )
    return _opened(found, _CM)


def _opened(found: _Found, path: str) -> str:
    """Return who may open a device node; _Wrong if it is none, or only its owner may."""
    node = found.nodes.get(path)
    if node is None:
        step = "udevadm trigger --subsystem-match=infiniband_verbs --subsystem-match=misc"
        raise _Wrong(f"there is no {path}", f"{step}; in a container, give it /dev/infiniband")
    if node.kind != _CHARACTER:
        raise _Wrong(f"{path} is no device but a {node.kind}", f"remove {path}, then udevadm trigger")
    if node.mode & _ALL == _ALL:
        return f"all may open {path}"
    if node.mode & _GROUP == _GROUP:
        return (
            f"{node.owner} and the group {node.group} may open {path} (mode {node.mode:04o}), others may not"
        )
    raise _Wrong(
        f"only {node.owner} may open {path} (mode {node.mode:04o}): RDMA works for privileged programs alone",
        f"chmod 0666 {path}; for each boot see what udev rule sets its mode (rdma-core leaves it at 0666)",
    )


def _by_library(name: str, answers: Answers) -> str:
    try:
        said = text(answers, _LIBRARY)
    except Unread as exc:
        # It ends with an error where it finds no device at all.
        if "No IB devices found" not in str(exc) and "0 HCAs found" not in str(exc):
            return f"libibverbs was not asked ({exc})"
        said = ""
    names = {line.strip() for line in said.splitlines() if line.startswith("\t") and line[1:].isprintable()}
    if name in names:
        return "libibverbs sees it"
    sees = f"only {', '.join(sorted(names))}" if names else "no device"
    raise _Wrong(
        f"the kernel has {name}, but libibverbs finds {sees}: the library does not fit the driver",
        "IBV_SHOW_WARNINGS=1 ibv_devinfo -l says why; install the rdma-core (or the vendor's library) that "
        "belongs to the driver",
    )


def _read(answers: Answers) -> _Found:
    found = _Found()
    for line in whole(answers, "uverbs"):
        match line.split(maxsplit=5):
            case ["device", name]:
                found.devices.add(name)
            case ["uverbs", name, node]:
                found.uverbs[name] = node
            case ["module", name]:
                found.modules.add(name)
            case ["node", path, mode, owner, group, kind] if _MODE.fullmatch(mode):
                found.nodes[path] = _DeviceNode(int(mode, 8), owner, group, kind)
            case _:
                pass
    return found


PLUGIN = _DeviceNodes()
