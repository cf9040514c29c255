"""Nodes as folders: the real scripts of link checks run against a made-up ``/sys``, ``/proc`` and ``/dev``.

The layout of the folders is that of the kernel's ABI documents (Documentation/ABI/testing/sysfs-bus-pci,
sysfs-class-net, sysfs-class-infiniband) and pci_regs.h; the values are made up.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from fabricctl.model.fabric import Device, Endpoint, Fabric, Link, LinkLayer, Port, Role
from fabricctl.model.names import PortId
from fabricctl.model.policy import Limits, LinkPolicy, MtuPolicy, Policy
from fabricctl.model.reading import DeviceReading
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin import finder
from fabricctl.plugin.protocols import Answer
from fabricctl.plugin.surveying import Clock, Observation, Survey

BRIDGE = "pci0000:00/0000:00:01.0"
SLOT = f"{BRIDGE}/0000:01:00.0"
FOLDERS = re.compile(r"(?<![\w/])(?:/sys|/proc|/dev/infiniband|/etc/security|/run/systemd)(?=/)")
HEALTHY_LIMITS = "Max open files  131072  131072  files\nMax locked memory  unlimited  unlimited  bytes\n"
ALL_OPEN = "character special file"


@dataclass
class Node:
    """One node: its folder, its ports, and answers that are given in place of the real ones."""

    name: str
    root: Path
    ports: list[Port] = field(default_factory=list)
    given: dict[str, Answer] = field(default_factory=dict)
    clock: Clock | None = field(default_factory=lambda: Clock(-0.1, 0.1))
    error: str = ""
    driver: str = "mlx5"

    def write(self, path: str, text: str) -> None:
        """Write a file below the node's root."""
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(f"{text}\n" if text else "")

    def remove(self, path: str) -> None:
        """Remove a file."""
        (self.root / path.lstrip("/")).unlink()

    def link(self, path: str, target: str | Path) -> None:
        """Make a symbolic link; a target that is a text lies below the node's root."""
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        place.symlink_to(self.root / target.lstrip("/") if isinstance(target, str) else target)

    def pci(self, path: str, ids: str = "15B3:1021", **more: Any) -> str:
        """Make a PCI function and return its folder.

        Parameters
        ----------
        more
            ``driver``, ``kind`` (0 endpoint, 4 root port, 5 upstream, 6 downstream, 9 integrated),
            ``control`` (of the device), ``acs`` (control register, None for none), ``now`` and ``most``
            (speed, width), ``numa``, ``cpus``, ``space`` (bytes of configuration space that can be read).
        """
        folder = f"/sys/devices/{path}"
        self.write(f"{folder}/uevent", f"DRIVER={more.get('driver', 'mlx5_core')}\nPCI_ID={ids}")
        vendor, _, number = ids.lower().partition(":")
        self.write(f"{folder}/vendor", f"0x{vendor}")
        self.write(f"{folder}/class", more.get("pci_class", "0x020000"))
        self.write(f"{folder}/numa_node", str(more.get("numa", 0)))
        self.write(f"{folder}/local_cpulist", more.get("cpus", "0-7"))
        now, most = more.get("now", ("32.0 GT/s PCIe", "16")), more.get("most", ("32.0 GT/s PCIe", "16"))
        for label, value in (("current", now), ("max", most)):
            if value is not None:
                self.write(f"{folder}/{label}_link_speed", value[0])
                self.write(f"{folder}/{label}_link_width", value[1])
        config = self.root / folder.lstrip("/") / "config"
        config.write_bytes(_config(int(vendor, 16), int(number, 16), more)[: more.get("space", 4096)])
        self.link(f"/sys/bus/pci/devices/{path.rpartition('/')[2]}", folder)
        return folder

    def nic(self, name: str, folder: str, rdma: str = "", **port: Any) -> None:
        """Make a netdev with a verbs device on a PCI function, and a port of the inventory for it."""
        self.link(f"/sys/class/net/{name}/device", folder)
        if rdma:
            self.link(f"/sys/class/infiniband/{rdma}/device", folder)
            self.write(f"/sys/class/infiniband/{rdma}/fw_ver", port.pop("firmware", "28.39.1002"))
            self.write(f"/sys/class/infiniband/{rdma}/board_id", port.pop("board", "MT_0000000838"))
            (self.root / folder.lstrip("/") / "infiniband" / rdma).mkdir(parents=True)
            self.verbs(rdma)
        self.port(name, rdma, **port)

    def verbs(self, rdma: str) -> None:
        """Make a verbs device, its device node and what the library says of it."""
        (self.root / "sys/class/infiniband" / rdma).mkdir(parents=True, exist_ok=True)
        node = f"uverbs{len(list((self.root / 'sys/class/infiniband').iterdir())) - 1}"
        self.write(f"/sys/class/infiniband_verbs/{node}/ibdev", rdma)
        self.link(f"/dev/infiniband/{node}", Path("/dev/null"))

    def port(self, name: str, rdma: str = "", **more: Any) -> None:
        """Add a port to the inventory's node."""
        self.ports.append(Port(PortId(self.name, name), rdma=rdma, **{"speed_gbps": 400, **more}))

    def process(self, number: int, name: str, limits: str = HEALTHY_LIMITS) -> None:
        """Let a process run."""
        self.write(f"/proc/{number}/comm", name)
        self.write(f"/proc/{number}/limits", limits)

    def says(self, key: str, stdout: str = "", stderr: str = "", rc: int = 0) -> None:
        """Answer a query with a text."""
        self.given[key] = Answer(rc, stdout, stderr)

    def answers(self, checks: tuple[str, ...]) -> dict[str, Answer]:
        """Ask the node all that the checks ask."""
        queries = [q for check in checks for q in finder.link_check(check).queries(self.device)]
        return {query.key: self.given.get(query.key) or self._ask(query.argv) for query in queries}

    def _ask(self, argv: tuple[str, ...]) -> Answer:
        words = []
        for word in argv:
            text = word.replace("/proc/$$/", "/proc/session/")
            words.append(FOLDERS.sub(lambda found: f"{self.root}{found[0]}", text))
        if argv[0] == "ibv_devinfo":
            names = sorted(path.name for path in (self.root / "sys/class/infiniband").glob("*"))
            return Answer(0, f"{len(names)} HCAs found:\n" + "".join(f"\t{n}\n" for n in names), "")
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin"}
        )
        root = str(self.root)
        return Answer(done.returncode, done.stdout.replace(root, ""), done.stderr.replace(root, ""))

    @property
    def device(self) -> Device:
        """The node as the inventory has it."""
        return Device(self.name, Role.NODE, self.driver, Endpoint("192.0.2.1"), tuple(self.ports))


