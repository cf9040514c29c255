"""Pushing to devices without a shell: what ansible is told, and real pushes to switches on loopback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import paramiko
import pytest

from fabricctl.apply import cli_push
from fabricctl.apply.compose import Job
from fabricctl.apply.push import host_variables, push
from fabricctl.drivers import lines
from fabricctl.errors import UnreachableError
from fabricctl.model.fabric import Device, Endpoint, Role

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from simulators.cli.server import serving
from simulators.eos.switch import Interface, Switch

MARK = "FABRICCTL_TEST_OF_PUSHES"
SESSIONS = "show configuration sessions detail | json"
CHANGE = (
    "configure session s1",
    "interface Ethernet1/1",
    "mtu 9000",
    "show session-config diffs",
    "end",
    "configure session s1 commit",
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv(MARK, str(tmp_path))  # every process that a push starts inherits it
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return tmp_path


def device(name: str = "leaf1", **changes: object) -> Device:
    values = {"host": "192.0.2.1", "connection": "network_cli", **changes}
    return Device(name, Role.SWITCH, "eos", Endpoint(**values), ())  # type: ignore[arg-type]  a table


def _known(path: Path, name: str) -> str:
    key = paramiko.ECDSAKey.generate()
    line = f"{name} {key.get_name()} {key.get_base64()}\n"
    with path.open("a") as file:
        file.write(line)
    return line


def test_what_ansible_is_told_of_a_device_and_nothing_of_it_is_templated(tmp_path: Path) -> None:
    job = Job(
        device(port=2222, user="{{ x }}", key_file="/k", known_hosts=str(tmp_path / "kh"), become=True),
        "show version\n\n!fabricctl {{ y }}\n",
    )
    values = host_variables(job)
    assert values["ansible_connection"] == "ansible.netcommon.network_cli"
    assert values["ansible_network_cli_ssh_type"] == "paramiko"
    assert values["ansible_user"] == {"__ansible_unsafe": "{{ x }}"}
    assert values["ansible_port"] == 2222
    assert values["ansible_ssh_private_key_file"] == {"__ansible_unsafe": "/k"}
    assert values["ansible_become_method"] == "ansible.netcommon.enable"
    assert values["fabricctl_lines"] == [
        {"__ansible_unsafe": "show version"},
        {"__ansible_unsafe": "!fabricctl {{ y }}"},
    ]
    assert values["ansible_host_key_checking"] is True
    assert values["ansible_paramiko_host_key_checking"] is True
    assert "fabricctl_command" not in values


def test_the_users_ssh_configuration_holds_for_a_push_as_it_does_for_reading(home: Path) -> None:
    (home / ".ssh").mkdir()
    (home / ".ssh" / "config").write_text(
        "Host leaf1\n  HostName 192.0.2.9\n  User op\n  Port 2022\n  ProxyJump a@jump1,b@jump2:2200\n"
    )
    values = host_variables(Job(device(host="leaf1"), "show version\n"))
    assert values["ansible_host"] == {"__ansible_unsafe": "192.0.2.9"}
    assert (values["ansible_user"], values["ansible_port"]) == ({"__ansible_unsafe": "op"}, 2022)
    proxy = values["ansible_paramiko_proxy_command"]["__ansible_unsafe"]
    assert proxy == (
        "ssh -o StrictHostKeyChecking=yes -o BatchMode=yes -J a@jump1 -W 192.0.2.9:2022 ssh://b@jump2:2200"
    )


def test_a_home_holds_exactly_the_host_keys_that_reading_accepts(home: Path, tmp_path: Path) -> None:
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id_ed25519").write_text("key")
    first, second = tmp_path / "one", tmp_path / "two"
    mine = _known(first, "192.0.2.1")
    _known(first, "192.0.2.2")
    other = _known(second, "[192.0.2.2]:2222")
    folder = tmp_path / "push"
    folder.mkdir()
    devices = [
        device("leaf1", known_hosts=str(first)),
        device("leaf2", host="192.0.2.2", port=2222, known_hosts=str(second)),
        device("leaf3", host="192.0.2.3", known_hosts=str(tmp_path / "none")),
    ]
    variables = cli_push.make_home(folder, devices)
    assert (folder / "home" / ".ssh" / "known_hosts").read_text() == mine + other
    assert (folder / "home" / ".ssh" / "id_ed25519").read_text() == "key"
    assert not (folder / "home" / ".ssh" / "config").exists()
    assert variables["HOME"] == str(folder / "home")
    assert variables["ANSIBLE_PARAMIKO_HOST_KEY_AUTO_ADD"] == "False"
    assert variables["ANSIBLE_COLLECTIONS_PATH"].endswith(
        "/.ansible/collections:/usr/share/ansible/collections"
    )


def test_host_keys_that_cannot_be_read_are_an_error_and_no_missing_key(tmp_path: Path) -> None:
    folder = tmp_path / "push"
    folder.mkdir()
    with pytest.raises(UnreachableError, match="Is a directory"):
        cli_push.make_home(folder, [device(known_hosts=str(folder))])


def test_a_folder_too_long_for_sockets_is_known() -> None:
    longest = Path("/" + "f" * (107 - len("/pc/0123456789") - 1))
    assert cli_push.room_for_sockets(longest)
    assert not cli_push.room_for_sockets(Path(f"{longest}f"))
    assert not cli_push.room_for_sockets(Path("/" + "ü" * 50))


def test_only_connections_of_this_very_push_are_ended(tmp_path: Path) -> None:
    program = [sys.executable, "-c", "import time; time.sleep(60)", "ansible_connection_cli_stub.py"]

    def start(folder: str, argv: list[str]) -> subprocess.Popen[bytes]:
        mark = {"ANSIBLE_PERSISTENT_CONTROL_PATH_DIR": str(tmp_path / folder / "pc")}
        return subprocess.Popen(argv, env={**os.environ, **mark})

    with start("one", program) as mine, start("two", program) as other, start("one", ["sleep", "60"]) as task:
        waiter = threading.Thread(target=mine.wait)
        waiter.start()
        cli_push.end_connections(tmp_path / "one")
        waiter.join(5)
        assert mine.returncode == -signal.SIGTERM
        assert (other.poll(), task.poll()) == (None, None)
        for left in (other, task):
            left.kill()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., tuple[Switch, Device]]]:
    """Return what serves a switch on loopback and gives it with its device."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    with ExitStack() as stack:

        def make(name: str, *, known: bool = True) -> tuple[Switch, Device]:
            switch = Switch({"Ethernet1/1": Interface()}, hostname=name)
            server = stack.enter_context(serving(switch, tmp_path / "key.pub"))
            hosts = tmp_path / f"known-{name}"
            hosts.write_text(server.known_hosts() if known else "")
            end = device(
                name,
                host="127.0.0.1",
                port=server.port,
                user="admin",
                key_file=str(tmp_path / "key"),
                known_hosts=str(hosts),
                become=True,
            )
            return switch, end

        yield make


