"""What a simulated EOS switch shows: JSON as ANTA and NAPALM expect it, maps as in Arista's manual."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from simulators.cli.server import Now, Refused
from simulators.eos.config import Config

MOST_PENDING = 5


@dataclass
class Interface:
    """What is true of an interface besides its configuration."""

    up: bool = True
    gbps: int = 100
    mac: str = "00:1c:73:00:00:01"
    routed: bool = True
    partner: tuple[str, str] = ("", "")
    changes: int = 1
    storms: dict[int, tuple[int, int]] = field(default_factory=dict)
    marks: dict[int, int] = field(default_factory=dict)
    pfc: tuple[int, int] = (0, 0)
    drops: dict[int, int] = field(default_factory=dict)


class Shown:
    """The part of the switch that shows."""

    interfaces: dict[str, Interface]
    hostname: str
    model: str
    version: str
    mode: str
    now: Now
    running: Config
    startup: str
    sessions: dict[str, Any]
    timer: Any

    def text(self) -> str:
        raise NotImplementedError

    @property
    def timed_by_name(self) -> bool:
        """Whether the session with a timer is named above the list, as from 4.32 on."""
        return tuple(map(int, self.version.split(".")[:2])) >= (4, 32)

    def show(self, what: str) -> str:
        match what:
            case "running-config":
                return f"! Command: show running-config\n{self.text()}"
            case "startup-config":
                return f"! Command: show startup-config\n{self.startup}"
            case "qos maps":
                return self._maps()
            case "hostname":
                return f"Hostname: {self.hostname}\nFQDN:     {self.hostname}\n"
        as_json = {
            "version": self._version,
            "hostname": lambda: {"hostname": self.hostname, "fqdn": self.hostname},
            "interfaces": self._interfaces,
            "priority-flow-control counters": self._pfc,
            "qos interfaces ecn counters queue": self._marks,
            "priority-flow-control counters watchdog": self._storms,
            "interfaces counters queue detail": self._drops,
            "lldp neighbors detail": self._neighbours,
            "configuration sessions": self._sessions,
            "configuration sessions detail": self._sessions,
        }
        name = what.removesuffix(" | json")
        if name == what or name not in as_json:
            raise Refused(f"% Invalid input (at token 1: '{what.split(maxsplit=1)[0]}')")
        return json.dumps(as_json[name](), indent=4) + "\n"

    def _version(self) -> object:
        return {
            "mfgName": "Arista",
            "modelName": self.model,
            "version": self.version,
            "internalVersion": f"{self.version}-1",
            "bootupTimestamp": 1_790_000_000.25,
            "uptime": round(self.now() - 1_790_000_000.25, 2),
        }

    def _interfaces(self) -> object:
        return {"interfaces": {name: self._interface(name) for name in self.interfaces}}

    def _interface(self, name: str) -> object:
        what = self.interfaces[name]
        lines = self.running.section((f"interface {name}",)).lines
        routed = lines.get("switchport") == "no switchport"
        mtu = int(lines["mtu"].split()[1]) if "mtu" in lines else 1500 if routed else 9214
        return {
            "name": name,
            "forwardingModel": "routed" if routed else "bridged",
            "lineProtocolStatus": "up" if what.up else "down",
            "interfaceStatus": "connected" if what.up else "notconnect",
            "physicalAddress": what.mac,
            "mtu": mtu,
            "bandwidth": what.gbps * 1_000_000_000 if what.up else 0,
            "interfaceCounters": {
                "inDiscards": 0,
                "outDiscards": sum(what.drops.values()),
                "totalInErrors": 0,
                "totalOutErrors": 0,
                "linkStatusChanges": what.changes,
            },
        }

    def _pfc(self) -> object:
        counters = {n: {"rxFrames": i.pfc[0], "txFrames": i.pfc[1]} for n, i in self.interfaces.items()}
        return {"interfaceCounters": counters}

    def _marks(self) -> object:
        return {
            "intfQueueCounters": {
                name: {"queueCounters": {str(q): str(i.marks[q]) if q in i.marks else "-" for q in range(8)}}
                for name, i in self.interfaces.items()
            }
        }

    def _storms(self) -> object:
        found = {
            name: {
                "txQueues": {
                    str(queue): {"stuckCount": stuck, "recoveryCount": recovered}
                    for queue, (stuck, recovered) in interface.storms.items()
                }
            }
            for name, interface in self.interfaces.items()
            if interface.storms
        }
        return {"interfaces": found}

    def _drops(self) -> object:
        def classes(drops: dict[int, int]) -> object:
            return {
                f"TC{tc}": {
                    "dropPrecedences": {
                        "DP0": {
                            "enqueuedPackets": 0,
                            "enqueuedBytes": 0,
                            "droppedPackets": drops.get(tc, 0),
                            "droppedBytes": 0,
                        }
                    }
                }
                for tc in range(8)
            }

        found = {
            name: {"ucastQueues": {"trafficClasses": classes(interface.drops)}}
            for name, interface in self.interfaces.items()
        }
        return {"egressQueueCounters": {"interfaces": found}}

    def _neighbours(self) -> object:
        found = {}
        for name, interface in self.interfaces.items():
            device, port = interface.partner
            info = {
                "systemName": device,
                "neighborInterfaceInfo": {
                    "interfaceIdType": "interfaceName",
                    "interfaceId": f'"{port}"',
                    "interfaceId_v2": port,
                    "interfaceDescription": f"port {port}",
                },
            }
            found[name] = {"lldpNeighborInfo": [info] if device else []}
        return {"lldpNeighbors": found}

    def _sessions(self) -> object:
        found: dict[str, object] = {
            "maxSavedSessions": 1,
            "maxOpenSessions": MOST_PENDING,
            "mergeOnCommit": False,
            "sessions": {
                name: {"state": session.state, "commitUser": "admin", "description": "", "instances": {}}
                for name, session in self.sessions.items()
            },
        }
        if self.timer is not None and self.timed_by_name:
            found |= {"commitTimerSessionName": self.timer.session, "commitTimerExpireTime": self.timer.due}
        return found

    def _maps(self) -> str:
        dscp = self.running.dscp_map()
        rows = "".join(
            f"      {ten} :    "
            + "".join(f"{dscp[ten * 10 + one]:3d}" for one in range(10) if ten * 10 + one < 64)
            + "\n"
            for ten in range(7)
        )
        queues = "".join(f"{queue:3d}" for queue in self.running.queue_map())
        numbers = "".join(f"{n:3d}" for n in range(8))
        label = f"{self.mode}:"
        return (
            "   Number of Traffic Classes supported: 8\n"
            "   Number of Transmit Queues supported: 8\n"
            "   Cos Rewrite: Disabled\n"
            "   Dscp Rewrite: Disabled\n\n"
            "   Cos-tc map:\n"
            f"     cos: {numbers}\n"
            "     ----------------------------\n"
            "     tc:    1  0  2  3  4  5  6  7\n\n"
            "   Dscp-tc map:\n"
            "     d1 :  d2 0  1  2  3  4  5  6  7  8  9\n"
            "     --------------------------------------\n"
            f"{rows}\n"
            f"   Tc - {self.mode} map:\n"
            f"     tc:        {numbers}\n"
            "     ---------------------------------\n"
            f"     {label:11}{queues}\n"
        )
