"""The scripts of host checks in real shells on a real kernel: the machine that runs the tests."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from fabricctl.linkparts import launchers, pci
from fabricctl.model.fabric import Device, Endpoint, Port, Role
from fabricctl.model.names import PortId
from fabricctl.plugin import finder
from fabricctl.plugin.answers import Unread
from fabricctl.plugin.protocols import Answer, Query

CHECKS = ("access_control", "clock", "device_nodes", "gpu_direct", "memlock", "numa", "pcie")
NAMES = sorted(path.name for path in Path("/sys/class/net").iterdir() if path.is_symlink())
MINE = Device(
    "here",
    Role.NODE,
    "",
    Endpoint("localhost"),
    tuple(Port(PortId("here", name), rdma="none0") for name in NAMES),
)
SHELLS = [words for words in (["dash"], ["bash", "--posix"], ["busybox", "sh"]) if shutil.which(words[0])]
QUERIES = {q.key: q for name in CHECKS for q in finder.link_check(name).queries(MINE) if q.argv[0] == "sh"}


def ask(query: Query, shell: list[str]) -> Answer:
    words = [*shell, *query.argv[1:]]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=20)
    return Answer(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize("shell", SHELLS, ids=lambda words: words[0])
@pytest.mark.parametrize("key", QUERIES)
def test_every_script_runs_to_its_end(key: str, shell: list[str]) -> None:
    answer = ask(QUERIES[key], shell)
    assert answer.rc == 0
    assert answer.stdout.splitlines()[-1] == "done"
    for complaint in ("syntax error", "not found", "Bad substitution", "unexpected"):
        assert complaint not in answer.stderr


@pytest.mark.parametrize("shell", SHELLS, ids=lambda words: words[0])
def test_configuration_space_is_read_as_it_is(shell: list[str]) -> None:
    tree = pci.read({"pci": ask(QUERIES["pci"], shell)})
    assert set(tree.ports) == set(NAMES)
    for function in tree.functions.values():
        read = (Path(function.path) / "config").read_bytes()
        # Status bits may change from one look to the next.
        assert len(function.config) == len(read)
        assert function.config[:4] == read[:4]
        assert function.vendor == read[1::-1].hex()


@pytest.mark.parametrize("shell", SHELLS, ids=lambda words: words[0])
def test_the_session_s_limits_are_those_of_the_shell(shell: list[str]) -> None:
    said = subprocess.run([*shell, "-c", "ulimit -l; ulimit -n"], capture_output=True, text=True, check=True)
    locked, files = said.stdout.split()
    found = launchers.read({"launchers": ask(QUERIES["launchers"], shell)})
    assert found.session is not None
    held = found.session.limits
    assert held[launchers.LOCKED].soft == (None if locked == "unlimited" else int(locked) * 1024)
    assert held[launchers.OPEN].soft == (None if files == "unlimited" else int(files))


@pytest.mark.parametrize("shell", SHELLS, ids=lambda words: words[0])
def test_a_daemon_is_found_by_its_name(tmp_path: Path, shell: list[str]) -> None:
    sleep = tmp_path / "slurmd"
    shutil.copy(shutil.which("sleep") or "/bin/sleep", sleep)
    with subprocess.Popen(["sh", "-c", 'ulimit -l 64 && exec "$0" 60', str(sleep)]) as daemon:
        try:
            for _ in range(200):
                found = launchers.read({"launchers": ask(QUERIES["launchers"], shell)})
                mine: list[Any] = [one for one in found.launchers if one.pid == daemon.pid]
                if mine:
                    break
            assert mine[0].limits[launchers.LOCKED] == launchers.Limit(65536, 65536)
        finally:
            daemon.kill()


def test_an_answer_that_broke_off_is_none() -> None:
    with pytest.raises(Unread, match="the answer is not whole"):
        pci.read({"pci": Answer(0, "port eth0 /sys/devices/pci0000:00/0000:00:03.0\n", "")})
