"""A port of this node as probes use it: its verbs port, its GID, and its NIC as an engine opens it."""

from __future__ import annotations

from typing import Optional

from fabricctl.agent import sysfs
from fabricctl.agent.engines import Nic, open_nic
from fabricctl.agent.gid import Gid, choose
from fabricctl.agent.sysfs import VerbsPort
from fabricctl.agent.wire import SETUP, Refusal

MEMORY_BYTES = 4 << 20
"""What is registered once at the start, to find a small memlock limit before the first probe does."""


class Place:
    """A port of this node: its verbs port, its NICs (one an engine) and its GID.

    Parameters
    ----------
    name
        The port's name in the inventory: its network device, or on InfiniBand its verbs device.
    rdma
        Verbs device of the inventory; may be empty.
    address
        Address of the inventory; may be empty.
    """

    def __init__(self, name: str, rdma: str, address: str) -> None:
        self._address = address
        self.port: VerbsPort = sysfs.find_port(name, rdma, sysfs.ROOT)
        self._nics: dict[str, Nic] = {}
        self._gid: Optional[Gid] = None

    def nic(self, engine: str) -> Nic:
        """Return the NIC as `engine` has opened it, once."""
        if engine not in self._nics:
            self._nics[engine] = open_nic(engine, self.port)
        return self._nics[engine]

    def gid(self) -> Optional[Gid]:
        """Return the GID to use now; None on InfiniBand. A flap may have moved it to another index.

        Raises
        ------
        Refusal
            No GID fits, or the port is iWARP's (kind ``setup``).
        """
        if self.port.is_iwarp:
            raise Refusal(
                SETUP,
                f"{self.port.device} is an iWARP device: its queue pairs are connected by rdma_cm only,"
                " which the probes do not do yet",
            )
        if self.port.is_infiniband:
            return None
        kept = self._gid
        if kept is None or sysfs.gid_entry(self.port, kept.index) != kept:
            self._gid = choose(sysfs.gid_table(self.port), self.port.netdev, self._address)
        return self._gid

    def describe(self, engine: str) -> str:
        """Return what would be used, after trying it: the GID (``1 RoCE v2 10.10.0.1``) or the LID."""
        state = self.nic(engine).state()
        gid = self.gid()
        self.nic(engine).try_memory(MEMORY_BYTES)
        return str(gid) if gid else f"LID {state['lid']}"
