"""What Enterprise SONiC's ``show`` prints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from simulators.dell_sonic.switch import running

_LINE = "-" * 100
_LOSSY, _LOSSLESS = "ingress_lossy_profile", "pg_lossless_100000_{}_profile"
_HEADROOM = {"5m": 113664, "40m": 177632, "300m": 303104}


def shown(state: dict[str, Any], line: str) -> str | None:
    """Return what a line shows; None if there is no such line."""
    if line == "show startup-configuration":
        return _startup(state)
    for every in ("Eth", "Ethernet"):
        line = line.replace(f" {every} all ", " all ")
    make = _SHOWS.get(line)
    return make(state) if make else None


def _startup(state: dict[str, Any]) -> str | None:
    return str(state["startup"]) if state["shows_startup"] else None


def _status(state: dict[str, Any]) -> str:
    rows = [
        _LINE,
        "Name           Description            Oper   Reason           AutoNeg  Speed    MTU    Alternate",
        _LINE,
    ]
    for name, held in state["interfaces"].items():
        link = state["links"][name]
        reason = "oper-up" if link == "up" else "phy-link-down"
        text = held.get("description", "-")
        start = f"{name:<14} {text:<22} {link:<6} {reason:<16} off      "
        rows.append(f"{start}{held['speed']:<8} {held['mtu']:<6} Ethernet0")
    return "\n".join(rows) + "\n"


def _fec(state: dict[str, Any]) -> str:
    rows = ["Name      Type                     FEC Oper  FEC Admin  IfOperStatus", _LINE]
    rows += [f"{name:<9} QSFP28 100GBASE-SR4  RS  RS  {link}" for name, link in state["links"].items()]
    return "\n".join(rows) + "\n"


def _neighbours(state: dict[str, Any]) -> str:
    bar = "-" * 59
    rows = [bar, "LLDP Neighbors", bar]
    for name, (device, port, descr) in state["neighbours"].items():
        rows += [
            f"Interface:   {name},via: LLDP",
            "Chassis:",
            "    ChassisID:    0c:42:a1:00:00:01",
            f"    SysName:      {device}",
            "    SysDescr:     Ubuntu 22.04",
            "    TTL:          120",
            "Port",
            f"    PortID:       {port}",
            f"    PortDescr:    {descr}",
            bar,
        ]
    return "\n".join(rows) + "\n"


def _version(state: dict[str, Any]) -> str:
    return f"""\

