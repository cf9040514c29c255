"""What to ask a SONiC switch, and how to read the answers: one dump of CONFIG_DB, and little beside it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from fabricctl.drivers import files, lldp, netdev
from fabricctl.drivers.switch.sonic import counters, databases, steps
from fabricctl.drivers.switch.sonic.node import chain
from fabricctl.drivers.switch.sonic.node.box import DEVICE_FOLDER, VERSION_FILE, box_of, version_of
from fabricctl.drivers.switch.sonic.node.chain import Box
from fabricctl.drivers.switch.sonic.node.tables import Config, Odd, config_of, fields_of
from fabricctl.errors import RefusedError
from fabricctl.model import facts, settings
from fabricctl.model.fabric import Port
from fabricctl.model.names import PortId
from fabricctl.model.reading import Entry, Missing, PortReading, Value
from fabricctl.plugin.answers import Lacking, Unread, entry, parsed, partial
from fabricctl.plugin.protocols import Answers, Query

_NAME = re.compile(r"Ethernet[0-9]{1,5}")
_CONFIG = "sonic-cfggen"
_SAVED = "cat config_db.json"
_IMAGE = "grep image"
_LLDP = "lldpctl"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_KERNEL = "/proc/sys/kernel/osrelease"
_ASICS = "asic.conf:"
_LOOKUP = "/pg_profile_lookup.ini:"

# The names of platform and SKU are the image's, those of its folders.
_ASK_IMAGE = f"""\
platform=$(sonic-db-cli CONFIG_DB hget 'DEVICE_METADATA|localhost' platform)
sku=$(sonic-db-cli CONFIG_DB hget 'DEVICE_METADATA|localhost' hwsku)
cd {DEVICE_FOLDER}/"$platform" && grep -H '' asic.conf "$sku/pg_profile_lookup.ini"
"""

Reader = Callable[[Config, str, Box], Value]

_READERS: Mapping[str, Reader] = {
    settings.MTU: lambda config, port, _: chain.mtu_bytes(config, port),
    settings.TRUST: lambda config, port, _: chain.trust(config, port),
    settings.DSCP_PRIORITY: lambda config, port, _: chain.dscp_priority(config, port),
    settings.PRIORITY_TC: lambda config, port, _: chain.priority_tc(config, port),
    settings.TC_SCHEDULER: lambda config, port, _: chain.tc_scheduler(config, port),
    settings.TC_BANDWIDTH: lambda config, port, _: chain.tc_bandwidth(config, port),
    settings.CABLE_LENGTH: lambda config, port, _: chain.cable_length_m(config, port),
    settings.LOSSLESS_BUFFERS: chain.lossless_buffers,
    settings.PFC: lambda config, port, _: chain.pfc_priorities(config, port),
    settings.ECN: lambda config, port, _: chain.ecn(config, port),
    settings.ECN_KMIN: lambda config, port, _: chain.threshold(config, port, "min"),
    settings.ECN_KMAX: lambda config, port, _: chain.threshold(config, port, "max"),
    settings.ECN_PMAX: lambda config, port, _: chain.threshold(config, port, "probability"),
    settings.WATCHDOG: lambda config, port, _: chain.watchdog(config, port),
    settings.WATCHDOG_DETECT: lambda config, port, _: chain.watchdog_ms(config, port, "detection_time"),
    settings.WATCHDOG_RESTORE: lambda config, port, _: chain.watchdog_ms(config, port, "restoration_time"),
    settings.WATCHDOG_POLL: lambda config, port, _: chain.watchdog_ms(config, port, "POLL_INTERVAL"),
    settings.WATCHDOG_ACTION: lambda config, port, _: chain.watchdog_action(config, port),
    steps.ASYMMETRIC: lambda config, port, _: chain.pfc_asymmetric(config, port),
    steps.TC_GROUP: lambda config, port, _: chain.tc_group(config, port),
    steps.PFC_QUEUE: lambda config, port, _: chain.pfc_queue(config, port),
    steps.PFC_GROUP: chain.pfc_group,
    steps.ECN_QUEUES: lambda config, port, _: chain.ecn_queues(config, port),
    steps.LOSSLESS_QUEUES: lambda config, port, _: chain.lossless_queues(config, port),
}
_NEED_POOLS = frozenset({settings.LOSSLESS_BUFFERS, steps.LOSSLESS_QUEUES})
_DERIVED = frozenset({settings.LOSSLESS_BUFFERS})
"""What the traditional buffer manager makes anew at every boot, from what else is saved."""


@dataclass(frozen=True, slots=True)
class _Switch:
    """What the answers say of the whole switch.

    Parameters
    ----------
    config
        CONFIG_DB, or why it is not known.
    saved
        What is loaded at the next boot, or why that is not known.
    """

    config: Config | Missing
    saved: Config | Missing
    box: Box
    version: Mapping[str, str]


def queries(ports: Sequence[Port]) -> tuple[Query, ...]:
    """Return everything to ask a switch with these ports; RefusedError if a port has an impossible name."""
    for port in ports:
        if not _NAME.fullmatch(port.id.port):
            raise RefusedError(
                f"{port.id.port!r} is not the name of a SONiC port",
                device=port.id.device,
                next_step="write the name as `show interfaces status` has it first: Ethernet0, no alias",
            )
    paths = [path for port in ports for path in netdev.paths(port.id.port)]
    return (
        Query(_CONFIG, ("sonic-cfggen", "-d", "--print-data")),
        Query(_SAVED, ("cat", "/etc/sonic/config_db.json")),
        Query(_IMAGE, ("sh", "-c", _ASK_IMAGE)),
        *databases.queries(ports),
        Query(_LLDP, ("lldpctl", "-f", "json0")),
        files.query([VERSION_FILE, _BOOT_ID, _KERNEL, *paths]),
    )


def parse(
    ports: Sequence[Port], answers: Answers
) -> tuple[Mapping[PortId, PortReading], Mapping[str, Entry]]:
    """Return the reading of each port and the facts of the switch."""
    switch = _switch(answers)
    of_device = {
        facts.BOOT_ID: entry(lambda: files.content(answers, _BOOT_ID)),
        facts.KERNEL: entry(lambda: files.content(answers, _KERNEL)),
        facts.FIRMWARE: entry(lambda: _version(switch, "build_version")),
    }
    return {port.id: _port(port, switch, answers) for port in ports}, of_device


def _switch(answers: Answers) -> _Switch:
    config = _config(answers, _CONFIG)
    lines = _lines(answers, _IMAGE)
    try:
        version = "\n".join(files.under(answers, VERSION_FILE).values())
    except Unread:
        version = ""
    box = box_of(
        {} if isinstance(config, Missing) else config,
        version,
        "\n".join(line.removeprefix(_ASICS) for line in lines if line.startswith(_ASICS)),
        "\n".join(line.partition(_LOOKUP)[2] for line in lines if _LOOKUP in line),
    )
    return _Switch(config, _config(answers, _SAVED), box, version_of(version))


def _config(answers: Answers, key: str) -> Config | Missing:
    found: list[Config] = []

    def read() -> str:
        found.append(config_of(parsed(answers, key)))
        return ""

    why = entry(_without_odd(read))
    return why if isinstance(why, Missing) else found[0]


def _lines(answers: Answers, key: str) -> list[str]:
    try:
        return partial(answers, key).splitlines()
    except Unread:
        return []


def _without_odd(reader: Callable[[], Value]) -> Callable[[], Value]:
    """Turn what the configuration does not say into a reason, as other readers have it."""

    def read() -> Value:
        try:
            return reader()
        except Odd as exc:
            raise Unread(str(exc)) from None

    return read


def _port(port: Port, switch: _Switch, answers: Answers) -> PortReading:
    name = port.id.port
    values = _settings(switch.config, name, switch.box)
    return PortReading(
        port.id,
        settings={**values, settings.BOOT: entry(lambda: _boot(switch, name))},
        facts={
            **netdev.read_facts(name, answers),
            **lldp.read_facts(name, {"lldpcli": answers[_LLDP]} if _LLDP in answers else {}),
            facts.LINK_STATE: entry(lambda: _link_state(name, answers)),
            facts.SPEED: entry(lambda: int(_of_link(name, answers, "speed"))),
            facts.FEC: entry(lambda: _of_link(name, answers, "fec")),
            facts.DRIVER: entry(lambda: _version(switch, "asic_type")),
            facts.FIRMWARE: entry(lambda: _version(switch, "build_version")),
            facts.PLANE: entry(lambda: _plane(switch, name)),
            facts.HEADROOM: entry(lambda: _by_priority(switch, name, answers, "xoff")),
            facts.PAUSE_POINT: entry(lambda: _by_priority(switch, name, answers, "static_th")),
        },
        counters=counters.read_counters(name, answers),
    )


def _settings(config: Config | Missing, name: str, box: Box) -> dict[str, Entry]:
    if isinstance(config, Missing):
        return dict.fromkeys(_READERS, config)
    if box.refusal:
        return dict.fromkeys(_READERS, Missing(box.refusal, impossible=True))

    def read(setting: str) -> Entry:
        if setting in _NEED_POOLS and not chain.has_buffers(config):
            return Missing("the switch has no buffer pools (BUFFER_POOL is empty)", impossible=True)
        return entry(_without_odd(lambda: _READERS[setting](config, name, box)))

    return {setting: read(setting) for setting in _READERS}


def _boot(switch: _Switch, name: str) -> str:
    """Say whether what is saved sets the port as it is set now."""
    if isinstance(switch.config, Missing):
        raise Unread(switch.config.reason)
    if switch.box.refusal:
        raise Lacking(switch.box.refusal)
    if isinstance(switch.saved, Missing):
        raise Unread(switch.saved.reason)
    now = _settings(switch.config, name, switch.box)
    then = _settings(switch.saved, name, switch.box)
    skipped = set() if chain.is_dynamic(switch.config) else _DERIVED
    same = all(now[setting] == then[setting] for setting in now if setting not in skipped)
    return settings.SAVED if same else settings.NOT_KEPT


def _version(switch: _Switch, field: str) -> str:
    if not switch.version.get(field):
        raise Unread(f"{VERSION_FILE} has no {field}")
    return switch.version[field]


def _link_state(name: str, answers: Answers) -> str:
    state = databases.of_port(answers, databases.APPL, name)["port"]["oper_status"]
    if state not in {"up", "down"}:
        raise Unread(f"unparsable: oper_status is {state!r:.40}")
    return str(state)


def _of_link(name: str, answers: Answers, field: str) -> str:
    """Return what was negotiated, else what is configured."""
    for key, part in ((databases.STATE, None), (databases.APPL, "port")):
        try:
            found = databases.of_port(answers, key, name)
        except (LookupError, Unread):
            continue
        value = (found[part] if part else found).get(field)
        if value and value not in {"N/A", "auto"}:
            return str(value)
    raise Unread(f"the switch does not say its {field}")


def _plane(switch: _Switch, name: str) -> str:
    if isinstance(switch.config, Missing):
        raise Unread(switch.config.reason)
    said = chain.metadata(switch.config)
    words = [f"SONiC {switch.version.get('build_version', 'of an unknown release')}", said.get("hwsku", "")]
    if chain.is_dynamic(switch.config):
        words.append("dynamic buffer model")
    else:
        speed = fields_of(switch.config, "PORT", name).get("speed", "")
        lengths = ", ".join(switch.box.rows.get(speed, ()))
        words.append(f"traditional buffer model{f' (cables of {lengths})' if lengths else ''}")
    macsec = fields_of(switch.config, "PORT", name).get("macsec")
    if macsec:
        words.append(f"MACsec profile {macsec} (some releases send no PFC on such ports)")
    return ", ".join(word for word in words if word)


def _by_priority(switch: _Switch, name: str, answers: Answers, field: str) -> tuple[int, ...]:
    """Return a field of the profile of each priority's group, as the buffer manager made it; 0 for none."""
    if isinstance(switch.config, Missing):
        raise Unread(switch.config.reason)
    config = switch.config
    groups = databases.of_port(answers, databases.APPL, name)["groups"]
    found: list[int] = []

    def read() -> tuple[int, ...]:
        for group in chain.tc_group(config, name):
            profile = groups.get(str(group), {})
            # A lossy group's threshold is where it drops, not where it asks for a pause.
            counts = "xoff" in profile and field in profile
            found.append(int(profile[field]) if counts else 0)
        return tuple(found)

    value = _without_odd(read)()
    if not isinstance(value, tuple):
        raise Unread("unparsable")
    return tuple(int(each) for each in value)
