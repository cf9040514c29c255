"""Read mlx5's firmware configuration with ``mstconfig`` or ``mlxconfig``: what is, and what a reset brings.

With ``-e`` both tools print a line for each value, in columns under ``Default``, ``Current`` and ``Next
Boot``, with ``*`` in front where a new value waits for a reset (NVIDIA Firmware Tools, "Examples of mlxconfig
Usage").
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fabricctl.drivers import functions
from fabricctl.drivers.nic.mlx5.planes import MARK, pci_address, port_number, section
from fabricctl.model.fabric import Port
from fabricctl.plugin.answers import Lacking, Unread, text
from fabricctl.plugin.protocols import Answers, Query

_KEY = "mstconfig"
_NO_TOOL = 42
# The whole configuration is asked for: one name that a card does not know would cost all the others. The
# tools are slow (they talk to the firmware) and left alone where the driver sets DCQCN by itself.
_ASK = f"""\
tool=
for each in mstconfig mlxconfig; do
    [ -n "$tool" ] || ! command -v "$each" >/dev/null || tool=$each
done
[ -n "$tool" ] || exit {_NO_TOOL}
echo "tool $tool"
for name in $(functions_of "$1"); do
    [ -d "/sys/class/net/$name/ecn" ] && continue
    pci=$(readlink -f "/sys/class/net/$name/device")
    echo "{MARK}$name"
    "$tool" -d "${{pci##*/}}" -e q 2>&1 |
        grep -E '^(Configurations:|[ *]+(ROCE_CC_PRIO_MASK|DCBX_WILLING|LLDP_NB_DCBX)_P|-E-)'
done
exit 0
"""
_HEAD = re.compile(r"Configurations:\s+Default\s+Current\s+Next Boot")
_ROW = re.compile(r"[ *]*([A-Z0-9_]+)\s+(\S+)\s+(\S+)\s+(\S+)")
_NUMBER = re.compile(r"(?:\w*\()?(0x[0-9a-fA-F]+|\d+)\)?")


@dataclass(frozen=True, slots=True)
class Stored:
    """One value of the firmware's configuration: what it works with, and what it will from its next reset."""

    current: int
    next_boot: int


def queries(ports: Sequence[Port]) -> tuple[Query, ...]:
    """Ask for the configuration behind each port, one query a port: each has its own time."""
    return tuple(
        Query(f"{_KEY} {port.id.port}", ("sh", "-c", f"{functions.SHELL}{_ASK}", "sh", port.id.port))
        for port in ports
    )


def tool(port: str, answers: Answers) -> str:
    """Return ``mstconfig`` or ``mlxconfig``, whichever the host has; Lacking if neither."""
    answer = answers.get(f"{_KEY} {port}")
    if answer is not None and answer.rc == _NO_TOOL:
        raise Lacking(
            "without MLNX_OFED it is in the firmware's configuration, and neither mstconfig nor mlxconfig "
            "is installed"
        )
    first, *_ = text(answers, f"{_KEY} {port}").splitlines() or [""]
    word, _, name = first.partition(" ")
    if word != "tool" or not name:
        raise Unread(f"unparsable: {first}")
    return name


def value(name: str, port: str, answers: Answers, parameter: str) -> Stored:
    """Return a value of function `name` of `port`; `parameter` is its name without ``_P1`` or ``_P2``."""
    table = _table(name, port, answers)
    number = port_number(name, answers)
    if f"{parameter}_P{number}" not in table:
        raise Lacking(f"the firmware has no {parameter}_P{number}")
    return table[f"{parameter}_P{number}"]


def reset_command(name: str, answers: Answers) -> str:
    """Return what must be done for stored values of function `name` to hold."""
    pci = pci_address(name, answers)
    return f"reset the firmware (mstfwreset -d {pci} -y r), or switch the host off and on"


def _table(name: str, port: str, answers: Answers) -> Mapping[str, Stored]:
    program = tool(port, answers)
    lines = text(answers, f"{_KEY} {port}").splitlines()
    said = section(lines, name)
    if not any(_HEAD.match(line) for line in said):
        shown = " ".join(" ".join(said).split()) or "it printed nothing"
        raise Unread(f"{program} shows no current values beside the next boot's: {shown}")
    found = {}
    for line in said:
        row = _ROW.fullmatch(line.rstrip())
        numbers = [_NUMBER.fullmatch(word) for word in row.groups()[1:]] if row else []
        if row and all(numbers):
            _, current, next_boot = (int(number[1], 0) for number in numbers if number)
            found[row[1]] = Stored(current, next_boot)
    return found
