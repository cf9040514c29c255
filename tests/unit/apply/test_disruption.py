from __future__ import annotations

from dataclasses import replace

import pytest

from fabricctl.apply.disruption import DRAIN_FIRST, disturbed, holds, in_use, nodes_of, use_text
from fabricctl.apply.show import held_lines, plan_lines
from fabricctl.apply.undrain import pairs_among
from fabricctl.model.fabric import Device, Endpoint, Fabric, Link, Port, Role
from fabricctl.model.names import PortId
from fabricctl.model.plan import DevicePlan, Disruption, Plan, Step
from fabricctl.model.reading import Known
from fabricctl.model.usage import Job, NodeUse, Use

FREE = NodeUse(Use.FREE)
ALICE = NodeUse(Use.BUSY, (Job("1234", "alice"),))


def pod(*, cables: tuple[tuple[str, str], ...] = (), extra: tuple[str, ...] = ()) -> Fabric:
    """Return four nodes on two leaves below two spines, and what else is asked for."""
    lines = [
        *(("n1/e0", "leaf1/p1"), ("n2/e0", "leaf1/p2"), ("n3/e0", "leaf2/p1"), ("n4/e0", "leaf2/p2")),
        *(("leaf1/u1", "spine1/p1"), ("leaf2/u1", "spine1/p2"), ("leaf1/u2", "spine2/p1")),
        *cables,
    ]
    ends = [PortId.parse(end) for line in lines for end in line] + [PortId.parse(e) for e in extra]
    names = dict.fromkeys(end.device for end in ends)
    devices = tuple(
        Device(
            name,
            Role.NODE if name.startswith("n") else Role.SWITCH,
            "fake",
            Endpoint("192.0.2.1"),
            tuple(Port(end) for end in dict.fromkeys(ends) if end.device == name),
        )
        for name in names
    )
    return Fabric(devices, tuple(Link(PortId.parse(a), PortId.parse(b)) for a, b in lines))


def plan_of(*ports: str, quiet: tuple[str, ...] = ()) -> Plan:
    steps = [Step(PortId.parse(p), "mtu_bytes", Known(1), 2, Disruption.LINK_FLAP) for p in ports]
    steps += [Step(PortId.parse(p), "roce_tos", Known(1), 2) for p in quiet]
    return Plan(tuple(DevicePlan(s.port.device, "fake", (s,), {}) for s in steps))


@pytest.mark.parametrize(
    ("port", "nodes"),
    [
        ("n1/e0", "n1"),
        ("leaf1/p2", "n2"),
        ("leaf2/u1", "n1 n2 n3 n4"),
        ("spine2/p1", "n1 n2"),  # below leaf1, and below spine2, which has only leaf1
        ("leaf1/free", "n1 n2 n3 n4"),  # no cable in the inventory: it cannot be told
        ("core/p1", "n1 n2 n3 n4"),
        ("lonely/p1", "n1 n2 n3 n4"),  # switches that no node hangs on
        ("leaf1/peer", "n1 n2 n5"),  # two switches side by side
    ],
)
def test_whom_a_port_disturbs(port: str, nodes: str) -> None:
    fabric = pod(
        cables=(
            *(("spine1/up", "core/p1"), ("lonely/p1", "island/p1")),
            *(("leaf1/peer", "leaf3/peer"), ("n5/e0", "leaf3/p1")),
        ),
        extra=("leaf1/free",),
    )
    if port in {"leaf2/u1", "core/p1"}:
        fabric = pod(cables=(("spine1/up", "core/p1"),))
    if port == "spine2/p1":
        fabric = pod()
    found = disturbed(plan_of(port), fabric)[PortId.parse(port)]
    expected = nodes.split() if len(nodes.split()) < 4 else [n.name for n in fabric.nodes()]
    assert list(found) == expected


def test_a_step_of_the_whole_switch_disturbs_all_behind_it_whatever_its_port() -> None:
    wide = Step(PortId.parse("leaf1/p1"), "network_qos", Known(1), 2, Disruption.SYSTEM_WIDE)
    own = Step(PortId.parse("leaf1/p2"), "mtu_bytes", Known(1), 2, Disruption.LINK_FLAP)
    other = Step(PortId.parse("leaf2/p1"), "mtu_bytes", Known(1), 2, Disruption.LINK_FLAP)
    plans = (DevicePlan("leaf1", "fake", (wide, own), {}), DevicePlan("leaf2", "fake", (other,), {}))
    cut_off = replace(pod(), links=pod().links[:4])
    assert disturbed(Plan(plans), cut_off) == {
        PortId.parse("leaf1/p1"): ("n1", "n2", "n3", "n4"),  # its uplinks lead to where cannot be told
        PortId.parse("leaf1/p2"): ("n1", "n2", "n3", "n4"),
        PortId.parse("leaf2/p1"): ("n3",),
    }
    only_nodes = replace(
        cut_off,
        devices=tuple(
            replace(d, ports=tuple(p for p in d.ports if not p.id.port.startswith("u")))
            for d in pod().devices
        ),
    )
    found = disturbed(Plan(plans), only_nodes)
    assert found[PortId.parse("leaf1/p1")] == found[PortId.parse("leaf1/p2")] == ("n1", "n2")


