"""Every Ethernet link is up at both ends, with the speed and the FEC that it should have.

Passes: carrier at every end that was read, the verbs port ACTIVE, the speed that the inventory gives, and the
same FEC where both ends name it. A speed that no end can tell is no failure on a simulated fabric.

Fails: no carrier at an end (it says where a port is switched off, or the other end is up on another port),
the verbs port in another state, another speed, FEC that differs.

Unknown: the state of the link or of the verbs port could not be read; the inventory gives a speed and neither
end knows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fabricctl.linkparts.ends import Cable, End, cables, unseen
from fabricctl.linkparts.neighbouring import Names
from fabricctl.model import facts
from fabricctl.model.fabric import Device, LinkLayer, Role
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.answers import Unread, partial
from fabricctl.plugin.protocols import Query
from fabricctl.plugin.surveying import Need, Survey

_MEGABITS = 1000
_ACTIVE = "ACTIVE"
_KEY = "flags of ports"
_ASK = """\
for port; do
    read -r flags 2>/dev/null <"/sys/class/net/$port/flags" && echo "$port $flags"
done
:
"""
_IFF_UP = 0x1
"""Bit of an interface's flags (linux/if.h): it is switched on, whether it has carrier or not."""
_NO_FEC = frozenset({"none", "off", "disabled"})
_FIRE_CODE = frozenset({"fc", "baser", "base-r", "fire-code", "fc-fec"})
_REED_SOLOMON = frozenset({"rs", "rs-fec", "reed-solomon", "rs528", "rs544"})


@dataclass(frozen=True)
class _LinkState:
    name: str = "link_state"
    needs: Need = Need.READINGS

    def queries(self, device: Device) -> tuple[Query, ...]:
        """Ask the kernel which ports are switched on; the drivers read the rest."""
        names = [port.id.port for port in device.ports if port.link_layer is LinkLayer.ETHERNET]
        return (Query(_KEY, ("sh", "-c", _ASK, "sh", *names)),) if names else ()

    def judge(self, survey: Survey) -> tuple[Finding, ...]:
        """Return a finding for each link, or one for each thing that is wrong with it."""
        names = Names(survey)
        found = [finding for link in cables(survey) for finding in self._of(link, names)]
        return tuple(found) or unseen(self.name, survey, "whether links are up")

    def _of(self, link: Cable, names: Names) -> tuple[Finding, ...]:
        simulated = names.survey.fabric.simulated
        down = self._down(link, names)
        if down is not None:
            return (down,)
        bad = (*self._verbs(link), *self._speed(link, simulated), *self._fec(link))
        return bad or (Finding(self.name, link.subject, Outcome.PASS, _as_it_is(link)),)

    def _down(self, link: Cable, names: Names) -> Finding | None:
        states = {end: end.fact(facts.LINK_STATE) for end in link.ends}
        views = ", ".join(f"{end} {_view(end)}" for end in link.ends)
        if "down" in states.values():
            return self._dark(link, names, views)
        unclear = [end for end in link.read if states[end] != "up"]
        if not unclear:
            return None
        return Finding(
            self.name,
            link.subject,
            Outcome.UNKNOWN,
            f"whether the link is up is not known: {views}",
            next_step=f"see whether the interface is there: ip link show {unclear[0].port.id.port}",
        )

    def _dark(self, link: Cable, names: Names, views: str) -> Finding:
        """Judge a link with an end that is down: the cable is elsewhere or bad, or an end switched off."""
        lit = [end for end in link.ends if end.fact(facts.LINK_STATE) == "up"]
        off = [end for end in link.ends if _is_off(end)]
        elsewhere = [(end, port) for end in lit if (port := _elsewhere(link, end, names))]
        culprit = ""
        if elsewhere:
            end, port = elsewhere[0]
            what = f"{link.other(end)} is down; {end} is up and is on {port}: see check cabling"
            step = f"see check cabling: the cable of {end} is not where the inventory has it"
        elif off:
            what = f"the link is down: {views}"
            step = "; ".join(_switch_on(end) for end in off)
            culprit = str(off[0]) if len(off) == 1 else ""
        else:
            way = " (it works in one direction at most)" if lit else ""
            what, step = f"the link is down: {views}{way}", _reseat(link, lit)
        return Finding(
            self.name,
            link.subject,
            Outcome.FAIL,
            what,
            measured="down",
            limit="up",
            next_step=step,
            culprit=culprit,
        )

    def _verbs(self, link: Cable) -> Iterator[Finding]:
        for end in link.read:
            if end.role is not Role.NODE or not end.port.rdma:
                continue
            state = end.fact(facts.RDMA_STATE)
            if state == _ACTIVE:
                continue
            step = f"on {end.port.id.device}: rdma link show {end.port.rdma}/1, and the kernel log"
            if state is None:
                what = f"the state of {end.port.rdma} is not known: {end.why_not(facts.RDMA_STATE)}"
                yield Finding(self.name, link.subject, Outcome.UNKNOWN, what, next_step=step)
                continue
            yield Finding(
                self.name,
                link.subject,
                Outcome.FAIL,
                f"the link is up, but {end.port.rdma} of {end} is {state}, not {_ACTIVE}",
                measured=str(state),
                limit=_ACTIVE,
                next_step=step,
                culprit=str(end),
            )

    def _speed(self, link: Cable, simulated: str) -> Iterator[Finding]:
        known = [end for end in link.read if (end.number(facts.SPEED) or 0) > 0]
        wrong = [end for end in known if not _fits(end)]
        wanted = max((end.port.speed_gbps for end in link.ends), default=0)
        if wrong:
            is_now = ", ".join(f"{end} runs at {_gbps(end)} Gb/s" for end in wrong)
            yield Finding(
                self.name,
                link.subject,
                Outcome.FAIL,
                f"{is_now}, the inventory says {wrong[0].port.speed_gbps} Gb/s",
                measured=f"{_gbps(wrong[0])} Gb/s",
                limit=f"{wrong[0].port.speed_gbps} Gb/s",
                next_step="see that cable, modules and both ports can do that speed, none is set to another",
            )
        elif wanted and not known and not simulated:
            why = "; ".join(f"{end}: {end.why_not(facts.SPEED)}" for end in link.ends)
            yield Finding(
                self.name,
                link.subject,
                Outcome.UNKNOWN,
                f"the link is up, its speed is not known ({why}); the inventory says {wanted} Gb/s",
                limit=f"{wanted} Gb/s",
                next_step=f"on {link.read[0].port.id.device}: ethtool {link.read[0].port.id.port}",
            )

    def _fec(self, link: Cable) -> Iterator[Finding]:
        named = {str(end): str(end.fact(facts.FEC)) for end in link.read if _kind(end) is not None}
        if len({_kind(end) for end in link.read if _kind(end) is not None}) > 1:
            said = ", ".join(f"{end} uses {fec}" for end, fec in named.items())
            yield Finding(
                self.name,
                link.subject,
                Outcome.FAIL,
                f"FEC is not the same at both ends: {said}",
                measured=", ".join(named.values()),
                limit="the same at both ends",
                next_step="set the same FEC at both ends, the one that cable and speed ask for",
            )


