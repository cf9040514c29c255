"""Several LLDP neighbours on a port: the firmware of a NIC speaks beside its host."""

from __future__ import annotations

import json
from typing import Any

from fabricctl.drivers import lldp
from fabricctl.drivers.switch.eos import shown as eos
from fabricctl.drivers.switch.nxos import shown as nxos
from fabricctl.model import facts
from fabricctl.model.reading import Entry, Known, Missing
from fabricctl.plugin.protocols import Answer


def neighbour(address: str, name: str = "", port: str = "") -> dict[str, Any]:
    """Return an interface in the shape of ``lldpcli -f json0``, documented in lldpcli(8)."""
    chassis: dict[str, Any] = {"id": [{"type": "mac", "value": address}]}
    if name:
        chassis["name"] = [{"value": name}]
    identity = {"type": "ifname", "value": port} if port else {"type": "mac", "value": address}
    return {"name": "swp1", "via": "LLDP", "chassis": [chassis], "port": [{"id": [identity]}]}


def partner(*heard: dict[str, Any]) -> Entry:
    said = json.dumps({"lldp": [{"interface": list(heard)}]})
    return lldp.read_facts("swp1", {"lldpcli": Answer(0, said, "")})[facts.PARTNER]


def test_a_host_with_a_name_counts_and_the_firmware_of_its_nic_does_not() -> None:
    firmware = neighbour("b8:ce:f6:00:00:01")
    host = neighbour("b8:ce:f6:00:00:02", "node1", "eth1")
    assert partner(firmware, host) == Known("node1/eth1")
    assert partner(firmware) == Known("b8:ce:f6:00:00:01/b8:ce:f6:00:00:01")


def test_two_hosts_with_names_are_two() -> None:
    one, other = neighbour("b8:ce:f6:00:00:02", "node1", "eth1"), neighbour("b8:ce:f6:00:00:03", "node2", "x")
    assert partner(one, other) == Missing(
        "several LLDP neighbours are heard on the port: node1/eth1, node2/x"
    )


def test_the_same_on_eos() -> None:
    # made by hand, in the shape of "show lldp neighbors detail | json": without a name, its chassis alone
    port = {"interfaceIdType": "macAddress", "interfaceId": "b8ce.f600.0001"}
    firmware = {"chassisId": "b8ce.f600.0001", "neighborInterfaceInfo": port}
    host = {"systemName": "node1", "neighborInterfaceInfo": {"interfaceId": '"eth1"'}}

    def heard(*infos: dict[str, Any]) -> Entry:
        said = json.dumps({"lldpNeighbors": {"Ethernet1/1": {"lldpNeighborInfo": list(infos)}}})
        return eos.read_facts("Ethernet1/1", {"lldp": Answer(0, said, "")})[facts.PARTNER]

    assert heard(firmware, host) == Known("node1/eth1")
    assert heard(firmware) == Known("b8ce.f600.0001/b8ce.f600.0001")


def test_the_same_on_nxos() -> None:
    firmware = {"l_port_id": "Eth1/1", "sys_name": "null", "chassis_id": "b8ce.f600.0001"}
    firmware |= {"port_id": "b8ce.f600.0001", "port_desc": "null"}
    host = {"l_port_id": "Eth1/1", "sys_name": "node1", "port_id": "eth1"}

    def heard(*found: dict[str, str]) -> Entry:
        said = json.dumps({"TABLE_nbor_detail": {"ROW_nbor_detail": list(found)}})
        answers = {nxos.NEIGHBOURS: Answer(0, said, "")}
        return nxos.read_facts("Ethernet1/1", nxos.Said(answers))[facts.PARTNER]

    assert heard(firmware, host) == Known("node1/eth1")
    assert heard(firmware) == Known("b8ce.f600.0001/b8ce.f600.0001")
