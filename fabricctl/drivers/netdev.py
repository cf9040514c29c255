"""Read netdevs from sysfs."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence

from fabricctl.drivers import files, functions
from fabricctl.errors import RefusedError
from fabricctl.model import facts, settings
from fabricctl.model.fabric import Port
from fabricctl.model.reading import Entry
from fabricctl.plugin.answers import Unread, entries, entry
from fabricctl.plugin.protocols import Answers

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,14}")
_SYSFS = (
    "mtu",
    "operstate",
    "carrier",
    "carrier_down_count",
    "speed",
    "address",
    "statistics",
    "device/uevent",
)
PER_FUNCTION = ("/sys/class/net/%/mtu",)
"""As ``files.query_of_functions`` takes it."""


def check_names(ports: Sequence[Port]) -> None:
    """Refuse port names that no Linux netdev can have: they would name other files, or be options.

    Raises
    ------
    RefusedError
        A port's name is no netdev name.
    """
    for port in ports:
        if not _NAME.fullmatch(port.id.port):
            raise RefusedError(
                f"{port.id.port!r} is not the name of a network interface",
                device=port.id.device,
                next_step="write the name in fabric_ports as `ip link` shows it",
            )


def paths(name: str) -> tuple[str, ...]:
    """Return the files to read of a netdev; those of its physical functions are in `PER_FUNCTION`."""
    return tuple(f"{_base(name)}/{file}" for file in _SYSFS)


def read_settings(name: str, answers: Answers) -> dict[str, Entry]:
    """Return the MTU, which a bond and its members, or a virtual function and its parent, must share."""

    def read(each: str) -> dict[str, Entry]:
        return {settings.MTU: entry(lambda: int(_file(each, answers, "mtu")))}

    return functions.merged(name, answers, read, and_itself=True)


def read_facts(name: str, answers: Answers) -> dict[str, Entry]:
    """Return link state, speed, address, driver and how often carrier was lost."""
    return {
        facts.LINK_STATE: entry(lambda: _link_state(name, answers)),
        facts.SPEED: entry(lambda: _speed(name, answers)),
        facts.MAC: entry(lambda: _file(name, answers, "address").lower()),
        facts.DRIVER: entry(lambda: _driver(name, answers)),
        facts.LINK_DOWNS: entry(lambda: int(_file(name, answers, "carrier_down_count"))),
    }


def read_counters(name: str, answers: Answers) -> Mapping[str, Entry]:
    """Return the kernel's statistics by their own names (``rx_packets``, ``tx_dropped``, ...)."""

    def read() -> Mapping[str, Entry]:
        folder = f"{_base(name)}/statistics/"
        return {
            path.removeprefix(folder): entry(functools.partial(int, value))
            for path, value in files.under(answers, folder).items()
        }

    return entries(read)


def exists(name: str, answers: Answers) -> None:
    """Raise Unread if there is no such netdev."""
    _file(name, answers, "mtu")


def _base(name: str) -> str:
    return f"/sys/class/net/{name}"


def _file(name: str, answers: Answers, file: str) -> str:
    if not files.under(answers, f"{_base(name)}/"):
        raise Unread(f"there is no network interface {name}")
    return files.content(answers, f"{_base(name)}/{file}")


def _link_state(name: str, answers: Answers) -> str:
    if _file(name, answers, "operstate") == "down":
        # An interface that is switched off does not let its carrier be read.
        return "down"
    return {"1": "up", "0": "down"}[_file(name, answers, "carrier")]


def _speed(name: str, answers: Answers) -> int:
    speed_mbps = int(_file(name, answers, "speed"))
    if speed_mbps <= 0:
        raise Unread("the driver does not know its speed")
    return speed_mbps


def _driver(name: str, answers: Answers) -> str:
    for line in _file(name, answers, "device/uevent").splitlines():
        label, _, value = line.partition("=")
        if label == "DRIVER" and value:
            return value
    raise Unread("the kernel names no driver")
