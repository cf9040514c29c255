"""Builds the native engine's library when fabricctl is built or installed for editing.

It is built for every machine that a compiler is at hand for, into ``fabricctl/agent/native_loop``. Without a
compiler or the headers of libibverbs the package is built all the same: the native engine is then not
available, and says what to install.

The wheel stays ``py3-none-any``: the controller never needs the library, a node takes the one for its own
machine if the wheel has it, and the library asks for no other library and for no version of the C library.
"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FOLDER = Path("fabricctl") / "agent" / "native_loop"
COMPILERS = {"x86_64": "x86_64-linux-gnu-gcc", "aarch64": "aarch64-linux-gnu-gcc"}
"""By machine, as the kernel names it."""
FLAGS = (
    *("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-nostdlib", "-ffreestanding"),
    # Nothing that would make the compiler call a function that is not in the source.
    *("-fno-stack-protector", "-fno-tree-loop-distribute-patterns", "-fvisibility=hidden"),
    *("-Wl,-z,defs", "-Wl,-z,noexecstack", "-Wl,-Bsymbolic", "-Wl,--build-id=none", "-s"),
)
ONLY = {"aarch64": ("-mno-outline-atomics",)}
"""Flags for one machine: its atomic operations are calls otherwise."""


class NativeLoop(BuildHookInterface[Any]):
    """Hatchling's hook; it is called before the files are gathered."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the library for each machine that is possible."""
        del version, build_data
        if self.target_name != "wheel":
            return
        for machine in COMPILERS:
            said = build(Path(self.root) / FOLDER, machine)
            if said:
                self.app.display_warning(f"no native engine for {machine}: {said}")


def compiler(machine: str) -> list[str]:
    """Return the command that compiles for `machine`, an empty list if there is none."""
    if machine == platform.machine():
        named = shlex.split(os.environ.get("CC", "")) or ["gcc"]
        return named if shutil.which(named[0]) else []
    return [COMPILERS[machine]] if shutil.which(COMPILERS[machine]) else []


def build(folder: Path, machine: str) -> str:
    """Compile the sources of `folder` for `machine`; return why not, empty if it was done.

    A library that is there stays if there is no compiler: it came with the sources.
    """
    command = compiler(machine)
    if not command:
        return "no C compiler (apt-get install gcc libc6-dev libibverbs-dev)"
    sources = [str(path) for path in sorted(folder.glob("*.c"))]
    wanted = folder / f"loop-{machine}.so"
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        made = Path(scratch) / wanted.name
        # A cross compiler does not look where the headers are that are the same for all machines.
        arguments = [*FLAGS, *ONLY.get(machine, ()), "-idirafter", "/usr/include", "-o", str(made), *sources]
        try:
            done = subprocess.run(
                [*command, *arguments], capture_output=True, text=True, check=False, timeout=300
            )
        except (OSError, subprocess.TimeoutExpired) as exc:
            return str(exc)
        if done.returncode:
            return done.stderr.strip() or f"{command[0]} ended with {done.returncode}"
        made.replace(wanted)
    return ""
