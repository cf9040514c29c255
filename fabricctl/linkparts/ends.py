"""The Ethernet links of a survey, each with what was seen at its two ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fabricctl.linkparts.hosts import listed
from fabricctl.model.fabric import Device, LinkLayer, Port, Role
from fabricctl.model.names import PortId
from fabricctl.model.reading import Entry, Known, Missing, PortReading, Value
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.surveying import Observation, Survey


@dataclass(frozen=True, slots=True, eq=False)
class End:
    """One end of a link.

    Parameters
    ----------
    seen
        What was seen of its device; None if that was not asked.
    gap
        Why nothing of the port is known; empty if it was read.
    """

    port: Port
    role: Role
    driver: str
    seen: Observation | None
    gap: str = ""

    def __str__(self) -> str:
        return str(self.port.id)

    @property
    def reading(self) -> PortReading | None:
        """What was read of the port at last; None if `gap` says why not."""
        return self.seen.port(self.port.id) if self.seen is not None else None

    def fact(self, name: str, *, at_first: bool = False) -> Value | None:
        """Return a fact of the port; None if it is not known."""
        if self.seen is None:
            return None
        reading = self.seen.first if at_first else self.seen.last
        held = reading.ports.get(self.port.id)
        found = held.facts.get(name) if held is not None else None
        return found.value if isinstance(found, Known) else None

    def number(self, name: str, *, at_first: bool = False) -> int | None:
        """Return a fact that is a number; None if it is not known."""
        found = self.fact(name, at_first=at_first)
        return found if isinstance(found, int) and not isinstance(found, bool) else None

    def words(self, name: str) -> tuple[str, ...]:
        """Return a fact that is a list of words; empty if it is not known."""
        found = self.fact(name)
        return tuple(str(word) for word in found) if isinstance(found, tuple) else ()

    def why_not(self, name: str) -> str:
        """Return why a fact is not known."""
        reading = self.reading
        if reading is None:
            return self.gap
        found: Entry | None = reading.facts.get(name)
        match found:
            case Missing(reason):
                return reason
            case Known(value):
                return f"unparsable: {value!r:.60}"
            case None:
                return "the driver did not report it"


@dataclass(frozen=True, slots=True)
class Cable:
    """A link of the inventory, or a port of which it names no other end: then there is one end.

    Parameters
    ----------
    ends
        A node's port first.
    """

    subject: str
    ends: tuple[End, ...]

    @property
    def read(self) -> tuple[End, ...]:
        """The ends that were read."""
        return tuple(end for end in self.ends if end.reading is not None)

    @property
    def unread(self) -> str:
        """What to add to a sentence about a link of which one end was not read; empty if both were."""
        return "".join(f"; {end} was not read: {end.gap}" for end in self.ends if end.gap)

    def other(self, end: End) -> End | None:
        """Return the far end as seen from `end`; None if the inventory names none."""
        return next((each for each in self.ends if each.port.id != end.port.id), None)


def cables(survey: Survey, *, lone: bool = False) -> tuple[Cable, ...]:
    """Return the Ethernet links of which at least one end was read, in inventory order.

    Parameters
    ----------
    lone
        Whether also a switch's ports without a cable: nobody expects anything of those.
    """
    return tuple(
        each
        for each in all_cables(survey)
        if each.read and (lone or len(each.ends) > 1 or each.ends[0].role is Role.NODE)
    )


def all_cables(survey: Survey) -> Iterator[Cable]:
    """Walk all Ethernet links with a device that was asked."""
    fabric = survey.fabric
    done: set[PortId] = set()
    for port, _ in survey.seen_ports():
        if port in done or fabric.port(port).link_layer is not LinkLayer.ETHERNET:
            continue
        peer = fabric.peer(port)
        ids = (port,) if peer is None else (port, peer)
        done.update(ids)
        ends = sorted(
            (_end(survey, fabric.port(each)) for each in ids), key=lambda end: end.role is Role.SWITCH
        )
        yield Cable(" - ".join(map(str, ends)), tuple(ends))


def unseen(check: str, survey: Survey, what: str) -> tuple[Finding, ...]:
    """Return the finding of a check that had nothing to judge.

    None if the fabric has no Ethernet at all, or if no node was asked and the switches' ports were read: then
    what was asked has nothing that the check is about.
    """
    fabric = survey.fabric
    about = [d for d in fabric.devices if any(port.link_layer is LinkLayer.ETHERNET for port in d.ports)]
    asked = [device for device in about if device.name in survey.devices]
    if not about or (survey.limited and not asked):
        return ()
    nodes = any(device.role is Role.NODE for device in asked)
    if survey.limited and not nodes and cables(survey, lone=True):
        return ()
    why, step = _why_unseen(survey, about, asked)
    said = f"{what}: no port could be read{why}"
    return (Finding(check, "fabric", Outcome.UNKNOWN, said, next_step=step),)


def _why_unseen(survey: Survey, about: list[Device], asked: list[Device]) -> tuple[str, str]:
    """Return why no port could be read, and what to do about it."""
    silent = [device.name for device in asked if survey.devices[device.name].error]
    driverless = [device.name for device in asked or about if not device.driver and device.name not in silent]
    steps = []
    if silent:
        steps.append("see why they could not be asked (check reach), then run this again")
    if driverless:
        steps.append(f"name the drivers of {listed(driverless)} in the inventory")
    if not steps:
        steps.append("see that the ports that the inventory names are those that the devices have")
    why = f"; {len(silent)} of {len(asked)} devices did not answer" if silent else ""
    return why, "; ".join(steps)


def _end(survey: Survey, port: Port) -> End:
    device = survey.fabric.device(port.id.device)
    seen = survey.devices.get(device.name)
    if not device.driver:
        gap = "the inventory names no driver for it"
    elif seen is None:
        gap = "it was not asked"
    elif seen.error:
        gap = "its device could not be asked"
    else:
        gap = "" if seen.port(port.id) is not None else "the driver reported nothing of it"
    return End(port, device.role, device.driver, seen, gap)