def _mtu(switch: Switch) -> str:
    return switch.running.section(("interface Ethernet1/1",)).lines.get("mtu", "")


def test_real_pushes_and_what_is_said_of_each(
    serve: Callable[..., tuple[Switch, Device]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("t" * 60)  # no socket of ansible's can lie in there
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    made: list[str] = []

    def note(*args: object, make: Callable[..., str] = tempfile.mkdtemp, **options: object) -> str:
        made.append(make(*args, **options))
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", note)
    good, refuses, drops, late, unknown = (
        serve(name, known=name != "leaf5") for name in ("leaf1", "leaf2", "leaf3", "leaf4", "leaf5")
    )
    refuses[0].faults.refuse["mtu .*"] = "% Unavailable command (not supported on this hardware platform)"
    drops[0].faults.drop_before = "show session-config diffs"
    busy = (SESSIONS, lines.refuse_if("maxSavedSessions", "it is busy", lines.RC_BUSY))
    jobs = [Job(end, lines.text(CHANGE)) for _, end in (good, refuses, drops, unknown)]
    jobs.append(Job(late[1], lines.text((*busy, *CHANGE))))
    found = {outcome.device: outcome for outcome in push(jobs, deadline_s=100)}
    assert (found["leaf1"].message, found["leaf1"].ok, _mtu(good[0])) == ("", True, "mtu 9000")
    assert found["leaf2"].message == (
        "mtu 9000: % Unavailable command (not supported on this hardware platform)"
    )
    assert "configure session s1 commit" not in refuses[0].log
    assert found["leaf3"].message == (
        "show session-config diffs: the session ended before the device answered"
    )
    assert found["leaf4"].message == "it is busy"
    assert "configure session s1" not in late[0].log
    assert (found["leaf5"].ok, found["leaf5"].tasks) == (False, 0)
    assert "authenticity" in found["leaf5"].message
    assert [_mtu(switch) for switch, _ in (refuses, drops, late, unknown)] == [""] * 4
    assert len(made) > 1
    assert [path for path in made if Path(path).exists()] == []
    assert not _connections()


@pytest.mark.usefixtures("interruptible")
def test_a_signal_leaves_no_connection_behind(serve: Callable[..., tuple[Switch, Device]]) -> None:
    switch, end = serve("leaf1")
    switch.faults.slow_s = 2
    timer = threading.Thread(target=_signal_once, args=(switch,))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        push([Job(end, lines.text((SESSIONS,) * 50))], deadline_s=100)
    timer.join()
    assert not _connections()


def _signal_once(switch: Switch) -> None:
    until = time.monotonic() + 60
    while not switch.log and time.monotonic() < until:
        time.sleep(0.05)
    signal.raise_signal(signal.SIGINT)


def _connections() -> list[str]:
    """Return ansible's connection processes that were started by this one and still run."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if b"ansible_connection_cli_stub" in (entry / "cmdline").read_bytes():
                variables = (entry / "environ").read_bytes().split(b"\0")
                found += [entry.name for line in variables if line == f"{MARK}={os.environ[MARK]}".encode()]
        except OSError:
            continue
    return found
