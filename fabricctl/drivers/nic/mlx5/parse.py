"""What to ask a node with mlx5 ports, and how to read the answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from fabricctl.drivers import dcb, ethtool, files, functions, host, keeper, lldp, netdev, pause, verbs
from fabricctl.drivers.nic.mlx5 import classes, congestion, firmware, planes
from fabricctl.model import facts, settings
from fabricctl.model.fabric import Port
from fabricctl.model.names import PortId
from fabricctl.model.reading import Entry, Known, Missing, PortReading
from fabricctl.plugin.answers import Lacking, Unread, entry
from fabricctl.plugin.protocols import Answers, Query

_KERNEL_DRIVER = "mlx5_core"
_GLOBAL = "Global tclass="
_TOS_MAX = 255


def queries(ports: Sequence[Port]) -> tuple[Query, ...]:
    """Return everything to ask a node with these ports; RefusedError if a port has an impossible name."""
    netdev.check_names(ports)
    paths = [
        path for port in ports for path in (*netdev.paths(port.id.port), *verbs.paths(port), *_override(port))
    ]
    return (
        functions.query(ports),
        files.query_of_functions(
            [*host.paths(), *paths],
            {port.id.port: (*netdev.PER_FUNCTION, *planes.PER_FUNCTION) for port in ports},
        ),
        *host.queries(ports),
        *keeper.queries(ports),
        *lldp.queries(),
        *dcb.queries(ports),
        pause.query(ports),
        ethtool.query(ports),
        classes.query(ports),
        congestion.query(ports),
        *firmware.queries(ports),
        *(query for port in ports for query in verbs.queries(port)),
    )


def parse(
    ports: Sequence[Port], answers: Answers
) -> tuple[Mapping[PortId, PortReading], Mapping[str, Entry]]:
    """Return the reading of each port and the facts of the node."""
    every = {**answers, **dcb.split(ports, answers)}
    return {port.id: _port(port, every) for port in ports}, host.read_facts(answers)


def _port(port: Port, answers: Answers) -> PortReading:
    name = port.id.port
    return PortReading(
        port.id,
        settings={
            **netdev.read_settings(name, answers),
            **functions.merged(name, answers, lambda each: _function(each, name, answers)),
            **_roce(port, answers),
            **keeper.read_settings(name, answers),
            **host.read_boot(name, answers),
        },
        facts={
            **netdev.read_facts(name, answers),
            **functions.read_facts(name, answers),
            **verbs.read_facts(port, answers),
            **keeper.read_facts(name, answers),
            **lldp.read_facts(name, answers),
            **ethtool.read_facts(name, answers),
            facts.PLANE: entry(lambda: _plane(name, answers)),
            facts.PENDING: entry(lambda: _pending(name, answers)),
            facts.RIVALS: entry(lambda: _rivals(name, answers)),
        },
        counters={
            **netdev.read_counters(name, answers),
            **dcb.read_counters(name, answers),
            **ethtool.read_counters(name, answers),
            **verbs.read_counters(port, answers),
        },
    )


def _function(name: str, port: str, answers: Answers) -> dict[str, Entry]:
    """Return the settings of one physical function."""
    return {
        **pause.read_settings(name, answers),
        **classes.read_settings(name, answers),
        **congestion.read_settings(name, port, answers),
    }


def _override(port: Port) -> tuple[str, ...]:
    """Return the file in which MLNX_OFED's driver shows the type of service that it forces on queue pairs."""
    return tuple(path.replace("/ports/1/state", "/tc/1/traffic_class") for path in verbs.paths(port)[2:3])


def _roce(port: Port, answers: Answers) -> dict[str, Entry]:
    """Return rdma_cm's defaults and the driver's override, which goes before the default type of service."""
    found = verbs.read_settings(port, answers)
    override = entry(lambda: _traffic_class(port, answers))
    if isinstance(override, Known) and override != Known(-1):
        found[settings.ROCE_TOS] = override
    return {**found, congestion.TRAFFIC_CLASS: override}


def _traffic_class(port: Port, answers: Answers) -> int:
    paths = _override(port)
    if not paths:
        raise Unread("the inventory names no verbs device (rdma: in fabric_ports)")
    if not files.under(answers, paths[0]):
        if not any(planes.is_ofed(each, answers) for each in functions.of(port.id.port, answers)):
            raise Lacking("only MLNX_OFED's driver can force a type of service on all queue pairs")
        if _unset(paths[0], answers):
            return -1
        files.content(answers, paths[0])
    for line in files.content(answers, paths[0]).splitlines():
        if line.startswith(_GLOBAL):
            return _tos(int(line.removeprefix(_GLOBAL)))
    return -1


def _unset(path: str, answers: Answers) -> bool:
    """Say whether the file is there and empty: grep prints nothing of it, and complains only if it is not."""
    return not any(f"{path}:" in line for line in answers["grep files"].stderr.splitlines())


def _tos(value: int) -> int:
    if not 0 <= value <= _TOS_MAX:
        raise Unread(f"unparsable: {value} is no type of service")
    return value


def _plane(name: str, answers: Answers) -> str:
    """Return what sets the port, the same for all its physical functions."""
    each = {_plane_of(function, name, answers) for function in functions.of(name, answers)}
    if len(each) > 1:
        raise Unread(f"not the same everywhere: {', '.join(sorted(each))}")
    return each.pop()


def _plane_of(name: str, port: str, answers: Answers) -> str:
    driver = next(
        (
            line.removeprefix("DRIVER=")
            for line in files.content(answers, f"/sys/class/net/{name}/device/uevent").splitlines()
            if line.startswith("DRIVER=")
        ),
        "no driver",
    )
    if driver != _KERNEL_DRIVER:
        raise Unread(f"{name} is no mlx5 port: its driver is {driver}")
    tool = entry(lambda: classes.tool(name, answers))
    shown = str(tool.value) if isinstance(tool, Known) else "neither mlnx_qos nor dcb"
    ofed = planes.is_ofed(name, answers)
    plane = f"MLNX_OFED ({shown}, sysfs)" if ofed else f"inbox driver ({shown}, debugfs)"
    program = entry(lambda: firmware.tool(port, answers))
    return f"{plane}, firmware configuration ({program.value})" if isinstance(program, Known) else plane


def _pending(name: str, answers: Answers) -> tuple[str, ...]:
    """Return what waits for a reset; nothing where the firmware's configuration cannot be had at all."""
    found: dict[str, None] = {}
    for function in functions.of(name, answers):
        waiting = entry(partial(congestion.pending, function, name, answers))
        if isinstance(waiting, Known) and isinstance(waiting.value, tuple):
            found.update(dict.fromkeys(map(str, waiting.value)))
        elif isinstance(waiting, Missing) and not waiting.impossible:
            raise Unread(waiting.reason)
    return tuple(found)


def _rivals(name: str, answers: Answers) -> tuple[str, ...]:
    """Return who else sets classes and PFC: the firmware's own DCBX, which follows the switch if willing."""
    found = []
    for function in functions.of(name, answers):
        command = classes.firmware_dcbx(function, answers)
        if command:
            found.append(f"firmware DCBX{_willing(function, name, answers)}: {command}")
    return tuple(found)


def _willing(function: str, port: str, answers: Answers) -> str:
    """Return what the firmware's configuration adds, where it can be read."""
    try:
        willing = firmware.value(function, port, answers, "DCBX_WILLING").current
    except Unread:
        return ""
    return ", willing" if willing else ", not willing"
