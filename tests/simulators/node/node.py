"""A GPU node for tests: a folder in the place of /sys, /etc and /run, and the stand-ins for its NICs' tools.

The very text that is pushed is what runs; only its paths are those of the folder. It has what
``simulators/sonic/server.py`` asks of a switch, so that this server puts it behind SSH.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parent
_MOVED = re.compile(r"(?<![\w.}])/(sys|run|etc)/")
_MLX5 = {
    **dict.fromkeys(("dcb", "mlnx_qos"), "tools.py"),
    **dict.fromkeys(("ethtool", "ip", "mlx5-kernel"), "link.py"),
    **dict.fromkeys(("mstconfig", "mstfwreset"), "mstconfig.py"),
}
_BNXT = {
    **{name: name for name in ("dcb", "niccli", "ethtool", "ip")},
    **dict.fromkeys(("mkdir", "rmdir"), "configfs"),
}


class Node:
    """A node with Linux and systemd; its NICs are laid down by :func:`mlx5` and :func:`bnxt`."""

    def __init__(self, folder: Path, ports: Mapping[str, str], tools: Mapping[str, Path]) -> None:
        self.folder = folder
        for name in ("bin", "timers", "run", "etc/systemd/system"):
            (folder / name).mkdir(parents=True)
        for name in ("systemctl", "systemd-run", "sha256sum", "ibv_devinfo", "lldpcli"):
            (folder / "bin" / name).symlink_to(_HERE / name)
        for name, source in tools.items():
            (folder / "bin" / name).symlink_to(source)
        self.tool("bin/sleep", "")
        for number, (netdev, rdma) in enumerate(ports.items(), 2):
            self.file(f"netdev.{rdma}", netdev)
            self.file(f"sys/class/net/{netdev}/ifindex", f"{number}\n")
        self.file("lldp.json", '{"lldp": [{}]}')

    def file(self, path: str, content: str) -> None:
        """Write a file of the node."""
        target = self.folder / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)

    def tool(self, path: str, body: str) -> None:
        """Write a program of the node, for /bin/sh."""
        self.file(path, f"#!/bin/sh\n{body}\n")
        (self.folder / path).chmod(0o755)

    def neighbours(self, found: Mapping[str, tuple[str, str]]) -> None:
        """Lay down who is at the other end of each port, as lldpd says it."""
        rows = [
            {
                "name": port,
                "chassis": [{"name": [{"value": device}]}],
                "port": [{"id": [{"type": "ifname", "value": peer}]}],
            }
            for port, (device, peer) in found.items()
        ]
        self.file("lldp.json", json.dumps({"lldp": [{"interface": rows}]}))

    def run(self, *argv: str) -> None:
        """Run a program of the node, as its administrator."""
        subprocess.run([self.folder / "bin" / argv[0], *argv[1:]], check=True, env=self.environment())

    def timers(self) -> list[str]:
        """Return the timers that wait."""
        return sorted(file.name for file in (self.folder / "timers").iterdir())

    def leftovers(self) -> list[str]:
        """Return what lies there of a change that is not confirmed."""
        folder = self.folder / "run/fabricctl"
        return sorted(path.name for path in folder.glob("*") if path.name != "lock")

    def fire(self) -> None:
        """Let the timers run out, the latest first."""
        for timer in sorted((self.folder / "timers").glob("*.timer"), reverse=True):
            script = timer.read_text().strip()
            timer.unlink()
            subprocess.run(["/bin/sh", script], check=True, capture_output=True, env=self.environment())

    # What the server asks for

    def here(self, text: str) -> str:
        """Return a script with the node's paths as paths in the folder."""
        if (self.folder / "bin/mlx5-kernel").exists():
            # What was written to files of the kernel is shown from now on as the driver shows it.
            self.run("mlx5-kernel")
        return _MOVED.sub(rf"{self.folder}/\1/", text)

    def environment(self) -> dict[str, str]:
        """Return the environment of its programs."""
        return {
            **{name: value for name, value in os.environ.items() if not name.startswith("PYTHON")},
            "PATH": f"{self.folder / 'bin'}:/usr/bin:/bin",
            "FABRICCTL_SIM": str(self.folder),
            "NODE_SIM": str(self.folder),
            "LC_ALL": "C",
        }


def mlx5(folder: Path, ports: Mapping[str, str]) -> Node:
    """Return a node with one card of NVIDIA's and its OFED; `ports` gives each netdev its verbs device."""
    code = _HERE.parent / "mlx5"
    folder.mkdir()
    subprocess.run([sys.executable, code / "lay.py", folder, "ofed", *ports], check=True)
    return Node(folder, ports, {name: code / source for name, source in _MLX5.items()})


def bnxt(folder: Path, ports: Mapping[str, str]) -> Node:
    """Return a node with a card of Broadcom's of three classes; `ports` is as for :func:`mlx5`."""
    code = _HERE.parent / "bnxt"
    node = Node(folder, ports, {name: code / source for name, source in _BNXT.items()})
    # Only paths of configfs are played; for all others the program itself is quicker.
    (folder / "played").mkdir()
    (folder / "played/cat").symlink_to(code / "configfs")
    played = f'case $* in *class/infiniband*) ;; *ports/1*) exec {folder}/played/cat "$@" ;; esac'
    node.tool("bin/cat", f'{played}\nexec /bin/cat "$@"')
    nics: dict[str, Any] = {}
    control: dict[str, Any] = {}
    for number, (netdev, rdma) in enumerate(ports.items()):
        pci = f"0000:17:00.{number}"
        for name, text in {
            "mtu": "1500",
            "operstate": "up",
            "carrier": "1",
            "carrier_down_count": "1",
            "speed": "100000",
            "address": f"00:0a:f7:00:00:0{number + 1}",
            "device/uevent": f"DRIVER=bnxt_en\nPCI_SLOT_NAME={pci}",
        }.items():
            node.file(f"sys/class/net/{netdev}/{name}", f"{text}\n")
        node.file(f"sys/class/infiniband/{rdma}/ports/1/state", "4: ACTIVE\n")
        node.file(
            f"sys/kernel/debug/bnxt_re/{rdma}/info", "bnxt_re debug info:\n\tfw_service_prof_type_sup : 0\n"
        )
        nics[netdev] = {
            "pci": pci,
            "classes": 3,
            "dcbx": {"host": True, "ieee": True},
            "app": {},
            "hardware": {},
            "prio_pfc": [False] * 8,
            "prio_tc": [0] * 8,
            "tc_tsa": ["strict"] * 8,
            "tc_bw": [0] * 8,
            "ets_set": False,
            "pause": [True, True],
        }
        zero = ("ecn_enable", "ecn_marking", "cc_mode", "disable_prio_vlan_tx", "g", "inact_th")
        zero += ("roce_prio", "roce_dscp", "cnp_prio", "cnp_dscp")
        control[rdma] = {
            "service_type": 0,
            "netdevs": [netdev],
            "nic": {**dict.fromkeys(zero, 0), "init_cr": 0xC8, "init_tr": 0xC8},
            "rdma_cm": {"default_roce_mode": "IB/RoCE v1", "default_roce_tos": 0},
        }
    for name in ("bnxt_re", "rdma_cm"):
        (folder / "sys/kernel/config" / name).mkdir(parents=True)
    node.file("nic.json", json.dumps(nics))
    node.file("control.json", json.dumps(control))
    return node
