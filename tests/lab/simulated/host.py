#!/usr/bin/python3
"""Makes a lab guest look like a host with other NICs: ``host.py KIND PORT=RDMA...``; ``host.py off`` ends
it.

KIND is ``mlx5-ofed``, ``mlx5-inbox``, ``bnxt``, ``bnxt3``, ``irdma`` or ``ionic``. The guest's network and
verbs devices stay what they are: real netdevs, carrier, MTU and statistics, real ``dcb`` on the module
dcbsim with the vendor's rules, a real verbs device under the vendor's name. What only the vendor's driver
has is laid over their folders in /sys: for each a folder of links to the real files, which a second sysfs
shows, and beside them files with the vendor's names. That is seen by all on the guest, whatever systemd
starts included, and gone after a reboot.

Programs that only the vendor has are those in ``tests/simulators``, put into /usr/local/sbin; where a real
program can speak to dcbsim it does.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
SIMULATORS = HERE / "simulators"
SIM = Path("/run/fabricctl-sim")
REAL = SIM / "real"
# What there is to be undone.
MOUNTS = SIM / "mounts"
RENAMED = SIM / "renamed"
ATTACHED = SIM / "attached"
PROGRAMS = Path("/usr/local/sbin")
UNIT = "fabricctl-sim"
DCBSIM = Path("/sys/module/dcbsim/parameters")
SYS = Path("/sys")

# Kernel driver and PCI vendor.
HARDWARE = {
    "mlx5": ("mlx5_core", "0x15b3"),
    "bnxt": ("bnxt_en", "0x14e4"),
    "irdma": ("ice", "0x8086"),
    "ionic": ("ionic", "0x1dd8"),
}
# Congestion control as bnxt_re leaves it, in debugfs and in configfs.
BNXT_DEBUGFS = {
    "enable_cc": "0x0",
    "tos_ecn": "0x0",
    "cc_mode": "0x0",
    "tos_dscp": "0x1a",
    "alt_vlan_pcp": "0x7",
    "alt_vlan_dscp": "0x30",
    "run_avg_weight_g": "0x8",
    "inactivity_cp": "0x2710",
    "init_cr": "0xc8",
    "init_tr": "0x140",
}
BNXT_CONFIGFS = {
    "ecn_enable": 0,
    "ecn_marking": 0,
    "cc_mode": 0,
    "disable_prio_vlan_tx": 0,
    "roce_prio": 0,
    "roce_dscp": 0,
    "cnp_prio": 7,
    "cnp_dscp": 48,
    "g": 8,
    "inact_th": 10000,
    "init_cr": 200,
    "init_tr": 320,
}


def main(kind: str, *words: str) -> None:
    """Become a host of this kind, or the plain guest again."""
    off()
    if kind == "off":
        return
    SIM.mkdir(parents=True)
    ATTACHED.write_text((DCBSIM / "attach").read_text().replace(",", "\n"))
    RENAMED.touch()
    mount("-t", "sysfs", "sysfs", target=REAL)
    mount("-t", "tmpfs", "tmpfs", target=SYS / "kernel/debug")
    ports = dict(word.split("=") for word in words)
    family = kind.partition("-")[0].rstrip("3")
    for number, (name, rdma) in enumerate(ports.items()):
        pci = address(number)
        device = lay_function(family, name, rdma, pci)
        lay_netdev(name, device)
        old = verbs_of(name)
        if rdma and old:
            lay_verbs(rdma, old, device)
    {"mlx5": mlx5, "bnxt": bnxt, "irdma": irdma, "ionic": ionic}[family](kind, ports)
    run("systemd-run", "--quiet", f"--unit={UNIT}", "/usr/bin/python3", "-IS", str(HERE / "server.py"))
    while not (SIM / "calls/requests").exists():
        time.sleep(0.2)


def address(number: int) -> str:
    """Return the PCI address of the port with this number: two ports a card."""
    return f"0000:{17 + number // 2}:00.{number % 2}"


def off() -> None:
    """Take all of it away."""
    if not SIM.is_dir():
        return
    run("systemctl", "stop", UNIT, check=False)
    for target in reversed(MOUNTS.read_text().split()):
        run("umount", "--lazy", target)
    for line in RENAMED.read_text().splitlines():
        run("rdma", "dev", "set", *line.split())
    before = ATTACHED.read_text().split()
    for name in (DCBSIM / "attach").read_text().strip().split(","):
        tell("detach", name)
    for name in before:
        tell("attach", name)
    for file in PROGRAMS.iterdir():
        if file.is_symlink():
            file.unlink()
    shutil.rmtree(SIM)


def lay_function(family: str, name: str, rdma: str, pci: str) -> Path:
    """Lay out the PCI function of a port."""
    driver, vendor = HARDWARE[family]
    device = SIM / "devices/pci0000:16" / pci
    write(device / "uevent", f"DRIVER={driver}\nPCI_CLASS=20000\nPCI_SLOT_NAME={pci}")
    write(device / "vendor", vendor)
    write(device / "numa_node", "0")
    (device / "net" / name).mkdir(parents=True)
    if rdma:
        (device / "infiniband" / rdma).mkdir(parents=True)
    drivers = SIM / "bus/pci/drivers" / driver
    drivers.mkdir(parents=True, exist_ok=True)
    (device / "driver").symlink_to(drivers)
    return device


def lay_netdev(name: str, device: Path) -> None:
    """Lay a folder over a netdev's in which its PCI function is the vendor's, the only port of its own."""
    folder = linked(REAL / "class/net" / name, SIM / "net" / name, without={"device", "dev_port"})
    (folder / "device").symlink_to(device)
    write(folder / "dev_port", "0")
    mount("--bind", str(folder), target=SYS / "class/net" / name)


def lay_verbs(rdma: str, old: str, device: Path) -> None:
    """Give the verbs device its vendor's name, and lay a folder over its own that hides the software."""
    run("rdma", "dev", "set", old, "name", rdma)
    with RENAMED.open("a") as file:
        file.write(f"{rdma} name {old}\n")
    folder = linked(
        REAL / "class/infiniband" / rdma, SIM / "infiniband" / rdma, without={"parent", "fw_ver", "device"}
    )
    write(folder / "fw_ver", "28.43.1014")
    (folder / "device").symlink_to(device)
    mount("--bind", str(folder), target=SYS / "class/infiniband" / rdma)


