"""Every link from DSCP to ECN, broken by hand on a switch that was as wanted: it is seen and mended."""

from __future__ import annotations

from typing import Any

import pytest

from fabricctl.drivers.switch.dell_sonic import terms
from fabricctl.model import facts, settings

_BREAKS = {
    "no DSCP map": (("no qos-map dscp-tc",), {settings.TRUST, settings.DSCP_PRIORITY}),
    "the VLAN tag decides": (
        (
            "qos map dot1p-tc BAD",
            "dot1p 3 traffic-class 3",
            "@",
            "no qos-map dscp-tc",
            "qos-map dot1p-tc BAD",
        ),
        {settings.TRUST, settings.DSCP_PRIORITY},
    ),
    "the lossless DSCP leads to another class": (
        (
            "qos map dscp-tc BAD",
            "dscp 24 traffic-class 3",
            "dscp 48 traffic-class 6",
            "@",
            "qos-map dscp-tc BAD",
        ),
        {settings.DSCP_PRIORITY},
    ),
    "another DSCP rides the lossless class": (
        ("qos map dscp-tc ROCE", "dscp 0 traffic-class 3", "@"),
        {settings.DSCP_PRIORITY},
    ),
    "no queue map": (("no qos-map tc-queue",), {settings.PRIORITY_TC}),
    "the lossless class is in another queue": (
        ("qos map tc-queue ROCE", "traffic-class 3 queue 0", "@"),
        {settings.PRIORITY_TC},
    ),
    "no scheduler": (("no scheduler-policy",), {settings.TC_SCHEDULER, settings.TC_BANDWIDTH}),
    "the notifications are not strict": (
        ("qos scheduler-policy ROCE", "queue 6", "type dwrr", "weight 50", "exit", "exit", "@"),
        {settings.TC_SCHEDULER, settings.TC_BANDWIDTH},
    ),
    "no priority groups": (("no qos-map tc-pg",), {settings.LOSSLESS_BUFFERS, terms.TC_GROUP}),
    "the lossless class is in a group without headroom": (
        ("qos map tc-pg ROCE", "traffic-class 3 priority-group 7", "@"),
        {settings.LOSSLESS_BUFFERS, terms.TC_GROUP},
    ),
    "a lossy class is in a group with headroom": (
        ("qos map tc-pg ROCE", "traffic-class 0 priority-group 3", "@"),
        {settings.LOSSLESS_BUFFERS},
    ),
    "the lossless class is in the other group with headroom": (
        ("qos map tc-pg ROCE", "traffic-class 3 priority-group 4", "@"),
        {terms.TC_GROUP},
    ),
    "a pause stops no queue that is said": (("no qos-map pfc-priority-queue",), {terms.PFC_QUEUE}),
    "a group pauses no priority that is said": (("no qos-map pfc-priority-pg",), {terms.PFC_GROUP}),
    "no PFC": (
        ("priority-flow-control watchdog off", "no priority-flow-control priority 3"),
        {
            settings.PFC,
            settings.WATCHDOG,
            settings.WATCHDOG_DETECT,
            settings.WATCHDOG_RESTORE,
            settings.WATCHDOG_ACTION,
            terms.TC_GROUP,
            terms.PFC_GROUP,
            terms.PFC_QUEUE,
        },
    ),
    "PFC on a priority that the policy does not name": (
        ("priority-flow-control priority 4",),
        {settings.PFC, settings.WATCHDOG, terms.TC_GROUP, terms.PFC_GROUP, terms.PFC_QUEUE},
    ),
    "pauses of every priority are obeyed": (("priority-flow-control asymmetric",), {terms.ASYMMETRIC}),
    "the queue does not mark": (
        ("no queue 3 wred-policy",),
        {settings.ECN, settings.ECN_KMIN, settings.ECN_KMAX, settings.ECN_PMAX, terms.WRED_QUEUES},
    ),
    "another queue marks": (("no queue 3 wred-policy", "queue 0 wred-policy ROCE"), {terms.WRED_QUEUES}),
    "the notifications' queue drops by WRED": (("queue 6 wred-policy ROCE",), {terms.WRED_QUEUES}),
    "the queue drops and does not mark": (("qos wred-policy ROCE", "ecn none", "@"), {settings.ECN}),
    "it marks at other thresholds": (
        (
            "qos wred-policy ROCE",
            "green minimum-threshold 1000 maximum-threshold 2000 drop-probability 5",
            "@",
        ),
        {settings.ECN_KMIN, settings.ECN_KMAX, settings.ECN_PMAX},
    ),
    "no watchdog": (
        ("priority-flow-control watchdog off",),
        {
            settings.WATCHDOG,
            settings.WATCHDOG_DETECT,
            settings.WATCHDOG_RESTORE,
            settings.WATCHDOG_ACTION,
        },
    ),
    "the watchdog only tells": (
        ("priority-flow-control watchdog action alert",),
        {settings.WATCHDOG_ACTION},
    ),
    "the watchdog is slow": (
        ("priority-flow-control watchdog on detect-time 5000",),
        {settings.WATCHDOG_DETECT},
    ),
    "the watchdog looks too seldom": (
        ("priority-flow-control watchdog polling-interval 3000", "@"),
        {settings.WATCHDOG_POLL},
    ),
    "the watchdog is blind": (
        ("no priority-flow-control watchdog counter-poll", "@"),
        {terms.COUNTER_POLL},
    ),
    "a small MTU": (("mtu 1500",), {settings.MTU}),
    "headroom for a shorter cable": (("no cable-length",), {settings.CABLE_LENGTH}),
}


