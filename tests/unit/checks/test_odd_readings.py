"""No reading, however odd, makes a check raise or pass for nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from fabricctl.model import facts, settings
from fabricctl.model.codec import decode
from fabricctl.model.fabric import Device, Endpoint, Fabric, Port, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.policy import Policy
from fabricctl.model.reading import DeviceReading, Entry, Known, Missing, PortReading
from fabricctl.model.verdict import Outcome
from fabricctl.plugin import finder

CASES = Path(__file__).resolve().parents[2] / "cases"
CHECKS = ("agreement", "chain", "headroom", "watchdog")
PORTS = ("leaf1/Ethernet0", "node1/eth1", "spine1/swp2", "pod1/Ethernet1/1")
NAMES = (*settings.SAFE_ORDER, "sonic.tc_group", "nxos.pfc_mode", "mlx5.dcqcn_priority_3")
COUNTERS = ("watchdog.queue3.storms_detected", "pfc3.tx_frames", "group3.headroom_watermark_bytes")

numbers = st.lists(st.integers(-1, 300), max_size=70).map(tuple)
words = st.lists(st.text(max_size=3), max_size=9).map(tuple)
values = st.one_of(st.booleans(), st.integers(-5, 10_000_000), st.text(max_size=5), numbers, words)
entries = st.one_of(values.map(Known), st.builds(Missing, st.text(max_size=5), st.booleans()))


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(
    st.lists(st.tuples(st.sampled_from(PORTS), st.sampled_from(NAMES), entries), max_size=12),
    st.lists(
        st.tuples(
            st.sampled_from(PORTS),
            st.sampled_from((facts.HEADROOM, facts.PAUSE_POINT, facts.SPEED, facts.FEC, facts.RDMA_MTU)),
            entries,
        ),
        max_size=5,
    ),
    st.lists(st.tuples(st.sampled_from(PORTS), st.sampled_from(COUNTERS), entries), max_size=3),
)
def test_nothing_that_is_read_makes_a_check_raise(
    site: Any,
    held: list[tuple[str, str, Entry]],
    known: list[tuple[str, str, Entry]],
    counted: list[tuple[str, str, Entry]],
) -> None:
    site.as_intended()
    for change, rows in ((site.set, held), (site.fact, known), (site.counter, counted)):
        for port, name, entry in rows:
            change(port, name, entry)
    for check in CHECKS:
        assert all(finding.what for finding in site.judge(check))


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(st.sampled_from(PORTS), st.sampled_from(NAMES), entries)
def test_a_wanted_setting_that_is_not_as_wanted_never_passes_everywhere(
    site: Any, port: str, name: str, entry: Entry
) -> None:
    """Of the settings that a link or a chain is made of; the rest are for plan and drift alone."""
    followed = {
        settings.TRUST,
        settings.DSCP_PRIORITY,
        settings.PRIORITY_TC,
        settings.PFC,
        settings.ECN,
        settings.LOSSLESS_BUFFERS,
        settings.WATCHDOG,
        settings.WATCHDOG_POLL,
        "sonic.tc_group",
    }
    site.as_intended()
    before = site.readings[PortId.parse(port).device].ports[PortId.parse(port)].settings.get(name)
    if name not in followed or before is None or before == entry:
        return
    site.set(port, name, entry)
    outcomes = {finding.outcome for check in CHECKS for finding in site.judge(check)}
    assert outcomes != {Outcome.PASS}


@pytest.mark.parametrize("case", [p.parent for p in sorted(CASES.glob("*/*/*/reading.json"))], ids=str)
def test_readings_of_real_devices_are_judged(case: Path, policy: Policy) -> None:
    """With each driver's own readings; the far ends are not there."""
    role = Role.NODE if case.parent.parent.name == "nic" else Role.SWITCH
    ports = decode(tuple[Port, ...], json.loads((case / "ports.json").read_text()))
    meant = {
        PortId.parse(port): decode(PortIntent, intent)
        for port, intent in json.loads((case / "intent.json").read_text()).items()
    }
    read = json.loads((case / "reading.json").read_text())
    found = {PortId.parse(port): decode(PortReading, reading) for port, reading in read["ports"].items()}
    name = ports[0].id.device
    device = Device(name, role, case.parent.name, Endpoint("192.0.2.1"), ports)
    readings = {name: DeviceReading(name, 1.0, found)}
    for check in CHECKS:
        judged = finder.check(check).judge(Fabric((device,), ()), policy, meant, readings)
        assert judged
        assert all(finding.what for finding in judged)