def _view(end: End) -> str:
    state = end.fact(facts.LINK_STATE)
    if _is_off(end):
        return "is switched off"
    return f"says {state}" if state is not None else f"says nothing ({end.why_not(facts.LINK_STATE)})"


def _is_off(end: End) -> bool:
    """Say whether a port is down because somebody switched it off."""
    return end.fact(facts.LINK_STATE) == "down" and _is_on(end) is False


def _is_on(end: End) -> bool | None:
    """Say whether the kernel has a port switched on; None if it does not tell."""
    try:
        said = partial(end.seen.answers, _KEY).splitlines() if end.seen is not None else []
    except Unread:
        return None
    for words in map(str.split, said):
        if len(words) == 2 and words[0] == end.port.id.port:  # noqa: PLR2004  a name and its flags
            try:
                return bool(int(words[1], 16) & _IFF_UP)
            except ValueError:
                return None
    return None


def _switch_on(end: End) -> str:
    device, port = end.port.id.device, end.port.id.port
    command = f"ip link set dev {port} up"
    if end.role is Role.NODE:
        return f"on {device}: {command}"
    return f"on {device}: switch {port} on ({command}, or as its system does it)"


def _elsewhere(link: Cable, end: End, names: Names) -> str:
    """Return which other port of the fabric an end surely hears than it should; empty if it does not."""
    heard, other = names.heard(end), link.other(end)
    known = names.survey.fabric.has_device(heard.device)
    if other is None or not heard.sure or not known or heard.port == other.port.id:
        return ""
    return str(heard.port) if heard.port is not None else heard.said


def _reseat(link: Cable, lit: list[End]) -> str:
    if len(link.ends) == 1:
        return f"see that {link.ends[0]} is switched on and has its cable"
    if lit:
        dark = [end for end in link.ends if end not in lit]
        names = ", ".join(map(str, dark))
        unsure = [end for end in dark if _is_on(end) is None]
        off = f"; or it is switched off there: ip link show {unsure[0].port.id.port}" if unsure else ""
        return f"{names} hears nothing from {lit[0]}: clean the fibre, reseat or change module and cable{off}"
    return "see that both ports are switched on; then reseat, and change if need be, the cable between them"


def _fits(end: End) -> bool:
    """Say whether the speed is the inventory's; that of a bond may be given of all its members together."""
    wanted, speed = end.port.speed_gbps * _MEGABITS, end.number(facts.SPEED)
    return not wanted or speed in {wanted, wanted * max(1, len(end.words(facts.FUNCTIONS)))}


def _gbps(end: End) -> str:
    return f"{(end.number(facts.SPEED) or 0) / _MEGABITS:g}"


def _kind(end: End) -> str | None:
    """Return which FEC an end uses, whatever it calls it; None if it does not say, or in words not known."""
    said = str(end.fact(facts.FEC) or "").lower()
    for kind, names in (("none", _NO_FEC), ("fc", _FIRE_CODE), ("rs", _REED_SOLOMON)):
        if said in names:
            return kind
    return None


def _as_it_is(link: Cable) -> str:
    speeds = dict.fromkeys(f"{_gbps(end)} Gb/s" for end in link.read if end.number(facts.SPEED))
    speed = " and ".join(speeds) or "its speed is not known"
    which = "at both ends" if len(link.read) > 1 else f"at {link.read[0]}"
    return f"up {which}, {speed}{link.unread}"


PLUGIN = _LinkState()
