#!/usr/bin/python3
"""Lays out a host with mlx5 ports in a folder: ``lay.py FOLDER PLANE [PORT...]``.

PLANE is ``ofed``, ``ofed-old`` (with trust and the DSCP map in sysfs) or ``inbox``. The ports, ``eth1`` and
``eth2`` if none is named, are those of one two-port card. FOLDER gets ``sys``, which looks like /sys, and
``state.json``, what the stand-ins in ``tools.py`` know. The names of files follow the kernel's mlx5 driver,
and en_sysfs.c of MLNX_OFED's.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

DCQCN = {
    "clamp_tgt_rate": 0,
    "clamp_tgt_rate_after_time_inc": 1,
    "rpg_time_reset": 300,
    "rpg_byte_reset": 32767,
    "rpg_threshold": 1,
    "rpg_ai_rate": 5,
    "rpg_hai_rate": 50,
    "rpg_max_rate": 0,
    "rpg_min_dec_fac": 50,
    "rpg_min_rate": 1,
    "rate_to_set_on_first_cnp": 0,
    "dce_tcp_g": 1019,
    "dce_tcp_rtt": 1,
    "rate_reduce_monitor_period": 4,
    "initial_alpha_value": 1023,
    "rpg_gd": 11,
}
SHORT = {"clamp_tgt_rate_after_time_inc": "clamp_tgt_rate_ati"}
NV = {
    "ROCE_CC_PRIO_MASK_P1": "255",
    "ROCE_CC_PRIO_MASK_P2": "255",
    "CNP_DSCP_P1": "48",
    "CNP_802P_PRIO_P1": "6",
    "LLDP_NB_DCBX_P1": "False(0)",
    "LLDP_NB_DCBX_P2": "False(0)",
    "LLDP_NB_RX_MODE_P1": "OFF(0)",
    "DCBX_WILLING_P1": "True(1)",
    "DCBX_WILLING_P2": "True(1)",
}


def write(file: Path, text: object) -> None:
    """Write one value as the kernel shows it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n" if text != "" else "")


def port_state(pci: str, *, trust_sysfs: bool) -> dict[str, object]:
    """Return a port as its driver leaves it: a class a priority, the first two swapped, and no shares."""
    return {
        "pci": pci,
        "pfc": [0] * 8,
        "cable": 7,
        "prio_tc": [1, 0, 2, 3, 4, 5, 6, 7],
        "tsa": ["vendor"] * 8,
        "bw": [100] * 8,
        "p2b": [0] * 8,
        "sizes": [262016] + [0] * 7,
        "total": 262016,
        "app": {},
        "firmware_map": [dscp >> 3 for dscp in range(64)],
        "trust": "pcp",
        "trust_sysfs": trust_sysfs,
        "dcbx": "host",
        "pause": {"rx": "on", "tx": "on"},
        "requests": [0] * 8,
        "indications": [0] * 8,
    }


def netdev(root: Path, name: str, number: int, pci: str) -> None:
    """Lay out a network interface and its PCI function."""
    device = root / "devices/pci0000:16" / pci
    write(device / "uevent", f"DRIVER=mlx5_core\nPCI_CLASS=20000\nPCI_SLOT_NAME={pci}")
    net = root / "class/net" / name
    for file, text in {
        "mtu": 1500,
        "operstate": "up",
        "carrier": 1,
        "carrier_down_count": 1,
        "speed": 100000,
        "address": f"b8:ce:f6:00:00:0{number + 1}",
        "dev_port": 0,
        "statistics/rx_packets": 1000,
    }.items():
        write(net / file, text)
    (net / "device").symlink_to(f"../../../devices/pci0000:16/{pci}")


def verbs(root: Path, number: int) -> None:
    """Lay out a verbs device with two GIDs, and rdma_cm's defaults as someone's folder shows them."""
    name = f"mlx5_{number}"
    port = root / "class/infiniband" / name / "ports/1"
    write(port / "state", "4: ACTIVE")
    write(root / "class/infiniband" / name / "fw_ver", "28.43.1014")
    write(port / "hw_counters/np_cnp_sent", 0)
    write(port / "counters/port_xmit_data", 0)
    gids = [
        f"fe80:0000:0000:0000:bace:f6ff:fe00:000{number + 1}",
        f"0000:0000:0000:0000:0000:ffff:0a0a:000{number + 1}",
        "0000:0000:0000:0000:0000:0000:0000:0000",
    ]
    for index, gid in enumerate(gids):
        write(port / f"gids/{index}", gid)
    defaults = root / "kernel/config/rdma_cm" / name / "ports/1"
    write(defaults / "default_roce_mode", "IB/RoCE v1")
    write(defaults / "default_roce_tos", 0)


def inbox(root: Path, pci: str) -> None:
    """Lay out what the kernel's own driver offers for DCQCN: debugfs."""
    folder = root / "kernel/debug/mlx5" / pci / "cc_params"
    for name, value in DCQCN.items():
        write(folder / f"rp_{SHORT.get(name, name).replace('rpg_', '')}", value)
    for name, value in {
        "np_min_time_between_cnps": 4,
        "np_cnp_dscp": 48,
        "np_cnp_prio_mode": 0,
        "np_cnp_prio": 7,
    }.items():
        write(folder / name, value)


def ofed(root: Path, name: str, number: int) -> None:
    """Lay out what MLNX_OFED's driver adds."""
    net = root / "class/net" / name
    write(net / "qos/tc_num", 8)
    write(net / "qos/maxrate", "0 " * 8)
    for priority in range(8):
        write(net / f"ecn/roce_np/enable/{priority}", 0)
        write(net / f"ecn/roce_rp/enable/{priority}", 0)
    for file, value in DCQCN.items():
        write(net / "ecn/roce_rp" / file, value)
    for file, value in {"min_time_between_cnps": 4, "cnp_dscp": 48, "cnp_802p_prio": 7}.items():
        write(net / "ecn/roce_np" / file, value)
    write(root / f"class/infiniband/mlx5_{number}/tc/1/traffic_class", "")


def main(folder: str, plane: str, *names: str) -> None:
    """Lay out the host."""
    root = Path(folder) / "sys"
    ports = {}
    for number, name in enumerate(names or ("eth1", "eth2")):
        pci = f"0000:17:00.{number}"
        netdev(root, name, number, pci)
        verbs(root, number)
        if plane == "inbox":
            inbox(root, pci)
        else:
            ofed(root, name, number)
        ports[name] = port_state(pci, trust_sysfs=plane == "ofed-old")
        if plane != "inbox":
            write(root / f"class/net/{name}/qos/prio2buffer", "")
            write(root / f"class/net/{name}/qos/buffer_size", "")
    state = {
        "log": [],
        "refuses": [],
        "ports": ports,
        "firmware": {"0000:17:00": {name: [value] * 3 for name, value in NV.items()}},
    }
    (Path(folder) / "state.json").write_text(json.dumps(state))


if __name__ == "__main__":
    main(*sys.argv[1:])
