"""Find which of mlx5's control planes a host has."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fabricctl.drivers import files
from fabricctl.plugin.answers import Unread
from fabricctl.plugin.protocols import Answers

PER_FUNCTION = (
    "/sys/class/net/%/qos",
    "/sys/class/net/%/ecn",
    "/sys/class/net/%/device/uevent",
    "/sys/class/net/%/dev_port",
)
"""As ``files.query_of_functions`` takes it; the first two exist with MLNX_OFED's driver only."""

MARK = "function "
"""Begins the line before what a program said of one physical function."""

_PORTS = 2
_PCI = re.compile(r"^PCI_SLOT_NAME=([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])$", re.MULTILINE)


def is_ofed(name: str, answers: Answers) -> bool:
    """Say whether MLNX_OFED's driver drives function `name`; Unread if its files were not read."""
    return any(files.under(answers, f"/sys/class/net/{name}/{folder}/") for folder in ("qos", "ecn"))


def pci_address(name: str, answers: Answers) -> str:
    """Return the PCI address of function `name` as debugfs spells it (``0000:17:00.0``)."""
    found = _PCI.search(files.content(answers, f"/sys/class/net/{name}/device/uevent"))
    if not found:
        raise Unread(f"the kernel names no PCI address of {name}")
    return found[1]


def port_number(name: str, answers: Answers) -> int:
    """Return which port of its card function `name` is, 1 or 2, as firmware counts in ``..._P1``.

    Each port of a ConnectX-4 or later is a PCI function of its own; older ones, and some modes, count ports
    within one function.
    """
    within = int(files.content(answers, f"/sys/class/net/{name}/dev_port"))
    function = int(pci_address(name, answers)[-1])
    number = max(function, within) + 1
    if number > _PORTS or (function and within not in {0, function}):
        raise Unread(f"cannot tell which port of its card {name} is (function {function}, port {within})")
    return number


def section(lines: Sequence[str], name: str) -> Sequence[str]:
    """Return the lines about function `name`; Unread if it was not asked about."""
    if f"{MARK}{name}" not in lines:
        raise Unread(f"not asked about {name}")
    rest = lines[lines.index(f"{MARK}{name}") + 1 :]
    end = next((at for at, line in enumerate(rest) if line.startswith(MARK)), len(rest))
    return rest[:end]
