"""What a run has to remember so that it can go on after it was killed, and whether it may."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fabricctl.agent.simulated import ENGINE as SIMULATED
from fabricctl.errors import UsageError
from fabricctl.model.codec import decode, encode
from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PairId
from fabricctl.model.policy import Policy
from fabricctl.model.reading import DeviceReading
from fabricctl.model.run import Run, RunKind
from fabricctl.store import Store

RECORD = "verify"
"""Kind of the record."""
FORMAT = 1


@dataclass(frozen=True)
class Noted:
    """What a run was to do.

    Parameters
    ----------
    request
        As its fields; the time budget is not among them, for time goes on.
    readings
        By device, before the first probe.
    pairs
        What ``--pairs`` came to, where that depends on the moment; None where it does not.
    """

    request: Mapping[str, Any]
    readings: Mapping[str, DeviceReading]
    pairs: tuple[PairId, ...] | None = None


def note(store: Store, run: Run, inputs: tuple[Fabric, Policy], noted: Noted) -> None:
    """Keep what a run is to do."""
    fabric, policy = inputs
    payload = {
        "format": FORMAT,
        "fabric": digest(fabric),
        "policy": digest(policy),
        "request": encode(noted.request),
        "readings": encode(noted.readings),
        "pairs": encode(noted.pairs),
    }
    store.put_record(run.id, RECORD, payload)


def digest(value: Fabric | Policy) -> str:
    """Return the SHA-256 of an inventory's fabric or of a policy."""
    return hashlib.sha256(json.dumps(encode(value), sort_keys=True).encode()).hexdigest()


def interrupted(store: Store, inventory: str, run_id: str = "") -> Run:
    """Return the run to go on with: the one that is named, or the last of an inventory that did not conclude.

    Raises
    ------
    UsageError
        There is no such run, it is another inventory's, it is no verify, or it has concluded.
    """
    if run_id:
        run = store.run(run_id)
        _refuse_unless(run.kind is RunKind.VERIFY, f"run {run.id} is no verify ({run.kind})")
        _refuse_unless(run.inventory == inventory, f"run {run.id} is of another inventory ({run.inventory})")
        _refuse_unless(not store.is_concluded(run.id), f"run {run.id} has concluded: nothing is left to do")
        return run
    for run in store.runs(limit=-1, kind=RunKind.VERIFY):
        if run.inventory == inventory:
            _refuse_unless(
                not store.is_concluded(run.id),
                f"the last verify of this inventory ({run.id}) has concluded: nothing is left to do",
            )
            return run
    raise UsageError("there is no verify of this inventory to go on with", next_step=_AGAIN)


def noted(store: Store, run: Run, fabric: Fabric, policy: Policy) -> Noted:
    """Return what a run is to do.

    Raises
    ------
    UsageError
        The inventory or the policy has changed since, the run was killed before it began to measure, or it
        began so long ago that what it measured proves nothing any more.
    """
    held = store.record(run.id, RECORD)
    if held is None or held.get("format") != FORMAT:
        what = f"run {run.id} was ended before it began to measure" if held is None else "another version's"
        raise UsageError(f"{what}: there is nothing to go on with", next_step=_AGAIN)
    for name, value in (("fabric", fabric), ("policy", policy)):
        what = "inventory" if name == "fabric" else name
        _refuse_unless(held[name] == digest(value), f"the {what} has changed since run {run.id} began")
    lives_s = policy.gate.max_age_s
    _refuse_unless(
        time.time() - run.started_at < lives_s,
        f"run {run.id} began longer ago than its certificates would live ({lives_s / 3600:g} h)",
    )
    pairs = decode(tuple[PairId, ...], held["pairs"]) if held["pairs"] is not None else None
    return Noted(held["request"], decode(dict[str, DeviceReading], held["readings"]), pairs)


def is_simulated(store: Store, run: Run) -> bool:
    """Say whether a run measured simulated ports."""
    held = store.record(run.id, RECORD) or {}
    return bool(held.get("request", {}).get("engine") == SIMULATED)


_AGAIN = 'begin a new one: "fabricctl verify"'


def _refuse_unless(is_so: bool, what: str) -> None:  # noqa: FBT001  it is what is checked
    if not is_so:
        raise UsageError(what, next_step=_AGAIN)
