"""Every Ethernet cable is where the inventory has it, as its ends hear each other by LLDP.

Passes: each end hears the other; or one hears the other, and that one hears nothing.

Fails: an end hears another port than the inventory's, even where that one is down. Where two cables are
swapped it says so.

Unknown: no end hears anything, the link is down and no end hears another port, the port has a name that the
inventory does not know, the two ends contradict each other, or the inventory names no cable at all. What LLDP
heard may be minutes old.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fabricctl.linkparts.ends import Cable, End, cables, unseen
from fabricctl.linkparts.neighbouring import Heard, Names
from fabricctl.model import facts
from fabricctl.model.fabric import Device, Role
from fabricctl.model.names import PortId
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.protocols import Query
from fabricctl.plugin.surveying import Need, Survey

_LISTEN = "run lldpd on nodes and LLDP on switches at both ends, wait half a minute, and look again"
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\S+ \[\w+/\w+\] ")
_STOPPED = re.compile(r"unable to connect to (?:lldpd daemon|socket \S*lldpd)")
"""What lldpcli says without a daemon; of a socket that it may not open it says the same, with the reason."""


@dataclass(frozen=True)
class _Cabling:
    name: str = "cabling"
    needs: Need = Need.READINGS

    def queries(self, device: Device) -> tuple[Query, ...]:
        """Ask nothing: the drivers read what LLDP hears."""
        del device
        return ()

    def judge(self, survey: Survey) -> tuple[Finding, ...]:
        """Return a finding for each cable of the inventory, and one for each that it does not have."""
        links, names = cables(survey, lone=True), Names(survey)
        heard = {end.port.id: names.heard(end) for link in links for end in link.read}
        judge = _Judge(self.name, survey, heard)
        found = [finding for link in links if (finding := judge.of(link)) is not None]
        if not links:
            return unseen(self.name, survey, "where cables are")
        return tuple(found) if survey.fabric.links or not found else self._nothing_meant()

    def _nothing_meant(self) -> tuple[Finding, ...]:
        what = "LLDP hears neighbours, but the inventory names no cable: there is nothing to compare with"
        step = "name the cables in the inventory: link in fabric_ports of nodes, fabric_uplinks of switches"
        return (Finding(self.name, "fabric", Outcome.UNKNOWN, what, next_step=step),)


@dataclass(frozen=True)
class _Judge:
    name: str
    survey: Survey
    heard: Mapping[PortId, Heard]

    def of(self, link: Cable) -> Finding | None:
        if len(link.ends) == 1:
            return self._uncabled(link)
        down = [str(end) for end in link.read if end.fact(facts.LINK_STATE) == "down"]
        if down:
            return self._down(link, down)
        wrong = [end for end in link.read if self._is_wrong(link, end)]
        right = [end for end in link.read if self.heard[end.port.id].port == self._wanted(link, end)]
        if wrong and right and not self._renamed(wrong[0]):
            return self._contradiction(link, right[0], wrong[0])
        if wrong and right:
            return self._by_another_name(link, right[0], wrong[0])
        if wrong:
            return self._wrong(link, wrong[0])
        if right:
            return Finding(self.name, link.subject, Outcome.PASS, self._agreed(link, right))
        return self._silent(link)

    def _down(self, link: Cable, down: list[str]) -> Finding:
        """Judge a link with an end that is down: an end that is up may hear that it is another cable's."""
        for end in link.read:
            if end.fact(facts.LINK_STATE) == "up" and self._is_wrong(link, end) and not self._renamed(end):
                return self._wrong(link, end)
        have = "has" if len(down) == 1 else "have"
        what = f"{' and '.join(down)} {have} no link: LLDP hears nothing there now"
        return self._unknown(link, what, "see check link_state")

    def _wanted(self, link: Cable, end: End) -> PortId | None:
        other = link.other(end)
        return None if other is None else other.port.id

    def _is_wrong(self, link: Cable, end: End) -> bool:
        """Say whether an end surely hears another port than it should."""
        wanted, heard = self._wanted(link, end), self.heard[end.port.id]
        return heard.sure and heard.port != wanted

    def _renamed(self, end: End) -> bool:
        """Say whether an end hears a device of a name that the inventory does not have."""
        return not self.survey.fabric.has_device(self.heard[end.port.id].device)

    def _by_another_name(self, link: Cable, right: End, wrong: End) -> Finding:
        heard = self.heard[wrong.port.id]
        return Finding(
            self.name,
            link.subject,
            Outcome.PASS,
            f"{right} hears {wrong}, which hears {heard.said}: LLDP has that name for {right.port.id.device}",
            next_step=f"give {right.port.id.device} its name of the inventory, or the other way round",
        )

    def _agreed(self, link: Cable, right: list[End]) -> str:
        if len(right) > 1:
            return f"{right[0]} and {right[1]} hear each other"
        one = right[0]
        other = link.other(one)
        heard = self.heard.get(other.port.id) if other is not None else None
        if other is None or heard is None:
            return f"{one} hears {other}{link.unread}"
        return f"{one} hears {other}, which hears {heard.said or f'nothing ({self._why(other)})'}"

    def _wrong(self, link: Cable, end: End) -> Finding:
        wanted, heard = self._wanted(link, end), self.heard[end.port.id]
        is_on = str(heard.port) if heard.port is not None else heard.said
        extra = ""
        if heard.port is None and not self.survey.fabric.has_device(heard.device):
            extra = ", which the inventory does not have"
        what = f"{end} should be on {wanted}, is on {is_on}{extra}"
        key = self._key(*(each.port.id for each in link.ends))
        step = f"move the cable of {end} to {wanted}, or correct {key}"
        swapped = self._swapped_with(end.port.id, wanted, heard.port)
        if swapped is not None:
            what += f"; {swapped} the other way round"
            step = f"swap the cables in {wanted} and {is_on}, or correct {key}"
        return Finding(
            self.name,
            link.subject,
            Outcome.FAIL,
            what,
            measured=is_on,
            limit=str(wanted),
            next_step=step,
        )

    def _swapped_with(self, port: PortId, wanted: PortId | None, got: PortId | None) -> PortId | None:
        """Return the port that is where `port` should be, if `port` is where that one should be."""
        other = self.survey.fabric.peer(got) if got is not None else None
        if other is None or other == port or wanted is None:
            return None
        theirs, at_wanted = self.heard.get(other), self.heard.get(wanted)
        seen = (theirs is not None and theirs.port == wanted) or (
            at_wanted is not None and at_wanted.port == other
        )
        return other if seen else None

    def _contradiction(self, link: Cable, right: End, wrong: End) -> Finding:
        said = self.heard[wrong.port.id].said
        what = f"the two ends contradict each other: {right} hears {link.other(right)}, {wrong} hears {said}"
        step = (
            "look again in two minutes: what LLDP heard last is kept so long; else look at the cable itself"
        )
        return self._unknown(link, what, step)

    def _silent(self, link: Cable) -> Finding:
        odd = [end for end in link.read if self.heard[end.port.id].said]
        if odd:
            heard = self.heard[odd[0].port.id]
            what = (
                f"{odd[0]} hears {heard.said}, and {heard.why}; the other end confirms nothing{link.unread}"
            )
            step = "write the port in the inventory as LLDP names it, or have LLDP at the other end as well"
            return self._unknown(link, what, step)
        stopped = [end for end in link.read if self._is_stopped(end)]
        why = "; ".join(self._why(end) if end in stopped else f"{end}: {self._why(end)}" for end in link.read)
        starts = dict.fromkeys(f"on {end.port.id.device}: systemctl start lldpd" for end in stopped)
        step = f"{'; '.join(starts)}; wait half a minute, and look again" if starts else _LISTEN
        return self._unknown(link, f"no end says what it is connected to ({why}){link.unread}", step)

    def _why(self, end: End) -> str:
        """Return in plain words why an end hears nothing, without the time that lldpcli writes before it."""
        if self._is_stopped(end):
            return f"lldpd is not running on {end.port.id.device}"
        return _STAMP.sub("", self.heard[end.port.id].why)

    def _is_stopped(self, end: End) -> bool:
        why = self.heard[end.port.id].why
        return _STOPPED.search(why) is not None and "Permission denied" not in why

    def _key(self, *ports: PortId) -> str:
        """Return where the inventory has the cable between two ports."""
        roles = {self.survey.fabric.device(port.device).role for port in ports}
        return (
            "link in fabric_ports of the inventory"
            if Role.NODE in roles
            else "fabric_uplinks in the inventory"
        )

    def _uncabled(self, link: Cable) -> Finding | None:
        """Judge a port without a cable in the inventory: wrong only if one of the fabric's own is on it."""
        heard = self.heard[link.ends[0].port.id]
        if heard.port is None:
            return None
        if not heard.sure:
            what = f"{link.ends[0]} hears {heard.said}, and {heard.why}; the inventory has no cable there"
            return self._unknown(link, what, "write the port in the inventory as LLDP names it")
        return Finding(
            self.name,
            link.subject,
            Outcome.FAIL,
            f"{link.ends[0]} is connected to {heard.port}, the inventory has no cable there",
            measured=str(heard.port),
            limit="no cable",
            next_step=f"add it as {self._key(link.ends[0].port.id, heard.port)}, or take the cable out",
        )

    def _unknown(self, link: Cable, what: str, step: str) -> Finding:
        return Finding(self.name, link.subject, Outcome.UNKNOWN, what, next_step=step)


PLUGIN = _Cabling()
