"""Eight nodes on two leaves and two spines, as recorded from ibsim in ``tests/cases/infiniband``."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from fabricctl.infiniband import asking
from fabricctl.infiniband.asking import Hca
from fabricctl.links import planes
from fabricctl.model.fabric import Device, Endpoint, Fabric, Link, LinkLayer, Port, Role
from fabricctl.model.names import PortId
from fabricctl.model.policy import Limits, LinkPolicy, MtuPolicy, Policy, TrafficClass
from fabricctl.model.reading import DeviceReading
from fabricctl.model.subnet import Subnet, SubnetPort, Wiring
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin import finder
from fabricctl.plugin.protocols import Answer
from fabricctl.plugin.surveying import Observation, Survey

CASES = Path(__file__).resolve().parents[2] / "cases" / "infiniband"
HCA = Hca("mlx5_0")
INTERVAL_S = 10.0


def infiniband_fabric(speed_gbps: int = 200, nodes: int = 8) -> Fabric:
    """Return nodes 1 to 4 on leaf1 and 5 to 8 on leaf2, and a cable from each leaf's 5 and 6 to a spine."""
    at = Endpoint("192.0.2.1")

    def port(device: str, name: str, rdma: str = "") -> Port:
        return Port(PortId(device, name), rdma, 0, "", speed_gbps, LinkLayer.INFINIBAND)

    links, ports = [], {name: [] for name in ("leaf1", "leaf2", "spine1", "spine2")}  # type: dict[str, list[Port]]
    devices = []
    for n in range(1, nodes + 1):
        leaf, number = f"leaf{(n - 1) // 4 + 1}", str((n - 1) % 4 + 1)
        devices.append(Device(f"node{n}", Role.NODE, "", at, (port(f"node{n}", "ib0", "mlx5_0"),)))
        ports[leaf].append(port(leaf, number))
        links.append(Link(PortId(leaf, number), PortId(f"node{n}", "ib0")))
    for leaf in (1, 2):
        for spine in (1, 2):
            ports[f"leaf{leaf}"].append(port(f"leaf{leaf}", str(4 + spine)))
            ports[f"spine{spine}"].append(port(f"spine{spine}", str(leaf)))
            links.append(Link(PortId(f"leaf{leaf}", str(4 + spine)), PortId(f"spine{spine}", str(leaf))))
    switches = [Device(name, Role.SWITCH, "", at, tuple(some), name[:-1]) for name, some in ports.items()]
    return Fabric((*devices, *switches), tuple(links), source="/inventory.yml")


@dataclasses.dataclass
class Pod:
    """The recorded fabric, what was seen of it, and what checks say."""

    fabric: Fabric = dataclasses.field(default_factory=infiniband_fabric)
    rules: LinkPolicy = dataclasses.field(default_factory=LinkPolicy)

    def answers(self, case: str) -> tuple[dict[str, Answer], dict[str, Answer]]:
        """Return what node1 answered at both ends of the interval."""
        folder = CASES / case
        look = asking.look_key(HCA)
        first, file = (folder / "first.txt").read_text(), folder / "later.txt"
        later = file.read_text() if file.exists() else first
        later += (folder / "routes.txt").read_text()
        return {look: Answer(0, first, "")}, {look: Answer(0, later, "")}

    def observed(self, case: str) -> Observation:
        """Return all that was seen of node1."""
        answers, later = self.answers(case)
        reading = DeviceReading("node1", 0.0, {})
        return Observation("node1", reading, reading, INTERVAL_S, answers, later)

    def survey(self, case: str, only: tuple[str, ...] = (), wiring: Wiring | None = None) -> Survey:
        """Return what a run saw; with `only` it was limited to these devices."""
        devices = self.fabric.named(only)
        seen = {}
        for device in devices:
            reading = DeviceReading(device.name, 0.0, {})
            seen[device.name] = Observation(device.name, reading, reading, INTERVAL_S)
        seen["node1"] = self.observed(case)
        views = planes.views(self.fabric, self.fabric.devices, "")
        subnets = planes.subnets(self.fabric, views, seen)
        if only and "node1" not in only:
            del seen["node1"]
        policy = Policy(
            name="test",
            link_layer=LinkLayer.INFINIBAND,
            lossless=TrafficClass(priority=3, dscp=26),
            cnp=TrafficClass(priority=6, dscp=48),
            mtu=MtuPolicy(nic_bytes=4092, switch_bytes=4092, rdma_bytes=4096),
            pfc_priorities=(),
            ecn={},
            limits=Limits(latency=(), loss=None),
            links=self.rules,
        )
        return Survey(self.fabric, policy, {}, seen, subnets=subnets, limited=bool(only), wiring=wiring)

    def subnet(self, case: str) -> Subnet:
        """Return the one plane."""
        return self.survey(case).subnets[0]

    def judge(self, check: str, case: str, **how: Any) -> dict[str, Finding]:
        """Return a check's findings by subject; each subject has one."""
        return self.of(check, self.survey(case, **how))

    @staticmethod
    def of(check: str, survey: Survey) -> dict[str, Finding]:
        """Return the findings on a survey by subject."""
        found = finder.link_check(check).judge(survey)
        assert len({finding.subject for finding in found}) == len(found)
        for finding in found:
            assert finding.check == check
            assert finding.outcome is Outcome.PASS or finding.next_step, finding
        return {finding.subject: finding for finding in found}

    @staticmethod
    def odd(found: dict[str, Finding]) -> dict[str, Outcome]:
        """Return what did not pass."""
        return {name: one.outcome for name, one in found.items() if one.outcome is not Outcome.PASS}

    @staticmethod
    def with_ports(survey: Survey, **changed: Any) -> Survey:
        """Return the survey with every port of its plane changed."""
        subnet = survey.subnets[0]
        ports = {key: dataclasses.replace(port, **changed) for key, port in subnet.ports.items()}
        return dataclasses.replace(survey, subnets=(dataclasses.replace(subnet, ports=ports),))

    @staticmethod
    def with_port(survey: Survey, label: str, **changed: Any) -> Survey:
        """Return the survey with one port changed."""
        subnet = survey.subnets[0]
        ports = dict(subnet.ports)
        for key, port in subnet.ports.items():
            if port.label == label:
                ports[key] = dataclasses.replace(port, **changed)
        return dataclasses.replace(survey, subnets=(dataclasses.replace(subnet, ports=ports),))

    @staticmethod
    def port(subnet: Subnet, label: str) -> SubnetPort:
        """Return a port by its label."""
        return next(port for port in subnet.ports.values() if port.label == label)


@pytest.fixture
def pod() -> Pod:
    """Return the recorded fabric."""
    return Pod()
