"""No GUID, LID or node description occurs twice in an InfiniBand plane.

Of two nodes with one GUID the tools show only one, and packets for the other go astray.

Passes if the tools speak of no GUID that occurs twice, no two ports have the same LID, and no two nodes claim
to be the same device of the inventory. Equal descriptions of nodes that the inventory does not know pass with
a note: they cannot be told apart by name.
Fails if a GUID or a LID occurs twice, or two HCAs have the description of one port of the inventory.
Unknown if the plane was not seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from fabricctl.linkparts.subnets import concerns, each
from fabricctl.model.fabric import Device
from fabricctl.model.subnet import Subnet, SubnetPort
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.model.words import count
from fabricctl.plugin.protocols import Query
from fabricctl.plugin.surveying import Need, Survey

_NAME = "ib_identity"
_GUID = re.compile(r"0x[0-9a-f]{16}")
_SHOWN = 3


class _Identity:
    name = _NAME
    needs = Need.SUBNETS

    def queries(self, device: Device) -> tuple[Query, ...]:
        """Nothing: the subnet is looked at from one host."""
        del device
        return ()

    def judge(self, survey: Survey) -> tuple[Finding, ...]:
        """Judge every plane."""
        return each(self.name, "links", survey, _judge)


def _judge(survey: Survey, subnet: Subnet) -> Iterator[Finding]:
    bad = [*_guids(subnet), *_lids(survey, subnet), *_descriptions(survey, subnet)]
    yield from bad
    if all(finding.outcome is Outcome.PASS for finding in bad):
        nodes = count(len({port.node_guid for port in subnet.ports.values()}), "node")
        what = f"{nodes}: no GUID, LID or description of a device occurs twice"
        yield Finding(_NAME, subnet.plane, Outcome.PASS, what, nodes)


def _guids(subnet: Subnet) -> Iterator[Finding]:
    guids = dict.fromkeys(guid for line in subnet.duplicates for guid in _GUID.findall(line))
    for guid in guids:
        shown = {key: port for key, port in subnet.ports.items() if guid in {port.port_guid, port.node_guid}}
        known = [port.label for port in shown.values()]
        where = f": one is {known[0]}, the other is hidden by it" if known else ""
        what = f"two ports have the GUID {guid}{where}{_near(subnet, shown)}"
        step = (
            "see which hosts are plugged in there, and burn into one of them a GUID of its own (mstflint sg)"
        )
        yield Finding(_NAME, subnet.plane, Outcome.FAIL, what, guid, "every GUID once", next_step=step)
    if subnet.duplicates and not guids:
        yield Finding(
            _NAME,
            subnet.plane,
            Outcome.UNKNOWN,
            f"the tools speak of something that occurs twice: {subnet.duplicates[0]}",
            next_step="run ibnetdiscover by hand",
        )


def _near(subnet: Subnet, shown: Mapping[tuple[str, int], SubnetPort]) -> str:
    """Return at which switch ports the two may be, as the tail of a sentence: one of them seems empty."""
    switches = [port for port in subnet.ports.values() if port.kind == "SW"]
    leading = [port.label for port in switches if port.peer in shown]
    silent = [port.label for port in switches if port.silent]
    ways = f"; {' and '.join(leading)} lead to it" if len(leading) > 1 else ""
    return f"{ways}; {', '.join(silent[:_SHOWN])} up and leading to nobody" if silent else ways


def _lids(survey: Survey, subnet: Subnet) -> Iterator[Finding]:
    """Walk LIDs of several ports; a switch has one for all its ports."""
    owners: dict[int, dict[tuple[str, int], SubnetPort]] = {}
    for port in subnet.ports.values():
        if port.lid and port.state != "Down":
            number = 0 if port.kind == "SW" else port.number
            owners.setdefault(port.lid, {}).setdefault((port.node_guid, number), port)
    for lid, ports in owners.items():
        if len(ports) > 1 and concerns(survey, (port.device for port in ports.values())):
            names = ", ".join(_owner(port) for port in ports.values())
            what = f"LID {lid} belongs to several: {names}"
            step = "have the subnet manager sweep anew (pkill -HUP opensm); a second manager may have set it"
            yield Finding(
                _NAME, subnet.plane, Outcome.FAIL, what, f"LID {lid}", "every LID once", next_step=step
            )


def _owner(port: SubnetPort) -> str:
    return (port.device or port.node) if port.kind == "SW" else port.label


def _descriptions(survey: Survey, subnet: Subnet) -> Iterator[Finding]:
    nodes: dict[str, dict[str, SubnetPort]] = {}
    for port in subnet.ports.values():
        nodes.setdefault(port.node, {}).setdefault(port.node_guid, port)
    for name, ports in nodes.items():
        if len(ports) == 1 or not concerns(survey, (port.device for port in ports.values())):
            continue
        guids = ", ".join(list(ports)[:_SHOWN])
        what = f"{count(len(ports), 'node')} have the description {name!r}: {guids}"
        if _claimed(ports.values()):
            step = "see which host is which (ibstat there), and have rdma-ndd set the description of each"
            yield Finding(_NAME, subnet.plane, Outcome.FAIL, what, limit="every name once", next_step=step)
        else:
            step = "name them in /etc/infiniband-diags/ib-node-name-map where the tools run"
            yield Finding(_NAME, subnet.plane, Outcome.PASS, what, next_step=step)


def _claimed(ports: Iterable[SubnetPort]) -> bool:
    """Say whether several nodes claim to be the same switch, or the same port of the inventory."""
    claims = [port.device if port.kind == "SW" else str(port.id or "") for port in ports]
    named = [claim for claim in claims if claim]
    return len(named) > len(set(named))


PLUGIN = _Identity()
