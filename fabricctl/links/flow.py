"""One run of link checks: choose whom to ask, look twice, judge, and keep what later runs compare with."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fabricctl.errors import UsageError
from fabricctl.links import planes
from fabricctl.links.watching import observe
from fabricctl.model.fabric import Device, Fabric, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.policy import Policy
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin import finder
from fabricctl.plugin.protocols import Query
from fabricctl.plugin.surveying import LinkCheck, PortPast, Survey
from fabricctl.transport.base import Transport

Report = Callable[[str], None]


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
    """

    devices: tuple[Device, ...]
    checks: tuple[str, ...] = ()
    interval_s: float = 10.0
    vantage: str = ""
    limited: bool = False


def checks_of(names: Sequence[str]) -> tuple[LinkCheck, ...]:
    """Return the link checks of those names, all if there are none; UsageError if one is not known."""
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
        raise UsageError("there is no device to ask", where=fabric.source, next_step="see --limit")
    return found


def survey(
    fabric: Fabric,
    policy: Policy,
    intents: Mapping[PortId, PortIntent],
    request: Request,
    tools: Tools,
) -> Survey:
    """Look at the fabric: every device in one round trip, each plane of InfiniBand from one of its hosts."""
    checks = checks_of(request.checks)
    views = planes.views(fabric, request.devices, request.vantage)

    def asks(device: Device) -> tuple[Query, ...]:
        found = [query for check in checks for query in check.queries(device)]
        return (*found, *planes.queries(views, device))

    seen = observe(request.devices, tools.transport, asks, request.interval_s, tools.report)
    views, more = planes.second_choices(views, seen)
    if more:
        seen = {**seen, **observe(more, tools.transport, asks, request.interval_s, tools.report)}
    return Survey(
        fabric,
        policy,
        intents,
        seen,
        subnets=planes.subnets(fabric, views, seen),
        history=tools.history,
        now=time.time(),
        limited=request.limited,
    )


@dataclass(frozen=True)
class Tools:
    """What a run works with: ways to the devices, earlier runs, and whom to tell that a device is done."""

    transport: Transport
    history: Mapping[PortId, tuple[PortPast, ...]]
    report: Report | None = None


def judge(survey: Survey, names: Sequence[str]) -> tuple[Finding, ...]:
    """Return the findings of the checks of those names, all if there are none; and who could not be asked."""
    found = [finding for check in checks_of(names) for finding in check.judge(survey)]
    return (*reach(survey), *found)


def reach(survey: Survey) -> tuple[Finding, ...]:
    """Return whether each device answered: whatever is checked, one that did not is unknown."""
    name, found = "reach", []
    for device, seen in survey.devices.items():
        if seen.error:
            step = f"see that ssh to {device} works from here, then run this again"
            found.append(
                Finding(name, device, Outcome.UNKNOWN, f"could not be asked: {seen.error}", next_step=step)
            )
        else:
            found.append(Finding(name, device, Outcome.PASS, "it answered", interval_s=seen.interval_s))
    return tuple(found)
