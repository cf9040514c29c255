"""One probe on one pair, as seen from one of its ends: prepare, connect, run, finish."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from types import ModuleType
from typing import Any, Optional

from fabricctl.agent import sysfs
from fabricctl.agent.gid import Gid, choose
from fabricctl.agent.guard import Guard
from fabricctl.agent.sysfs import VerbsPort
from fabricctl.agent.verbs import Endpoint, Nic
from fabricctl.agent.wire import WIRE, Refusal

MEMORY_BYTES = 4 << 20
"""What is registered once at the start, to find a small memlock limit before the first probe does."""


class Place:
    """A port of this node: its verbs port, its NIC and its GID.

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
        self.nic = Nic(self.port)
        self._gid: Optional[Gid] = None

    def gid(self) -> Optional[Gid]:
        """Return the GID to use now; None on InfiniBand. A flap may have moved it to another index."""
        if self.port.is_infiniband:
            return None
        kept = self._gid
        if kept is None or sysfs.gid_entry(self.port, kept.index) != kept:
            self._gid = choose(sysfs.gid_table(self.port), self.port.netdev, self._address)
        return self._gid

    def describe(self) -> str:
        """Return what would be used, after trying it: the GID (``1 RoCE v2 10.10.0.1``) or the LID."""
        state = self.nic.state()
        gid = self.gid()
        self.nic.try_memory(MEMORY_BYTES)
        return str(gid) if gid else f"LID {state['lid']}"


def node_half(probe: str) -> ModuleType:
    """Return the module that runs `probe` here; Refusal (kind ``wire``) if there is none."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", probe):
        raise Refusal(WIRE, f"not the name of a probe: {probe!r}")
    try:
        return importlib.import_module(f"fabricctl.probes.{probe}.node")
    except ImportError as exc:
        raise Refusal(WIRE, f"this agent has no probe {probe!r}: {exc}") from exc


class Session:
    """One end of a probe that runs; close it.

    Parameters
    ----------
    role
        ``source`` or ``target``.
    parameters
        What the probe's plug-in on the controller gave, plus ``path_mtu_bytes`` (the largest wanted) and
        ``traffic_class``.
    """

    def __init__(self, place: Place, probe: str, role: str, parameters: Mapping[str, Any]) -> None:
        if role not in {"source", "target"}:
            raise Refusal(WIRE, f"no role of a probe: {role!r}")
        self._place, self._role = place, role
        self._parameters = dict(parameters)
        self._node = node_half(probe)
        self._gid = place.gid()
        # Both ends lay out their memory alike, so both count with the largest path MTU.
        setup = self._node.setup(self._parameters)
        self._before = sysfs.counters(place.port)
        self._endpoint = Endpoint(place.nic, setup, self._gid)

    def prepared(self) -> dict[str, Any]:
        """Return what the controller and the peer must know."""
        address = self._endpoint.address()
        return {
            "address": address,
            "gid": str(self._gid or ""),
            "gid_index": self._gid.index if self._gid else -1,
        }

    def connect(self, peer: Mapping[str, Any]) -> dict[str, Any]:
        """Connect to the peer's address and return the path MTU that is used."""
        own = self._endpoint.address()["mtu_bytes"]
        mtu = min(int(self._parameters["path_mtu_bytes"]), own, int(peer["mtu_bytes"]))
        self._endpoint.connect(peer, path_mtu_bytes=mtu, traffic_class=int(self._parameters["traffic_class"]))
        return {"path_mtu_bytes": mtu}

    def run(self, guard: Guard) -> dict[str, Any]:
        """Play this end's part and return what it measured."""
        play = self._node.source if self._role == "source" else self._node.target
        result: dict[str, Any] = play(self._endpoint, self._parameters, guard)
        return result

    def finish(self) -> dict[str, Any]:
        """Return by how much this end's counters rose; None where one went backwards."""
        rises = sysfs.deltas(self._before, sysfs.counters(self._place.port))
        return {"counters": rises}

    def close(self) -> None:
        """Give back everything."""
        self._endpoint.close()