def _config(vendor: int, number: int, more: dict[str, Any]) -> bytes:
    """Return configuration space: header, a power management and a PCI Express capability, AER and ACS."""
    space = bytearray(4096)

    def put(at: int, value: int, size: int) -> None:
        space[at : at + size] = value.to_bytes(size, "little")

    put(0, vendor, 2)
    put(2, number, 2)
    put(0x06, 0x10, 2)
    if more.get("express", True):
        put(0x34, 0x40, 1)
        put(0x40, 0x6001, 2)  # power management, the next is at 0x60
        put(0x60, 0x10, 1)
        put(0x62, 2 | more.get("kind", 0) << 4, 2)
        put(0x68, more.get("control", 0x5936), 2)
        put(0x6C, 5 | 16 << 4, 4)
        put(0x72, more.get("status", 5 | 16 << 4), 2)
    put(0x100, 0x0001 | 2 << 16 | 0x148 << 20, 4)  # AER, the next is at 0x148
    if more.get("acs") is not None:
        put(0x148, 0x000D | 1 << 16, 4)
        put(0x14E, more["acs"], 2)
    else:
        put(0x148, 0x0003 | 1 << 16, 4)
    return bytes(space)


@dataclass
class Hosts:
    """Nodes of one fabric, each port with a cable to a leaf, and the policy on links."""

    folder: Path
    rules: LinkPolicy = field(default_factory=LinkPolicy)
    nodes: list[Node] = field(default_factory=list)
    scheduler: str = ""

    def node(self, name: str = "node1") -> Node:
        """Add a node with one NUMA node and a healthy SSH session."""
        made = Node(name, self.folder / name)
        made.write("/sys/devices/system/node/online", "0")
        made.write("/sys/class/dmi/id/product_name", "Server 1")
        made.write("/proc/sys/kernel/osrelease", "6.8.0-45-generic")
        made.write("/proc/session/limits", HEALTHY_LIMITS)
        made.write("/proc/session/status", "Uid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff")
        made.write("/sys/module/ib_uverbs/refcnt", "1")
        made.write("/sys/module/rdma_ucm/refcnt", "1")
        made.link("/dev/infiniband/rdma_cm", Path("/dev/null"))
        self.nodes.append(made)
        return made

    def server(self, name: str = "node1", rails: int = 1) -> Node:
        """Add a node with NICs of 400 Gb/s, each in a slot of its own."""
        made = self.node(name)
        for rail in range(rails):
            bridge = f"pci0000:{rail:02x}/0000:{rail:02x}:01.0"
            made.pci(bridge, "8086:352A", driver="pcieport", kind=4, acs=0, pci_class="0x060400")
            nic = made.pci(f"{bridge}/0000:{rail + 0x40:02x}:00.0")
            made.nic(f"eth{rail + 1}", nic, f"mlx5_{rail}", rail=rail)
        return made

    def guest(self, name: str = "node1", rails: int = 2) -> Node:
        """Add a guest with virtio and soft-RoCE."""
        made = self.node(name)
        made.driver = "rxe"
        for rail in range(rails):
            path = f"pci0000:00/0000:00:{rail + 5:02x}.0"
            folder = made.pci(path, "1AF4:1041", driver="virtio-pci", now=None, most=None, numa=-1, kind=9)
            made.write(f"{folder}/virtio{rail}/uevent", "DRIVER=virtio_net")
            made.link(f"/sys/class/net/eth{rail + 1}/device", f"{folder}/virtio{rail}")
            made.verbs(f"rxe{rail}")
            made.write(f"/sys/class/infiniband/rxe{rail}/fw_ver", "")
            made.port(f"eth{rail + 1}", f"rxe{rail}", rail=rail, speed_gbps=1)
        return made

    def survey(self, *checks: str) -> Survey:
        """Ask every node all that the checks ask."""
        devices = [node.device for node in self.nodes]
        names = [port.id for device in devices for port in device.ports]
        ends = [PortId("leaf1", f"Ethernet{number}") for number in range(len(names))]
        leaf = Device("leaf1", Role.SWITCH, "", Endpoint("192.0.2.9"), tuple(map(Port, ends)))
        links = tuple(Link(*sorted(pair)) for pair in zip(names, ends, strict=True))
        fabric = Fabric((*devices, leaf), links, scheduler=self.scheduler)
        seen = {}
        for node in self.nodes:
            reading = DeviceReading(node.name, 1.0, {}, error=node.error)
            answers = {} if node.error else node.answers(checks)
            seen[node.name] = Observation(node.name, reading, reading, answers=answers, clock=node.clock)
        return Survey(fabric, replace(POLICY, links=self.rules), {}, seen)

    def judge(self, check: str) -> tuple[Finding, ...]:
        """Return the findings of a check."""
        return finder.link_check(check).judge(self.survey(check))

    def bad(self, check: str) -> list[tuple[Outcome, str, str]]:
        """Return outcome, subject and sentence of what does not pass; each must say what to do."""
        found = [finding for finding in self.judge(check) if finding.outcome is not Outcome.PASS]
        assert all(finding.next_step for finding in found)
        return [(finding.outcome, finding.subject, finding.what) for finding in found]

    def told(self, check: str) -> list[str]:
        """Return the sentences; all must pass."""
        found = self.judge(check)
        assert {finding.outcome for finding in found} == {Outcome.PASS}, found
        return [finding.what for finding in found]

    def policy(self, **rules: Any) -> None:
        """Change the policy on links."""
        self.rules = replace(self.rules, **rules)


POLICY = Policy(
    name="test",
    link_layer=LinkLayer.ETHERNET,
    lossless=None,
    cnp=None,
    mtu=MtuPolicy(nic_bytes=9000, switch_bytes=9216, rdma_bytes=4096),
    pfc_priorities=(),
    ecn={},
    limits=Limits(latency=(), loss=None),
)


@pytest.fixture
def hosts(tmp_path: Path) -> Hosts:
    """Return a fabric without nodes."""
    return Hosts(tmp_path)
