"""The lines that set ports of an EOS switch, inside a configuration session.

Queues, PFC, ECN and the watchdog of a port stand in a QoS profile, whose name is a digest of what it says:
ports that are to be alike share one, a profile is never changed, and one of ours that no port has any more
goes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fabricctl.drivers import lines
from fabricctl.drivers.switch.eos import profile, terms
from fabricctl.drivers.switch.eos.profile import PREFIX, SHARED, UNICAST, Ecn, Profile, Queue
from fabricctl.errors import RefusedError
from fabricctl.model import settings
from fabricctl.model.reading import Value
from fabricctl.plugin.protocols import PortGoal

_PROFILED = frozenset(
    {
        settings.TRUST,
        settings.PRIORITY_TC,
        settings.TC_SCHEDULER,
        settings.TC_BANDWIDTH,
        settings.LOSSLESS_BUFFERS,
        settings.PFC,
        settings.ECN,
        settings.ECN_KMIN,
        settings.ECN_KMAX,
        settings.ECN_PMAX,
        settings.WATCHDOG,
        settings.WATCHDOG_DETECT,
        settings.WATCHDOG_RESTORE,
        settings.WATCHDOG_POLL,
        settings.WATCHDOG_ACTION,
        terms.ECN_QUEUES,
        terms.ECN_COUNTED,
    }
)
# What was read comes back as a part of lines: nothing else may be in it.
_WORDS = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._/:,%>+-]*")
_STATES = (terms.PROFILE, terms.QUEUE_MODE, terms.MAP_MODE, terms.GUARANTEED, terms.REST)
_MEANS = (*_STATES, terms.OWN_LINES, terms.PROFILES)
_ALWAYS = (terms.PROFILE, terms.PROFILES)
"""What must have been read whatever is set: without it a profile might go that a port has."""
_FOR_A_PROFILE = (terms.QUEUE_MODE, terms.GUARANTEED, terms.REST, terms.OWN_LINES)
_STAYS = (
    settings.TRUST,
    settings.PRIORITY_TC,
    settings.TC_SCHEDULER,
    settings.TC_BANDWIDTH,
    settings.LOSSLESS_BUFFERS,
    settings.PFC,
    settings.ECN,
    settings.WATCHDOG,
    settings.WATCHDOG_ACTION,
    terms.ECN_QUEUES,
    terms.ECN_COUNTED,
)
"""What a new profile takes over unless it is set: every port has these; thresholds and times it need not."""
_TRUSTS = {"dscp": "dscp", "pcp": "cos", terms.NONE: "disabled"}
_IN_QUEUE = re.compile(r"((?:uc-)?tx-queue [0-7]) > (.+)")
_WATCHDOG = "priority-flow-control pause watchdog"
# What a line of an interface begins with, and what takes it back; the first that fits.
_TAKE_BACK = (
    (r"(?:no )?qos trust", "qos trust"),
    (rf"{_WATCHDOG} port timer", f"{_WATCHDOG} port timer"),
    (rf"{_WATCHDOG} port action", f"{_WATCHDOG} port action"),
    (rf"(?:no )?{_WATCHDOG}", _WATCHDOG),
    (r"priority-flow-control priority ([0-7])", r"priority-flow-control priority \1"),
    (r"(?:no )?priority-flow-control", "priority-flow-control"),
    (r"(?:no )?priority", "priority"),
    (r"bandwidth (percent|guaranteed)", r"bandwidth \1"),
    (r"random-detect ecn count", "random-detect ecn count"),
    (r"random-detect ecn", "random-detect ecn"),
)


@dataclass(frozen=True, slots=True)
class _Plan:
    """What becomes of one port.

    Parameters
    ----------
    profile
        The profile that it is to have, ``none`` for none; the one it has if that stays.
    body
        The lines of the profile if it has to be made.
    own
        The lines inside the port's section.
    """

    port: str
    profile: str
    body: tuple[str, ...]
    own: tuple[str, ...]


def session_lines(goals: Sequence[PortGoal]) -> tuple[str, ...]:
    """Return the lines that bring all goals about: maps of the switch, profiles, ports, what is left over.

    Raises
    ------
    RefusedError
        A port, a value or a line that was read is nothing that can stand in a line.
    """
    lines.check_names([goal.port for goal in goals])
    for goal in goals:
        _check(goal)
    plans = [_plan(goal) for goal in goals]
    found = list(dict.fromkeys(line for goal in goals for line in _map_lines(goal)))
    for name, body in {plan.profile: plan.body for plan in plans if plan.body}.items():
        found += [f"qos profile {name}", *body, "exit"]
    for plan, goal in zip(plans, goals, strict=True):
        section = (f"interface {plan.port}", *plan.own, "exit")
        found += section if plan.own else (f"! {plan.port}: {', '.join(goal.names)}",)
    return (*found, *_left_over(goals, plans))


def _check(goal: PortGoal) -> None:
    unread = next((name for name in _needed(goal) if name not in goal.before), "")
    if unread:
        raise RefusedError(
            f"its configuration was not read ({unread}), so that nothing is set",
            device=goal.port.id.device,
            port=goal.port.id.port,
            next_step="try again",
        )
    for name in _MEANS:
        value = goal.before.get(name, ())
        for word in value if isinstance(value, tuple) else (value,):
            if not isinstance(word, str) or not _WORDS.fullmatch(word):
                raise _cannot(goal, name, word)
    for name in (*goal.names, *goal.wanted):
        if not re.fullmatch(r"[a-z0-9_.]+", name):
            raise _cannot(goal, "a setting", name)


def _needed(goal: PortGoal) -> Iterator[str]:
    """Walk what must have been read, so that what is not set stays."""
    yield settings.PFC
    yield from _ALWAYS
    if _PROFILED & set(goal.names):
        yield from _FOR_A_PROFILE
        yield from (name for name in _STAYS if name not in goal.names)
    if settings.DSCP_PRIORITY in goal.names:
        yield settings.DSCP_PRIORITY
    if settings.PRIORITY_TC in goal.names:
        yield from (terms.MAP_MODE, settings.PRIORITY_TC)


def _cannot(goal: PortGoal, name: str, value: object) -> RefusedError:
    return RefusedError(
        f"{name}: {value!r} cannot stand in a line of its configuration",
        device=goal.port.id.device,
        port=goal.port.id.port,
    )


def _values(goal: PortGoal) -> dict[str, Value]:
    """Return all that the port is to hold: what is named as wanted, the rest as it is, if that is known."""
    named = {name: goal.wanted[name] for name in goal.names if name in goal.wanted}
    return {**goal.wanted, **goal.before, **named}


def _plan(goal: PortGoal) -> _Plan:
    now = str(goal.before.get(terms.PROFILE, terms.NONE))
    own = list(_port_lines(goal))
    if not _PROFILED & set(goal.names):
        return _Plan(goal.port.id.port, now, (), tuple(own))
    mode = _word(goal, terms.QUEUE_MODE, UNICAST)
    meant = _meant(goal, mode)
    name, body = _place(goal, meant, now, mode)
    own += _taken_back(_words(goal, terms.OWN_LINES))
    if name != now:
        own.append(f"no service-profile {now}" if name == terms.NONE else f"service-profile {name}")
    return _Plan(goal.port.id.port, name, body, tuple(own))


def _place(goal: PortGoal, meant: Profile, now: str, mode: str) -> tuple[str, tuple[str, ...]]:
    """Return the profile that says what is meant, and its lines if there is none on the switch yet."""
    there = {words[0]: words[1] for words in map(str.split, _words(goal, terms.PROFILES)) if len(words) > 1}
    spellings = [profile.digest(one) for one in _spellings(goal, meant)]
    if profile.digest(Profile()) in spellings:
        return terms.NONE, ()
    same = [name for name, digest in there.items() if digest in spellings]
    if same:
        return (now if now in same else same[0]), ()
    name = PREFIX + spellings[0]
    while name in there:
        name += "x"  # somebody has changed the profile of that name: it is no longer what it is called
    return name, profile.render(meant, mode)


def _spellings(goal: PortGoal, meant: Profile) -> Iterator[Profile]:
    """Walk the profiles that mean the same on this port."""
    yield meant
    if _TRUSTS.get(str(goal.before.get(terms.DEFAULT_TRUST))) == meant.trust:
        yield replace(meant, trust=None)


def _meant(goal: PortGoal, mode: str) -> Profile:
    """Return what the port's profile has to say."""
    values = _values(goal)
    pfc = _numbers(goal, values, settings.PFC)
    lossless = pfc or _numbers(goal, values, settings.LOSSLESS_BUFFERS)
    watched = _numbers(goal, values, settings.WATCHDOG)
    trust = values.get(settings.TRUST)
    if trust is not None and trust not in _TRUSTS:
        raise _cannot(goal, settings.TRUST, trust)
    return Profile(
        trust=None if trust is None else _TRUSTS[str(trust)],
        pfc=bool(pfc),
        no_drop=tuple((priority, True) for priority in lossless),
        watchdog=bool(watched),
        timer=_timer(goal, values) if watched else None,
        action=_action(values) if watched else None,
        queues=tuple(_queues(goal, values, mode)),
        rest=_words(goal, terms.REST),
    )


