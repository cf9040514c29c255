"""Pause of the whole link, read and set with ethtool."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from fabricctl.apply.render import render_port
from fabricctl.drivers import pause
from fabricctl.model import settings
from fabricctl.model.fabric import Port, Role
from fabricctl.model.names import PortId
from fabricctl.model.reading import Entry, Known, Missing
from fabricctl.plugin.protocols import Answer

_LO = Port(PortId("node1", "lo"), rdma="rxe0")

# Keeps a state as "RX TX" in a file; as the real one, it fails where nothing differs.
_ETHTOOL = """\
#!/bin/sh
read -r rx tx <"$STATE"
case $1 in
-a)
    [ "$rx" != none ] || { echo "netlink error: Operation not supported" >&2; exit 1; }
    printf 'Pause parameters for %s:\\nAutonegotiate:\\toff\\nRX:\\t\\t%s\\nTX:\\t\\t%s\\n' "$2" "$rx" "$tx"
    printf 'RX negotiated: on\\nTX negotiated: on\\n\\n'
    ;;
-A)
    echo "$*" >>"$STATE.log"
    [ "$rx $tx" != "$4 $6" ] || { echo "ethtool: pause unmodified, ignoring" >&2; exit 78; }
    echo "$4 $6" >"$STATE"
    ;;
esac
"""


@dataclass
class Box:
    """A shell with the stand-in first on its PATH."""

    folder: Path

    def put(self, state: str) -> None:
        (self.folder / "state").write_text(f"{state}\n")
        (self.folder / "state.log").write_text("")

    @property
    def log(self) -> str:
        return (self.folder / "state.log").read_text()

    def _shell(self, argv: list[str], script: str = "") -> subprocess.CompletedProcess[str]:
        environment = {
            **os.environ,
            "PATH": f"{self.folder}:/usr/bin:/bin",
            "STATE": str(self.folder / "state"),
        }
        return subprocess.run(
            argv, input=script, capture_output=True, text=True, check=False, env=environment, timeout=60
        )

    def entry(self) -> Entry:
        query = pause.query([_LO])
        done = self._shell(list(query.argv))
        answers = {query.key: Answer(done.returncode, done.stdout, done.stderr)}
        return pause.read_settings("lo", answers)[settings.PAUSE]

    def set(self, *, on: bool) -> str:
        return self._shell(
            ["/bin/sh", "-s"], render_port(Role.NODE, "rxe", "lo", "rxe0", {settings.PAUSE: on})
        ).stderr


@pytest.fixture
def box(tmp_path: Path) -> Box:
    (tmp_path / "ethtool").write_text(_ETHTOOL)
    (tmp_path / "ethtool").chmod(0o755)
    return Box(tmp_path)


@pytest.mark.parametrize(
    ("state", "on"), [("on on", True), ("on off", True), ("off on", True), ("off off", False)]
)
def test_pause_in_either_direction_is_pause(box: Box, state: str, *, on: bool) -> None:
    box.put(state)
    assert box.entry() == Known(on)
    assert box.set(on=on) == ""
    assert box.log == ""
    assert box.set(on=not on) == ""
    assert box.entry() == Known(not on)
    assert box.set(on=on) == ""
    assert box.entry() == Known(on)


def test_a_netdev_without_pause_cannot_have_it(box: Box) -> None:
    box.put("none")
    assert box.entry() == Missing("ethtool: netlink error: Operation not supported", impossible=True)
    said = box.set(on=False)
    assert said == "fabricctl: lo: global_pause: netlink error: Operation not supported\n"
    assert box.log == ""


def _read(said: str, name: str = "eth1") -> Entry:
    return pause.read_settings(name, {"ethtool pause": Answer(1, said, "")})[settings.PAUSE]


def test_each_function_has_its_own_answer() -> None:
    said = "function eth1\nRX:\t\ton\nTX:\t\toff\nfunction eth2\nRX:\t\toff\nTX:\t\toff\nfunction eth3\n"
    assert (_read(said), _read(said, "eth2")) == (Known(value=True), Known(value=False))
    assert _read(said, "eth3") == Missing("ethtool: printed nothing")
    assert _read(said, "eth4") == Missing("ethtool pause: it was not asked about eth4")


def test_odd_words_and_no_answer_are_missing() -> None:
    assert isinstance(_read("function eth1\nRX: maybe\nTX: off\n"), Missing)
    assert _read("function eth1\nRX: on\n") == Missing("ethtool: RX: on")
    assert pause.read_settings("eth1", {})[settings.PAUSE] == Missing("not asked")
    gone = _read("function eth1\nsh: 1: ethtool: not found\n")
    assert gone == Missing("ethtool: sh: 1: ethtool: not found")
