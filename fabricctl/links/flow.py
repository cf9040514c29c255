"""One run of link checks: choose whom to ask, look twice, judge, and keep what later runs compare with."""

from __future__ import annotations

import dataclasses
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fabricctl.errors import UsageError
from fabricctl.links import planes
from fabricctl.links.history import History
from fabricctl.links.watching import Questions, observe
from fabricctl.model.fabric import Device, Fabric, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.policy import Policy
from fabricctl.model.subnet import Wiring
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin import finder
from fabricctl.plugin.protocols import Query
from fabricctl.plugin.surveying import LinkCheck, Need, PortPast, Survey
from fabricctl.transport.base import Transport

_REACH = "reach"
_TEXTS = ("subject", "what", "measured", "limit", "next_step", "culprit")


@dataclass(frozen=True)
class Meant:
    """What a fabric is meant to be.

    Parameters
    ----------
    wiring
        InfiniBand's cables, where not the inventory says them.
    """

    fabric: Fabric
    policy: Policy
    intents: Mapping[PortId, PortIntent]
    wiring: Wiring | None = None


@dataclass(frozen=True)
class Request:
    """What a run is to look at.

    Parameters
    ----------
    devices
        Those to ask.
    checks
        Names of link checks; empty is all.
    interval_s
        Seconds between the two looks at counters.
    vantage
        Name of the node from which InfiniBand is looked at; empty chooses one for each plane.
    limited
        Whether `devices` are not all.
    named
        Names of the devices that a limited run is about, also of those that are not asked.
    """

    devices: tuple[Device, ...]
    checks: tuple[str, ...] = ()
    interval_s: float = 10.0
    vantage: str = ""
    limited: bool = False
    named: frozenset[str] = frozenset()


def checks_of(names: Sequence[str]) -> tuple[LinkCheck, ...]:
    """Return the link checks of those names, all if there are none; UsageError if one is not known."""
    if _REACH in names:
        raise UsageError(f"{_REACH} is part of every run", next_step="name other checks, or none for all")
    return tuple(finder.link_check(name) for name in (names or finder.names("link check")))


def asked(fabric: Fabric, devices: Sequence[Device]) -> tuple[Device, ...]:
    """Return the devices that can be asked at all: nodes, and switches with a driver.

    Raises
    ------
    UsageError
        There is none.
    """
    found = tuple(device for device in devices if device.role is Role.NODE or device.driver)
    if not found:
        step = "see --limit; InfiniBand's switches are looked at from a node: name one too"
        raise UsageError("there is no device to ask", where=fabric.source, next_step=step)
    return found


@dataclass(frozen=True)
class Round:
    """What one run saw, what it found, and the name under which it is kept."""

    survey: Survey
    findings: tuple[Finding, ...]
    run_id: str


def look(meant: Meant, request: Request, transport: Transport, history: History) -> Round:
    """Look at the fabric, judge it, and keep what later runs compare with."""
    began_at = time.time()
    past = history.ports(began_at - meant.policy.links.stable_s)
    seen = survey(meant, request, transport, past)
    findings = judge(seen, request.checks)
    return Round(seen, findings, history.keep(seen, findings, began_at))


def survey(
    meant: Meant, request: Request, transport: Transport, past: Mapping[PortId, tuple[PortPast, ...]]
) -> Survey:
    """Look at the fabric: every device in one round trip, each plane of InfiniBand from one of its hosts."""
    checks = checks_of(request.checks)
    needs = {check.needs for check in checks}
    if request.vantage and Need.SUBNETS not in needs:
        raise UsageError("--from is for checks of InfiniBand, and none was chosen", next_step="leave it out")
    views = planes.views(meant.fabric, request.devices, request.vantage) if Need.SUBNETS in needs else ()

    def asks(device: Device) -> tuple[Query, ...]:
        found = [query for check in checks for query in check.queries(device)]
        return (*found, *planes.queries(views, device))

    questions = Questions(asks, Need.READINGS in needs)
    seen = observe(request.devices, transport, questions, request.interval_s)
    for _ in range(planes.OTHERS):
        views, again = planes.second_choices(views, seen)
        if not again:
            break
        more = [device for device in request.devices if device.name in again]
        seen = {**seen, **observe(more, transport, questions, request.interval_s)}
    return Survey(
        meant.fabric,
        meant.policy,
        meant.intents,
        seen,
        subnets=planes.subnets(meant.fabric, views, seen),
        history=past,
        now=time.time(),
        limited=request.limited,
        named=request.named,
        wiring=meant.wiring,
    )


def judge(survey: Survey, names: Sequence[str]) -> tuple[Finding, ...]:
    """Return the findings of the checks of those names, all if there are none; and who could not be asked."""
    found = [
        finding for check in checks_of(names) for finding in _judged(check, survey) or _nothing(check, names)
    ]
    return tuple(map(_clean, (*reach(survey), *found)))


def _clean(finding: Finding) -> Finding:
    """Return a finding without what would upset a terminal: its words may come from a device."""
    if all(getattr(finding, name).isprintable() for name in _TEXTS):
        return finding
    shown: dict[str, Any] = {
        name: "".join(c if c.isprintable() else "?" for c in getattr(finding, name)) for name in _TEXTS
    }
    return dataclasses.replace(finding, **shown)


def _nothing(check: LinkCheck, names: Sequence[str]) -> tuple[Finding, ...]:
    """Return what to say of a check that has nothing to judge: only where it was asked for by name."""
    if check.name not in names:
        return ()
    what = "among the devices that were asked there is nothing that it is about: nothing was judged"
    step = f"leave it out of --only, or see what it is about: fabricctl links --list --only {check.name}"
    return (Finding(check.name, "fabric", Outcome.UNKNOWN, what, next_step=step),)


def _judged(check: LinkCheck, survey: Survey) -> tuple[Finding, ...]:
    """Return the findings of a check; a bug in it costs its own findings only."""
    try:
        return check.judge(survey)
    except Exception as exc:  # noqa: BLE001  the boundary of one check
        where = traceback.extract_tb(exc.__traceback__)[-1]
        what = f"it broke: {exc!r} in {where.name}, line {where.lineno} of {Path(where.filename).name}"
        step = "please report this line; the other checks were judged"
        return (Finding(check.name, "fabric", Outcome.ERROR, what, next_step=step),)


def reach(survey: Survey) -> tuple[Finding, ...]:
    """Return whether each device answered: whatever is checked, one that did not is unknown."""
    name, found = _REACH, []
    for device, seen in survey.devices.items():
        if seen.error:
            why, _, step = seen.error.partition("; ")
            step = step or f"see that {device} can be reached from here as the inventory says"
            found.append(Finding(name, device, Outcome.UNKNOWN, f"could not be asked: {why}", next_step=step))
        else:
            found.append(Finding(name, device, Outcome.PASS, "it answered", interval_s=seen.interval_s))
    return tuple(found)
