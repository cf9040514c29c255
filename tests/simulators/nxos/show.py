"""What the simulated NX-OS shows, after Cisco's command reference and public collectors."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from simulators.cli.server import Refused

if TYPE_CHECKING:
    from simulators.nxos.switch import Port, Switch, Tree

RELEASE = "10.3(4a)"
CHASSIS = "Nexus9000 C9336C-FX2 Chassis"
_ORDER = (
    "hostname",
    "feature",
    "priority-flow-control",
    "class-map",
    "policy-map",
    "system qos",
    "interface",
    "scheduler",
)
_INVALID = "                ^\n% Invalid command at '^' marker."
_DEFAULT_PERCENT = {queue: (100 if queue == 0 else 0) for queue in range(8)}


def show(switch: Switch, line: str) -> str:
    """Return what a line shows; Refused if it is none."""
    texts = {
        "show running-config": lambda: _configuration(switch, switch.running, "show running-config"),
        "show startup-config": lambda: _startup(switch),
        "show version": lambda: f"Cisco Nexus Operating System (NX-OS) Software\n  NXOS: version {RELEASE}\n",
        "show inventory": lambda: f'NAME: "Chassis",  DESCR: "{CHASSIS}"\nPID: N9K-C9336C-FX2\n',
        "show privilege": lambda: "Current privilege level: 15\n",
        "show clock": lambda: f"Time source is NTP\n{switch.now():%H:%M:%S.000 UTC %a %b %d %Y}\n",
        "show system uptime": lambda: (
            f"System start time:          {switch.started}\nSystem uptime: 3 days\n"
        ),
        "show checkpoint summary": lambda: _checkpoints(switch),
        "show scheduler schedule": lambda: _schedules(switch),
        "show queuing pfc-queue detail": lambda: "".join(_watchdog(switch, name) for name in switch.ports),
    }
    tables = {
        "show version | json": lambda: {
            "nxos_ver_str": RELEASE,
            "chassis_id": CHASSIS,
            "host_name": switch.name,
        },
        "show interface | json": lambda: _table("interface", [_interface(switch, n) for n in switch.ports]),
        "show interface priority-flow-control | json": lambda: _module(
            "pfc_interface", [_pfc(switch, n) for n in switch.ports]
        ),
        "show queuing interface | json": lambda: _module(
            "queuing_interface", [row for name in switch.ports for row in _queues(switch, name)]
        ),
        "show lldp neighbors detail | json": lambda: _table("nbor_detail", _neighbours(switch)),
    }
    command, *pipes = line.split(" | ")
    if command in texts and pipes != ["json"]:
        return _piped(texts[command](), pipes)
    if line in tables:
        found = tables[line]()
        return f"{json.dumps(found)}\n" if found else ""
    raise Refused(_INVALID)


def _piped(said: str, pipes: list[str]) -> str:
    for pipe in pipes:
        word, _, pattern = pipe.partition(" ")
        rows = said.splitlines()
        if word == "include" and pattern:
            said = "".join(f"{row}\n" for row in rows if re.search(pattern, row))
        elif pipe == "count":
            said = f"{len(rows)}\n"
        else:
            raise Refused(_INVALID)
    return said


def _configuration(switch: Switch, tree: Tree, command: str) -> str:
    lines = [
        f"!Command: {command}",
        f"!Time: {switch.now():%a %b %d %H:%M:%S %Y}",
        "",
        f"version {RELEASE} Bios:version 05.51 ",
    ]
    rank = {start: at for at, start in enumerate(_ORDER)}
    ordered = sorted(
        tree, key=lambda line: next((rank[start] for start in _ORDER if line.startswith(start)), 0)
    )
    for line in (each for each in ordered if tree[each] or each != "system qos"):
        lines += [line, *_inner(tree[line], 1)]
        if line.startswith("scheduler job"):
            lines += ["  ", "end-job"]
        if tree[line]:
            lines.append("")
    return "\n".join(lines) + "\n"


def _inner(tree: Tree, depth: int) -> list[str]:
    found = []
    for line, inner in tree.items():
        found += [f"{'  ' * depth}{line}", *_inner(inner, depth + 1)]
    return found


def _startup(switch: Switch) -> str:
    if switch.startup is None:
        return "No startup configuration\n"
    return _configuration(switch, switch.startup, "Startup-Config")


def _checkpoints(switch: Switch) -> str:
    if not switch.checkpoints:
        return ""
    blocks = [
        f"{number}) {name}:\nCreated by admin\nSize is 16,350 bytes\nDescription: None\n"
        for number, name in enumerate(switch.checkpoints, 1)
    ]
    return f"User Checkpoint Summary\n{'-' * 80}\n" + "\n".join(blocks)


def _schedules(switch: Switch) -> str:
    if "feature scheduler" not in switch.running:
        raise Refused(_INVALID)
    blocks = []
    for line, inner in switch.running.items():
        if line.startswith("scheduler schedule name "):
            name = line.split()[-1]
            start = next((each.split()[-1] for each in inner if each.startswith("time start ")), "not set")
            ran = "Yet to be executed" if name not in switch.executed else f"{switch.executed[name]:.0f}"
            job = next((each.split()[-1] for each in inner if each.startswith("job name ")), "")
            done = "Failed (1)" if name in switch.failed else "Success (0)"
            status = "-NA-" if name not in switch.executed else done
            blocks.append(
                f"Schedule Name       : {name}\nUser Name           : admin\n"
                f"Schedule Type       : Run once on {start}\nLast Execution Time : {ran}\n{'-' * 47}\n"
                f"     Job Name            Last Execution Status\n{'-' * 47}\n"
                f"{job:>20}            {status}\n{'=' * 78}\n"
            )
    return "".join(blocks)


def _table(name: str, rows: list[Any]) -> dict[str, Any]:
    """Return a table: its rows are a dict where there is one, a list where there are several."""
    return {f"TABLE_{name}": {f"ROW_{name}": rows[0] if len(rows) == 1 else rows}} if rows else {}


def _module(name: str, rows: list[Any]) -> dict[str, Any]:
    return _table("module", [{"mod_num": 1, **_table(name, rows)}])


def _lines(switch: Switch, name: str) -> list[str]:
    return list(switch.running[f"interface {name}"])


def _interface(switch: Switch, name: str) -> dict[str, str]:
    port, number = switch.ports[name], list(switch.ports).index(name)
    mtu = next((line.split()[-1] for line in _lines(switch, name) if line.startswith("mtu ")), "1500")
    return {
        "interface": name,
        "state": "up" if port.up else "down",
        "eth_mtu": mtu,
        "eth_speed": port.speed if port.up else "auto-speed",
        "eth_hw_addr": f"5254.0000.{number + 1:04x}",
        **{
            key: str(port.counters.get(key, 0))
            for key in ("eth_inerr", "eth_outerr", "eth_indiscard", "eth_outdiscard")
        },
    }


def _mode(switch: Switch, name: str) -> str:
    found = [
        line.split()[-1] for line in _lines(switch, name) if line.startswith("priority-flow-control mode")
    ]
    return found[0].capitalize() if found else "Auto"


def _pfc(switch: Switch, name: str) -> dict[str, str]:
    mode, port = _mode(switch, name), switch.ports[name]
    works = mode == "On" or (mode == "Auto" and port.agreed)
    return {
        "if_name_str": name,
        "admin": mode,
        "oper": "On" if works else "Off",
        "rx-stats": str(port.counters.get("rx-pause-count", 0)),
        "tx-stats": str(port.counters.get("tx-pause-count", 0)),
    }


def _queues(switch: Switch, name: str) -> list[dict[str, Any]]:
    port = switch.ports[name]
    bound = [
        line.split()[-1]
        for line in _lines(switch, name)
        if line.startswith("service-policy type queuing output")
    ]
    system = switch.running.get("system qos", {})
    bound += [line.split()[-1] for line in system if line.startswith("service-policy type queuing output")]
    policy = switch.running.get(f"policy-map type queuing {bound[0]}", {}) if bound else {}
    return [
        {
            "dir": "Egress",
            "if_name_str": name,
            **_table("qosgrp_cfg", [_group(policy, queue) for queue in reversed(range(8))]),
            **_table("qosgrp_egress_stats", [_sent(port, queue) for queue in range(8)]),
        },
        {
            "dir": "Ingress",
            "if_name_str": name,
            "tx-ppp": str(port.counters.get("tx-pause-count", 0)),
            "rx-ppp": str(port.counters.get("rx-pause-count", 0)),
            **_table("pfc_stats", [_paused(port, cos) for cos in range(8)]),
        },
    ]


def _group(policy: Tree, queue: int) -> dict[str, str]:
    if not policy:
        return {
            "qosgrp": str(queue),
            "bandwidth": str(_DEFAULT_PERCENT[queue]),
            "priority": "1" if queue == 7 else "-",
        }
    lines = policy.get(f"class type queuing c-out-8q-q{queue or '-default'}", {})
    level = [line.split()[-1] for line in lines if line.startswith("priority level")]
    share = [line.split()[-1] for line in lines if line.startswith("bandwidth")]
    return {
        "qosgrp": str(queue),
        "bandwidth": share[0] if share else "0",
        "priority": level[0] if level else "-",
    }


def _sent(port: Port, queue: int) -> dict[str, Any]:
    rows = [
        {
            "eq-stat-type": kind,
            "eq-stat-units": "Pkts",
            "eq-uc-stat-value": str(port.counters.get(f"{kind} {queue}", 0)),
        }
        for kind in ("Tx", "WRED/AFD & Tail Drop", "ECN Marked")
    ]
    return {"eq-qosgrp": str(queue), **_table("qosgrp_egress_stats_entry", rows)}


def _paused(port: Port, cos: int) -> dict[str, str]:
    return {
        "cos": str(cos),
        "tx-pause-state": "Inactive",
        "tx-pause-count": str(port.counters.get(f"tx-pause {cos}", 0)),
        "rx-pause-state": "Inactive",
        "rx-pause-count": str(port.counters.get(f"rx-pause {cos}", 0)),
    }


def _neighbours(switch: Switch) -> list[dict[str, str]]:
    found = []
    for name, port in switch.ports.items():
        if port.neighbour:
            device, _, far = port.neighbour.partition("/")
            found.append({"l_port_id": name.replace("Ethernet", "Eth"), "sys_name": device, "port_id": far})
    return found


def _watchdog(switch: Switch, name: str) -> str:
    lines = _lines(switch, name)
    if not any(line.startswith("priority-flow-control watch-dog-interval on") for line in lines):
        return f"{name} Interface PFC watchdog: [Disabled]\n"
    port, head = switch.ports[name], f"{name} Interface PFC watchdog: [Enabled]\n"
    head += "Disable-action                     : No\nPFC watch-dog interface-multiplier : 0\n"
    bar = f"+{'-' * 52}+\n"
    blocks = []
    for queue in _lossless(switch):
        rows = [
            (kind, port.counters.get(f"{kind} {queue}", 0))
            for kind in ("Shutdown", "Restored", "Aggregate pkts dropped")
        ]
        text = "".join(f"| {kind:>30}|{count:>20}|\n" for kind, count in rows)
        blocks.append(f"{bar}| QOS GROUP {queue} [Active] PFC [YES] PFC-COS [{queue}]\n{bar}{text}{bar}")
    return head + "".join(blocks)


def _lossless(switch: Switch) -> list[int]:
    system = switch.running.get("system qos", {})
    names = [line.split()[-1] for line in system if line.startswith("service-policy type network-qos")]
    policy = switch.running.get(f"policy-map type network-qos {names[0]}", {}) if names else {}
    found = []
    for line, inner in policy.items():
        if any(each.startswith("pause") for each in inner):
            number = re.sub(r".*nq-?", "", line)
            found.append(0 if number == "default" else int(number))
    return sorted(found)
