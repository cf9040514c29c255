#!/usr/bin/python3 -IS
"""Stands in for ethtool and ip on a host with mlx5 ports, and for what its kernel shows in files.

It plays the program under whose name it is started, with the state of ``tools.py``. A name of its own is
``mlx5-kernel``: it makes files that were written, or that are about what was changed, show what drivers show.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ.get("FABRICCTL_SIM", "/run/fabricctl-sim"))
SYS = Path(os.environ.get("FABRICCTL_SIM_SYS", str(FOLDER / "sys")))
State = dict[str, Any]


def main(program: str, words: list[str]) -> int:
    """Play a program; return its exit status."""
    file = FOLDER / "state.json"
    state: State = json.loads(file.read_text())
    rc = {"ethtool": ethtool, "ip": ip, "mlx5-kernel": kernel}[program](state, words)
    file.write_text(json.dumps(state))
    return rc


def ethtool(state: State, words: list[str]) -> int:
    """Play ethtool: pause parameters."""
    pause = state["ports"][words[1]]["pause"]
    if words[0] == "-a":
        rows = [f"RX:\t\t{pause['rx']}", f"TX:\t\t{pause['tx']}"]
        sys.stdout.write("\n".join([f"Pause parameters for {words[1]}:", "Autonegotiate:\toff", *rows, "\n"]))
        return 0
    if words[0] != "-A":
        return complain("ethtool: bad command line argument(s)\nFor more information run ethtool -h")
    state["log"].append(" ".join(["ethtool", *words]))
    given = dict(zip(words[2::2], words[3::2]))  # noqa: B905  Python 3.9
    for name in [name for name in given if pause[name] == given[name]]:
        complain(f"{name} unmodified, ignoring")
        del given[name]
    if not given:
        complain("no pause parameters changed, aborting")
        return 78
    pause.update(given)
    return 0


def ip(state: State, words: list[str]) -> int:
    """Play ip: ``link set dev NAME mtu BYTES``."""
    state["log"].append(" ".join(["ip", *words]))
    if words[:3] != ["link", "set", "dev"] or words[4:5] != ["mtu"]:
        return complain(f'Error: argument "{words[-1]}" is wrong')
    if not 68 <= int(words[5]) <= 9978:
        complain("Error: mtu greater than device maximum.")
        return 2
    put(SYS / "class/net" / words[3] / "mtu", words[5])
    return 0


def kernel(state: State, words: list[str]) -> int:
    """Make files show what the drivers would show."""
    del words
    for file in SYS.glob("class/infiniband/*/tc/1/traffic_class"):
        text = file.read_text().strip()
        if text.lstrip("-").isdecimal():
            put(file, f"Global tclass={text}" if int(text) >= 0 else "")
    for name, port in state["ports"].items():
        show(name, port)
    return 0


def show(name: str, port: State) -> None:
    """Write what MLNX_OFED's driver shows of buffers, and old ones of trust."""
    folder = SYS / "class/net" / name / "qos"
    if not folder.is_dir():
        return
    rows = [f"{number}\t\t{buffer}" for number, buffer in enumerate(port["p2b"])]
    put(folder / "prio2buffer", "\n".join(["Priority\tBuffer", *rows]))
    rows = [f"{number}\t{size}\t0\t\t0" for number, size in enumerate(port["sizes"])]
    head = [
        f"Port buffer size = {port['total']}",
        "Spare buffer size = 0",
        "Buffer\tSize\txoff_threshold\txon_threshold",
    ]
    put(folder / "buffer_size", "\n".join([*head, *rows]))
    if port["trust_sysfs"]:
        rows = [f"{dscp}\t{priority}" for dscp, priority in enumerate(port["firmware_map"])]
        put(folder / "dscp2prio", "\n".join(["dscp\tprio", *rows]))
        put(folder / "trust", port["trust"])


def put(file: Path, text: object) -> None:
    """Write a file if that changes it."""
    wanted = f"{text}\n" if text != "" else ""
    if not file.exists() or file.read_text() != wanted:
        file.write_text(wanted)


def complain(text: str) -> int:
    """Print an error; return the exit status."""
    sys.stderr.write(f"{text}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[0]).name, sys.argv[1:]))