def _queues(goal: PortGoal, values: Mapping[str, Value], mode: str) -> Iterator[Queue]:
    classes = _numbers(goal, values, settings.PRIORITY_TC)
    kinds = values.get(settings.TC_SCHEDULER, ())
    shares = _numbers(goal, values, settings.TC_BANDWIDTH)
    marking = _numbers(goal, values, terms.ECN_QUEUES) if values.get(settings.ECN) is True else ()
    ecn = profile.ecn_words(_ecn(goal, values), mode) if marking else None
    watched = _numbers(goal, values, settings.WATCHDOG)
    watched_queues = {classes[priority] if classes else priority for priority in watched}
    guaranteed = _guaranteed(goal, watched_queues)
    for number in range(terms.QUEUES):
        queue = Queue(number, guaranteed=guaranteed.get(number))
        if number in classes and number != terms.RESERVED and isinstance(kinds, tuple) and kinds:
            strict = kinds[number] == "strict"
            queue = replace(queue, strict=strict, percent=None if strict or not shares else shares[number])
        if number in marking:
            queue = replace(queue, ecn=ecn, count=values.get(terms.ECN_COUNTED) is True)
        if queue != Queue(number):
            yield queue


def _guaranteed(goal: PortGoal, watched: set[int]) -> dict[int, str]:
    """Return the guaranteed bandwidth by queue: what is there, and ours for exactly the watched queues."""
    found = {int(word[0]): word[2:] for word in _words(goal, terms.GUARANTEED) if word[0].isdecimal()}
    kept = {
        number: words for number, words in found.items() if number in watched or words != profile.GUARANTEED
    }
    return {**dict.fromkeys(watched, profile.GUARANTEED), **kept}


