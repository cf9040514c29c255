"""What was seen of one InfiniBand subnet (a plane of the fabric) from one of its hosts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fabricctl.model.names import PortId


@dataclass(frozen=True, slots=True)
class SubnetPort:
    """One end of an InfiniBand link, as ``iblinkinfo`` and ``ibnetdiscover`` have it.

    Parameters
    ----------
    id
        The port of the inventory that it is; None if the inventory does not know it.
    device
        The inventory's device that it belongs to, also where `id` is None; empty if it is not known.
    node
        The node description as it stands on the device (``node1 mlx5_0``, ``MF0;leaf1:MQM9700/U1``).
    kind
        ``CA``, ``SW`` or ``RT``.
    node_guid, port_guid
        ``0x`` and 16 digits; a switch has one for all its ports; empty if it was not said.
    number
        Port number from 1.
    lid
        Local identifier, 1..49151; 0 if the subnet manager has given none; one for a whole switch.
    state, physical
        As the tools spell them: ``Active``, ``Initialize``, ``Down``; ``LinkUp``, ``Polling``; empty if they
        were not said.
    width
        Lanes: 1, 2, 4, 8 or 12; 0 if the link is down.
    lane_gbps
        Signalling rate of one lane in Gb/s (``53.125`` for HDR); 0 if the link is down.
    peer
        Where the other end is in `Subnet.ports`, as (node GUID, port number); None if nothing is plugged in,
        or if what is plugged in does not answer: then the port is ``LinkUp``. What a switch reduces with
        (SHARP's aggregation node) is not in `Subnet.ports`.
    """

    id: PortId | None
    node: str
    kind: str
    node_guid: str
    port_guid: str
    number: int
    lid: int
    state: str
    physical: str
    width: int
    lane_gbps: float
    peer: tuple[str, int] | None = None
    device: str = ""

    @property
    def label(self) -> str:
        """Its name in findings: the inventory's, or the node description (else its GUID) and the number."""
        name = self.device or self.node or self.node_guid
        return str(self.id) if self.id is not None else f"{name}/{self.number}"

    @property
    def silent(self) -> bool:
        """Whether something is plugged in that does not answer."""
        return self.peer is None and self.physical == "LinkUp"


@dataclass(frozen=True, slots=True)
class Manager:
    """A subnet manager: port GUID (``0x`` and 16 digits), LID, priority, and ``MASTER``, ``STANDBY``, ..."""

    guid: str
    lid: int
    priority: int
    state: str


@dataclass(frozen=True)
class Subnet:
    """One plane.

    Parameters
    ----------
    plane
        Name in findings: ``plane 1`` of several, ``InfiniBand`` if there is one.
    vantage
        The inventory's port from which it was looked at; None if no host could.
    members
        The inventory's ports that belong to this plane, in inventory order.
    ports
        By (node GUID, port number), as discovered; ports without a cable are in it.
    counters, later
        By (node GUID, port number) and counter name as ``ibqueryerrors`` spells it, at both ends of the
        interval; a counter of 0 is not printed and not in it. See `counted` for what 0 may be inferred from.
    extended
        The ports of which the counters have 64 bits, so that none is saturated.
    uncounted
        The ports of which the counters were not read at one end of the interval or the other, and why.
    counted
        How many nodes and ports `ibqueryerrors` says it has checked, at both ends of the interval; None where
        its summary is missing.
    interval_s
        Seconds between the two, by the clock of the host that looked.
    managers
        What subnet managers say of themselves, the master included.
    unheard
        LIDs of ports that say they have a subnet manager, which was asked and did not answer.
    unasked
        LIDs of ports that say they have one which was not asked: there are too many, or no time was left.
    duplicates
        What the tools said of GUIDs that occur twice, one line each.
    complaints
        What the tools said on standard error, one line each: MADs without an answer.
    routes
        By node GUID of a switch: the port by which packets leave it, by destination LID; what it drops is not
        in it.
    missing
        By what is missing (``links``, ``counters``, ``managers``, ``offers``: which ports have a manager,
        ``routes``): why. What is missing is unknown.
    """

    plane: str
    vantage: PortId | None
    members: tuple[PortId, ...]
    ports: Mapping[tuple[str, int], SubnetPort] = field(default_factory=dict)
    counters: Mapping[tuple[str, int], Mapping[str, int]] = field(default_factory=dict)
    later: Mapping[tuple[str, int], Mapping[str, int]] = field(default_factory=dict)
    extended: frozenset[tuple[str, int]] = frozenset()
    uncounted: Mapping[tuple[str, int], str] = field(default_factory=dict)
    counted: tuple[tuple[int, int] | None, tuple[int, int] | None] = (None, None)
    interval_s: float = 0.0
    managers: tuple[Manager, ...] = ()
    unheard: tuple[int, ...] = ()
    unasked: tuple[int, ...] = ()
    duplicates: tuple[str, ...] = ()
    complaints: tuple[str, ...] = ()
    routes: Mapping[str, Mapping[int, int]] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Wiring:
    """Cables as they are meant to be, where not the inventory says it but a saved ``ibnetdiscover``.

    Parameters
    ----------
    source
        The file.
    cables
        Labels of both ends (:attr:`SubnetPort.label`), in ascending order.
    """

    source: str
    cables: tuple[tuple[str, str], ...]
