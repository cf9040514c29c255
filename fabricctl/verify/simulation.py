"""Verify without any hardware: simulated agents, so that a policy and its reports can be tried beforehand.

A file may tell how the ports are (YAML)::

    seed: 3
    latency_ns: {same_leaf: 1900, cross_leaf: 2800}
    faults:
      node7/eth1: {loss: 0.02, way: receives}
      node9/eth1: {slow: 2.5}

``agent/simulated/world.py`` says what is drawn from it. All results of such a run say what they are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from fabricctl.agent.simulated import ENGINE as SIMULATED
from fabricctl.agent.simulated.world import ANY, BOTH, MEDIANS_NS, RECEIVES, SENDS
from fabricctl.errors import InventoryError, UsageError
from fabricctl.model.fabric import Device, Fabric
from fabricctl.model.names import PortId
from fabricctl.store import Store
from fabricctl.transport.base import Launch, Transport
from fabricctl.transport.simulated import SimulatedTransport

__all__ = ["SIMULATED", "marked", "refuse_beside_real", "simulated_launch", "told"]

_KEYS = ("seed", "latency_ns", "faults")
_WAYS = (SENDS, RECEIVES, BOTH)


def marked(fabric: Fabric, world: Mapping[str, Any] | None = None) -> Fabric:
    """Return the fabric so that every result of it says that it is simulated, and of which world."""
    over = f", over {fabric.simulated}" if fabric.simulated else ""
    held = json.dumps(world, sort_keys=True).encode()
    which = f" ({hashlib.sha256(held).hexdigest()[:8]})" if world else ""
    return replace(fabric, simulated=f"numbers drawn from a model{which} by --launcher simulated{over}")


def simulated_launch(fabric: Fabric, world: Mapping[str, Any] | None = None) -> Launch:
    """Return what starts simulated agents.

    Parameters
    ----------
    world
        ``seed``, ``latency_ns`` and ``faults``, as :func:`told` returns them.
    """
    places = {str(port.id): _place(fabric, port.id) for port in fabric.node_ports()}
    line = json.dumps({**(world or {}), "places": places})

    def launch(over: Transport, nodes: Sequence[Device]) -> AbstractContextManager[Transport]:
        del over, nodes
        return SimulatedTransport(line)

    return launch


def _place(fabric: Fabric, port: PortId) -> list[Any]:
    peer = fabric.peer(port)
    return [peer.device if peer else "", fabric.device(port.device).pod, fabric.port(port).rail]


def told(path: Path, fabric: Fabric) -> dict[str, Any]:
    """Return what a file says of the simulated ports.

    Raises
    ------
    InventoryError
        It is no such file, or names what there is not.
    """
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as exc:
        raise InventoryError(f"the simulation cannot be read: {exc}", where=str(path)) from exc
    why = _odd(found, fabric)
    if why:
        step = (
            "latency_ns: {CLASS: NS}, faults: {NODE/PORT: {loss: 0..1, slow: >= 1, way: sends|receives|both}}"
        )
        raise InventoryError(why, where=str(path), next_step=f"write seed: NUMBER, {step}")
    return dict(found)


def _odd(found: Any, fabric: Fabric) -> str:
    if not isinstance(found, dict) or not found.keys() <= set(_KEYS):
        return f"a simulation has the keys {', '.join(_KEYS)}, and no others"
    if type(found.get("seed", 0)) is not int:
        return f"seed is no whole number: {found['seed']!r}"
    latencies = found.get("latency_ns", {})
    classes = {ANY, *MEDIANS_NS}
    if not isinstance(latencies, dict) or not latencies.keys() <= classes:
        return f"latency_ns has the classes {', '.join(sorted(classes))}, and no others"
    for name, value in latencies.items():
        if not _is_number(value, 1, 1e9):
            return f"latency_ns.{name} is no time of 1 to 10^9 ns: {value!r}"
    faults = found.get("faults", {})
    if not isinstance(faults, dict):
        return "faults is no mapping of ports"
    ports = {str(port.id) for port in fabric.node_ports()}
    return next((why for port, fault in faults.items() if (why := _odd_fault(port, fault, ports))), "")


def _odd_fault(port: object, fault: object, ports: set[str]) -> str:
    if port not in ports:
        return f"faults: the inventory has no port {port} of a node"
    if not isinstance(fault, dict) or not fault.keys() <= {"loss", "slow", "way"}:
        return f"faults: {port} has loss, slow and way, and nothing else"
    if not _is_number(fault.get("loss", 0), 0, 1) or not _is_number(fault.get("slow", 1), 1, 1e6):
        return f"faults: {port}: loss is 0 to 1, slow is 1 or more"
    return "" if fault.get("way", BOTH) in _WAYS else f"faults: {port}: way is one of {', '.join(_WAYS)}"


def _is_number(value: object, low: float, high: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def refuse_beside_real(store: Store, fabric: Fabric) -> None:
    """Refuse to put simulated certificates in place of real ones, whatever those say.

    A real one that failed, is unknown, revoked or outlived keeps a port out of jobs; a simulated one in its
    place would let it in.

    Raises
    ------
    UsageError
        The newest certificate of a port of this fabric is real.
    """
    for held in store.certificates([node.name for node in fabric.nodes()], peers=False):
        if not held.simulated:
            raise UsageError(
                f"{held.port} holds a real certificate, which a simulated one would replace",
                where=str(store.path),
                next_step="set FABRICCTL_STORE to another file for simulations",
            )