def _ecn(goal: PortGoal, values: Mapping[str, Value]) -> Ecn:
    names = (settings.ECN_KMIN, settings.ECN_KMAX, settings.ECN_PMAX)
    for name in names:
        if type(values.get(name)) is not int:
            raise _cannot(goal, name, values.get(name))
    return Ecn(*(int(str(values[name])) for name in names))


def _timer(goal: PortGoal, values: Mapping[str, Value]) -> str | None:
    words = []
    for name, setting in (
        ("timeout", settings.WATCHDOG_DETECT),
        ("polling-interval", settings.WATCHDOG_POLL),
        ("recovery-time", settings.WATCHDOG_RESTORE),
    ):
        value = values.get(setting)
        if value is None:
            return None
        if not isinstance(value, int):
            raise _cannot(goal, setting, value)
        words.append(f"{name} {value / 1000:g}")
    return " ".join(words)


def _action(values: Mapping[str, Value]) -> str | None:
    # The third is errdisable, which is what holds if nothing is said.
    action = values.get(settings.WATCHDOG_ACTION)
    return str(action) if action in terms.ACTIONS.values() else None


def _port_lines(goal: PortGoal) -> Iterator[str]:
    for name in goal.names:
        value = goal.wanted.get(name)
        if name == settings.MTU:
            if type(value) is not int:
                raise _cannot(goal, name, value)
            yield f"mtu {value}"
        elif name == settings.PAUSE:
            yield from (
                f"flowcontrol {way} {'on' if value is True else 'off'}" for way in ("send", "receive")
            )