def test_steps_that_disturb_nobody_ask_nobody() -> None:
    assert disturbed(plan_of(quiet=("n1/e0", "leaf1/u1")), pod()) == {}


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (FREE, ""),
        (ALICE, "n1 runs job 1234 of alice"),
        (
            NodeUse(Use.BUSY, tuple(Job(str(n), "bob") for n in range(3))),
            "n1 runs jobs 0 of bob, 1 of bob and 1 more",
        ),
        (NodeUse(Use.BUSY, why="its state is ALLOCATED"), "n1 is in use: its state is ALLOCATED"),
        (NodeUse(Use.UNKNOWN, why="no answer"), "whether n1 is in use is not known: no answer"),
    ],
)
def test_use_as_text(use: NodeUse, text: str) -> None:
    assert use_text("n1", use) == text


def test_a_port_and_the_far_end_of_its_link_are_held_as_a_whole() -> None:
    fabric = pod()
    plan = plan_of("n1/e0", "leaf2/p1", quiet=("leaf1/p1", "n2/e0", "n3/e0"))
    found = disturbed(plan, fabric)
    assert nodes_of(found) == ("n1", "n3")
    plan = replace(plan, scheduler="slurm", in_use=in_use(found, {"n1": ALICE, "n3": FREE}))
    line = "not attempted: n1 runs job 1234 of alice (slurm); drain it first (--drain), or --disrupt"
    held = holds(plan, fabric, DRAIN_FIRST)
    assert held == {PortId("n1", "e0"): line, PortId("leaf1", "p1"): line}
    assert list(held_lines(held)) == [f"n1/e0, leaf1/p1: {line}"]


def test_a_switchs_port_holds_the_node_behind_it_too() -> None:
    fabric = pod()
    plan = plan_of("leaf1/p1", quiet=("n1/e0",))
    plan = replace(plan, scheduler="slurm", in_use=in_use(disturbed(plan, fabric), {}))
    assert set(holds(plan, fabric, DRAIN_FIRST)) == {PortId("leaf1", "p1"), PortId("n1", "e0")}
    assert "whether n1 is in use is not known: it was not asked" in plan.in_use[PortId("leaf1", "p1")]


def test_an_uplink_names_some_of_many() -> None:
    fabric = pod()
    plan = plan_of("leaf1/u1")
    uses = {"n1": ALICE, "n2": ALICE, "n3": FREE, "n4": ALICE}
    told = in_use(disturbed(plan, fabric), uses)[PortId("leaf1", "u1")]
    assert told == (
        "3 of 4 nodes behind it are taken, n1 runs job 1234 of alice, n2 runs job 1234 of alice, ..."
    )
    assert in_use(disturbed(plan, fabric), dict.fromkeys(("n1", "n2", "n3", "n4"), FREE)) == {}


def test_the_plan_shows_who_is_in_the_way() -> None:
    plan = plan_of("n1/e0", "n2/e0", "n3/e0")
    told = {PortId("n1", "e0"): "n1 runs job 1234 of alice"}
    assert list(plan_lines(replace(plan, scheduler="slurm", in_use=told))) == [
        "n1/e0",
        "    mtu_bytes: 1 -> 2  (undo: 1; disrupts: link flap)",
        "    in use: n1 runs job 1234 of alice",
        "n2/e0, n3/e0",
        "    mtu_bytes: 1 -> 2  (undo: 1; disrupts: link flap)",
        "3 settings to change on 3 devices; disrupts: link flap; slurm: 1 port in use, or may be",
    ]
    assert list(plan_lines(plan))[-1].endswith("; disrupts: link flap; no scheduler was asked")
    assert list(plan_lines(replace(plan, scheduler="slurm")))[-1].endswith("; slurm: nobody is in the way")
    quiet = plan_of(quiet=("n1/e0",))
    assert list(plan_lines(quiet))[-1] == "1 setting to change on 1 device"


def railed(*nodes: str) -> Fabric:
    end = Endpoint("192.0.2.1")
    return Fabric(
        tuple(
            Device(n, Role.NODE, "fake", end, tuple(Port(PortId(n, f"e{r}"), rail=r) for r in (0, 1)))
            for n in nodes
        ),
        (),
    )


def test_drained_nodes_are_probed_in_a_ring_on_each_rail() -> None:
    fabric = railed("n1", "n2", "n3", "n4")
    assert pairs_among(fabric, ("n1", "n2", "n4"), ("n3",)) == (
        "n1/e0:n2/e0,n2/e0:n4/e0,n4/e0:n1/e0,n1/e1:n2/e1,n2/e1:n4/e1,n4/e1:n1/e1",
        {},
    )


def test_a_single_node_is_probed_with_an_idle_one() -> None:
    fabric = railed("n1", "n2", "n3")
    assert pairs_among(fabric, ("n2",), ("n3",)) == ("n2/e0:n3/e0,n2/e1:n3/e1", {})
    why = "no other free node has a port on its rail"
    assert pairs_among(fabric, ("n2",), ()) == ("", {PortId("n2", "e0"): why, PortId("n2", "e1"): why})
    assert pairs_among(fabric, (), ("n1", "n2")) == ("", {})
