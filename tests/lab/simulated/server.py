#!/usr/bin/python3
"""Plays the stand-ins on a lab guest, and what a driver does when one of its files is written.

Starting Python takes an emulated guest seconds, so that one process is started for all: what lies in
/usr/local/sbin is ``client``, which asks it. Each call is played by a process of its own, which has all
modules already. A call is ``CALLS/ID.args`` (working folder and arguments, a line each), the line ``ID
PROGRAM FILE`` in the pipe ``CALLS/requests``, and the pipe ``CALLS/ID.reply`` for its output; error output
and exit status are in files.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import optparse
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from types import CodeType

MODULES = (contextlib, fcntl, json, optparse, re, shutil, subprocess)
CALLS = Path("/run/fabricctl-sim/calls")
SYS = Path("/sys")
POLL_S = 0.2


class Driver:
    """What mlx5's driver does with files; they are looked at several times a second."""

    def __init__(self) -> None:
        self.overrides = list(SYS.glob("class/infiniband/*/tc/1/traffic_class"))
        folders = list(SYS.glob("kernel/debug/mlx5/*/cc_params"))
        self.priorities = {folder: self._when(folder) for folder in folders}

    def look(self) -> None:
        """Show an override as the driver does (nothing for -1); a priority of CNPs makes them carry it."""
        for file in self.overrides:
            text = file.read_text().strip()
            if text.lstrip("-").isdecimal():
                file.write_text(f"Global tclass={text}\n" if int(text) >= 0 else "")
        for folder, seen in self.priorities.items():
            if self._when(folder) != seen:
                self.priorities[folder] = self._when(folder)
                (folder / "np_cnp_prio_mode").write_text("0\n")

    @staticmethod
    def _when(folder: Path) -> int:
        return (folder / "np_cnp_prio").stat().st_mtime_ns


def main() -> None:
    """Serve until stopped."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    CALLS.mkdir(parents=True, exist_ok=True)
    os.mkfifo(CALLS / "requests")
    requests = os.open(CALLS / "requests", os.O_RDWR)
    driver = Driver()
    code: dict[str, CodeType] = {}
    left = b""
    while True:
        ready, _, _ = select.select([requests], [], [], POLL_S)
        driver.look()
        if not ready:
            continue
        *lines, left = (left + os.read(requests, 65536)).split(b"\n")
        for line in lines:
            ident, program, file = line.decode().split()
            if file not in code:
                code[file] = compile(Path(file).read_text(), file, "exec")
            if os.fork() == 0:
                play(ident, program, code[file])


def play(ident: str, program: str, code: CodeType) -> None:
    """Play one call in this process, and end it."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    out, err = CALLS / f"{ident}.out", CALLS / f"{ident}.err"
    for number, file in ((1, out), (2, err)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    folder, *arguments = (CALLS / f"{ident}.args").read_text().splitlines()
    os.chdir(folder)
    sys.argv = [f"/usr/local/sbin/{program}", *arguments]
    status = 0
    try:
        exec(code, {"__name__": "__main__", "__file__": code.co_filename})  # noqa: S102  our own files
    except SystemExit as exc:
        status = exc.code if isinstance(exc.code, int) else int(exc.code is not None)
    except BaseException:  # noqa: BLE001  the caller is told
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    (CALLS / f"{ident}.rc").write_text(f"{status}\n")
    (CALLS / f"{ident}.reply").write_bytes(out.read_bytes())
    os._exit(0)


if __name__ == "__main__":
    main()