Software Version  : {state["version"]}
Product           : Enterprise SONiC Distribution by Dell Technologies
Distribution      : Debian 11.9
Kernel            : 5.10.0-21-amd64
Build Commit      : 0cbd2dcb5c
Platform          : x86_64-dellemc_z9664f_c0700-r0
HwSKU             : DellEMC-Z9664f-O64
ASIC              : broadcom
Uptime            : 11:02:10 up 7:50, 1 user, load average: 1.20, 1.13, 1.09
Mfg               : Dell EMC
"""


def _reboot(state: dict[str, Any]) -> str:
    return f"User issued 'reboot' command [User: admin, Time: {state['booted']}]\n"


def _lossless(state: dict[str, Any]) -> bool:
    return bool(state["rebooted"]) and any("lossless" in line or "roce" in line for line in state["top"])


def _cable(held: dict[str, str]) -> str:
    return held.get("cable-length", "40m")


def _profiles(state: dict[str, Any]) -> str:
    if not _lossless(state):
        return ""
    rows = [
        f"Profile {_LOSSY}:",
        "   mode             : static",
        "   pool             : ingress_lossless_pool",
    ]
    rows += ["   size             : 0", "   static_threshold : 32575488 bytes"]
    rows += ["Profile egress_lossless_profile:", "   mode             : static"]
    for cable in sorted({_cable(held) for held in state["interfaces"].values()}):
        rows += [
            f"Profile {_LOSSLESS.format(cable)}:",
            "   mode                    : dynamic",
            "   pool                    : ingress_lossless_pool",
            "   size                    : 1248",
            "   dynamic_threshold       : -3",
            f"   pause_threshold         : {_HEADROOM[cable]} bytes",
            "   resume_threshold        : 2288 bytes",
            "   resume_offset_threshold : 2288 bytes",
        ]
    return "\n".join(rows) + "\n"


def _groups(state: dict[str, Any]) -> str:
    rows = ["Interface   Priority-group     Profile"]
    for name, held in state["interfaces"].items() if _lossless(state) else ():
        rows.append(f"{name:<16} 3-4           {_LOSSLESS.format(_cable(held))}")
        rows.append(f"{name:<16} 7             {_LOSSY}")
    return "\n".join(rows) + "\n"


def _counter(state: dict[str, Any], port: str, name: str) -> int:
    return int(state["counters"].get(port, {}).get(name, 0))


def _counters(state: dict[str, Any]) -> str:
    names = ("rx_ok", "rx_err", "rx_drp", "rx_over", "tx_ok", "tx_err", "tx_drp", "tx_over")
    rows = [
        _LINE,
        "Interface  State  RX_OK  RX_ERR  RX_DRP  RX_OVERSIZE  TX_OK  TX_ERR  TX_DRP  TX_OVERSIZE",
        _LINE,
    ]
    for port in state["interfaces"]:
        numbers = "  ".join(str(_counter(state, port, name)) for name in names)
        rows.append(f"{port:<14} {'U' if state['links'][port] == 'up' else 'D'}      {numbers}")
    return "\n".join(rows) + "\n"


def _pauses(state: dict[str, Any]) -> str:
    rows = []
    for way, text in (("rx", "received"), ("tx", "transmitted")):
        rows += [
            f"Flow Control frames {text}",
            "       Port " + "".join(f"   PFC{n}" for n in range(8)),
            "-" * 70,
        ]
        rows += [
            f"{port:>11} " + "".join(f"{_counter(state, port, f'pfc{n}.{way}'):>7}" for n in range(8))
            for port in state["interfaces"]
        ]
    return "\n".join(rows) + "\n"


def _storms(state: dict[str, Any]) -> str:
    rows = ["Port  Queue  Status  Detected  Restored  OK  Drop  OK  Drop  OK  Drop  OK  Drop"]
    for port in state["interfaces"]:
        for queue in range(8):
            seen, ended = (_counter(state, port, f"storm{queue}.{what}") for what in ("detected", "restored"))
            rows.append(f"{port:>10} {queue:>5} {'N/A':>8} {seen:>8} {ended:>8}" + f"{0:>9}" * 8)
    return "\n".join(rows) + "\n"


def _queues(state: dict[str, Any]) -> str:
    rows = [
        _LINE,
        "Port  TxQ  Counter/pkts  Counter/bytes  Rate/PPS  Rate/BPS  Rate/bPS  Drop/pkts  Drop/bytes",
        _LINE,
    ]
    for port in state["interfaces"]:
        for queue in range(8):
            drops = _counter(state, port, f"queue{queue}.drops")
            rows.append(f"{port:<11} UC{queue}  100  6400  0.00/s  0.00B/s  0.00b/s  {drops}  {drops * 64}")
        rows.append(f"{port:<11} MC8  0              0              0.00/s  0.00B/s  0.00b/s  0  0")
    return "\n".join(rows) + "\n"


def _marked(state: dict[str, Any]) -> str:
    rows = [_LINE, "Port        TxQ  EcnMarked/pkts  EcnMarked/bytes  WredDrp/pkts  WredDrp/bytes", _LINE]
    for port in state["interfaces"]:
        for queue in range(8):
            marked = _counter(state, port, f"queue{queue}.marked")
            rows.append(f"{port:<11} UC{queue}  {marked}  {marked * 4096}  0  0")
    return "\n".join(rows) + "\n"


def _watermarks(kind: str, head: str) -> Callable[[dict[str, Any]], str]:
    def make(state: dict[str, Any]) -> str:
        rows = [head, _LINE, "Port        " + "  ".join(f"{kind}{n}" for n in range(8)), _LINE]
        for port in state["interfaces"]:
            values = "  ".join(str(_counter(state, port, f"{kind}{n}")) for n in range(8))
            rows.append(f"{port:<11} {values}")
        return "\n".join(rows) + "\n"

    return make


_SHOWS: dict[str, Callable[[dict[str, Any]], str]] = {
    "show running-configuration": running,
    "show interface status": _status,
    "show interface fec status": _fec,
    "show lldp neighbor": _neighbours,
    "show version": _version,
    "show reboot-cause": _reboot,
    "show buffer profile": _profiles,
    "show buffer interface all priority-group": _groups,
    "show interface counters": _counters,
    "show qos interface all priority-flow-control statistics": _pauses,
    "show qos interface all queue all priority-flow-control watchdog-statistics": _storms,
    "show queue counters": _queues,
    "show queue wred-ecn counters": _marked,
    "show queue watermark unicast": _watermarks("UC", "Egress queue watermark per unicast queue:"),
    "show priority-group watermark headroom": _watermarks("PG", "Ingress headroom watermark per PG:"),
}