def _break(bench: Any, lines: tuple[str, ...]) -> None:
    """Give the switch lines by hand: those before ``@`` for all ports, the others for the first."""
    common = lines[: lines.index("@")] if "@" in lines else ()
    port = lines[lines.index("@") + 1 :] if "@" in lines else lines
    bench.switch.configure("\n".join(common))
    bench.port_by_hand(*port)


@pytest.mark.parametrize("name", _BREAKS)
def test_a_broken_link_is_seen_and_mended(bench: Any, name: str) -> None:
    bench.by_hand()
    assert bench.differs() == {}
    lines, seen = _BREAKS[name]
    _break(bench, lines)
    assert set(bench.differs()["Eth1/1"]) == seen
    bench.mend()
    assert bench.differs() == {}


def test_without_lossless_buffers_the_plan_says_what_the_operator_must_do(bench: Any) -> None:
    bench.by_hand()
    bench.switch.change(top=[line for line in bench.switch.state()["top"] if "init" not in line])
    found = bench.read()[settings.LOSSLESS_BUFFERS]
    assert found.impossible
    assert 'give it "buffer init lossless" by hand' in found.reason
    assert bench.readings()[bench.id()].facts[facts.HEADROOM].value == (0,) * 8


def test_lossless_buffers_that_wait_for_the_reboot_are_pending(bench: Any) -> None:
    bench.by_hand()
    bench.switch.change(rebooted=False)
    found = bench.read()[settings.LOSSLESS_BUFFERS]
    assert found.impossible
    assert "only after the reboot" in found.reason
    pending = bench.readings()[bench.id()].facts[facts.PENDING]
    assert pending.value == ("lossless_buffers: reboot the switch",)


def test_the_headroom_is_what_the_switch_computed_of_cable_and_speed(bench: Any) -> None:
    bench.by_hand()
    assert bench.readings()[bench.id()].facts[facts.HEADROOM].value == (0, 0, 0, 113664, 0, 0, 0, 0)
    bench.port_by_hand("cable-length 300m")
    assert bench.readings()[bench.id()].facts[facts.HEADROOM].value == (0, 0, 0, 303104, 0, 0, 0, 0)


def test_the_one_pfc_map_of_the_switch_that_leads_elsewhere_is_named(bench: Any) -> None:
    bench.by_hand()
    bench.switch.configure("qos map pfc-priority-queue ROCE\npfc-priority 3 queue 1")
    assert bench.differs() == {"Eth1/1": (terms.PFC_QUEUE,), "Eth1/2": (terms.PFC_QUEUE,)}
    rc, why = bench.push(bench.goals(bench.wanted()))
    assert rc == 1
    assert why.partition(", and ROCE")[0] == (
        "Eth1/1: dell_sonic.pfc_queue: the switch takes one qos map pfc-priority-queue"
    )
