"""Rails and devices go together in the same way on every node of one kind.

Jobs name NICs by verbs device (``NCCL_IB_HCA``) or take them in PCI order, and mean the same rail on every
node. Nodes are of one kind if they have the same product name and as many ports on rails. PCI addresses
themselves may differ, one more card shifts them: what counts is the order of the rails by address.

Passes if a node has the same verbs device on each rail, and its rails in the same order, as most nodes of
its kind, and the netdev of a port carries the verbs device that the inventory names. Fewer than three nodes
of a kind, or none that most are like, are not compared.
Fails if one of these is not so, or if the policy's ``links.rails_in_order`` is true and the rails do not
ascend with the PCI addresses.
Unknown if the PCI devices of a node cannot be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fabricctl.linkparts import pci
from fabricctl.linkparts.hosts import nodes, unanswered
from fabricctl.linkparts.pci import Tree
from fabricctl.model.fabric import Device, LinkLayer, Port
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.answers import Unread
from fabricctl.plugin.protocols import Query
from fabricctl.plugin.surveying import Need, Survey, cable

_NAME = "rails"
_PRODUCT = "/sys/class/dmi/id/product_name"
_FEWEST = 3
"""With two nodes nobody can say which of them is the odd one."""


@dataclass(frozen=True, slots=True)
class _Node:
    """A node's ports on rails, in order of rails: the verbs device of each, and the rails by PCI address."""

    device: Device
    kind: tuple[str, int]
    ports: tuple[Port, ...]
    verbs: tuple[str, ...]
    order: tuple[int, ...]
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Usual:
    """What most nodes of a kind have, each with how many do; None where too few are alike.

    Parameters
    ----------
    verbs
        The verbs device of each rail.
    order
        The rails by PCI address.
    nodes
        How many nodes there are.
    """

    verbs: tuple[tuple[str | None, int], ...]
    order: tuple[str | None, int]
    nodes: int

    @classmethod
    def of(cls, alike: Sequence[_Node]) -> _Usual:
        """Return what most of some nodes of one kind have."""
        verbs = tuple(_usual(devices) for devices in zip(*(node.verbs for node in alike), strict=True))
        orders = [" ".join(map(str, node.order)) for node in alike if node.order]
        return cls(verbs, _usual(orders), len(alike))


class _Rails:
    name = _NAME
    needs = Need.ANSWERS

    def queries(self, device: Device) -> tuple[Query, ...]:
        """Ask for the PCI functions of ports."""
        return pci.queries(device) if _railed(device) else ()

    def judge(self, survey: Survey) -> tuple[Finding, ...]:
        """Judge each node, and against the others of its kind."""
        if not any(_railed(device) for device in survey.fabric.nodes()):
            return ()
        if not nodes(survey):
            return unanswered(self.name, survey)
        found: list[_Node] = []
        findings: list[Finding] = []
        for device, seen in nodes(survey):
            ports = _railed(device)
            if not ports:
                continue
            step = f"on {device.name}: ls -l /sys/class/net/*/device"
            try:
                tree = pci.read(seen.answers)
                there = [port for port in ports if port.id.port not in tree.absent]
                findings += _carried(survey, there, tree)
                found.append(_node(device, ports, tree))
            except Unread as exc:
                findings.append(Finding(_NAME, device.name, Outcome.UNKNOWN, str(exc), next_step=step))
        for alike in _kinds(found):
            usual = _Usual.of(alike)
            for node in alike:
                findings += _of_node(node, usual, in_order=survey.rules.rails_in_order)
        return tuple(findings)


def _railed(device: Device) -> tuple[Port, ...]:
    """Return the ports on rails, in order of rails."""
    ports = [port for port in device.ports if port.rail is not None]
    return tuple(sorted(ports, key=lambda port: port.rail or 0))


def _verbs(port: Port) -> str:
    """Return a port's verbs device, and which port of it but the first; on InfiniBand it may be its name."""
    if port.verbs_port > 1:
        return f"{port.verbs_device}/{port.verbs_port}"
    return port.verbs_device or (port.id.port if port.link_layer is LinkLayer.INFINIBAND else "")


def _node(device: Device, ports: Sequence[Port], tree: Tree) -> _Node:
    addresses = []
    for port in ports:
        functions = tree.of(port.id)
        addresses.append(functions[0].address if functions else "")
    placed = sorted(range(len(ports)), key=lambda at: _place(addresses[at]))
    # Software devices have no address and no order.
    order = tuple(ports[at].rail or 0 for at in placed) if all(addresses) else ()
    return _Node(
        device,
        (tree.files.get(_PRODUCT, ""), len(ports)),
        tuple(ports),
        tuple(_verbs(port) for port in ports),
        order,
        tuple(addresses),
    )


