"""What to verify: which pairs, with which probes."""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from fabricctl.errors import UsageError
from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PortId
from fabricctl.model.policy import Policy
from fabricctl.model.words import quoted
from fabricctl.plugin import finder
from fabricctl.plugin.protocols import Probe
from fabricctl.store import Store
from fabricctl.verify.agents import AUTO
from fabricctl.verify.pairs import Pairs

NOTED = ("pairs", "probes", "limit", "seed", "engine")
"""What a run that was killed goes on with."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to verify.

    Parameters
    ----------
    pairs
        As ``--pairs`` takes it (``verify/schedule.py``).
    probes
        Names of probes; empty is all but those that run on request only.
    limit
        Node names or patterns: only pairs with both ends among them. Empty is all.
    time_budget_s
        No round begins that would probably end later; the pairs left out are unknown. None: no bound.
    seed
        Chooses the pairs of a sample.
    engine
        What runs the timed loops on the nodes: ``native``, ``pyverbs``, or ``auto``, the native one on each
        node where it loads.
    """

    pairs: str = "rail"
    probes: tuple[str, ...] = ()
    limit: tuple[str, ...] = ()
    time_budget_s: float | None = None
    seed: int = 0
    engine: str = AUTO


def chosen(policy: Policy, request: Request) -> Mapping[str, Probe]:
    """Return the probes that are asked for, by the request or by what the policy limits."""
    if request.probes:
        return {name: finder.probe(name) for name in request.probes}
    found = {name: finder.probe(name) for name in finder.names("probe")}
    limited = policy.limits.limited
    return {name: probe for name, probe in found.items() if name in limited or not probe.on_request}


def refuse_namesakes(fabric: Fabric, pairs: Pairs, store: Store) -> None:
    """Refuse to mix the certificates of two fabrics: to the gate a port is its name."""
    ports = [str(port) for port in pairs.taking_part()]
    for held in store.certificates(ports, valid_at=time.time()):
        if held.inventory not in {"", fabric.source}:
            raise UsageError(
                f"{held.port} is certified already, from another inventory ({held.inventory})",
                where=str(store.path),
                next_step="keep one store a fabric (FABRICCTL_STORE); if that inventory is gone, end its"
                f' certificates: "fabricctl certs revoke {held.port.device} --why moved"',
            )


def limited(fabric: Fabric, pairs: Pairs, request: Request) -> Pairs:
    """Return the pairs of the nodes that a request is limited to; UsageError if there is none."""
    if not request.limit:
        return pairs

    names = [node.name for node in fabric.nodes()]
    for pattern in request.limit:
        if not fnmatch.filter(names, pattern):
            near = get_close_matches(pattern, names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"the first node is {names[0]}"
            raise UsageError(f"--limit {pattern}: the inventory has no such node", next_step=hint)

    def named(port: PortId) -> bool:
        return any(fnmatch.fnmatchcase(port.device, pattern) for pattern in request.limit)

    left = pairs.among(port for port in pairs.ports if named(port))
    if not left:
        limit = ",".join(request.limit)
        raise UsageError(
            f"--limit {limit} leaves no pair of --pairs {request.pairs}",
            next_step=f"name two nodes or more, or write --pairs {quoted(request.limit[0])}:all",
        )
    return left
