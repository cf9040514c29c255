"""The MTU in the host's network manager: reading it, and the script that sets it on a host of folders."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from fabricctl.apply.render import render_port
from fabricctl.drivers import keeper
from fabricctl.model import facts, settings
from fabricctl.model.codec import decode
from fabricctl.model.fabric import Role
from fabricctl.model.reading import Entry, Known, Missing
from fabricctl.plugin.protocols import Answer

_RECORDED = Path(__file__).with_name("keeper")
_HOST_PATHS = (
    "/etc/",
    "/run/",
    "/sys/class/net/",
    "/usr/libexec/netplan",
    "/usr/lib/netplan",
    "/lib/netplan",
)

_SYSTEMCTL = '#!/bin/sh\nfor unit; do :; done\n[ -e "$ROOT/active/$unit" ]\n'
_ANALYZE = """\
#!/bin/sh
for file in "$ROOT/etc/$2" "$ROOT/etc/$2.d"/*.conf; do
    [ ! -e "$file" ] || { echo "# $file"; cat "$file"; echo; }
done
"""
_NMCLI = """\
#!/bin/sh
echo "$*" >>"$ROOT/nmcli.log"
case "$*" in
*"device show"*) cat "$ROOT/device" ;;
*"connection.id connection show"*) cat "$ROOT/profile" ;;
*"802-3-ethernet.mtu connection show"*) cat "$ROOT/mtu" ;;
*modify*) for value; do :; done; echo "$value" >"$ROOT/mtu" ;;
esac
"""
# Writes what netplan's generator does, of what is needed here.
_GENERATE = f"""\
#!{sys.executable}
import pathlib, sys, yaml
root = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "@ROOT@")
plans = {{}}
for file in sorted(root.glob("etc/netplan/*.yaml"), key=lambda path: path.name):
    for kind in ("ethernets", "bonds", "vlans"):
        for name, plan in yaml.safe_load(file.read_text())["network"].get(kind, {{}}).items():
            plans.setdefault(name, {{}}).update(plan)
for name, plan in plans.items():
    out = root / "run/systemd/network" / f"10-netplan-{{name}}.network"
    out.parent.mkdir(parents=True, exist_ok=True)
    mtu = f"MTUBytes={{plan['mtu']}}\\n" if "mtu" in plan else ""
    out.write_text(f"[Match]\\nName={{name}}\\n\\n[Link]\\n{{mtu}}")
"""


@dataclass(frozen=True)
class Host:
    """A host that is a folder: a port ``eth1``, configuration, stand-ins for the managers' programs."""

    root: Path

    def write(self, path: str, content: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)

    def keep(self, value: str, *names: str) -> subprocess.CompletedProcess[str]:
        script = render_port(Role.NODE, "rxe", "eth1", "rxe0", {settings.MTU_KEPT: value})
        for path in _HOST_PATHS:
            script = script.replace(f" {path}", f" {self.root}{path}").replace(
                f'"{path}', f'"{self.root}{path}'
            )
            script = script.replace(f"={path}", f"={self.root}{path}")
        script = script.replace('"/$folder', f'"{self.root}/$folder')
        return subprocess.run(
            ["/bin/sh", "-s", *names],
            input=script,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PATH": f"{self.root}/bin:/usr/bin:/bin", "ROOT": str(self.root)},
            timeout=60,
        )

    def files(self, folder: str = "etc") -> dict[str, bytes]:
        found = sorted((self.root / folder).rglob("*"))
        return {str(path.relative_to(self.root)): path.read_bytes() for path in found if path.is_file()}

    def ages(self) -> dict[str, tuple[int, int]]:
        found = {path: (self.root / path).stat() for path in self.files()}
        return {path: (stat.st_ino, stat.st_mtime_ns) for path, stat in found.items()}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    made = Host(tmp_path)
    programs = {
        "systemctl": _SYSTEMCTL,
        "systemd-analyze": _ANALYZE,
        "nmcli": _NMCLI,
        "udevadm": "#!/bin/sh\n",
    }
    for name, text in programs.items():
        made.write(f"bin/{name}", text)
        (tmp_path / "bin" / name).chmod(0o755)
    made.write("sys/class/net/eth1/ifindex", "3\n")
    made.write("sys/class/net/eth1/uevent", "INTERFACE=eth1\nIFINDEX=3\n")
    made.write("run/udev/data/n3", "E:ID_NET_LINK_FILE=/usr/lib/systemd/network/99-default.link\n")
    made.write("etc/hostname", "host\n")
    return made


def _networkd(host: Host, file: str) -> None:
    host.write("active/systemd-networkd.service", "")
    host.write("run/systemd/netif/links/3", f"ADMIN_STATE=configured\nNETWORK_FILE={file}\n")


def _round(host: Host, before: str = "1500") -> None:
    """Set 4200, set it again, which touches nothing, and restore what was there first, byte for byte."""
    first = host.files()
    done = host.keep("4200", settings.MTU_KEPT)
    assert (done.returncode, done.stderr) == (0, "")
    assert host.files() != first
    ages = host.ages()
    again = host.keep("4200", settings.MTU_KEPT)
    assert (again.returncode, again.stderr, host.ages()) == (0, "", ages)
    back = host.keep(before, settings.MTU_KEPT)
    assert (back.returncode, back.stderr) == (0, "")
    assert host.files() == first


_STANZA = "auto lo\niface lo inet loopback\n\nauto eth1\niface eth1 inet static\n"
_INTERFACES = {
    "spaces": (
        f"{_STANZA}\taddress 10.0.0.1/24\n\tmtu  1500 \n\niface eth2 inet static\n  mtu 1400\n",
        "1500",
    ),
    "no MTU": (f"{_STANZA}\taddress 10.0.0.1/24\niface eth2 inet static\n  mtu 1400\n", "none"),
    "no newline": (f"{_STANZA}  mtu 1500", "1500"),
    "bare": ("iface eth1 inet manual", "none"),
    "dhcp first": ("iface eth1 inet dhcp\niface eth1 inet6 static\n  address fd00::1/64\n", "none"),
    "two": (f"{_STANZA}  mtu 1500\niface eth1 inet6 manual\n  mtu 1500\n# end\n", "1500"),
    "ifupdown-ng": ("auto eth1\niface eth1\n  address 10.0.0.1/24\n", "none"),
}


@pytest.mark.parametrize("name", _INTERFACES)
@pytest.mark.parametrize("file", ["etc/network/interfaces", "etc/network/interfaces.d/eth1"])
def test_ifupdown(host: Host, file: str, name: str) -> None:
    content, before = _INTERFACES[name]
    host.write("etc/network/interfaces", "source /etc/network/interfaces.d/*\n")
    host.write(file, content)
    (host.root / file).chmod(0o640)
    host.write("active/networking.service", "")
    _round(host, before)
    assert (host.root / file).stat().st_mode & 0o777 == 0o640
    host.keep("4200", settings.MTU_KEPT)
    # One line is another, or one has come: nothing else.
    old, new = content.splitlines(), (host.root / file).read_text().splitlines()
    changed = [line for line in new if line not in old]
    assert {line.split()[1] for line in changed} == {"4200"}
    assert [line for line in old if "mtu 1400" in line] == [line for line in new if "mtu 1400" in line]


_NETWORK = "etc/systemd/network/50-eth1.network"


@pytest.mark.parametrize(
    ("files", "before"),
    [
        ({_NETWORK: "[Match]\nName=eth1\n\n[Link]\nMTUBytes=1500\n"}, "1500"),
        ({_NETWORK: "[Match]\nName=eth1\n\n[Link]\n# MTUBytes=9\nMTUBytes = 9K\n"}, "9216"),
        ({_NETWORK: "[Match]\nName=eth1\n", f"{_NETWORK}.d/mine.conf": "[Link]\nMTUBytes=1500\n"}, "1500"),
        (
            {
                _NETWORK: "[Match]\nName=eth1\n",
                "etc/systemd/network/99-default.link": "[Link]\nMTUBytes=1500\n",
            },
            "1500",
        ),
        ({_NETWORK: "[Match]\nName=eth1\n[DHCPv4]\nMTUBytes=3\n"}, "none"),
    ],
)
def test_networkd(host: Host, files: Mapping[str, str], before: str) -> None:
    for path, content in files.items():
        host.write(path, content)
    _networkd(host, f"/{_NETWORK}")
    _round(host, before)


def test_what_a_file_of_anothers_sets_cannot_be_unset(host: Host) -> None:
    host.write(_NETWORK, "[Link]\nMTUBytes=1500\n")
    _networkd(host, f"/{_NETWORK}")
    done = host.keep("none", settings.MTU_KEPT)
    assert done.returncode == 1
    assert "mtu_kept: another file for 50-eth1.network sets an MTU of 1500: take it away there" in done.stderr


@pytest.mark.parametrize(("mtu", "before"), [({"mtu": 1500}, "1500"), ({}, "none")])
@pytest.mark.parametrize("name", ["eth1", "rail.1"])
def test_netplan(host: Host, mtu: Mapping[str, int], before: str, name: str) -> None:
    plan = {"network": {"version": 2, "ethernets": {name: {"addresses": ["10.0.0.1/24"], **mtu}}}}
    host.write("etc/netplan/99-site.yaml", f"# ours\n{yaml.safe_dump(plan)}")
    host.write("usr/libexec/netplan/generate", _GENERATE.replace("@ROOT@", str(host.root)))
    (host.root / "usr/libexec/netplan/generate").chmod(0o755)
    _networkd(host, f"/run/systemd/network/10-netplan-{name}.network")
    _round(host, before)
    host.keep("4200", settings.MTU_KEPT)
    generated = (host.root / "run/systemd/network" / f"10-netplan-{name}.network").read_text()
    assert "MTUBytes=4200" in generated
    assert (host.root / "etc/netplan/zz-fabricctl-eth1.yaml").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("shown", "value", "sent"), [("1500", "4200", "4200"), ("4200", "none", "0")])
def test_network_manager(host: Host, shown: str, value: str, sent: str) -> None:
    host.write("run/NetworkManager/devices/3", "[device]\n")
    host.write("device", "100 (connected)\n5dbdc949-17ea-4ac8-aaab-ceb47410a261\n")
    host.write("profile", "fabric\n")
    host.write("mtu", f"{shown}\n")
    done = host.keep(value, settings.MTU_KEPT)
    assert (done.returncode, done.stderr) == (0, "")
    asked = (host.root / "nmcli.log").read_text()
    modify = f"connection modify uuid 5dbdc949-17ea-4ac8-aaab-ceb47410a261 802-3-ethernet.mtu {sent}\n"
    assert asked.endswith(modify)
    host.write("mtu", "auto\n" if value == "none" else f"{value}\n")
    assert host.keep(value, settings.MTU_KEPT).returncode == 0
    assert (host.root / "nmcli.log").read_text().count("modify") == 1


def test_no_manager_is_said(host: Host) -> None:
    done = host.keep("4200", settings.MTU_KEPT)
    assert done.returncode == 1
    assert done.stderr == "fabricctl: eth1: mtu_kept: no network manager brings it up\n"


def test_a_boot_does_not_touch_the_managers_configuration(host: Host) -> None:
    host.write(_NETWORK, "[Link]\nMTUBytes=1500\n")
    _networkd(host, f"/{_NETWORK}")
    ages = host.ages()
    assert host.keep("4200").returncode == 0
    assert host.ages() == ages


# Reading


def _read(answers: Mapping[str, Answer], name: str = "eth1") -> tuple[Entry, Entry]:
    manager = keeper.read_facts(name, answers)[facts.NETWORK_MANAGER]
    return manager, keeper.read_settings(name, answers)[settings.MTU_KEPT]


@pytest.mark.parametrize("case", sorted(path.stem for path in _RECORDED.glob("*.json")))
def test_what_guests_said(case: str) -> None:
    answers = decode(dict[str, Answer], json.loads((_RECORDED / f"{case}.json").read_text()))
    expected = yaml.safe_load((_RECORDED / "origin.yml").read_text())["expected"][case]
    manager, kept = _read(answers)
    assert manager == Known(expected["manager"])
    if expected["mtu_kept"] is None:
        assert kept == Missing("no network manager: the boot script sets it", impossible=True)
    else:
        assert kept == Known(expected["mtu_kept"])


_UNITS = "\n\n".join(
    f"Id={unit}\nActiveState=active\nUnitFileState=enabled" for unit in keeper.UNITS.values()
)


def _said(files: str, nmcli: str = "", netplan: str = "", units: str = _UNITS) -> dict[str, Answer]:
    index = "/sys/class/net/eth1/ifindex:3\n/sys/class/net/eth0/ifindex:2\n"
    return {
        "systemctl managers": Answer(0, f"{units}\n", ""),
        "grep managers": Answer(2, index + files, "grep: /etc/network: No such file or directory"),
        "nmcli": Answer(0, nmcli, ""),
        "netplan": Answer(0, netplan, ""),
    }


_CHOSEN = "/run/systemd/netif/links/3:NETWORK_FILE=/etc/systemd/network/10-all.network\n"
_ALSO = "/run/systemd/netif/links/2:NETWORK_FILE=/etc/systemd/network/10-all.network\n"
_ALL = "/etc/systemd/network/10-all.network:[Link]\n/etc/systemd/network/10-all.network:MTUBytes=9000\n"


def test_drop_ins_come_after_the_file_in_the_order_of_their_names() -> None:
    drop_ins = "".join(
        f"{folder}/systemd/network/10-all.network.d/{name}.conf:{line}\n"
        for folder, name, mtu in [("/run", "b", 3000), ("/etc", "a", 4000), ("/usr/lib", "b", 5000)]
        for line in ("[Link]", f"MTUBytes={mtu}")
    )
    assert _read(_said(_CHOSEN + _ALL + drop_ins)) == (Known("systemd-networkd"), Known("3000"))


def test_a_file_that_serves_other_ports_too_is_not_for_us_to_change() -> None:
    manager, kept = _read(_said(_CHOSEN + _ALSO + _ALL))
    assert manager == Known("systemd-networkd")
    assert isinstance(kept, Missing)
    assert kept.impossible
    assert "eth0 the same from /etc/systemd/network/10-all.network: describe eth1 alone" in kept.reason


def test_a_manager_that_neither_works_nor_will_does_not_count() -> None:
    units = _UNITS.replace("=active", "=inactive").replace("=enabled", "=masked")
    stanza = "/etc/network/interfaces:iface eth1 inet static\n"
    assert _read(_said(_CHOSEN + _ALL + stanza, units=units))[0] == Known("none")
    assert _read(_said(stanza)) == (Known("ifupdown"), Known("none"))


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (("iface eth1 inet dhcp", "mtu 9000"), "ifupdown takes no MTU with method dhcp"),
        (
            ("iface eth1 inet manual", "up ip link set eth1 mtu 9000"),
            "a command in its stanza of ifupdown sets the MTU of eth1",
        ),
    ],
)
def test_stanzas_that_cannot_hold_an_mtu(lines: tuple[str, ...], reason: str) -> None:
    files = "".join(f"/etc/network/interfaces:{line}\n" for line in lines)
    assert _read(_said(files)) == (Known("ifupdown"), Missing(reason, impossible=True))


def test_stanzas_that_do_not_agree() -> None:
    lines = ("iface eth1 inet static", "mtu 9000", "auto eth2", "iface eth1 inet6 static", "mtu 1500")
    kept = _read(_said("".join(f"/etc/network/interfaces:{line}\n" for line in lines)))[1]
    assert kept == Missing("ifupdown's stanzas of eth1 do not agree: MTU 1500, 9000")


_STATE = "eth1 100 (connected) 5dbdc949-17ea-4ac8-aaab-ceb47410a261\n"


@pytest.mark.parametrize(
    ("nmcli", "manager", "kept"),
    [
        (f"{_STATE} fabric\n eth1\n \n yes\n auto\n", Known("NetworkManager"), Known("none")),
        (
            f"{_STATE} a\\:b\n \n 52\\:54\\:00\\:FA\\:01\\:01\n yes\n 9000\n",
            Known("NetworkManager"),
            Known("9000"),
        ),
        (
            f"{_STATE} Wired\n \n \n yes\n 9000\n",
            Known("NetworkManager"),
            Missing("NetworkManager's profile 'Wired' is bound to no port: bind it to eth1", impossible=True),
        ),
        (
            _STATE.replace("connected", "connected (externally)"),
            Known("none"),
            Missing("no network manager: the boot script sets it", impossible=True),
        ),
        (f"{_STATE} netplan-NM-1-x\n eth1\n \n yes\n 9000\n", Known("NetworkManager"), Known("9000")),
    ],
)
def test_profiles(nmcli: str, manager: Entry, kept: Entry) -> None:
    assert _read(_said("", nmcli)) == (manager, kept)


def test_netplan_over_network_manager() -> None:
    profile = f"{_STATE} netplan-eth1\n eth1\n \n yes\n 1500\n"
    plans = (
        "NetworkManager/system-connections/netplan-eth10.nmconnection:mtu=1\n"
        "NetworkManager/system-connections/netplan-eth1.nmconnection:mtu=9000\n"
    )
    assert _read(_said("", profile, plans)) == (Known("netplan"), Known("9000"))


def test_odd_answers_are_no_value() -> None:
    assert all(isinstance(entry, Missing) for entry in _read({}))
    assert all(isinstance(entry, Missing) for entry in _read(_said("", f"{_STATE} fabric\n eth1\n")))
    assert isinstance(_read(_said(_CHOSEN + _ALL.replace("9000", "lots")))[1], Missing)
    assert all(isinstance(entry, Missing) for entry in _read(_said(_CHOSEN, units="Id=x")))
