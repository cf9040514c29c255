"""NICs of one model have the same firmware and driver, and nodes the same kernel.

A model is the PCI vendor and device, with the board's number (``board_id``, the PSID of NVIDIA's) where
there is one: two boards with the same chip have firmware of their own. Compared are the nodes that were
asked.

Passes if a NIC's firmware and driver are those of most of its model; a node whose kernel is not that of most
others passes too, and is told. Software devices and virtio have nothing to compare.
Fails if they are others; where no version is the most frequent one, both groups are named in one finding.
Unknown if a NIC does not say its firmware, or is not there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fabricctl.linkparts import pci
from fabricctl.linkparts.hosts import listed, nodes, unanswered
from fabricctl.linkparts.pci import Function, Tree
from fabricctl.model import facts
from fabricctl.model.fabric import Device
from fabricctl.model.names import PortId
from fabricctl.model.reading import Known
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.answers import Unread
from fabricctl.plugin.protocols import Query
from fabricctl.plugin.surveying import Need, Observation, Survey, cable

_NAME = "uniform"
_KERNEL = "/proc/sys/kernel/osrelease"
_VIRTIO = "1af4"
_LOOK = "ip link, and rdma link: correct the name in the inventory, or load the driver"


@dataclass(frozen=True, slots=True)
class _Nic:
    """What one port's NIC says of itself; `firmware` is empty where that was not said."""

    port: PortId
    model: str
    firmware: str
    driver: str


class _Nothing(Exception):  # noqa: N818  no error
    """There is nothing to compare; the message says why."""


class _Uniform:
    name = _NAME
    needs = Need.ANSWERS

    def queries(self, device: Device) -> tuple[Query, ...]:
        """Ask for the NICs, their firmware and drivers, and the kernel."""
        return pci.queries(device)

    def judge(self, survey: Survey) -> tuple[Finding, ...]:
        """Compare the NICs of each model, and the kernels of nodes."""
        found = nodes(survey)
        if not found:
            return unanswered(self.name, survey)
        findings: list[Finding] = []
        nics: list[_Nic] = []
        kernels: dict[str, str] = {}
        for device, seen in found:
            try:
                tree = pci.read(seen.answers)
            except Unread as exc:
                step = f"on {device.name}: cat /sys/class/infiniband/*/fw_ver; uname -r"
                findings.append(Finding(_NAME, device.name, Outcome.UNKNOWN, str(exc), next_step=step))
                continue
            kernels[device.name] = tree.files.get(_KERNEL, "")
            for port in device.ports:
                subject = cable(survey.fabric, port.id)
                try:
                    nics.append(_nic(tree, seen, port.id, port.verbs_device))
                except _Nothing as exc:
                    findings.append(Finding(_NAME, subject, Outcome.PASS, str(exc)))
                except Unread as exc:
                    findings.append(Finding(_NAME, subject, Outcome.UNKNOWN, str(exc), next_step=_LOOK))
        return (*findings, *_models(survey, nics), *_kernels(kernels))


def _nic(tree: Tree, seen: Observation, port: PortId, rdma: str) -> _Nic:
    """Return a port's NIC; _Nothing if there is nothing to compare."""
    functions = tree.of(port)
    if not functions:
        raise _Nothing("a software device: there is nothing to compare")
    function = tree.physical(functions[0])
    if function.vendor == _VIRTIO:
        raise _Nothing("a virtio device has no firmware: there is nothing to compare")
    # A port whose verbs device the inventory does not name may be called by it, or its netdev leads to it.
    known = [name for name in (rdma, port.port, *tree.carries.get(port.port, ())) if name]
    board = _first(tree, known, "board_id")
    firmware = _first(tree, known, "fw_ver") or _as_read(seen, port)
    model = f"{function.uevent('PCI_ID').lower()}{f' {board}' if board else ''}"
    return _Nic(port, model, firmware, _driver(functions[0]))


def _first(tree: Tree, devices: list[str], name: str) -> str:
    """Return a file of the first verbs device that has it, empty if none has."""
    found = (tree.files.get(f"/sys/class/infiniband/{device}/{name}", "") for device in devices)
    return next(filter(None, found), "")


