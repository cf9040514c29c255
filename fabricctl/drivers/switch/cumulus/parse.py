"""What to ask a switch with NVUE, and how to read the answers; the same over SSH and over REST."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fabricctl.drivers import files, host, lldp, netdev
from fabricctl.drivers.switch.cumulus import counters, goal, operational
from fabricctl.drivers.switch.cumulus import tree as nvue
from fabricctl.drivers.switch.cumulus.method import check_name
from fabricctl.model import facts, settings
from fabricctl.model.fabric import Port
from fabricctl.model.names import PortId
from fabricctl.model.reading import Entry, Known, Missing, PortReading, Value
from fabricctl.plugin.answers import Lacking, Unread, entry, parsed, partial
from fabricctl.plugin.protocols import Answers, Query

_SHOW = "nv config show"
_DIFF = "nv config diff"
_PORTS = "nv show interface"
_SYSTEM = "nv show system"
_PLATFORM = "nv show platform"
_REBOOT = "nv show system reboot"
_EACH = "nv show each"
_RELEASE = "/etc/os-release"
_ROOT = "/nvue_v1"
_TREES = ("qos", "counters/qos")
_BUDGET_S = 12
"""How long a switch may take to show what its ports do; nv takes about a second a call on a busy one."""

# nv is slow: the ports that cannot be asked in this time are left out, and the rest of the reading stands.
_LOOP = f"""\
end=$(($(date +%s) + {_BUDGET_S}))
for port; do
    for what in {" ".join(_TREES)}; do
        [ "$(date +%s)" -lt "$end" ] || exit 0
        echo "== {_ROOT}/interface/$port/$what"
        case $what in
        qos) nv show interface "$port" qos -o json ;;
        *) nv show interface "$port" counters qos -o json ;;
        esac
    done
done
:
"""

_VERSION = re.compile(r"\b(5\.\d{1,3}(?:\.\d{1,3})?)\b")
_QOS_FROM = (5, 3)
_PAUSE_FROM = (5, 4)
_WATCHDOG_FROM = (5, 6)
_SHARED = ("egress-queue-mapping", "traffic-pool", "pfc-watchdog", "roce", "advance-buffer-config")
_WRITTEN = ("/etc/cumulus/datapath/qos/qos_features.conf", "/etc/mlx/datapath/qos/qos_infra.conf")
"""Files through which NVUE sets the switch: where it is told to leave them alone, it sets nothing."""
_BOND = re.compile(r"bond|peerlink", re.IGNORECASE)


def queries(ports: Sequence[Port]) -> tuple[Query, ...]:
    """Return everything to ask a switch with these ports; RefusedError if a port has an impossible name."""
    for port in ports:
        check_name(port.id.device, port.id.port)
    names = [port.id.port for port in ports]
    paths = [path for name in names for path in netdev.paths(name)]
    each = tuple(f"{_ROOT}/interface/{name}/{tree}" for name in names for tree in _TREES)
    json_out = ("-o", "json")
    return (
        Query(_SHOW, ("nv", "config", "show", *json_out), (f"{_ROOT}/?rev=applied&filled=false",)),
        Query(
            _DIFF,
            ("nv", "config", "diff", "startup", "applied", *json_out),
            (f"{_ROOT}/?rev=startup&diff=applied",),
        ),
        Query(_SYSTEM, ("nv", "show", "system", *json_out), (f"{_ROOT}/system",)),
        Query(_PLATFORM, ("nv", "show", "platform", *json_out), (f"{_ROOT}/platform",)),
        Query(_REBOOT, ("nv", "show", "system", "reboot", *json_out), (f"{_ROOT}/system/reboot",)),
        Query(_PORTS, ("nv", "show", "interface", *json_out), (f"{_ROOT}/interface",), counts=True),
        Query(_EACH, ("sh", "-c", _LOOP, "sh", *names), each, counts=True),
        _files([*host.paths(), _RELEASE, *paths]),
        host.queries(())[0],
        *lldp.queries(),
    )


def _files(paths: Iterable[str]) -> Query:
    query = files.query(paths)
    # Any line matches ^, as it does the empty word.
    return replace(query, argv=tuple(word or "^" for word in query.argv))


def parse(
    ports: Sequence[Port], answers: Answers
) -> tuple[Mapping[PortId, PortReading], Mapping[str, Entry]]:
    """Return the reading of each port and the facts of the switch."""
    switch = _Switch(answers)
    return {port.id: _port(port, switch) for port in ports}, _device_facts(switch)


class _Switch:
    """What was heard of a switch, each part or why there is none."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.version = _version(answers)
        self.config, self.no_config = _config(answers)

    def older_than(self, release: tuple[int, int]) -> bool:
        return bool(self.version) and tuple(map(int, self.version.split(".")[:2])) < release

    def of_port(self, name: str, tree: str) -> Any:
        """Return an operational tree of a port; Unread if there is none."""
        text = _section(self.answers, f"{_ROOT}/interface/{name}/{tree}")
        if not text.strip():
            raise Unread(f"NVUE shows no {tree} of the port")
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            raise Unread(f"unparsable: {' '.join(text.split())[:100]}") from None
        if not isinstance(found, dict):
            raise Unread(f"unparsable: {tree} is no tree")
        return found

    def interface(self, name: str) -> Any:
        """Return what the list of interfaces shows of a port; Unread if it is not in it."""
        shown = parsed(self.answers, _PORTS)
        if name not in shown:
            raise Unread(f"there is no interface {name}")
        return shown[name]


