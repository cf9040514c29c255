"""Judge what was read with every check: what a plan mends, what it leaves, and what nobody knows."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from fabricctl.model import facts, settings
from fabricctl.model.fabric import Fabric
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.plan import Plan
from fabricctl.model.policy import Policy
from fabricctl.model.reading import DeviceReading, Entry, Known, Missing, PortReading, Value
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin import finder

Intents = Mapping[PortId, PortIntent]
Readings = Mapping[str, DeviceReading]

_NOTHING = "fabric"
"""Subject of a finding that nothing was there to be judged."""
_FEEDS_HEADROOM = frozenset({settings.MTU, settings.PFC, settings.CABLE_LENGTH, settings.LOSSLESS_BUFFERS})
_ANEW = Missing("it is worked out anew after the change")


@dataclass(frozen=True, slots=True)
class Judged:
    """What the checks make of the readings, and of what they would be after a plan.

    Parameters
    ----------
    mended
        What fails now and no longer once the plan's steps are taken.
    left
        What fails with them too: no step mends it.
    unproven
        What cannot be judged, with or without them; what the plan itself says is left out.
    """

    mended: tuple[Finding, ...] = ()
    left: tuple[Finding, ...] = ()
    unproven: tuple[Finding, ...] = ()


def judge(fabric: Fabric, policy: Policy, intents: Intents, readings: Readings, plan: Plan) -> Judged:
    """Return what is wrong now, parted by whether the plan's steps mend it."""
    now = _findings(fabric, policy, intents, readings)
    after = _findings(fabric, policy, intents, planned(readings, plan)) if plan.steps else now
    left = _of(after, Outcome.FAIL)
    still_unknown = _of(after, Outcome.UNKNOWN)
    known = {(str(u.port), f"{u.setting}: {u.reason}") for u in plan.unsupported}
    return Judged(
        mended=tuple(f for key, f in _of(now, Outcome.FAIL).items() if key not in left),
        left=tuple(left.values()),
        unproven=tuple(
            f for key, f in _of(now, Outcome.UNKNOWN).items() if key in still_unknown and key not in known
        ),
    )


def faults(
    fabric: Fabric, policy: Policy, intents: Intents, readings: Readings, done: Plan, rest: Plan
) -> tuple[Finding, ...]:
    """Return what fails after an apply and what is left of its plan would not mend.

    Parameters
    ----------
    readings
        The last ones.
    done
        What was to be done: the buffers of its ports are being worked out, and say nothing yet.
    rest
        What still differs.
    """
    anew = {step.port for step in done.steps if _feeds_headroom(step.setting)}
    return judge(fabric, policy, intents, _with(readings, {}, anew), rest).left


def planned(readings: Readings, plan: Plan) -> Readings:
    """Return the readings as they would be if every step were taken that is not left to a rival."""
    values: dict[PortId, dict[str, Value]] = {}
    for step in plan.steps:
        if step.port not in plan.rivals:
            values.setdefault(step.port, {})[step.setting] = step.new
    anew = {port for port, new in values.items() if any(map(_feeds_headroom, new))}
    return _with(readings, values, anew)


def _with(
    readings: Readings, values: Mapping[PortId, Mapping[str, Value]], anew: Collection[PortId]
) -> Readings:
    """Return readings with other values, and without what the ports `anew` work out from them."""
    touched = {port.device for port in (*values, *anew)}
    return {
        name: replace(
            reading,
            ports={p: _changed(found, values.get(p, {}), p in anew) for p, found in reading.ports.items()},
        )
        if name in touched
        else reading
        for name, reading in readings.items()
    }


def _changed(found: PortReading, new: Mapping[str, Value], anew: bool) -> PortReading:  # noqa: FBT001  one call
    known: dict[str, Entry] = {name: Known(value) for name, value in new.items()}
    derived = [facts.HEADROOM, facts.PAUSE_POINT] if anew else []
    if settings.MTU in new:
        derived.append(facts.RDMA_MTU)
    unknown: dict[str, Entry] = {name: _ANEW for name in derived if name in found.facts}
    return replace(found, settings={**found.settings, **known}, facts={**found.facts, **unknown})


def _feeds_headroom(setting: str) -> bool:
    """Say whether a switch works its headroom out anew after a change of a setting; a driver's own may."""
    return setting in _FEEDS_HEADROOM or "." in setting


def _findings(fabric: Fabric, policy: Policy, intents: Intents, readings: Readings) -> list[Finding]:
    checks = [finder.check(name) for name in finder.names("check")]
    return [f for check in checks for f in check.judge(fabric, policy, intents, readings)]


Key = tuple[str, str]


def _of(found: list[Finding], outcome: Outcome) -> dict[Key, Finding]:
    """Return the findings of an outcome, each once, though several checks may miss the same value."""
    return {(f.subject, f.what): f for f in found if f.outcome is outcome and f.subject != _NOTHING}
