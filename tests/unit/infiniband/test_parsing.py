from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fabricctl.infiniband import counting, discovery, linkinfo, managing, routing, seen
from fabricctl.infiniband.asking import Hca, look_key
from fabricctl.links import planes
from fabricctl.model.lanes import described, generation, lane_gbps, link_gbps
from fabricctl.plugin.protocols import Answer

HCA = Hca("mlx5_0")
LEAF, NODE = "0xb8cef60300000010", "0x0c42a10300000011"


def line(
    speed: str, rest: str = "Active/  LinkUp", far: str = f'{NODE}      5    1[  ] "node1 mlx5_0"'
) -> str:
    """Return a line as iblinkinfo.c formats it: ``(%3s %18s %6s/%8s)``."""
    return (
        f'{LEAF} "          MF0;leaf1:MQM8700/U1"      2    7[  ] ==({speed}{rest})==>  {far} (Could be 12X )'
    )


# Shapes of iblinkinfo.c and libibmad/dump.c of rdma-core 65.0 (documented): no NDR or XDR was seen printed.
@pytest.mark.parametrize(
    ("speed", "width", "lane"),
    [
        (" 4X           2.5 Gbps ", 4, 2.5),
        (" 4X           5.0 Gbps ", 4, 5.0),
        (" 4X          10.0 Gbps ", 4, 10.0),
        (" 4X 10.0 Gbps (FDR10) ", 4, 10.3125),
        (" 4X       14.0625 Gbps ", 4, 14.0625),
        (" 4X      25.78125 Gbps ", 4, 25.78125),
        (" 4X        53.125 Gbps ", 4, 53.125),
        (" 2X        106.25 Gbps ", 2, 106.25),
        (" 4X         212.5 Gbps ", 4, 212.5),
        ("12X          10.0 Gbps ", 12, 10.0),
        (" 2X                NDR ", 2, 106.25),
        (" 4X                XDR ", 4, 212.5),
        ("undefined (0)      53.125 Gbps ", 0, 0.0),
    ],
)
def test_a_port_that_is_up(speed: str, width: int, lane: float) -> None:
    (found,) = linkinfo.parse(line(speed))
    assert (found.width, found.lane_gbps) == (width, lane)
    assert (found.guid, found.node, found.lid, found.number) == (LEAF, "MF0;leaf1:MQM8700/U1", 2, 7)
    assert (found.state, found.physical, found.peer) == ("Active", "LinkUp", (NODE, 1))


def test_a_port_with_settings_of_a_switch() -> None:
    text = line(" 4X        53.125 Gbps ", "Active/  LinkUp) (HOQ:16 VL_Stall:7").replace("7))==>", "7)==>")
    (found,) = linkinfo.parse(text)
    assert (found.width, found.state, found.peer) == (4, "Active", (NODE, 1))


def test_a_port_that_is_down_and_one_that_leads_to_nobody() -> None:
    down = line("              ", "  Down/ Polling", '           [  ] ""')
    silent = line(" 4X        53.125 Gbps ", far='     "Port not available"')
    first, second = linkinfo.parse(f"{down}\n{silent}\n")
    assert (first.state, first.physical, first.width, first.peer) == ("Down", "Polling", 0, None)
    assert (second.state, second.physical, second.peer) == ("Active", "LinkUp", None)


def test_other_lines_are_left_out() -> None:
    assert list(linkinfo.parse("Switch: 0x1 SW:\n\nnonsense\n")) == []


@pytest.mark.parametrize(
    ("width", "lane", "gbps", "words"),
    [
        (4, 2.5, 10, "4X SDR (10 Gb/s)"),
        (4, 10.3125, 40, "4X FDR10 (40 Gb/s)"),
        (4, 14.0625, 56, "4X FDR (56 Gb/s)"),
        (2, 53.125, 100, "2X HDR (100 Gb/s)"),
        (2, 106.25, 200, "2X NDR (200 Gb/s)"),
        (4, 106.25, 400, "4X NDR (400 Gb/s)"),
        (2, 212.5, 400, "2X XDR (400 Gb/s)"),
        (4, 212.5, 800, "4X XDR (800 Gb/s)"),
        (4, 7.0, 28, "4X 7 Gb/s a lane (28 Gb/s)"),
    ],
)
def test_what_people_call_a_link(width: int, lane: float, gbps: float, words: str) -> None:
    assert link_gbps(width, lane) == gbps
    assert described(width, lane) == words


def test_a_rate_that_no_generation_has() -> None:
    assert lane_gbps("something") == 0.0
    assert lane_gbps("1.2.3 Gbps") == 0.0
    assert generation(1.0) == "1 Gb/s a lane"


