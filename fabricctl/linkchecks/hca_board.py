"""InfiniBand HCAs of one chip on one rail are all the same board (PSID).

Firmware is made for a board; a board of another maker or lot takes another, however alike the chips are. What
a board's firmware and driver are is another matter (``uniform``).

Passes if a port's board number (``board_id`` in sysfs) is that of most of its rail.
Fails if it is another; where none is the most frequent one, all are named in one finding.
Unknown if a node does not say it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fabricctl.linkparts import pci
from fabricctl.linkparts.hosts import listed, nodes, unanswered
from fabricctl.model.fabric import Device, LinkLayer, Port
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.answers import Unread
from fabricctl.plugin.protocols import Query
from fabricctl.plugin.surveying import Need, Observation, Survey, cable

_NAME = "hca_board"


class _Board:
    name = _NAME
    needs = Need.ANSWERS

    def queries(self, device: Device) -> tuple[Query, ...]:
        """Ask a node with InfiniBand for its NICs."""
        return pci.queries(device) if _ports(device) else ()

    def judge(self, survey: Survey) -> tuple[Finding, ...]:
        """Compare the boards of each chip and rail."""
        with_ports = any(_ports(device) for device in survey.fabric.nodes() if device.name in survey.devices)
        if not with_ports:
            return ()
        found = nodes(survey)
        if not found:
            return unanswered(self.name, survey)
        findings: list[Finding] = []
        boards: dict[tuple[str, int | None], dict[str, str]] = {}
        for device, seen in found:
            for port in _ports(device):
                subject = cable(survey.fabric, port.id)
                try:
                    chip, board = _board(seen, port)
                except Unread as exc:
                    step = f"on {device.name}: cat /sys/class/infiniband/*/board_id"
                    findings.append(Finding(_NAME, subject, Outcome.UNKNOWN, str(exc), next_step=step))
                else:
                    boards.setdefault((chip, port.rail), {})[subject] = board
        for (chip, _), of_chip in boards.items():
            findings.extend(_compared(chip, of_chip))
        return tuple(findings)


def _ports(device: Device) -> tuple[Port, ...]:
    return tuple(port for port in device.ports if port.link_layer is LinkLayer.INFINIBAND)


def _board(seen: Observation, port: Port) -> tuple[str, str]:
    """Return the chip (PCI vendor and device) and the board's number of a port's HCA."""
    tree = pci.read(seen.answers)
    functions = tree.of(port.id)
    rdma = port.verbs_device or port.id.port
    board = tree.files.get(f"/sys/class/infiniband/{rdma}/board_id", "")
    if not functions or not board:
        raise Unread(f"{port.id} does not say its board: there is no board_id of {rdma}")
    return tree.physical(functions[0]).uevent("PCI_ID").lower(), board


def _compared(chip: str, boards: dict[str, str]) -> Iterator[Finding]:
    (most, times), *others = Counter(boards.values()).most_common()
    step = "see which board belongs there (mstflint -d DEVICE q), and replace or reflash the odd one"
    if others and others[0][1] == times:
        groups = "; ".join(
            f"{board}: {listed(subject for subject, held in boards.items() if held == board)}"
            for board in dict.fromkeys(boards.values())
        )
        what = f"HCAs {chip} are not one board: {groups}"
        yield Finding(_NAME, "fabric", Outcome.FAIL, what, next_step=step)
        return
    for subject, board in boards.items():
        if board == most:
            what = f"board {board}, as {times} of {len(boards)} HCAs {chip}"
            yield Finding(_NAME, subject, Outcome.PASS, what, board, most)
        else:
            what = f"board {board}; {times} of {len(boards)} HCAs {chip} are {most}"
            yield Finding(_NAME, subject, Outcome.FAIL, what, board, most, next_step=step)


PLUGIN = _Board()
