"""Talking to a command line, a stand-in's over socket pairs, with every trap that an answer can hold."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import paramiko
import pytest

from fabricctl.errors import DeadlineError, HostKeyError, RefusedError, UnreachableError, UsageError
from fabricctl.model.fabric import Device, Endpoint, Role
from fabricctl.transport import connect
from fabricctl.transport.local import LocalTransport
from fabricctl.transport.ssh.conversation import refused

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from simulators.cli.server import INVALID, Faults, Refused, Server


@dataclass
class Switch:
    """Answers what it was given to answer."""

    answers: dict[str, str] = field(default_factory=dict)
    banner: str = "\nAuthorised use only!\n### leaf1 ###\n> ask noc #\n\n"
    privileged: bool = False
    enable_password: str = ""
    faults: Faults = field(default_factory=Faults)
    log: list[str] = field(default_factory=list)
    pages_always: bool = False

    def session(self) -> Session:
        return Session(self)


@dataclass
class Session:
    switch: Switch
    privileged: bool = False

    def prompt(self) -> str:
        return "leaf1#" if self.privileged else "leaf1>"

    def answer(self, line: str) -> str:
        if line.startswith("wait "):
            time.sleep(float(line.split()[1]))
        if line not in self.switch.answers:
            raise Refused(INVALID)
        return self.switch.answers[line]


@dataclass
class World:
    folder: Path
    switch: Switch
    server: Server

    def device(self, **changes: Any) -> Device:
        values: dict[str, Any] = {
            "host": "10.0.0.1",
            "user": "admin",
            "key_file": str(self.folder / "key"),
            "known_hosts": str(self.folder / "known_hosts"),
            "connection": "network_cli",
        }
        return Device("leaf1", Role.SWITCH, "eos", Endpoint(**{**values, **changes}), ())

    def ask(self, *lines: str, deadline_s: float = 20.0, **changes: Any) -> list[tuple[int, str]]:
        with connect() as transport:
            replies = transport.converse(self.device(**changes), lines, deadline_s=deadline_s)
        return [(reply.rc, reply.stdout) for reply in replies]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    switch = Switch()
    server = Server(switch, tmp_path / "key.pub")
    key = server.host_key
    (tmp_path / "known_hosts").write_text(f"10.0.0.1 {key.get_name()} {key.get_base64()}\n")
    real = paramiko.SSHClient.connect

    def over_a_pair(self: paramiko.SSHClient, host: str, port: int, user: str, **options: Any) -> None:
        options["sock"], theirs = socket.socketpair()
        server.serve(theirs)
        real(self, host, port, user, **options)

    monkeypatch.setattr(paramiko.SSHClient, "connect", over_a_pair)
    yield World(tmp_path, switch, server)
    server.stop()


def test_each_line_has_its_answer_and_pages_are_off(world: World) -> None:
    long = "".join(f"line {number}\n" for number in range(200))
    world.switch.answers |= {"show long": long, "show version | json": '{"version": "4.32.0F"}\n'}
    assert world.ask("show long", "show version | json") == [(0, long), (0, '{"version": "4.32.0F"}\n')]
    assert world.switch.log[1:] != []
    assert "terminal length 0" in world.switch.log
    assert "enable" not in world.switch.log


@pytest.mark.parametrize(
    "answer",
    [
        "a line\nleaf1>\nleaf1#\nleaf1>\nanother line\n",
        "banner login\n### keep out #\n>\nEOF\n",
        "! fabricctl-0000000000000000\nleaf1>\n",
        "\n\nleaf1>",
        "",
        "   indented\n",
        'description "100% of it"\n',
    ],
)
def test_an_answer_that_looks_like_a_prompt_is_not_cut(world: World, answer: str) -> None:
    world.switch.answers |= {"show it": answer, "show next": "next\n"}
    expected = answer if not answer or answer.endswith("\n") else f"{answer}\n"
    assert world.ask("show it", "show next") == [(0, expected), (0, "next\n")]


def test_what_is_echoed_too_early_does_not_end_an_answer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The answer comes in pieces, with a rest after something that is exactly the prompt: by then the comment
    # has been sent, and the terminal shows it in the middle of the answer.
    from simulators.cli import server  # noqa: PLC0415  the module itself is changed

    def slowly(self: Any, said: str) -> None:
        for line in said.splitlines():
            self._put(f"{line}\r\n" if line != "leaf1>" else line)
            time.sleep(0.15)

    monkeypatch.setattr(server.Terminal, "_page", slowly)
    world.switch.answers |= {"show it": "one\nleaf1>\ntwo\nthree\n", "show next": "next\n"}
    first, second = world.ask("show it", "show next")
    assert first[0] == 0
    assert [line for line in first[1].splitlines() if line.strip()] == ["one", "leaf1>", "two", "three"]
    assert second == (0, "next\n")


@pytest.mark.parametrize(
    ("said", "is_no"),
    [
        ("% Invalid input (at token 2: 'x')\n", True),
        ("% Incomplete command\n", True),
        ("% Ambiguous command\n", True),
        ("                ^\n% Invalid command at '^' marker.\n", True),
        ("ERROR: no such profile\n", True),
        ("{}\n% Error writing\n", True),
        ("hostname leaf1\nbanner motd\n% of us\nEOF\n", False),
        ("", False),
        ("   100% used\n", False),
    ],
)
def test_a_refusal_is_known_by_its_first_or_last_line(said: str, is_no: bool) -> None:  # noqa: FBT001  a table
    assert refused(said) is is_no


def test_a_refused_line_has_rc_1_and_the_next_is_still_asked(world: World) -> None:
    world.switch.answers["show b"] = "b\n"
    assert world.ask("show a", "show b") == [(1, "% Invalid input\n"), (0, "b\n")]


def test_become_sends_enable_and_learns_the_new_prompt(world: World) -> None:
    world.switch.answers["show running-config"] = "leaf1>\nhostname leaf1\n"
    assert world.ask("show running-config", become=True) == [(0, "leaf1>\nhostname leaf1\n")]
    assert "enable" in world.switch.log


def test_a_privileged_login_needs_no_enable(world: World) -> None:
    world.switch.privileged = True
    world.switch.answers["show a"] = "a\n"
    assert world.ask("show a", become=True) == [(0, "a\n")]
    assert "enable" not in world.switch.log


def test_an_enable_with_a_password_is_refused_and_says_what_to_do(world: World) -> None:
    world.switch.enable_password = "x"  # noqa: S105  it is never sent
    with pytest.raises(RefusedError, match=r"enable wants a password.*privilege level 15"):
        world.ask("show a", become=True)


def test_an_enable_that_is_refused_says_so(world: World) -> None:
    world.switch.faults.refuse["enable"] = "% Authorization denied for command 'enable'"
    with pytest.raises(RefusedError, match="enable is refused: % Authorization denied"):
        world.ask("show a", become=True)


def test_a_terminal_width_that_is_refused_does_no_harm(world: World) -> None:
    world.switch.faults.refuse["terminal width .*"] = INVALID
    world.switch.answers["show a"] = "a\n"
    assert world.ask("show a") == [(0, "a\n")]


def test_comments_that_are_refused_do_no_harm(world: World) -> None:
    world.switch.faults.refuse["! fabricctl.*"] = "    ^\n% Invalid command at '^' marker."
    world.switch.answers["show a"] = "a\n"
    assert world.ask("show a", "show b") == [(0, "a\n"), (1, "% Invalid input\n")]


def test_a_device_that_pages_all_the_same_is_refused(world: World) -> None:
    world.switch.faults.refuse["terminal length .*"] = "% Unavailable command"
    world.switch.answers["show long"] = "line\n" * 100
    with pytest.raises(RefusedError, match="page by page"):
        world.ask("show long")


def test_a_session_that_breaks_in_the_middle_is_an_error_with_its_last_words(world: World) -> None:
    world.switch.faults.drop_before = "show b"
    world.switch.answers["show a"] = "a\n"
    with pytest.raises(UnreachableError, match="its command line ended; its last words: show b"):
        world.ask("show a", "show b")


def test_a_slow_device_is_waited_for_and_ended_at_the_deadline(world: World) -> None:
    world.switch.answers |= {"wait 0.4": "done\n", "wait 5": "done\n"}
    assert world.ask("wait 0.4") == [(0, "done\n")]
    began = time.monotonic()
    with pytest.raises(DeadlineError, match="did not answer within 1 s"):
        world.ask("wait 5", deadline_s=1)
    assert time.monotonic() - began < 4


def test_a_shell_prompt_is_no_command_line(world: World) -> None:
    world.switch.banner = "Linux leaf1\nadmin@leaf1:~$ "
    world.switch.faults.slow_s = 5
    with pytest.raises(DeadlineError, match="no prompt was seen that ends in > or #"):
        world.ask("show a", deadline_s=0.8)


def test_host_keys_are_checked(world: World) -> None:
    (world.folder / "known_hosts").write_text("")
    with pytest.raises(HostKeyError, match="is not in"):
        world.ask("show a")


def test_a_device_without_a_shell_runs_nothing_and_takes_no_file(world: World) -> None:
    with connect() as transport:
        device = world.device()
        for call in (
            lambda: transport.run(device, "true", deadline_s=5),
            lambda: transport.start(device, ("true",), deadline_s=5),
            lambda: transport.put(device, "/x", b"", mode=0o600, deadline_s=5),
        ):
            with pytest.raises(UsageError, match=r"leaf1: it has no shell \(network_cli\)"):
                call()
    assert world.switch.log == []


def test_a_device_with_a_shell_is_not_talked_to(world: World) -> None:
    with connect() as transport, pytest.raises(UsageError, match="it is reached by a shell"):
        transport.converse(world.device(connection="ssh"), ("show a",), deadline_s=5)
    with LocalTransport() as transport, pytest.raises(UsageError, match="this machine has a shell"):
        transport.converse(world.device(connection="local"), ("show a",), deadline_s=5)