def _config(answers: Answers) -> tuple[dict[str, Any], str]:
    """Return the applied configuration, or why there is none."""
    try:
        return nvue.merged(parsed(answers, _SHOW)), ""
    except Unread as exc:
        return {}, str(exc)
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as exc:
        return {}, f"unparsable: {exc!r}"[:200]


def _version(answers: Answers) -> str:
    """Return the version of Cumulus Linux; empty if nobody says."""
    for words in _said_of_version(answers):
        match = _VERSION.search(words)
        if match:
            return match[1]
    return ""


def _said_of_version(answers: Answers) -> Iterator[str]:
    try:
        for section in parsed(answers, _SHOW):
            if isinstance(section, dict):
                yield str(nvue.at(section, "header", "version"))
    except (Unread, TypeError):
        pass
    try:
        system = parsed(answers, _SYSTEM)
        yield from (str(nvue.at(system, key)) for key in ("product-release", "build", "version"))
    except Unread:
        pass
    try:
        for line in files.content(answers, _RELEASE).splitlines():
            if line.startswith("VERSION_ID="):
                yield line
    except (Unread, LookupError):
        pass


def _section(answers: Answers, path: str) -> str:
    found: list[str] | None = None
    for line in partial(answers, _EACH).splitlines():
        if line.startswith("== "):
            if found is not None:
                break
            found = [] if line == f"== {path}" else None
        elif found is not None:
            found.append(line)
    if found is None:
        raise Unread(f"nv show: the switch took more than {_BUDGET_S} s for the ports before it")
    return "\n".join(found)


def _port(port: Port, switch: _Switch) -> PortReading:
    name = port.id.port
    found = _settings(name, switch)
    return PortReading(
        port.id,
        settings=found,
        facts={**_link_facts(name, switch), **_qos_facts(name, switch, found)},
        counters=counters.read(name, switch.answers, switch.interface, switch.of_port),
    )


def _settings(name: str, switch: _Switch) -> dict[str, Entry]:
    found: dict[str, Entry] = {}
    if switch.no_config:
        found = {each: Missing(switch.no_config) for names in nvue.NAMES.values() for each in names}
    else:
        for setting, value in nvue.view(switch.config, name):
            found[setting] = _entry(value)
        found[settings.MTU] = _mtu(name, switch, found[settings.MTU])
        found |= _lacking(name, switch)
    found[settings.BOOT] = entry(lambda: _boot(name, switch))
    return found


def _entry(value: Any) -> Entry:
    if isinstance(value, nvue.Odd):
        return Missing(str(value))
    plain: Value = value
    return Known(plain)


def _mtu(name: str, switch: _Switch, applied: Entry) -> Entry:
    """Return the MTU that holds: what is applied is lost where somebody sets the interface by hand."""
    kernel = netdev.read_settings(name, switch.answers)[settings.MTU]
    if isinstance(kernel, Known):
        return kernel
    shown = entry(lambda: int(switch.interface(name)["link"]["mtu"]))
    return shown if isinstance(shown, Known) else applied


def _lacking(name: str, switch: _Switch) -> dict[str, Entry]:
    """Return what this very switch or port cannot have."""
    found: dict[str, Entry] = {}
    if switch.older_than(_WATCHDOG_FROM):
        why = f"Cumulus Linux {switch.version} sets no PFC watchdog through NVUE: 5.6 and later do"
        found |= dict.fromkeys(nvue.NAMES["pfc-watchdog"], Missing(why, impossible=True))
    elif _BOND.match(name):
        why = "the PFC watchdog works on physical ports: name the bond's members"
        found |= dict.fromkeys(nvue.NAMES["pfc-watchdog"], Missing(why, impossible=True))
    if switch.older_than(_PAUSE_FROM):
        why = f"Cumulus Linux {switch.version} sets no link pause through NVUE: 5.4 and later do"
        found |= dict.fromkeys(nvue.NAMES["link-pause"], Missing(why, impossible=True))
    if switch.older_than(_QOS_FROM):
        why = (
            f"Cumulus Linux {switch.version} has only the preset qos roce, which sets all ports at once: "
            "named ports can be set from 5.3 on"
        )
        names = [each for feature, every in nvue.NAMES.items() if feature != "link" for each in every]
        found |= dict.fromkeys(names, Missing(why, impossible=True))
    return found