SWITCHES = """\
# Initiated from node 0c42a10300000010 port 0c42a10300000011

switchguid=0xb8cef60300000010(b8cef60300000010)
Switch\t8 "S-b8cef60300000010"\t\t# "MF0;leaf1:MQM8700/U1" enhanced port 0 lid 2 lmc 0
[1]\t"H-0c42a10300000010"[1](c42a10300000011) \t\t# "node1 mlx5_0" lid 5 4xHDR

caguid=0xc42a10300000010
Ca\t2 "H-0c42a10300000010"\t\t# "node1 mlx5_0"
[1](c42a10300000011) \t"S-b8cef60300000010"[1]\t\t# lid 5 lmc 0 "MF0;leaf1:MQM8700/U1" lid 2 4xHDR
"""


def test_a_topology() -> None:
    found = discovery.parse(SWITCHES)
    assert found.start == NODE
    assert found.nodes[LEAF].lid == 2
    assert found.nodes[LEAF].kind == "SW"
    node = found.nodes["0x0c42a10300000010"]
    assert (node.kind, node.description, node.lids, node.guids) == ("CA", "node1 mlx5_0", {1: 5}, {1: NODE})
    assert found.cables == {(LEAF, 1): (node.guid, 1), (node.guid, 1): (LEAF, 1)}
    assert found.ports == {NODE: (node.guid, 1)}


def test_nothing_is_no_topology() -> None:
    assert (
        discovery.parse("ibnetdiscover: iberror: failed: discover failed\n[1]\tno node before it\n").nodes
        == {}
    )


# In infiniband-diags 44.0 the names of the two kinds of details are exchanged (recorded: tests/cases,
# "rising"); as documented, and as a repaired version would print them, they are right.
@pytest.mark.parametrize("name", ["PortDLIDMappingErrors", "PortSwHOQLifetimeLimitDiscards"])
def test_details_of_discards_under_either_name(name: str) -> None:
    text = f"   GUID 0x10 port 5: [PortXmitDiscards == 700] [{name} == 690] [PortXmitWait == 3]\n"
    found = counting.parse(text, "", "")
    assert found.counters["0x0000000000000010", 5] == {
        "PortXmitDiscards": 700,
        "PortSwHOQLifetimeLimitDiscards": 690,
        "PortXmitWait": 3,
    }
    assert found.checked is None


def test_details_of_received_errors_under_the_wrong_name() -> None:
    text = "   GUID 0x10 port 5: [PortRcvErrors == 7] [PortInactiveDiscards == 6]\n"
    values = counting.parse(text, "", "").counters["0x0000000000000010", 5]
    assert values == {"PortRcvErrors": 7, "PortLocalPhysicalErrors": 6}


def test_counters_of_64_bits_and_the_line_of_all_ports() -> None:
    # As ibqueryerrors.c of rdma-core 65.0 prints them where the port has the additional extended counters.
    text = (
        'Errors for 0x10 "leaf1"\n'
        "   GUID 0x10 port ALL: [SymbolErrorCounter == 255]\n"
        "   GUID 0x10 port 5: [SymbolErrorCounter == 70000 (68.359K)] [LinkDownedCounter == 3 (3.000)]\n"
        "\n## Summary: 6 nodes checked, 1 bad nodes found\n"
        "##          20 ports checked, 1 ports have errors beyond threshold\n"
    )
    found = counting.parse(text, "", "")
    assert found.counters == {
        ("0x0000000000000010", 5): {"SymbolErrorCounter": 70000, "LinkDownedCounter": 3}
    }
    assert found.extended == {("0x0000000000000010", 5)}
    assert found.names == {("0x0000000000000010", 5): "leaf1"}
    assert found.checked == (6, 20)


def test_ports_that_were_not_read() -> None:
    said = (
        "ibwarn: [1] query_cap_mask: classportinfo query failed on node6 mlx5_0, Lid 11 port 1\n"
        "ibwarn: [1] print_errors: IB_GSI_PORT_COUNTERS query failed on node6 mlx5_0, Lid 11 port 1\n"
    )
    failures = counting.parse("", "", said).failures
    assert {(one.node, one.lid, one.number) for one in failures} == {("node6 mlx5_0", 11, 1)}
    early = said.replace("Lid 11", "DR path slid 0; dlid 0; 0")
    failures = counting.parse("", "", early).failures
    assert {(one.node, one.lid, one.number) for one in failures} == {("node6 mlx5_0", 0, 1)}


def test_a_manager() -> None:
    text = "sminfo: sm lid 1 sm guid 0xc42a10300000031, activity count 594 priority 3 state 3 SMINFO_MASTER\n"
    found = managing.parse(text)
    assert found is not None
    assert (found.guid, found.lid, found.priority, found.state) == ("0x0c42a10300000031", 1, 3, "MASTER")
    assert managing.parse("sminfo: iberror: failed: query") is None