def _as_read(seen: Observation, port: PortId) -> str:
    """Return the firmware that the port's driver read, empty if none."""
    reading = seen.port(port)
    held = reading.facts.get(facts.FIRMWARE) if reading is not None else None
    return held.value if isinstance(held, Known) and isinstance(held.value, str) else ""


def _driver(function: Function) -> str:
    version = function.files.get("driver/module/version", "")
    return f"{function.uevent('DRIVER') or 'no driver'}{f' {version}' if version else ''}"


def _models(survey: Survey, nics: list[_Nic]) -> Iterator[Finding]:
    models: dict[str, list[_Nic]] = {}
    for nic in nics:
        models.setdefault(nic.model, []).append(nic)
    for model, alike in models.items():
        for nic in alike:
            if not nic.firmware:
                step = (
                    f"on {nic.port.device}: cat /sys/class/infiniband/*/fw_ver, or ethtool -i {nic.port.port}"
                )
                yield Finding(
                    _NAME,
                    cable(survey.fabric, nic.port),
                    Outcome.UNKNOWN,
                    f"the firmware of this {model} is not known: it has no verbs device that says it",
                    next_step=step,
                )
        yield from _compared(survey, model, "firmware", {n.port: n.firmware for n in alike if n.firmware})
        yield from _compared(survey, model, "driver", {n.port: n.driver for n in alike})


def _compared(survey: Survey, model: str, thing: str, held: Mapping[PortId, str]) -> Iterator[Finding]:
    """Judge one thing of all NICs of a model."""
    if not held:
        return
    most = _most(list(held.values()))
    step = {
        "firmware": "bring all NICs of a model to one firmware (mstflint, or the vendor's tool), then reboot",
        "driver": "install one driver on all nodes, then load it anew",
    }[thing]
    if most is None:
        groups = _groups({str(port): value for port, value in held.items()})
        what = f"NICs {model} have not the same {thing}: {groups}"
        yield Finding(_NAME, "fabric", Outcome.FAIL, what, next_step=step)
        return
    count = Counter(held.values())[most]
    for port, value in held.items():
        subject = cable(survey.fabric, port)
        if value == most:
            what = f"{thing} {value}, as {count} of {len(held)} NICs {model}"
            yield Finding(_NAME, subject, Outcome.PASS, what, value, most)
            continue
        what = f"{thing} {value}; {count} of {len(held)} NICs {model} have {most}"
        yield Finding(_NAME, subject, Outcome.FAIL, what, value, most, next_step=step, culprit=str(port))


def _kernels(kernels: Mapping[str, str]) -> Iterator[Finding]:
    """Tell whose kernel is another than that of most nodes."""
    most = _most([kernel for kernel in kernels.values() if kernel])
    count = sum(1 for kernel in kernels.values() if kernel == most)
    step = "bring all nodes to one kernel: drivers and their faults come with it"
    for node, kernel in kernels.items():
        if not kernel:
            yield Finding(
                _NAME, node, Outcome.UNKNOWN, "its kernel's release is not known", next_step="uname -r"
            )
        elif kernel == most:
            what = f"kernel {kernel}, as {count} of {len(kernels)} nodes"
            yield Finding(_NAME, node, Outcome.PASS, what, kernel)
        else:
            others = f"most others have {most}" if most else _groups(kernels)
            yield Finding(_NAME, node, Outcome.PASS, f"kernel {kernel}; {others}", kernel, next_step=step)


def _most(values: list[str]) -> str | None:
    """Return the most frequent value, None if two are so or there is none."""
    ranked = Counter(values).most_common(2)
    if not ranked or (len(ranked) > 1 and ranked[0][1] == ranked[1][1]):
        return None
    return ranked[0][0]


def _groups(held: Mapping[str, str]) -> str:
    """Return ``28.39.1002 on node1/eth1 and 7 more, 28.36.1700 on ...``."""
    by_value: dict[str, list[str]] = {}
    for name, value in held.items():
        by_value.setdefault(value, []).append(name)
    return "; ".join(f"{value or 'unknown'} on {listed(names)}" for value, names in by_value.items())


PLUGIN = _Uniform()
