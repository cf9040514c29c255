"""The SSH transport against a real SSH server, paramiko's own, over socket pairs: no network."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import paramiko
import pytest
from paramiko import common

from fabricctl.errors import DeadlineError, HostKeyError, RefusedError, UnreachableError
from fabricctl.model.fabric import Device, Endpoint, Role
from fabricctl.transport.ssh import SshTransport
from fabricctl.transport.ssh.login import Carried
from fabricctl.transport.ssh.target import jump_endpoint, target


class _Server(paramiko.ServerInterface):
    def __init__(self, key: paramiko.PKey) -> None:
        self._key = key

    def get_allowed_auths(self, username: str) -> str:  # noqa: ARG002  paramiko's signature
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        good = username == "root" and key == self._key
        return common.AUTH_SUCCESSFUL if good else common.AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:  # noqa: ARG002  paramiko's signature
        return common.OPEN_SUCCEEDED

    def check_channel_direct_tcpip_request(
        self, chanid: int, origin: tuple[str, int], destination: tuple[str, int]
    ) -> int:
        del chanid, origin, destination
        return common.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        threading.Thread(target=_serve, args=(channel, command), daemon=True).start()
        return True


def _serve(channel: paramiko.Channel, command: bytes) -> None:
    """Run the command as sshd would, between the channel and its three pipes."""
    with subprocess.Popen(
        ["/bin/sh", "-c", command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    ) as child:

        def feed() -> None:
            assert child.stdin
            try:
                while block := channel.recv(32768):
                    child.stdin.write(block)
            except OSError:
                pass
            child.stdin.close()

        def drain() -> None:
            assert child.stderr
            with contextlib.suppress(OSError, EOFError):
                while block := child.stderr.read(32768):
                    channel.sendall_stderr(block)

        threads = [threading.Thread(target=work, daemon=True) for work in (feed, drain)]
        for thread in threads:
            thread.start()
        assert child.stdout
        try:
            while block := child.stdout.read(32768):
                channel.sendall(block)
            threads[1].join(5)
            channel.send_exit_status(child.wait(10))
        except (OSError, EOFError, paramiko.SSHException):
            child.kill()
        channel.close()


@dataclass
class World:
    """A server, the keys, and every connection that was made."""

    folder: Path
    host_key: paramiko.PKey
    user_key: paramiko.PKey
    servers: list[paramiko.Transport] = field(default_factory=list)
    goals: list[tuple[str, int, str]] = field(default_factory=list)

    def device(self, **changes: Any) -> Device:
        values: dict[str, Any] = {
            "host": "10.0.0.1",
            "port": 40001,
            "user": "root",
            "key_file": str(self.folder / "key"),
            "known_hosts": str(self.folder / "known_hosts"),
        }
        return Device("node1", Role.NODE, "rxe", Endpoint(**{**values, **changes}), ())

    def serve(self, sock: Any) -> None:
        server = paramiko.Transport(sock)
        server.add_server_key(self.host_key)
        server.start_server(threading.Event(), _Server(self.user_key))
        self.servers.append(server)

    def know(self, name: str, key: paramiko.PKey, *, hashed: bool = False) -> None:
        label = paramiko.HostKeys.hash_host(name) if hashed else name
        (self.folder / "known_hosts").write_text(f"{label} {key.get_name()} {key.get_base64()}\n")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    made = World(tmp_path, paramiko.ECDSAKey.generate(), paramiko.Ed25519Key(filename=str(tmp_path / "key")))
    made.know("[10.0.0.1]:40001", made.host_key)
    real = paramiko.SSHClient.connect

    def connect(self: paramiko.SSHClient, host: str, port: int, user: str, **options: Any) -> None:
        made.goals.append((host, port, user))
        if options["sock"] is None:
            options["sock"], theirs = socket.socketpair()
            made.serve(theirs)
        else:
            # A jump host has opened this channel: what it leads to is another server.
            channel = made.servers[-1].accept(10)
            assert channel is not None
            made.serve(Carried(channel))
        real(self, host, port, user, **options)

    monkeypatch.setattr(paramiko.SSHClient, "connect", connect)
    yield made
    for server in made.servers:
        server.close()


def test_a_script_runs_with_its_status_and_both_outputs(world: World) -> None:
    with SshTransport() as transport:
        reply = transport.run(world.device(), "echo out; echo err >&2; exit 3", deadline_s=10)
    assert (reply.rc, reply.stdout, reply.stderr) == (3, "out\n", "err\n")


def test_the_connection_is_kept_and_made_anew_when_it_died(world: World) -> None:
    with SshTransport() as transport:
        for _ in range(3):
            transport.run(world.device(), "true", deadline_s=10)
        assert len(world.goals) == 1
        world.servers[0].close()
        assert transport.run(world.device(), "echo again", deadline_s=10).stdout == "again\n"
    assert len(world.goals) == 2


def test_large_outputs_on_both_sides_do_not_stall(world: World) -> None:
    script = "head -c 3000000 /dev/zero | tr '\\0' e >&2; head -c 3000000 /dev/zero | tr '\\0' o"
    with SshTransport() as transport:
        reply = transport.run(world.device(), script, deadline_s=60)
    assert (len(reply.stdout), len(reply.stderr)) == (3_000_000, 3_000_000)


def test_a_large_script_is_read_whole(world: World) -> None:
    script = "x=0\n" + "x=$((x + 1))\n" * 5000 + "echo $x"
    with SshTransport() as transport:
        assert transport.run(world.device(), script, deadline_s=30).stdout == "5000\n"


def test_bytes_that_are_no_text_arrive_as_replacements(world: World) -> None:
    with SshTransport() as transport:
        assert transport.run(world.device(), "printf 'a\\377b'", deadline_s=10).stdout == "a\ufffdb"


def test_a_deadline_ends_the_wait(world: World) -> None:
    started = time.monotonic()
    with SshTransport() as transport, pytest.raises(DeadlineError, match=r"within 0\.5 s") as caught:
        transport.run(world.device(), "while :; do echo drip; sleep 0.1; done", deadline_s=0.5)
    assert caught.value.device == "node1"
    assert time.monotonic() - started < 5


def test_a_killed_command_has_no_exit_status_and_is_no_success(world: World) -> None:
    with SshTransport() as transport:
        transport.run(world.device(), "true", deadline_s=10)
        threading.Timer(0.3, world.servers[0].close).start()
        with pytest.raises(UnreachableError, match=r"without an exit status|connection"):
            transport.run(world.device(), "sleep 5", deadline_s=10)


def test_threads_share_one_connection(world: World) -> None:
    answers: list[str] = []
    with SshTransport() as transport:
        threads = [
            threading.Thread(
                target=lambda n=n: answers.append(
                    transport.run(world.device(), f"echo {n}", deadline_s=20).stdout
                )
            )
            for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(answers) == [f"{n}\n" for n in range(8)]
    assert len(world.goals) == 1


def test_an_unknown_host_key_is_refused_with_the_command_that_records_it(world: World) -> None:
    (world.folder / "known_hosts").write_text("")
    with SshTransport() as transport, pytest.raises(HostKeyError) as caught:
        transport.run(world.device(), "true", deadline_s=10)
    assert world.host_key.fingerprint in str(caught.value)
    assert f"ssh-keyscan -p 40001 10.0.0.1 >> {world.folder}/known_hosts" in caught.value.next_step


def test_a_missing_known_hosts_file_is_an_unknown_key(world: World) -> None:
    with SshTransport() as transport, pytest.raises(HostKeyError, match="ssh-keyscan"):
        transport.run(world.device(known_hosts=str(world.folder / "none")), "true", deadline_s=10)


def test_a_changed_host_key_is_refused(world: World) -> None:
    world.know("[10.0.0.1]:40001", paramiko.ECDSAKey.generate())
    with SshTransport() as transport, pytest.raises(HostKeyError) as caught:
        transport.run(world.device(), "true", deadline_s=10)
    assert world.host_key.fingerprint in str(caught.value)
    assert "-R '[10.0.0.1]:40001'" in caught.value.next_step


def test_a_hashed_host_key_is_found(world: World) -> None:
    world.know("[10.0.0.1]:40001", world.host_key, hashed=True)
    with SshTransport() as transport:
        assert transport.run(world.device(), "echo ok", deadline_s=10).stdout == "ok\n"


def test_a_refused_login_says_what_to_check(world: World) -> None:
    with SshTransport() as transport, pytest.raises(UnreachableError, match="login was refused") as caught:
        transport.run(world.device(user="nobody"), "true", deadline_s=10)
    assert "ansible_user" in caught.value.next_step


def test_a_missing_key_file_is_named(world: World) -> None:
    with SshTransport() as transport, pytest.raises(UnreachableError, match="no-such-key"):
        transport.run(world.device(key_file=str(world.folder / "no-such-key")), "true", deadline_s=10)


def test_an_encrypted_key_asks_for_the_agent(world: World) -> None:
    encrypted = world.folder / "encrypted"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", encrypted], check=True)
    with SshTransport() as transport, pytest.raises(UnreachableError, match="ssh-add"):
        transport.run(world.device(key_file=str(encrypted)), "true", deadline_s=10)


def test_become_goes_through_sudo_and_its_refusal_is_explained(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = world.folder / "bin" / "sudo"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\necho "sudo: a password is required" >&2\nexit 1\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}:{os.environ['PATH']}")
    with SshTransport() as transport, pytest.raises(RefusedError, match="NOPASSWD"):
        transport.run(world.device(become=True), "true", deadline_s=10)
    fake.write_text('#!/bin/sh\n[ "$1 $2" = "-n --" ] || exit 9\nshift 2\nexec "$@"\n')
    with SshTransport() as transport:
        assert transport.run(world.device(become=True), "echo as root", deadline_s=10).stdout == "as root\n"


def test_a_file_is_put_whole_with_its_mode(world: World) -> None:
    path = world.folder / "a b" / "it's"
    content = bytes(range(256)) * 1000
    with SshTransport() as transport:
        transport.put(world.device(), str(path), content, mode=0o640, deadline_s=20)
    assert path.read_bytes() == content
    assert path.stat().st_mode & 0o777 == 0o640
    assert [item.name for item in path.parent.iterdir()] == ["it's"]


def test_a_file_that_cannot_be_written_is_a_refusal(world: World) -> None:
    with SshTransport() as transport, pytest.raises(RefusedError, match="/proc/none/x"):
        transport.put(world.device(), "/proc/none/x", b"", mode=0o600, deadline_s=10)


def test_a_program_ends_with_its_channel(world: World) -> None:
    left = world.folder / "ended"
    script = f'echo ready; while read line; do echo "got $line"; done; echo done >{left}'
    with SshTransport() as transport:
        process = transport.start(world.device(), ("/bin/sh", "-c", script), deadline_s=10)
        assert process.receive(5) == "ready"
        process.send("one")
        assert process.receive(5) == "got one"
        with pytest.raises(DeadlineError):
            process.receive(0.1)
        process.close()
        until = time.monotonic() + 5
        while not left.exists() and time.monotonic() < until:
            time.sleep(0.02)
    assert left.read_text() == "done\n"


def test_a_program_that_fails_leaves_its_last_words(world: World) -> None:
    with SshTransport() as transport:
        process = transport.start(
            world.device(), ("/bin/sh", "-c", "echo 'no module pyverbs' >&2; exit 4"), deadline_s=10
        )
        with pytest.raises(UnreachableError, match=r"exit status 4.*no module pyverbs"):
            process.receive(5)
        process.close()


def test_the_users_ssh_config_fills_what_the_endpoint_leaves_open(world: World) -> None:
    config = world.folder / ".ssh" / "config"
    config.parent.mkdir()
    config.write_text(
        "Host node1\n HostName 10.0.0.1\n User admin\n Port 2222\n IdentityFile ~/other\n ProxyJump hop:23\n"
    )
    found = target(Endpoint(host="node1", known_hosts="/k"), "node1")
    assert (found.host, found.port, found.user, found.jump) == ("10.0.0.1", 2222, "admin", "hop:23")
    assert found.key_files == (f"{world.folder}/other",)
    own = target(Endpoint(host="node1", port=40001, user="root", key_file="/key"), "node1")
    assert (own.port, own.user, own.key_files, own.only_those) == (40001, "root", ("/key",), True)
    assert own.known_hosts[0] == f"{world.folder}/.ssh/known_hosts"


def test_jump_hosts_are_gone_through_in_order_with_their_keys_checked(world: World) -> None:
    config = world.folder / ".ssh" / "config"
    config.parent.mkdir()
    config.write_text(
        f"Host 10.0.0.1\n ProxyJump root@gate,root@inner:2222\nHost *\n IdentityFile {world.folder}/key\n"
    )
    lines = [
        f"{name} {world.host_key.get_name()} {world.host_key.get_base64()}"
        for name in ("gate", "[inner]:2222", "[10.0.0.1]:40001")
    ]
    hosts = world.folder / "known_hosts"
    hosts.write_text("\n".join(lines))
    with SshTransport() as transport:
        assert transport.run(world.device(), "echo through", deadline_s=20).stdout == "through\n"
    assert [goal[:2] for goal in world.goals] == [("gate", 22), ("inner", 2222), ("10.0.0.1", 40001)]
    hosts.write_text("\n".join(lines[1:]))
    with SshTransport() as transport, pytest.raises(HostKeyError, match="ssh-keyscan gate"):
        transport.run(world.device(), "true", deadline_s=20)


def test_a_proxy_command_is_refused_by_name(world: World) -> None:
    config = world.folder / ".ssh" / "config"
    config.parent.mkdir()
    config.write_text("Host node1\n ProxyCommand nc %h %p\n")
    with pytest.raises(UnreachableError, match="use ProxyJump instead"):
        target(Endpoint(host="node1"), "node1")


@pytest.mark.parametrize(
    ("hop", "expected"),
    [
        ("bastion", ("bastion", 22, "")),
        ("me@bastion:2222", ("bastion", 2222, "me")),
        ("me@[fd00::1]:2222", ("fd00::1", 2222, "me")),
        ("fd00::1", ("fd00::1", 22, "")),
        ("ssh://me@bastion:24", ("bastion", 24, "me")),
    ],
)
def test_jump_hosts_are_read_as_ssh_reads_them(hop: str, expected: tuple[str, int, str]) -> None:
    endpoint = jump_endpoint(hop, Endpoint(host="node1", known_hosts="/k"))
    assert (endpoint.host, endpoint.port, endpoint.user) == expected
    assert endpoint.known_hosts == "/k"