def linked(real: Path, folder: Path, *, without: set[str]) -> Path:
    """Make a folder with a link to each entry of `real`."""
    folder.mkdir(parents=True)
    for entry in real.iterdir():
        if entry.name not in without:
            (folder / entry.name).symlink_to(entry)
    return folder


def verbs_of(name: str) -> str:
    """Return the verbs device on a netdev, empty if it has none."""
    for parent in REAL.glob("class/infiniband/*/parent"):
        if parent.read_text().strip() == name:
            return parent.parent.name
    return ""


def mlx5(kind: str, ports: dict[str, str]) -> None:
    """Lay out what the driver and the firmware of ConnectX cards show."""
    sys.path.insert(0, str(SIMULATORS / "mlx5"))
    import lay  # noqa: PLC0415  only there where it was put

    for number, name in enumerate(ports):
        follow(f"{name}:mlx5")
        if kind == "mlx5-ofed":
            lay.ofed(SYS, name, number)
        else:
            lay.inbox(SYS, address(number))
    values = dict(lay.NV)
    if kind == "mlx5-inbox":
        # The cards come without DCQCN, so that turning it on waits for a reset of the firmware.
        values |= {"ROCE_CC_PRIO_MASK_P1": "0", "ROCE_CC_PRIO_MASK_P2": "0"}
    cards = {address(number).partition(".")[0] for number in range(len(ports))}
    state = {
        "log": [],
        "refuses": [],
        "ports": {},
        "firmware": {card: {name: [value] * 3 for name, value in values.items()} for card in cards},
    }
    (SIM / "state.json").write_text(json.dumps(state))
    program("mstconfig", SIMULATORS / "mlx5/mstconfig.py")
    program("mstfwreset", SIMULATORS / "mlx5/mstconfig.py")
    program("ethtool", HERE / "ethtool")
    if kind == "mlx5-ofed":
        program("mlnx_qos", HERE / "mlnx_qos")


