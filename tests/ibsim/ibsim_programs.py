"""The programs that a simulated InfiniBand fabric is made of, and how to wait for them."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import time
from collections.abc import Callable
from pathlib import Path

UMAD2SIM = Path(f"/usr/lib/{platform.machine()}-linux-gnu/umad2sim/libumad2sim.so")
TOOLS = (
    *(
        "check_lft_balance",
        "dump_fts",
        "ibaddr",
        "iblinkinfo",
        "ibnetdiscover",
        "ibportstate",
        "ibqueryerrors",
    ),
    *("ibroute", "ibstat", "ibtracert", "perfquery", "saquery", "sminfo", "smpquery", "vendstat"),
)
# Runs one program of infiniband-diags on the simulator. Its HCA is called ibsim0 and has one port: -C and -P
# are left out. A console script left in `hooks` under the program's name is played right after it has run.
WRAPPER = """\
#!/bin/sh
name=${0##*/}
left=$#
while [ "$left" -gt 0 ]; do
    word=$1
    shift
    left=$((left - 1))
    case $word in
        -C | -P | --Ca | --Port)
            shift
            left=$((left - 1))
            ;;
        -C?* | -P?* | --Ca=* | --Port=*) ;;
        *) set -- "$@" "$word" ;;
    esac
done
echo "$name $*" >>@FOLDER@/calls
cd @FOLDER@/work || exit 127
LD_PRELOAD=@UMAD2SIM@ IBSIM_SOCKNAME=@SOCKET@ SIM_HOST=@NODE@ @REAL@/$name "$@"
rc=$?
if mv @FOLDER@/hooks/$name @FOLDER@/hooks/$name.played 2>/dev/null; then
    cat @FOLDER@/hooks/$name.played >@FOLDER@/console
    tries=0
    until grep -q hook-$name @FOLDER@/ibsim.log || [ $tries -gt 200 ]; do
        tries=$((tries + 1))
        sleep 0.02
    done
fi
exit $rc
"""


def until(what: str, done: Callable[[], object], within_s: float = 20.0) -> None:
    """Wait for something; AssertionError if it is not so in time."""
    end = time.monotonic() + within_s
    while not done():
        if time.monotonic() > end:
            message = f"not within {within_s:g} s: {what}"
            raise AssertionError(message)
        time.sleep(0.03)


def real(name: str) -> str:
    """Return where a program is; a user's PATH may lack /usr/sbin."""
    found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
    assert found, f"{name} is not installed: . scripts/setup dev"
    return found


def wrap(folder: Path, socket: str, node: str) -> None:
    """Write the wrappers of a fabric into its folder.

    Parameters
    ----------
    socket, node
        Name of the simulator's socket; what its console calls the node to attach to.
    """
    words = {
        "FOLDER": shlex.quote(str(folder)),
        "UMAD2SIM": str(UMAD2SIM),
        "SOCKET": socket,
        "NODE": node,
    }
    for name in TOOLS:
        content = WRAPPER.replace("@REAL@", shlex.quote(str(Path(real(name)).parent)))
        for word, value in words.items():
            content = content.replace(f"@{word}@", value)
        path = folder / "bin" / name
        path.write_text(content)
        path.chmod(0o755)
