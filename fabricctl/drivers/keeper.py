"""Read which network manager of a Linux host brings a port up at boot, and with which MTU.

Only what a manager would do at boot or at a reconnect is read here; what holds now is read of the device.
Lines that may hold secrets never leave the host: each query prints only what is named in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from fabricctl import resources
from fabricctl.model import facts, settings
from fabricctl.model.fabric import Port
from fabricctl.model.reading import Entry, Known, Missing
from fabricctl.plugin.answers import Unread, entry, partial, text
from fabricctl.plugin.protocols import Answers, Query

NETWORK_MANAGER = "NetworkManager"
NETPLAN = "netplan"
NETWORKD = "systemd-networkd"
IFUPDOWN = "ifupdown"
NOBODY = "none"
"""The fact's value where no manager brings the port up; the setting's where the manager sets no MTU."""

UNITS: Mapping[str, str] = {
    NETWORK_MANAGER: "NetworkManager.service",
    NETWORKD: "systemd-networkd.service",
    IFUPDOWN: "networking.service",
}

# What networkd and udev chose for each link, which files they would read, and ifupdown's stanzas.
_LINES = (
    r"^[[:space:]]*(\[[A-Z]|MTUBytes[[:space:]]*=|NETWORK_FILE=|ADMIN_STATE=|E:ID_NET_LINK_FILE=|[0-9]+$"
    r"|(auto|allow-[a-z]+|iface|mapping|source|source-directory|source-dir|mtu)[[:space:]]"
    r"|(pre-up|up|post-up)[[:space:]].*[[:space:]]mtu[[:space:]])"
)
_FOLDERS = (
    "/etc/systemd/network",
    "/run/systemd/network",
    "/usr/local/lib/systemd/network",
    "/usr/lib/systemd/network",
)
_FILES = """\
exec grep -RHsE --exclude='.*' "$1" /sys/class/net/*/ifindex /run/systemd/netif/links /run/udev/data/n* \\
    /etc/network/interfaces /etc/network/interfaces.d {folders}
""".format(folders=" ".join(_FOLDERS))

_FIELDS = (
    "connection.id,connection.interface-name,802-3-ethernet.mac-address,connection.autoconnect,"
    "802-3-ethernet.mtu"
)
# Not even asked where it has never run: a program that only says so takes its time.
_PROFILES = f"""\
[ -d /run/NetworkManager ] && command -v nmcli >/dev/null || exit 0
for port; do
    uuid=$(nmcli -g GENERAL.STATE,GENERAL.CON-UUID device show "$port") || continue
    echo "$port $(echo "$uuid" | tr '\\n' ' ')"
    uuid=${{uuid##*[!0-9a-f-]}}
    [ -z "$uuid" ] || nmcli -g {_FIELDS} connection show uuid "$uuid" | sed 's/^/ /'
done
"""

# What its generator would write at boot, by the generator itself; not even run where it never wrote anything.
_PLANS = f"""\
{(resources.folder("templates") / "shared" / "netplan.sh").read_text(encoding="utf-8")}
for file in /run/systemd/network/10-netplan-* /run/NetworkManager/system-connections/netplan-*; do
    [ -e "$file" ] || continue
    planned
    exit
done
"""

_PLANNED = re.compile(r"10-netplan-(.+)\.network")
_SIZE = re.compile(r"(\d{1,9})([KM]?)")
_UNITS_OF_1024 = {"": 0, "K": 1, "M": 2}
_NO_MTU_METHODS = frozenset({"dhcp", "auto"})


@dataclass(frozen=True, slots=True)
class _Kept:
    """Who brings a port up, and where that is written.

    Parameters
    ----------
    where
        Of NetworkManager the profile's name, of netplan the definition's, of networkd the file's path.
    """

    manager: str
    where: str = ""


def queries(ports: Sequence[Port]) -> tuple[Query, ...]:
    """Ask for what each manager's configuration says of the ports."""
    names = [port.id.port for port in ports]
    return (
        Query(
            "systemctl managers", ("systemctl", "show", "-p", "Id,ActiveState,UnitFileState", *UNITS.values())
        ),
        Query("grep managers", ("sh", "-c", _FILES, "sh", _LINES)),
        Query("nmcli", ("sh", "-c", _PROFILES, "sh", *names)),
        Query("netplan", ("sh", "-c", _PLANS)),
    )


def read_facts(name: str, answers: Answers) -> dict[str, Entry]:
    """Return which manager brings port `name` up."""
    return {facts.NETWORK_MANAGER: entry(lambda: _kept(name, answers).manager)}


def read_settings(name: str, answers: Answers) -> dict[str, Entry]:
    """Return the MTU that the manager gives port `name` at boot and at a reconnect.

    It is impossible to have one where no manager brings the port up, or where the place in which it would
    be written also concerns other ports.
    """
    found = entry(lambda: _obstacle(_kept(name, answers), name, answers))
    if found == Known(""):
        found = entry(lambda: _mtu(_kept(name, answers), name, answers))
    elif isinstance(found, Known):
        found = Missing(str(found.value), impossible=True)
    return {settings.MTU_KEPT: found}


def _kept(name: str, answers: Answers) -> _Kept:
    """Return who brings a port up; the one that does so now comes before one that only would."""
    files = _files(answers)
    profile = _profile(name, answers)
    if profile:
        planned = profile["id"].startswith("netplan-") and not profile["id"].startswith("netplan-NM-")
        if planned:
            return _Kept(NETPLAN, profile["id"].removeprefix("netplan-"))
        return _Kept(NETWORK_MANAGER, profile["id"])
    chosen = _network_file(name, files)
    if chosen and _at_work(NETWORKD, answers):
        planned_by = _PLANNED.fullmatch(chosen.rpartition("/")[2])
        return _Kept(NETPLAN, planned_by[1]) if planned_by else _Kept(NETWORKD, chosen)
    if _stanzas(name, files) and _at_work(IFUPDOWN, answers):
        return _Kept(IFUPDOWN)
    return _Kept(NOBODY)


def _at_work(manager: str, answers: Answers) -> bool:
    """Return whether a manager's service works now or will at the next boot."""
    for block in partial(answers, "systemctl managers").split("\n\n"):
        said = dict(line.partition("=")[::2] for line in block.splitlines())
        if said.get("Id") == UNITS[manager]:
            return said["ActiveState"] == "active" or said["UnitFileState"].startswith("enabled")
    raise Unread(f"systemctl does not answer for {UNITS[manager]}")


def _obstacle(kept: _Kept, name: str, answers: Answers) -> str:
    """Return why no manager's MTU is this port's own to set; empty if one is."""
    files = _files(answers)
    match kept.manager:
        case "NetworkManager":
            profile = _profile(name, answers)
            if profile["interface"] != name and not profile["mac"]:
                return f"NetworkManager's profile {kept.where!r} is bound to no port: bind it to {name}"
        case "systemd-networkd" | "netplan":
            chosen = _network_file(name, files)
            others = [other for other in _names(files) if other != name]
            shared = [other for other in others if chosen and _network_file(other, files) == chosen]
            if shared:
                named = kept.where if kept.manager == NETPLAN else chosen
                return (
                    f"{kept.manager} gives {', '.join(shared)} the same from {named}: describe {name} alone"
                )
        case "ifupdown":
            stanzas = _stanzas(name, files)
            if any(stanza.command for stanza in stanzas):
                return f"a command in its stanza of ifupdown sets the MTU of {name}"
            if all(stanza.method in _NO_MTU_METHODS for stanza in stanzas):
                return f"ifupdown takes no MTU with method {stanzas[0].method}"
        case _:
            return "no network manager: the boot script sets it"
    return ""


def _mtu(kept: _Kept, name: str, answers: Answers) -> str:
    match kept.manager:
        case "NetworkManager":
            return _number(_profile(name, answers)["mtu"])
        case "netplan":
            return _planned(kept.where, answers)
        case "systemd-networkd":
            return _networkd_mtu(kept.where, name, _files(answers))
        case _:
            said = {stanza.mtu for stanza in _stanzas(name, _files(answers)) if stanza.mtu}
            if len(said) > 1:
                raise Unread(f"ifupdown's stanzas of {name} do not agree: MTU {', '.join(sorted(said))}")
            return _number(said.pop() if said else "")


def _number(said: str) -> str:
    """Return an MTU in bytes in plain decimal, whatever its unit; ``none`` if none is set."""
    if said in {"", "0", "auto", "null"}:
        return NOBODY
    found = _SIZE.fullmatch(said)
    if not found:
        raise Unread(f"unparsable: {said!r} is no MTU")
    return str(int(found[1]) << 10 * _UNITS_OF_1024[found[2]])


# NetworkManager


def _profile(name: str, answers: Answers) -> dict[str, str]:
    """Return the profile with which NetworkManager holds a port; empty if it does not."""
    lines = iter(text(answers, "nmcli").splitlines())
    for line in lines:
        port, _, state = line.partition(" ")
        if port != name or line.startswith(" "):
            continue
        # Such a one only mirrors what others have set, and is not kept.
        if "externally" in state:
            return {}
        values = []
        for value in lines:
            if not value.startswith(" "):
                break
            values.append(value.strip().replace("\\:", ":"))
        labels = ("id", "interface", "mac", "autoconnect", "mtu")
        return dict(zip(labels, values, strict=True)) if values else {}
    return {}


# netplan


def _planned(name: str, answers: Answers) -> str:
    """Return the MTU that netplan's generator writes for networkd, or for NetworkManager, of a definition."""
    places = {
        f"systemd/network/10-netplan-{name}.network:MTUBytes",
        f"NetworkManager/system-connections/netplan-{name}.nmconnection:mtu",
    }
    for line in text(answers, "netplan").splitlines():
        place, _, value = line.partition("=")
        if place in places:
            return _number(value)
    return NOBODY


# systemd-networkd


def _files(answers: Answers) -> dict[str, list[str]]:
    """Return the lines of the files that were read, by path."""
    found: dict[str, list[str]] = {}
    for line in partial(answers, "grep managers").splitlines():
        path, colon, value = line.partition(":")
        if colon:
            found.setdefault(path, []).append(value.strip())
    return found


def _names(files: Mapping[str, list[str]]) -> Iterator[str]:
    for path in files:
        if path.startswith("/sys/class/net/") and path.endswith("/ifindex"):
            yield path.split("/")[4]


def _index(name: str, files: Mapping[str, list[str]]) -> str:
    path = f"/sys/class/net/{name}/ifindex"
    if path not in files:
        raise Unread(f"there is no network interface {name}")
    return files[path][0]


def _network_file(name: str, files: Mapping[str, list[str]]) -> str:
    """Return the .network file that networkd chose for a port; empty if it leaves the port alone."""
    lines = files.get(f"/run/systemd/netif/links/{_index(name, files)}", [])
    said = dict(line.partition("=")[::2] for line in lines)
    return said.get("NETWORK_FILE", "") if said.get("ADMIN_STATE") != "unmanaged" else ""


def _networkd_mtu(path: str, name: str, files: Mapping[str, list[str]]) -> str:
    """Return what networkd sets, else what udev has set by then."""
    said = _setting(path, files)
    if not said:
        lines = files.get(f"/run/udev/data/n{_index(name, files)}", [])
        link = dict(line.partition("=")[::2] for line in lines).get("E:ID_NET_LINK_FILE", "")
        said = _setting(link, files)
    return _number(said)


def _setting(path: str, files: Mapping[str, list[str]]) -> str:
    """Return the last MTUBytes of a file and its drop-ins; of drop-ins with one name the first folder's."""
    name = path.rpartition("/")[2]
    drop_ins: dict[str, str] = {}
    for folder in _FOLDERS:
        start = f"{folder}/{name}.d/"
        for file in files:
            if file.startswith(start) and file.endswith(".conf"):
                drop_ins.setdefault(file.removeprefix(start), file)
    said = ""
    for file in (path, *(drop_ins[one] for one in sorted(drop_ins))):
        section = ""
        for line in files.get(file, []):
            if line.startswith("["):
                section = line
            elif section == "[Link]":
                said = line.partition("=")[2].strip() or said
    return said


# ifupdown


@dataclass(frozen=True, slots=True)
class _Stanza:
    """What one ``iface`` stanza says; `command` is a command in it that sets an MTU."""

    method: str
    mtu: str = ""
    command: str = ""


def _stanzas(name: str, files: Mapping[str, list[str]]) -> list[_Stanza]:
    found = []
    for path, lines in files.items():
        if path != "/etc/network/interfaces" and not path.startswith("/etc/network/interfaces.d/"):
            continue
        inside = False
        for line in lines:
            words = line.split()
            if words[0] == "iface":
                inside = words[1:2] == [name]
                if inside:
                    found.append(_Stanza(words[3] if len(words) > 3 else ""))  # noqa: PLR2004  iface NAME FAMILY METHOD
            elif words[0] in {"mtu", "pre-up", "up", "post-up"}:
                if inside and words[0] == "mtu":
                    found[-1] = _Stanza(found[-1].method, " ".join(words[1:]), found[-1].command)
                elif inside:
                    found[-1] = _Stanza(found[-1].method, found[-1].mtu, line)
            else:
                inside = False
    return found