def _boot(name: str, switch: _Switch) -> str:
    """Return whether the saved configuration sets the port as the applied one does."""
    shown = parsed(switch.answers, _DIFF)
    sections = shown if isinstance(shown, list) else [{"set": shown}] if shown else []
    for section in sections:
        for verb in ("set", "unset"):
            for path, _ in goal.leaves(nvue.expanded(section.get(verb) or {})):
                if _concerns(path, name, switch.config):
                    return settings.NOT_KEPT
    return settings.SAVED


def _concerns(path: tuple[str, ...], name: str, config: dict[str, Any]) -> bool:
    """Say whether a difference at `path` is about the port, or about something that it shares."""
    match path:
        case ("interface",):
            return True
        case ("interface", port, *rest):
            return port == name and (rest[:1] in ([], ["qos"]) or rest in (["link"], ["link", "mtu"]))
        case ("qos", feature, profile, *_) if feature in goal.PROFILED:
            return profile in {nvue.attached(config, name, feature), nvue.DEFAULT}
        case ("qos", feature, *_):
            return feature in _SHARED or feature in goal.PROFILED
        case ("qos",):
            return True
        case _:
            return False


def _link_facts(name: str, switch: _Switch) -> dict[str, Entry]:
    """Return what the kernel says of the port, else what NVUE shows of it."""
    shown = operational.link_facts(lambda: switch.interface(name))
    kernel = {**netdev.read_facts(name, switch.answers), **lldp.read_facts(name, switch.answers)}
    kernel.pop(facts.DRIVER, None)
    best = {
        fact: found if isinstance(found, Known) or fact not in shown else shown[fact]
        for fact, found in kernel.items()
    }
    return {**shown, **best}


def _qos_facts(name: str, switch: _Switch, found: Mapping[str, Entry]) -> dict[str, Entry]:
    def tree() -> Any:
        return switch.of_port(name, "qos")

    return {
        facts.FIRMWARE: entry(lambda: _known_version(switch)),
        facts.DRIVER: entry(lambda: str(parsed(switch.answers, _PLATFORM)["asic-model"])),
        facts.PLANE: entry(lambda: f"NVUE of Cumulus Linux {_known_version(switch)}, {_buffers(switch)}"),
        facts.HEADROOM: entry(lambda: operational.headroom(tree())),
        facts.PAUSE_POINT: Known(operational.NO_PAUSE_POINT),
        facts.PENDING: entry(lambda: operational.contradictions(tree(), found)),
    }


def _known_version(switch: _Switch) -> str:
    if not switch.version:
        raise Unread("the switch does not say which Cumulus Linux it runs")
    return switch.version


def _buffers(switch: _Switch) -> str:
    if switch.no_config:
        raise Unread(switch.no_config)
    if switch.older_than(_QOS_FROM):
        raise Lacking("the preset qos roce is all that this version has")
    pool = nvue.lossless_pool(switch.config)
    return f"lossless buffers from the pool {pool}" if pool else "no pool for lossless buffers"


def _device_facts(switch: _Switch) -> dict[str, Entry]:
    found = dict(host.read_facts(switch.answers))
    if not isinstance(found[facts.BOOT_ID], Known):
        booted = entry(lambda: str(parsed(switch.answers, _REBOOT)["reason"]["gentime"]))
        found[facts.BOOT_ID] = booted if isinstance(booted, Known) else found[facts.BOOT_ID]
    ours = _rivals(switch)
    match found[facts.RIVALS]:
        case Known(tuple(others)):
            found[facts.RIVALS] = Known((*(str(other) for other in others), *ours))
        case _ if ours:
            found[facts.RIVALS] = Known(ours)
        case _:
            pass
    return found


def _rivals(switch: _Switch) -> tuple[str, ...]:
    """Return what else sets the ports: the all-ports preset, and files that NVUE leaves to others."""
    # Releases with nothing but the preset are not set by us: there it is nobody's rival.
    mode = "" if switch.older_than(_QOS_FROM) else nvue.preset(switch.config)
    found = [f"qos roce, the preset of all ports (mode {mode}): nv unset qos roce"] if mode else []
    ignored = nvue.at(switch.config, "system", "config", "apply", "ignore")
    found += [
        f"NVUE leaves {path} to others: nv unset system config apply ignore {path}"
        for path in _WRITTEN
        if path in ignored
    ]
    return tuple(found)
