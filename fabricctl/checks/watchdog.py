"""The PFC watchdog of switch ports watches what pauses, and looks often enough to see it.

Offline, passes if the policy leaves the watchdog to the switches, has it off, or polls at least twice within
the time of detection. Fails if it polls more rarely.

With readings, passes if a switch port's watchdog is on for just the priorities with PFC, as the policy says,
with its times and its action, and polls at least twice within the time of detection. Fails if one of these
differs, or if a watchdog that the policy leaves to the switch polls more rarely than it detects (a watchdog
that polls once in that time passes with a note). Unknown if a value is missing, if a policy means a watchdog
and the switch's driver has none, or if a queue counts more storms that began than ended: it is stormed now,
or the switch counts wrongly. Node ports and InfiniBand have no watchdog.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from fabricctl.model import settings
from fabricctl.model.fabric import Fabric, LinkLayer
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.policy import Policy
from fabricctl.model.reading import DeviceReading
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.holding import Held, listed, look, said

_NAME = "watchdog"
_LOOKS = 2
"""How often a watchdog has to look within its time of detection."""
_SETTINGS = (
    settings.WATCHDOG,
    settings.WATCHDOG_DETECT,
    settings.WATCHDOG_RESTORE,
    settings.WATCHDOG_POLL,
    settings.WATCHDOG_ACTION,
)
_LABELS: Mapping[str, tuple[str, str]] = {
    settings.WATCHDOG_DETECT: ("detection time", " ms"),
    settings.WATCHDOG_RESTORE: ("restoration time", " ms"),
    settings.WATCHDOG_POLL: ("polling interval", " ms"),
    settings.WATCHDOG_ACTION: ("action", ""),
}
_STORMS = re.compile(r"watchdog\.queue(\d+)\.storms_detected")

Judged = tuple[Outcome, str, str]
"""Outcome, what, next step."""


class Watchdog:
    """Judges the watchdog of the policy, or of each switch port that was read."""

    name = _NAME

    def judge(
        self,
        fabric: Fabric,
        policy: Policy,
        intents: Mapping[PortId, PortIntent],
        readings: Mapping[str, DeviceReading] | None,
    ) -> tuple[Finding, ...]:
        """Return one finding for the policy, or those of each switch port that was read."""
        if readings is None:
            return (_offline(fabric, policy, intents),)
        found: list[Finding] = []
        for device in fabric.switches():
            for port in device.ports if device.name in readings else ():
                if port.link_layer is LinkLayer.ETHERNET:
                    held = look(fabric, port.id, intents, readings)
                    found += _port(port.id, held, policy)
        if found:
            return tuple(found)
        what = "no switch port was read whose watchdog could be judged"
        return (Finding(_NAME, "fabric", Outcome.UNKNOWN, what, next_step="read the switches"),)


def _offline(fabric: Fabric, policy: Policy, intents: Mapping[PortId, PortIntent]) -> Finding:
    subject = f"policy {policy.name}"
    if not any(port.id in intents for device in fabric.devices for port in device.ports):
        what = "there are no ports with an intent: nothing was judged"
        return Finding(_NAME, "fabric", Outcome.UNKNOWN, what, next_step="add fabric_ports")
    if policy.link_layer is LinkLayer.INFINIBAND:
        return Finding(_NAME, subject, Outcome.PASS, "InfiniBand has no PFC that could storm")
    dog = policy.watchdog
    if dog is None:
        return Finding(_NAME, subject, Outcome.PASS, "the watchdog is left to the switches")
    if not dog.on or not policy.pfc_priorities:
        return Finding(_NAME, subject, Outcome.PASS, "the watchdog is off, or there is no PFC to watch")
    times = f"it polls every {dog.poll_ms} ms and detects after {dog.detect_ms} ms"
    if _LOOKS * dog.poll_ms > dog.detect_ms:
        advice = f"poll at least every {dog.detect_ms // _LOOKS} ms, or detect later"
        return Finding(_NAME, subject, Outcome.FAIL, f"{times}: too rarely", next_step=advice)
    what = f"{times}, on priority {listed(policy.pfc_priorities)}"
    return Finding(_NAME, subject, Outcome.PASS, what)


def _port(port: PortId, held: Held | str, policy: Policy) -> list[Finding]:
    if isinstance(held, str):
        return [Finding(_NAME, str(port), Outcome.UNKNOWN, held)]
    judged = [*_meant(held, policy), *_times(held), *_storms(held)]
    judged += [(Outcome.UNKNOWN, f"{name}: {held.gaps[name]}", "") for name in _SETTINGS if name in held.gaps]
    bad = [each for each in judged if each[0] is not Outcome.PASS]
    noted = [each for each in judged if each[0] is Outcome.PASS]
    shown = bad or noted or [(Outcome.PASS, _described(held), "")]
    return [Finding(_NAME, str(port), outcome, what, next_step=step) for outcome, what, step in shown]


def _described(held: Held) -> str:
    watched = held.known.get(settings.WATCHDOG)
    if settings.WATCHDOG not in held.wanted:
        return "the watchdog is left to the switch"
    return f"on priorities {said(watched)}, as read" if watched else "off, as read"


def _meant(held: Held, policy: Policy) -> Iterator[Judged]:
    """Yield where the watchdog is not what the policy says."""
    if settings.WATCHDOG not in held.wanted:
        if policy.watchdog is not None and policy.watchdog.on and policy.pfc_priorities:
            yield Outcome.UNKNOWN, f"{settings.WATCHDOG}: the driver of this switch has none", ""
        return
    fix = f"set {held.port} as the policy says"
    yield from ((Outcome.FAIL, what, fix) for what in _watched(held))
    for name, (label, unit) in _LABELS.items():
        if name in held.wanted and name in held.known and not held.right(name):
            found, meant = said(held.known[name]), said(held.wanted[name])
            yield Outcome.FAIL, f"the watchdog's {label} is {found}{unit}, not {meant}{unit}", fix


def _watched(held: Held) -> Iterator[str]:
    """Yield where the priorities that are watched are not those with PFC, or are any and should not be."""
    watched, pfc = held.known.get(settings.WATCHDOG), held.known.get(settings.PFC)
    if isinstance(watched, tuple) and watched and not held.wanted[settings.WATCHDOG]:
        yield f"the watchdog is on for priorities {said(watched)}, the policy has it off"
    elif isinstance(watched, tuple) and isinstance(pfc, tuple):
        for priority in pfc:
            if priority not in watched and held.wanted[settings.WATCHDOG]:
                yield f"priority {priority} has PFC, but no watchdog ends its pause storms"
        for priority in watched:
            if priority not in pfc:
                yield f"the watchdog is on for priority {priority}, which has no PFC"


def _times(held: Held) -> Iterator[Judged]:
    """Yield if the watchdog looks too rarely to see a storm in time."""
    poll, detect = held.known.get(settings.WATCHDOG_POLL), held.known.get(settings.WATCHDOG_DETECT)
    if not held.known.get(settings.WATCHDOG) or not isinstance(poll, int) or not isinstance(detect, int):
        return
    step = f"poll at least every {detect // _LOOKS} ms"
    if poll > detect:
        what = f"the watchdog polls every {poll} ms and is to detect after {detect} ms: it sees storms late"
        yield Outcome.FAIL, what, step
    elif _LOOKS * poll > detect:
        ours = settings.WATCHDOG in held.wanted
        what = f"the watchdog polls every {poll} ms, less than twice within its detection time of {detect} ms"
        yield Outcome.FAIL if ours else Outcome.PASS, what, step


def _storms(held: Held) -> Iterator[Judged]:
    """Yield queues that count more storms that began than ended."""
    for name in held.reading.counters:
        match = _STORMS.fullmatch(name)
        if match is None:
            continue
        began = held.counter(name)
        ended = held.counter(name.replace("_detected", "_restored"))
        if began is not None and ended is not None and began > ended:
            what = (
                f"queue {match[1]}: {began} pause storms began and {ended} ended: its packets are dropped"
                " now, or the switch counts wrongly"
            )
            step = "see what pauses this port: the NIC behind it, or its host; then the switch's own watchdog"
            yield Outcome.UNKNOWN, what, step


PLUGIN = Watchdog()