def _map_lines(goal: PortGoal) -> Iterator[str]:
    """Walk the lines about what is the same for all ports: only entries that differ from what was read."""
    if settings.DSCP_PRIORITY in goal.names:
        classes = _changed(goal, settings.DSCP_PRIORITY)
        for tc in sorted(set(classes.values())):
            listed = " ".join(str(dscp) for dscp, meant in classes.items() if meant == tc)
            yield f"qos map dscp {listed} to traffic-class {tc}"
    if settings.PRIORITY_TC in goal.names:
        mode = _word(goal, terms.MAP_MODE, SHARED)
        for tc, queue in _changed(goal, settings.PRIORITY_TC).items():
            if tc != terms.RESERVED:
                yield f"qos map traffic-class {tc} to {mode} {queue}"
    counted = terms.ECN_COUNTED in goal.names and goal.wanted.get(terms.ECN_COUNTED) is True
    if counted and _word(goal, terms.QUEUE_MODE, UNICAST) == SHARED:
        yield "hardware counter feature ecn out"


def _changed(goal: PortGoal, name: str) -> dict[int, int]:
    meant = _numbers(goal, goal.wanted, name)
    now = _numbers(goal, goal.before, name)
    return {at: value for at, value in enumerate(meant) if at >= len(now) or now[at] != value}


def _taken_back(own: Sequence[str]) -> Iterator[str]:
    """Walk the lines that take back what an interface says itself, in place of its profile."""
    sections: dict[str, list[str]] = {}
    for line in own:
        match = _IN_QUEUE.fullmatch(line)
        head, inner = (match[1], match[2]) if match else ("", line)
        sections.setdefault(head, []).append(_default(inner))
    for head, found in sections.items():
        unique = dict.fromkeys(line for line in found if line)
        yield from (head, *unique, "exit") if head else unique


def _default(line: str) -> str:
    for pattern, instead in _TAKE_BACK:
        match = re.match(pattern, line)
        if match is not None:
            return f"default {match.expand(instead)}"
    return ""


def _left_over(goals: Sequence[PortGoal], plans: Sequence[_Plan]) -> Iterator[str]:
    """Walk the lines that remove profiles of ours that no interface has after this."""
    moved = {plan.port for plan in plans}
    kept = {plan.profile for plan in plans}
    every = dict.fromkeys(line for goal in goals for line in _words(goal, terms.PROFILES))
    for name, _, users in (words.partition(" ") for words in every):
        ports = set(users.partition(" ")[2].split(",")) - {""}
        if name.startswith(PREFIX) and name not in kept and ports <= moved:
            yield f"no qos profile {name}"


def _words(goal: PortGoal, name: str) -> tuple[str, ...]:
    value = goal.before.get(name, ())
    return tuple(map(str, value)) if isinstance(value, tuple) else ()


def _word(goal: PortGoal, name: str, otherwise: str) -> str:
    value = str(goal.before.get(name, ""))
    return value if value in {UNICAST, SHARED} else otherwise


def _numbers(goal: PortGoal, values: Mapping[str, Value], name: str) -> tuple[int, ...]:
    value = values.get(name, ())
    if not isinstance(value, tuple) or not all(type(one) is int for one in value):
        raise _cannot(goal, name, value)
    return tuple(int(one) for one in value)
