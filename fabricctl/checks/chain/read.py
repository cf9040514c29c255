"""Follow the chain through what was read of a port."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from fabricctl.checks.chain import nic
from fabricctl.model import facts, settings
from fabricctl.model.fabric import Fabric, LinkLayer, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.policy import Policy, TrafficClass
from fabricctl.model.reading import DeviceReading, Known, Missing, Value
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.holding import PRIORITIES, Held, driver_of, listed, look, said, same
from fabricctl.plugin.protocols import Driver

_CHECK = "chain"
_STRICT = "strict"
_FOLLOWED = (
    settings.TRUST,
    settings.DSCP_PRIORITY,
    settings.PRIORITY_TC,
    settings.TC_SCHEDULER,
    settings.PFC,
    settings.PAUSE,
    settings.LOSSLESS_BUFFERS,
    settings.ECN,
    settings.ECN_KMIN,
    settings.ECN_KMAX,
    settings.ECN_PMAX,
    settings.ROCE_MODE,
    settings.ROCE_TOS,
    settings.CNP_DSCP,
    settings.CNP_PRIORITY,
)
"""Settings that the chain is made of; a driver's own come with them."""

_THRESHOLDS = frozenset({settings.ECN_KMIN, settings.ECN_KMAX, settings.ECN_PMAX})
_NOTIFICATIONS = frozenset({settings.CNP_DSCP, settings.CNP_PRIORITY})
_IF_THERE = _NOTIFICATIONS | {settings.ROCE_MODE, settings.ECN_PMAX}
"""Settings without which the chain is followed all the same, where a port cannot have them."""


def marks(policy: Policy, readings: Mapping[str, DeviceReading]) -> bool:
    """Say whether switches mark: because the policy says so, or because one was read to do it."""
    return bool(policy.ecn) or any(
        found.settings.get(settings.ECN) == Known(value=True)
        for reading in readings.values()
        for found in reading.ports.values()
    )


def port(
    name: PortId,
    fabric: Fabric,
    policy: Policy,
    intents: Mapping[PortId, PortIntent],
    readings: Mapping[str, DeviceReading],
    *,
    marks: bool,
) -> tuple[Finding, ...]:
    """Return the breaks and the gaps of one port's chain, else the one finding that it passes.

    Parameters
    ----------
    marks
        Whether switches mark, so that NICs have to slow down.
    """
    subject = str(name)
    held = look(fabric, name, intents, readings)
    if isinstance(held, str):
        return (Finding(_CHECK, subject, Outcome.UNKNOWN, held, next_step="it has to be read to be judged"),)
    if held.intent.link_layer is LinkLayer.INFINIBAND:
        what = "InfiniBand: credits keep it lossless, there is no chain to follow"
        return (Finding(_CHECK, subject, Outcome.PASS, what),)
    driver = driver_of(fabric.device(name.device))
    own = _own(held, driver)
    breaks = list(dict.fromkeys(_breaks(held, policy, own)))
    followed = [each for each in (*_followed(held, marks=marks), *own) if each in held.gaps]
    gaps = [f"{each}: {held.gaps[each]}" for each in followed if not _stays_out(each, held, driver)]
    if marks and policy.lossless and held.intent.role is Role.NODE:
        found, missing = nic.reaction(held, driver)
        breaks += found
        gaps += missing
    bad = [(Outcome.FAIL, what) for what in breaks] + [(Outcome.UNKNOWN, what) for what in gaps]
    if bad:
        return tuple(_finding(subject, outcome, what) for outcome, what in bad)
    if not any(setting in held.known for setting in _FOLLOWED):
        return (Finding(_CHECK, subject, Outcome.UNKNOWN, "nothing of the chain was read"),)
    return (Finding(_CHECK, subject, Outcome.PASS, _described(held, policy)),)


def _finding(subject: str, outcome: Outcome, what: str) -> Finding:
    if outcome is Outcome.FAIL:
        return Finding(
            _CHECK, subject, outcome, what, next_step=f"set {subject} as the policy says", culprit=subject
        )
    return Finding(_CHECK, subject, outcome, what)


def _followed(held: Held, *, marks: bool) -> Iterator[str]:
    """Yield the wanted settings that the chain is made of, by any driver.

    Thresholds only count on a port that marks, the class of notifications only on a NIC that sends some.
    """
    idle: set[str] = set()
    if held.known.get(settings.ECN) is False:
        idle |= _THRESHOLDS
    if not marks or held.known.get(settings.DCQCN) is False:
        idle |= _NOTIFICATIONS
    yield from (setting for setting in _FOLLOWED if setting in held.wanted and setting not in idle)


def _own(held: Held, driver: Driver) -> list[str]:
    """Return the settings of a port's driver alone that are links of the chain on that system.

    All of a switch's are, of a NIC's those that follow from the class of RDMA.
    """
    if held.intent.role is Role.NODE:
        return nic.own(held, driver)
    return [name for name in held.wanted if "." in name]


