"""Interrupts of every NIC are served by CPUs of its own NUMA node.

Passes if all of them are, if the host has one NUMA node, or if the policy's ``links.numa_affinity`` is
false: then what is elsewhere is told.
Fails if ``links.numa_affinity`` is true and an interrupt in use is served by a CPU of another node.
Unknown if it is true and the firmware does not say at which node the NIC is, or no interrupt of it was
found.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from fabricctl.linkparts import pci
from fabricctl.linkparts.hosts import each, whole
from fabricctl.linkparts.pci import Function, Tree
from fabricctl.model.fabric import Device, Port, Role
from fabricctl.model.policy import LinkPolicy
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.answers import Unread
from fabricctl.plugin.protocols import Answers, Query
from fabricctl.plugin.surveying import Need, Observation, Survey, cable

_NAME = "numa"
_CPU = re.compile(r"[0-9]{1,5}")
_ONLINE = "/sys/devices/system/node/online"

# An interrupt that has a handler has a folder of that name. The shell reads by itself: there are thousands.
_ASK = """\
while [ $# -gt 1 ]; do
    for found in $(pci_functions "$1" "$2"); do
        for irq in "$found"/msi_irqs/*; do
            number=${irq##*/}
            for used in "/proc/irq/$number"/*/; do
                [ -d "$used" ] || break
                read -r cpus <"/proc/irq/$number/effective_affinity_list" && [ -n "$cpus" ] ||
                    read -r cpus <"/proc/irq/$number/smp_affinity_list" || break
                printf 'irq %s %s %s\\n' "$1" "$number" "$cpus"
                break
            done
        done
    done
    shift 2
done 2>/dev/null
for one in /proc/[0-9]*/comm; do
    read -r name <"$one" || continue
    [ "$name" != irqbalance ] || { echo irqbalance; break; }