def bnxt(kind: str, ports: dict[str, str]) -> None:
    """Lay out congestion control: Broadcom's configfs, and the debugfs of the kernel's own driver."""
    mount("-t", "configfs", "configfs", target=SIM / "configfs")
    kernel = SIM / "config"
    (kernel / "bnxt_re").mkdir(parents=True)
    (kernel / "rdma_cm").symlink_to(SIM / "configfs/rdma_cm")
    devices = {}
    nics = {}
    for number, (name, rdma) in enumerate(ports.items()):
        follow(f"{name}:{kind}")
        for file, value in BNXT_DEBUGFS.items():
            write(SYS / f"kernel/debug/bnxt_re/{address(number)}/cc_config" / file, value)
        if rdma:
            write(SYS / f"kernel/debug/bnxt_re/{rdma}/info", "fw_service_prof_type_sup : 0")
            devices[rdma] = {"nic": BNXT_CONFIGFS, "service_type": 0, "netdevs": [name]}
            nics[name] = {"hardware": {}}
    (SIM / "control.json").write_text(json.dumps(devices))
    (SIM / "nic.json").write_text(json.dumps(nics))
    mount("--bind", str(kernel), target=SYS / "kernel/config")
    # It would also play the defaults of rdma_cm, which the guest really has.
    played = (SIMULATORS / "bnxt/configfs").read_text().replace("(bnxt_re|rdma_cm)", "(bnxt_re)")
    own = SIM / "programs/configfs"
    write(own, played)
    own.chmod(0o755)
    for name in ("mkdir", "rmdir", "cat"):
        program(name, own)
    program("ethtool", HERE / "ethtool")


def irdma(kind: str, ports: dict[str, str]) -> None:
    """Lay out what only Intel's tools show; what devlink would do to the verbs device is not done."""
    devices = {}
    for number, name in enumerate(ports):
        follow(f"{name}:{kind}")
        write(SIM / "flags" / name, "off")
        devices[f"pci/{address(number)}"] = {"enable_roce": True, "enable_iwarp": False}
    (SIM / "devlink.json").write_text(json.dumps({"devices": devices, "verbs": "none"}))
    program("devlink", SIMULATORS / "irdma/devlink")
    program("ethtool", HERE / "ethtool")


def ionic(kind: str, ports: dict[str, str]) -> None:
    """AMD's cards are set with nicctl alone: they have no DCB in the kernel."""
    del kind
    for name in ports:
        tell("detach", name)
    program("nicctl", SIMULATORS / "ionic/nicctl")


def program(name: str, source: Path) -> None:
    """Put a program where all find it first; the server plays those in Python."""
    write(SIM / "files" / name, str(source))
    in_python = "python3" in source.read_text().partition("\n")[0]
    (PROGRAMS / name).symlink_to(HERE / "client" if in_python else source)


def follow(word: str) -> None:
    """Have dcbsim follow the rules of a driver (``eth1:mlx5``), whether it knows the port or not."""
    tell("attach", word)
    tell("profile", word)


def tell(parameter: str, word: str) -> None:
    """Tell the module dcbsim something."""
    (DCBSIM / parameter).write_text(word)


def mount(*words: str, target: Path) -> None:
    """Mount something, to be undone by `off`."""
    if not target.is_dir():
        target.mkdir(parents=True)
    run("mount", *words, str(target))
    with MOUNTS.open("a") as file:
        file.write(f"{target}\n")


def write(file: Path, text: str) -> None:
    """Write a file and the folders above it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{text}\n")


def run(*words: str, check: bool = True) -> None:
    """Run a program."""
    subprocess.run(words, check=check, stdin=subprocess.DEVNULL, stderr=None if check else subprocess.DEVNULL)


if __name__ == "__main__":
    main(*sys.argv[1:])