def _stays_out(setting: str, held: Held, driver: Driver) -> bool:
    """Say whether a setting is one that the port cannot have and the chain does not need."""
    if setting not in _IF_THERE and (held.intent.role is not Role.NODE or "." not in setting):
        return False
    found = held.reading.settings.get(setting)
    return setting in driver.unsupported or (isinstance(found, Missing) and found.impossible)


def _breaks(held: Held, policy: Policy, own: list[str]) -> Iterator[str]:
    yield from _classification(held, policy)
    yield from nic.sent(held, policy)
    yield from _classes(held, policy)
    yield from _lossless(held, policy)
    yield from _notifications(held, policy)
    yield from nic.notifications(held, policy)
    yield from _marking(held)
    yield from _further(held, own)


def _classification(held: Held, policy: Policy) -> Iterator[str]:
    trust = held.known.get(settings.TRUST)
    if trust is not None and not held.right(settings.TRUST) and settings.TRUST in held.wanted:
        yield f"trust is {said(trust)}, not {said(held.wanted[settings.TRUST])}: DSCPs are not looked at"
    found = _numbers(held.known, settings.DSCP_PRIORITY)
    meant = _numbers(held.wanted, settings.DSCP_PRIORITY)
    if found and meant:
        for label, named in (("the lossless class", policy.lossless), ("CNP", policy.cnp)):
            if named and found[named.dscp] != meant[named.dscp]:
                yield (
                    f"DSCP {named.dscp} of {label} leads to priority {found[named.dscp]},"
                    f" not {meant[named.dscp]}"
                )
        if policy.lossless:
            ours = meant[policy.lossless.dscp]
            cnp = policy.cnp.dscp if policy.cnp else None
            strays = [d for d, p in enumerate(found) if p == ours and meant[d] != ours and d != cnp]
            if strays:
                lead = "DSCP {} also leads" if len(strays) == 1 else "DSCPs {} also lead"
                yield f"{lead.format(_spans(strays))} to priority {ours}, which is RDMA's alone"


def _classes(held: Held, policy: Policy) -> Iterator[str]:
    """Yield priorities that lead to another class than meant, and PFC priorities that share theirs."""
    found = _numbers(held.known, settings.PRIORITY_TC)
    meant = _numbers(held.wanted, settings.PRIORITY_TC)
    if not found or not meant:
        return
    pfc = _numbers(held.known, settings.PFC) or _numbers(held.wanted, settings.PFC)
    ours = (policy.lossless.priority,) if policy.lossless else ()
    for priority in dict.fromkeys((*pfc, *ours)):
        also = [p for p in range(PRIORITIES) if p != priority and found[p] == found[priority]]
        strays = [p for p in also if meant[p] != meant[priority]]
        if found[priority] != meant[priority]:
            yield f"priority {priority} goes to class {found[priority]}, not {meant[priority]}"
        if strays:
            kind = "PFC" if priority in pfc else "the lossless"
            yield f"{kind} priority {priority} shares its traffic class with priorities {listed(strays)}"


def _lossless(held: Held, policy: Policy) -> Iterator[str]:
    """Yield what is lossless and was not named, and what was named and is not lossless."""
    named = policy.pfc_priorities
    pfc = held.known.get(settings.PFC)
    buffers = held.known.get(settings.LOSSLESS_BUFFERS)
    if isinstance(pfc, tuple):
        for priority in named:
            if priority not in pfc and settings.PFC in held.wanted:
                yield f"priority {priority} has no PFC: the chain ends there"
        for priority in _others(pfc, named):
            yield f"PFC is on for priority {priority}, which the policy does not name"
    if isinstance(buffers, tuple) and settings.LOSSLESS_BUFFERS in held.wanted:
        for priority in _others(pfc if isinstance(pfc, tuple) else named, buffers):
            yield f"priority {priority} has PFC, but no buffer with headroom: it drops while it pauses"
        for priority in _others(buffers, named):
            yield f"priority {priority} is kept in a lossless buffer, and the policy does not name it"
    if held.known.get(settings.PAUSE) is True and held.wanted.get(settings.PAUSE) is False:
        yield "pause of the whole link (802.3x) is on: it stops every class, and PFC does not work beside it"