done 2>/dev/null
echo done
"""


@dataclass(frozen=True, slots=True)
class _Served:
    """Interrupts of each port, each with its CPUs; and whether irqbalance runs."""

    ports: Mapping[str, Mapping[int, frozenset[int]]]
    balanced: bool


@dataclass(frozen=True, slots=True)
class _Home:
    """The NUMA node of a port's NIC (several, for a bond), its CPUs, and the NIC's PCI address."""

    node: str
    cpus: frozenset[int]
    address: str

    def __str__(self) -> str:
        return f"{self.node} ({_ranges(self.cpus)})"


class _Numa:
    name = _NAME
    needs = Need.ANSWERS

    def queries(self, device: Device) -> tuple[Query, ...]:
        """Ask for the NICs and which CPUs serve their interrupts."""
        if device.role is not Role.NODE:
            return ()
        ask = Query("irq", ("sh", "-c", f"{pci.SHELL}{_ASK}", "sh", *pci.named(device)))
        return (*pci.queries(device), ask)

    def judge(self, survey: Survey) -> tuple[Finding, ...]:
        """Judge the NIC of every port of every node."""
        return each(self.name, survey, lambda device, seen: _judge(survey, device, seen))


def _judge(survey: Survey, device: Device, seen: Observation) -> Iterator[Finding]:
    read = functools.cache(lambda: _read(seen.answers))
    for port in device.ports:
        subject = cable(survey.fabric, port.id)
        try:
            yield _of_port(survey.rules, subject, port, pci.read(seen.answers), read)
        except Unread as exc:
            step = f"on {device.name}: cat /sys/class/net/{port.id.port}/device/numa_node"
            yield Finding(_NAME, subject, Outcome.UNKNOWN, str(exc), next_step=step)


def _of_port(rules: LinkPolicy, subject: str, port: Port, tree: Tree, read: Callable[[], _Served]) -> Finding:
    functions = tree.of(port.id)
    nodes = _numbers(tree.files.get(_ONLINE, "0"))
    if len(nodes) <= 1:
        return Finding(_NAME, subject, Outcome.PASS, "the host has one NUMA node")
    if not functions:
        return Finding(_NAME, subject, Outcome.PASS, "a software device: it is at no NUMA node")
    near = [function for function in functions if _node(function) >= 0]
    if not near:
        what = f"the firmware does not say at which of {len(nodes)} NUMA nodes {functions[0].address} is"
        step = "set the NUMA nodes per socket in the BIOS; for a guest, in the hypervisor"
        outcome = Outcome.UNKNOWN if rules.numa_affinity else Outcome.PASS
        return Finding(_NAME, subject, outcome, what, next_step=step)
    return _served(rules, subject, port, _home(near), read())


def _served(rules: LinkPolicy, subject: str, port: Port, home: _Home, served: _Served) -> Finding:
    irqs = served.ports.get(port.id.port, {})
    if not irqs:
        outcome = Outcome.UNKNOWN if rules.numa_affinity else Outcome.PASS
        what = f"at NUMA node {home.node}; no interrupt of it that is in use was found"
        step = f"grep {home.address} /proc/interrupts" if rules.numa_affinity else ""
        return Finding(_NAME, subject, outcome, what, next_step=step)
    away = {irq: at for irq, at in irqs.items() if not at <= home.cpus}
    balanced = "; irqbalance runs" if served.balanced else ""
    measured = f"{len(away)} of {len(irqs)} elsewhere"
    limit = "0 elsewhere" if rules.numa_affinity else ""
    if not away:
        what = f"all {len(irqs)} interrupts are served by CPUs of NUMA node {home}{balanced}"
        return Finding(_NAME, subject, Outcome.PASS, what, measured, limit)
    first = min(away)
    what = (
        f"{len(away)} of {len(irqs)} interrupts are not served by CPUs of NUMA node {home} alone: "
        f"interrupt {first} by CPU {_ranges(away[first])}{balanced}"
    )
    if not rules.numa_affinity:
        return Finding(_NAME, subject, Outcome.PASS, what, measured)
    stop = "stop irqbalance (systemctl disable --now irqbalance), then " if served.balanced else ""
    step = (
        f"{stop}echo {_ranges(home.cpus)} > /proc/irq/{first}/smp_affinity_list, and so on; "
        f"or set_irq_affinity_bynode.sh {home.node} {port.id.port}"
    )
    return Finding(_NAME, subject, Outcome.FAIL, what, measured, limit, next_step=step, culprit=str(port.id))


def _home(functions: list[Function]) -> _Home:
    """Return where a port's NIC is; Unread if that cannot be read."""
    cpus: frozenset[int] = frozenset()
    for function in functions:
        cpus |= _numbers(function.files.get("local_cpulist", ""))
    if not cpus:
        raise Unread(f"the CPUs of the NUMA node of {functions[0].address} could not be read")
    node = ", ".join(dict.fromkeys(str(_node(function)) for function in functions))
    return _Home(node, cpus, functions[0].address)


def _node(function: Function) -> int:
    said = function.files.get("numa_node", "")
    try:
        return int(said)
    except ValueError:
        raise Unread(f"the NUMA node of {function.address} could not be read") from None


def _read(answers: Answers) -> _Served:
    lines = whole(answers, "irq")
    ports: dict[str, dict[int, frozenset[int]]] = {}
    for line in lines:
        words = line.split()
        if len(words) == 4 and words[0] == "irq" and words[2].isdigit():  # noqa: PLR2004  irq PORT NUMBER CPUS
            ports.setdefault(words[1], {})[int(words[2])] = _numbers(words[3])
    return _Served(ports, "irqbalance" in lines)


def _numbers(said: str) -> frozenset[int]:
    """Return the numbers of a list such as ``0-3,8``."""
    found: set[int] = set()
    for part in said.split(","):
        low, _, high = part.strip().partition("-")
        if _CPU.fullmatch(low) and (not high or _CPU.fullmatch(high)):
            found.update(range(int(low), int(high or low) + 1))
        elif part.strip():
            raise Unread(f"unparsable: {said!r:.40} is no list of CPUs")
    return frozenset(found)


def _ranges(numbers: frozenset[int]) -> str:
    """Return numbers as ``0-3,8``."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


PLUGIN = _Numa()