def test_a_forwarding_table_without_what_it_drops() -> None:
    text = (
        "Unicast lids [0x0-0x3] of switch DR path slid 0; dlid 0; 0,1 guid 0xb8cef60300000010 (leaf1):\n"
        "  Lid  Out   Destination\n       Port     Info \n"
        "0x0001 008 \n0x0002 255 \n0x000a 012 \n2 valid lids dumped \n"
    )
    assert routing.parse(text) == {LEAF: {1: 8, 10: 12}}
    assert routing.parse("0x0001 008 \n") == {}


def test_the_recorded_subnet(pod: Any) -> None:
    subnet = pod.subnet("good")
    assert subnet.missing == {}
    assert subnet.counted == ((12, 40), (12, 40))
    port = pod.port(subnet, "node3/ib0")
    assert (port.lid > 0, port.width, port.lane_gbps, port.device) == (True, 4, 53.125, "node3")
    assert subnet.ports[port.peer].label == "leaf1/3"
    assert {len(table) for table in subnet.routes.values()} == {12}
    assert set(subnet.routes) == {one.node_guid for one in subnet.ports.values() if one.kind == "SW"}


def test_what_is_lost_on_the_way_is_kept_as_a_complaint(pod: Any) -> None:
    subnet = pod.subnet("silent_node")
    assert len(subnet.complaints) == 1
    assert subnet.complaints[0].startswith("./libibnetdisc/query_smp.c:186; umad (DR path ")
    assert subnet.counted == ((11, 39), (11, 39)) or subnet.counted[0][0] == 11


def test_a_node_that_stops_to_answer_is_uncounted(pod: Any) -> None:
    subnet = pod.subnet("silent_later")
    assert pod.port(subnet, "leaf2/2").silent
    assert "node6/ib0" not in {port.label for port in subnet.ports.values()}


# Recorded from ibqueryerrors 44.0 on ibsim, of a node that lost every second MAD.
UNREACHED = (
    "./libibnetdisc/query_smp.c:186; umad (DR path slid 0; dlid 0; 0,{route} Attr 0x11:0) "
    "bad status 110; Connection timed out\n"
)


def _unread(pod: Any, said: str, checked: int) -> tuple[set[str], set[str]]:
    """Return the labels of ports that were not read if ``ibqueryerrors`` said this, and all there are."""
    subnet = pod.subnet("good")
    listed = frozenset(port.node_guid for port in subnet.ports.values())
    count = counting.parse("", "", said)
    count = dataclasses.replace(count, checked=(checked, 36), listed=listed)
    found = seen.uncounted(subnet, [count])
    return {subnet.ports[key].label for key in found}, {port.label for port in subnet.ports.values()}


def test_a_node_that_ibqueryerrors_missed_is_known_by_its_route(pod: Any) -> None:
    first = next(port for port in pod.subnet("good").ports.values() if port.label == "node6/ib0")
    assert first.peer is not None
    some, _ = _unread(pod, UNREACHED.format(route="1,5,2,2"), 11)
    assert some == {"node6/ib0"}


@pytest.mark.parametrize(
    ("routes", "checked"),
    [
        ((), 11),  # no reason was said
        (("1,5,2,2",), 10),  # another one is missing too
        (("1,5",), 11),  # a switch: there may be more behind it
        (("1,5,2,2,7",), 11),  # no such route
    ],
)
def test_nodes_that_are_missing_without_a_reason_make_all_unknown(
    pod: Any, routes: tuple[str, ...], checked: int
) -> None:
    some, every = _unread(pod, "".join(UNREACHED.format(route=route) for route in routes), checked)
    assert some == every


def test_a_node_that_came_meanwhile_makes_nothing_unknown(pod: Any) -> None:
    assert _unread(pod, "", 13)[0] == set()


@pytest.mark.parametrize(
    ("first", "last", "interval_s"),
    [
        ("1000.25", "1012.75", 12.5),
        ("1000.25", "", 10.0),
        ("", "1012.75", 10.0),
        ("1000.25", "3.00", 10.0),  # it was restarted meanwhile
        ("x", "1012.75", 10.0),
        ("nan", "1012.75", 10.0),
        (None, None, 10.0),
    ],
)
def test_the_interval_is_between_the_two_stamps(
    pod: Any, first: str | None, last: str | None, interval_s: float
) -> None:
    def stamped(answers: dict[str, Answer], stamp: str | None) -> dict[str, Answer]:
        if stamp is None:
            return answers
        answer = answers[look_key(HCA)]
        text = answer.stdout.replace(
            "\n== errors\n", f"\n== uptime\n{stamp}\n\n== uptime rc 0\n\n== errors\n", 1
        )
        return {**answers, look_key(HCA): dataclasses.replace(answer, stdout=text)}

    answers, later = pod.answers("rising")
    observed = dataclasses.replace(
        pod.observed("rising"), answers=stamped(answers, first), later=stamped(later, last)
    )
    views = planes.views(pod.fabric, pod.fabric.devices, "")
    (subnet,) = planes.subnets(pod.fabric, views, {"node1": observed})
    assert subnet.interval_s == interval_s
    assert subnet.counted == pod.subnet("rising").counted
