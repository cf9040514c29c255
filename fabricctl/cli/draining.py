"""The end of ``apply --drain``: probe the drained nodes, then let jobs come to those that are sound."""

from __future__ import annotations

from collections.abc import Sequence

from fabricctl import transport
from fabricctl.apply.carry import Result
from fabricctl.apply.rollout import Tools
from fabricctl.apply.undrain import Prove, Undraining, undrain
from fabricctl.cli.progress import progress
from fabricctl.cli.verify import deviations
from fabricctl.model.fabric import Fabric
from fabricctl.model.policy import Policy
from fabricctl.model.verdict import Verdict
from fabricctl.store import Store
from fabricctl.verify.flow import Means, Request, verify


def prove_and_undrain(result: Result, fabric: Fabric, policy: Policy, tools: Tools, store: Store) -> Result:
    """Return the result with what became of the nodes that the apply drained."""
    return undrain(result, Undraining(fabric, tools, store, prover(fabric, policy, store)))


def prover(fabric: Fabric, policy: Policy, store: Store) -> Prove:
    """Return what runs a verify of some pairs, recorded as any other."""

    def prove(pairs: str) -> Sequence[Verdict]:
        with transport.connect() as way, progress() as show:
            means = Means(way, store, show, deviations=deviations(fabric, policy))
            return verify(fabric, policy, Request(pairs=pairs), means).verdicts

    return prove
