"""The lines that the simulated NX-OS takes in each of its configuration modes; all others are refused."""

from __future__ import annotations

import re
from dataclasses import dataclass

NAME = r"[A-Za-z][A-Za-z0-9_-]{0,39}"
_RANGE = r"Ethernet\d+/\d+(?:/\d+)?(?:-\d+)?"
_NUMBERS = r"\d+(?:[,-]\d+)*"
_BYTES = r"\d+ (?:bytes|kbytes|mbytes)"


@dataclass(frozen=True)
class Rule:
    """One kind of line.

    Parameters
    ----------
    slot
        What a later line of the same kind replaces; empty for lines that stand beside each other.
    opens
        The mode that it leads into; empty if none.
    default
        The line that is as if there were none: it is not shown.
    """

    pattern: str
    slot: str = ""
    opens: str = ""
    default: str = ""

    def fits(self, line: str) -> bool:
        return re.fullmatch(self.pattern, line) is not None


MODES: dict[str, tuple[Rule, ...]] = {
    "config": (
        Rule(r"feature (?:scheduler|lldp)"),
        Rule(r"hostname \S+", "hostname"),
        Rule(rf"class-map type qos match-(?:any|all) {NAME}", opens="cmap-qos"),
        Rule(rf"policy-map type qos {NAME}", opens="pmap-qos"),
        Rule(rf"policy-map type queuing {NAME}", opens="pmap-que"),
        Rule(rf"policy-map type network-qos {NAME}", opens="pmap-nqos"),
        Rule(r"system qos", opens="sys-qos"),
        Rule(rf"interface {_RANGE}(?:,{_RANGE})*", opens="if"),
        Rule(r"interface port-channel\d+", opens="if"),
        Rule(r"interface mgmt0", opens="if"),
        Rule(r"priority-flow-control watch-dog-interval on", "watch-dog"),
        Rule(
            r"priority-flow-control watch-dog interval (?:[1-9]\d\d|1000)",
            "interval",
            default="priority-flow-control watch-dog interval 100",
        ),
        Rule(
            r"priority-flow-control watch-dog shutdown-multiplier (?:[1-9]|10)",
            "shutdown",
            default="priority-flow-control watch-dog shutdown-multiplier 1",
        ),
        Rule(
            r"priority-flow-control auto-restore multiplier (?:\d\d?|100)",
            "auto-restore",
            default="priority-flow-control auto-restore multiplier 10",
        ),
        Rule(
            r"priority-flow-control fixed-restore multiplier (?:\d\d?|100)",
            "fixed-restore",
            default="priority-flow-control fixed-restore multiplier 0",
        ),
        Rule(r"scheduler job name [A-Za-z0-9-]{1,31}", opens="job"),
        Rule(r"scheduler schedule name [A-Za-z0-9-]{1,31}", opens="schedule"),
    ),
    "cmap-qos": (
        Rule(rf"match dscp {_NUMBERS}"),
        Rule(rf"match cos {_NUMBERS}"),
        Rule(rf"match access-group name {NAME}"),
    ),
    "pmap-qos": (Rule(rf"class (?:type qos )?{NAME}", opens="pmap-c-qos"),),
    "pmap-c-qos": (Rule(r"set qos-group [0-7]", "group"), Rule(r"set dscp \d+", "dscp")),
    "pmap-que": (Rule(r"class type queuing c-out-8q-q(?:[1-7]|-default)", opens="pmap-c-que"),),
    "pmap-c-que": (
        Rule(r"priority level [1-7]", "schedule"),
        Rule(r"bandwidth remaining percent (?:\d\d?|100)", "schedule"),
        Rule(
            rf"random-detect minimum-threshold {_BYTES} maximum-threshold {_BYTES}"
            r" drop-probability (?:\d\d?|100) weight \d+(?: ecn)?",
            "random-detect",
        ),
        Rule(r"shape min \d+ gbps max \d+ gbps", "shape"),
        Rule(r"queue-limit dynamic \d", "queue-limit"),
    ),
    "pmap-nqos": (Rule(r"class type network-qos c-8q-nq(?:[1-7]|-default)", opens="pmap-nqos-c"),),
    "pmap-nqos-c": (Rule(r"mtu \d{4}", "mtu"), Rule(r"pause pfc-cos [0-7](?:,[0-7])*", "pause")),
    "sys-qos": (
        Rule(rf"service-policy type network-qos {NAME}", "network-qos"),
        Rule(rf"service-policy type queuing output {NAME}", "queuing"),
        Rule(rf"service-policy type qos input {NAME}", "qos"),
    ),
    "if": (
        Rule(r"mtu (?:1500|[2-8]\d{3}|9[01]\d\d|92(?:0\d|1[0-6]))", "mtu", default="mtu 1500"),
        Rule(r"description .+", "description"),
        Rule(r"(?:no )?shutdown", "shutdown", default="no shutdown"),
        Rule(r"flowcontrol receive (?:on|off)", "receive", default="flowcontrol receive off"),
        Rule(r"flowcontrol send (?:on|off)", "send", default="flowcontrol send off"),
        Rule(r"priority-flow-control mode (?:on|off|auto)", "pfc", default="priority-flow-control mode auto"),
        Rule(
            r"priority-flow-control watch-dog-interval on(?: interface-multiplier \d+)?(?: disable-action)?",
            "watch-dog",
        ),
        Rule(rf"service-policy type qos input {NAME}(?: no-stats)?", "qos"),
        Rule(rf"service-policy type queuing output {NAME}", "queuing"),
        Rule(r"channel-group \d+ mode active", "channel"),
        Rule(rf"inherit port-profile {NAME}", "profile"),
    ),
    "schedule": (
        Rule(r"job name [A-Za-z0-9-]{1,31}", "job"),
        Rule(r"time start \d{4}:\d\d:\d\d:\d\d:\d\d", "time"),
    ),
}
"""By mode; in the mode of a job every line is taken."""

PROMPTS = {"exec": "", "job": "(config-job)", "schedule": "(config-schedule)"}
"""What stands in the prompt after the name; of the other modes ``(config-MODE)``."""