def _notifications(held: Held, policy: Policy) -> Iterator[str]:
    if policy.cnp is None:
        return
    priority = _priority(held, policy.cnp)
    pfc = _numbers(held.known, settings.PFC)
    if priority in pfc:
        yield f"CNPs ride priority {priority}, which PFC can pause"
        return
    if priority in _numbers(held.known, settings.LOSSLESS_BUFFERS):
        yield f"CNPs ride priority {priority}, which is kept in a lossless buffer"
    classes = _numbers(held.known, settings.PRIORITY_TC)
    if not classes:
        return
    paused = [p for p in pfc if p != priority and classes[p] == classes[priority]]
    if paused:
        yield f"CNPs share class {classes[priority]} with priority {listed(paused)}, which PFC can pause"
    schedulers = held.known.get(settings.TC_SCHEDULER)
    meant = held.wanted.get(settings.TC_SCHEDULER)
    if isinstance(schedulers, tuple) and isinstance(meant, tuple) and _STRICT in meant:
        scheduler = schedulers[classes[priority]]
        if scheduler != _STRICT:
            yield f"CNPs' class {classes[priority]} is scheduled {scheduler}, not strict: they wait for data"


def _priority(held: Held, named: TrafficClass) -> int:
    found = _numbers(held.known, settings.DSCP_PRIORITY)
    return found[named.dscp] if found else named.priority


def _marking(held: Held) -> Iterator[str]:
    on, meant = held.known.get(settings.ECN), held.wanted.get(settings.ECN)
    if meant is True and on is False:
        yield "ECN is off: the lossless queue does not mark, and only pauses hold senders back"
    if meant is False and on is True:
        yield "ECN is on, and the policy means none here"
    if on is not True:
        return
    yield from _never_or_always(held)
    kmin, kmax = held.known.get(settings.ECN_KMIN), held.known.get(settings.ECN_KMAX)
    if not isinstance(kmax, int):
        return
    if isinstance(kmin, int) and kmin >= kmax:
        yield f"Kmin {kmin} bytes is not below Kmax {kmax} bytes"
    points = held.fact(facts.PAUSE_POINT)
    for priority in _numbers(held.known, settings.PFC):
        point = points[priority] if isinstance(points, tuple) and len(points) == PRIORITIES else 0
        if isinstance(point, int) and 0 < point <= kmax:
            yield (
                f"Kmax {kmax} bytes is not below {point} bytes, at which priority {priority} pauses:"
                " pauses come before all is marked"
            )


def _never_or_always(held: Held) -> Iterator[str]:
    """Yield thresholds of 0 that are not meant: a port that marks, and yet has no say in the matter."""
    if held.known.get(settings.ECN_KMIN) == 0 and held.wanted.get(settings.ECN_KMIN):
        yield (
            f"Kmin is 0 bytes, not {said(held.wanted[settings.ECN_KMIN])}: marking begins at an empty queue"
        )
    if held.known.get(settings.ECN_PMAX) == 0 and held.wanted.get(settings.ECN_PMAX):
        yield (
            f"Pmax is 0 %, not {said(held.wanted[settings.ECN_PMAX])} %:"
            " nothing is marked before the queue is past Kmax"
        )


def _further(held: Held, own: list[str]) -> Iterator[str]:
    for name in own:
        if name in held.known and not same(held.known[name], held.wanted[name]):
            found, meant = held.known[name], held.wanted[name]
            yield f"{name} {_differs(found, meant)}: the chain breaks there"


def _differs(found: Value, meant: Value) -> str:
    if isinstance(found, tuple) and isinstance(meant, tuple) and len(found) == len(meant) > 1:
        places = [n for n, (x, y) in enumerate(zip(found, meant, strict=True)) if x != y]
        return f"is {found[places[0]]} at {places[0]}, not {meant[places[0]]}"
    return f"is {said(found)}, not {said(meant)}"


def _described(held: Held, policy: Policy) -> str:
    if policy.lossless is None:
        return "no lossless class is meant, and none was read"
    dscp = policy.lossless.dscp
    priority = _priority(held, policy.lossless)
    steps = [f"DSCP {dscp}", f"priority {priority}"]
    classes = _numbers(held.known, settings.PRIORITY_TC)
    if classes:
        steps.append(f"class {classes[priority]}")
    steps.append("PFC" if priority in _numbers(held.known, settings.PFC) else "no PFC")
    if settings.ECN in held.known:
        steps.append("ECN" if held.known[settings.ECN] else "no ECN")
    return f"as read: {' -> '.join(steps)}"


def _numbers(values: Mapping[str, Value], name: str) -> tuple[int, ...]:
    """Return a setting that is a list of numbers; empty if it is not known."""
    found = values.get(name, ())
    # What is known, or wanted, of such a setting are numbers.
    return cast("tuple[int, ...]", found) if isinstance(found, tuple) else ()


def _others(
    numbers: tuple[int, ...] | tuple[str, ...], known: tuple[int, ...] | tuple[str, ...]
) -> list[int]:
    """Return the numbers that are not among `known`."""
    return [each for each in numbers if isinstance(each, int) and each not in known]


def _spans(numbers: list[int]) -> str:
    """Return ascending numbers as ``24-25, 27``."""
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