def _place(address: str) -> tuple[int, ...]:
    try:
        return tuple(int(part, 16) for part in address.replace(".", ":").split(":") if part)
    except ValueError:
        raise Unread(f"unparsable: {address!r:.40} is no PCI address") from None


def _carried(survey: Survey, ports: Sequence[Port], tree: Tree) -> Iterator[Finding]:
    """Compare the verbs device that the inventory names with those of the netdev's PCI function."""
    for port in ports:
        carries = tree.carries.get(port.id.port, ())
        if not port.verbs_device or not carries:
            continue  # a software device or a bond, or nothing to compare with
        subject = cable(survey.fabric, port.id)
        if port.verbs_device in carries:
            what = f"rail {port.rail}: {port.id.port} carries {port.verbs_device}, as in the inventory"
            yield Finding(_NAME, subject, Outcome.PASS, what)
            continue
        has = ", ".join(carries)
        what = f"rail {port.rail}: {port.id.port} carries {has}, the inventory says {port.verbs_device}"
        step = (
            "correct rdma: of the port in the inventory, or the names that udev gives (rdma link shows both)"
        )
        yield Finding(_NAME, subject, Outcome.FAIL, what, has, port.verbs_device, next_step=step)


def _kinds(found: Sequence[_Node]) -> Iterator[list[_Node]]:
    """Walk the nodes of each kind."""
    kinds: dict[tuple[str, int], list[_Node]] = {}
    for node in found:
        kinds.setdefault(node.kind, []).append(node)
    yield from kinds.values()


def _of_node(node: _Node, usual: _Usual, *, in_order: bool) -> Iterator[Finding]:
    name = node.device.name
    bad = tuple(_unlike(node, usual))
    if in_order:
        bad += tuple(_disordered(node))
    if bad:
        yield from bad
        return
    at = ", ".join(
        f"{port.rail} {port.rdma or port.id.port} {address}".strip()
        for port, address in zip(node.ports, node.addresses, strict=True)
    )
    others = f"as {usual.nodes} nodes of its kind" if usual.nodes > 1 else "the only node of its kind"
    yield Finding(
        _NAME, name, Outcome.PASS, f"rails in order: {at}; {others}" if in_order else f"rails: {at}; {others}"
    )


def _disordered(node: _Node) -> Iterator[Finding]:
    """Judge whether rails ascend with PCI addresses."""
    if node.order and list(node.order) != sorted(node.order):
        said = ", ".join(map(str, node.order))
        what = f"in order of PCI addresses its rails are {said}: they do not ascend"
        step = "correct rail: in the inventory, or cable the NICs in the order of their slots"
        yield Finding(_NAME, node.device.name, Outcome.FAIL, what, said, "ascending", next_step=step)


def _unlike(node: _Node, alike: _Usual) -> Iterator[Finding]:
    """Compare a node with the others of its kind."""
    name = node.device.name
    step = (
        f"rdma link on {name} and on another: give the devices the same names (udev, rdma-core's "
        "rdma-persistent-naming), or correct its inventory"
    )
    for at, port in enumerate(node.ports):
        usual, count = alike.verbs[at]
        if usual is None or node.verbs[at] == usual:
            continue
        mine = node.verbs[at] or "no verbs device"
        what = f"rail {port.rail} is {mine}, on {count} others of its kind it is {usual}"
        yield Finding(_NAME, name, Outcome.FAIL, what, node.verbs[at], usual, next_step=step)
    order, count = alike.order
    if node.order and order is not None and " ".join(map(str, node.order)) != order:
        mine = ", ".join(map(str, node.order))
        usual = order.replace(" ", ", ")
        what = f"in order of PCI addresses its rails are {mine}, on {count} others of its kind {usual}"
        step = "compare its cabling and its inventory with another node's"
        yield Finding(_NAME, name, Outcome.FAIL, what, mine, usual, next_step=step)


def _usual(values: Sequence[str]) -> tuple[str | None, int]:
    """Return what more than half have and how many do; None if there is none, or too few to say."""
    if len(values) < _FEWEST:
        return None, 0
    value, count = Counter(values).most_common(1)[0]
    return (value, count) if count * 2 > len(values) else (None, 0)


PLUGIN = _Rails()
