"""Fabrics of leaves and spines of any size, with speeds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle

from fabricctl.model.fabric import Device, Endpoint, Fabric, Link, Port, Role
from fabricctl.model.names import PortId


def build(  # noqa: PLR0913  what can differ
    leaves: int = 2,
    nodes: int = 4,
    uplinks: int = 2,
    rails: int = 1,
    *,
    up_gbps: int = 100,
    speeds: Sequence[int] = (100,),
    pods: int = 0,
    less: bool = False,
) -> Fabric:
    """Return `nodes` nodes on each leaf; every rail has leaves of its own.

    Parameters
    ----------
    uplinks
        Of each leaf, to spine 1, 2, ...
    speeds
        Of the nodes' ports in turn, Gb/s.
    pods
        So many pods, each with spines of its own, of which two have a link up each; 0 for none.
    less
        Whether the last leaf has one uplink less.
    """
    speed = cycle(speeds)
    devices, links = [], []
    spines: dict[str, str] = {}
    home: dict[str, str] = {}
    switch_ports: dict[str, list[Port]] = {}

    def cable(a: PortId, b: PortId, gbps: int) -> None:
        links.append(Link(min(a, b), max(a, b), 3.0))
        for end in (a, b):
            switch_ports.setdefault(end.device, []).append(Port(end, speed_gbps=gbps))

    for leaf in range(leaves):
        pod = f"pod{leaf * pods // leaves}" if pods else ""
        for n in range(nodes):
            name = f"n{leaf}-{n}"
            ports = [Port(PortId(name, f"eth{r}"), "", r, "", next(speed)) for r in range(rails)]
            devices.append(Device(name, Role.NODE, "", Endpoint(name), tuple(ports), pod=pod))
            for r, port in enumerate(ports):
                cable(port.id, PortId(f"leaf{leaf}-{r}", f"eth{n}"), port.speed_gbps)
        for r in range(rails):
            own = uplinks - (less and (leaf, r) == (leaves - 1, rails - 1))
            for up in range(own):
                spine = f"spine{pod[3:]}-{up}"
                spines[spine] = home[spine] = home[f"leaf{leaf}-{r}"] = pod
                cable(PortId(f"leaf{leaf}-{r}", f"up{up}"), PortId(spine, f"eth{leaf}-{r}"), up_gbps)
    for spine, pod in spines.items():
        if pod and spine.endswith(("-0", "-1")):
            cable(PortId(spine, "up"), PortId("core", spine), up_gbps)
    devices += _switches(switch_ports, home)
    return Fabric(tuple(devices), tuple(links), "/inventory.yml")


def _switches(ports: Mapping[str, Sequence[Port]], pods: Mapping[str, str]) -> Iterator[Device]:
    for name in sorted(ports):
        tier = name.partition("-")[0].rstrip("0123456789")
        if tier in {"leaf", "spine", "core"}:
            own = tuple(ports[name])
            yield Device(name, Role.SWITCH, "", Endpoint(name), own, tier, pods.get(name, ""))
