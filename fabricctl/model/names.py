"""Names of ports and of pairs of ports."""

from __future__ import annotations

import re
from typing import NamedTuple

HOST_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
"""What a host, and a node of a scheduler, may be called: what fits into Slurm's host lists."""


class PortId(NamedTuple):
    """A port of a device, written ``device/port`` (``node1/eth1``, ``leaf1/Ethernet0``).

    The device name has no slash; the port name may have some (``leaf1/ethernet1/1``). It is a tuple because
    those are hashed and compared without Python code, which a run over a million pairs does very often.
    """

    device: str
    port: str

    def __str__(self) -> str:
        return f"{self.device}/{self.port}"

    @classmethod
    def parse(cls, text: str) -> PortId:
        """Read ``device/port``.

        Raises
        ------
        ValueError
            There is no slash, or one side of the first slash is empty.
        """
        device, _, port = text.partition("/")
        if not device or not port:
            message = f"not a port name: {text!r} (write DEVICE/PORT)"
            raise ValueError(message)
        return cls(device, port)


def boot_unit(port: str) -> str:
    """Return the unit that sets a port of a Linux device at boot, escaped as ``systemd-escape`` does."""
    kept = "".join(
        c if c.isascii() and (c.isalnum() or c in ":_.") else "".join(f"\\x{b:02x}" for b in c.encode())
        for c in port
    )
    name = f"\\x2e{kept[1:]}" if kept.startswith(".") else kept
    return f"fabricctl-port@{name}.service"


class PairId(NamedTuple):
    """A directed pair of RDMA ports: `source` sends requests, `target` answers."""

    source: PortId
    target: PortId

    def __str__(self) -> str:
        return f"{self.source} -> {self.target}"

    @property
    def reverse(self) -> PairId:
        """The same two ports in the other direction."""
        return PairId(self.target, self.source)
