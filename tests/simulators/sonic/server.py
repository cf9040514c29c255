"""The switch behind an SSH server on loopback: key login, commands, and sessions that drop in the middle."""

from __future__ import annotations

import base64
import contextlib
import gzip
import re
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import paramiko
from paramiko import common

_PACKED = re.compile(r"printf %s ([A-Za-z0-9+/=]+) \| base64 -d \| gzip -dc \| /bin/sh")


class Server:
    """Serve one switch until it is closed, at `port`; a client needs `key` and `known_hosts`."""

    def __init__(self, switch: Any) -> None:
        self.switch = switch
        folder = switch.folder
        self.key = folder / "id_ed25519"
        self.known_hosts = folder / "known_hosts"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.key], check=True)
        self._user = paramiko.Ed25519Key(filename=str(self.key))
        self._host = paramiko.ECDSAKey.generate()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        line = f"[127.0.0.1]:{self.port} {self._host.get_name()} {self._host.get_base64()}\n"
        self.known_hosts.write_text(line)
        self._open: list[paramiko.Transport] = []
        self.at_work: list[subprocess.Popen[bytes]] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._socket.close()
        for transport in self._open:
            transport.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                transport = paramiko.Transport(client)
                transport.add_server_key(self._host)
                self._open.append(transport)
                with contextlib.suppress(paramiko.SSHException, EOFError, OSError):
                    transport.start_server(threading.Event(), _Session(self._user, self))

    def wait(self) -> None:
        """Wait for what runs, also where its session is gone."""
        for child in self.at_work:
            child.wait(60)


class _Session(paramiko.ServerInterface):
    def __init__(self, key: paramiko.PKey, server: Server) -> None:
        self._key, self._server = key, server

    def get_allowed_auths(self, username: str) -> str:  # noqa: ARG002  paramiko's signature
        return "publickey"

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        good = username == "root" and key == self._key
        return common.AUTH_SUCCESSFUL if good else common.AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:  # noqa: ARG002  paramiko's signature
        return common.OPEN_SUCCEEDED

    def check_channel_env_request(self, channel: Any, name: bytes, value: bytes) -> bool:
        del channel, name, value
        return False

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        threading.Thread(target=_serve, args=(channel, command.decode(), self._server), daemon=True).start()
        return True


def _serve(channel: paramiko.Channel, command: str, server: Server) -> None:
    """Run a command with the switch's paths; a session that drops leaves what runs alone."""
    switch = server.switch
    packed = _PACKED.search(command)
    script = gzip.decompress(base64.b64decode(packed[1])).decode() if packed else _input(channel)
    child = subprocess.Popen(
        ["/bin/sh", "-s"] if packed or command.endswith("/bin/sh -s") else ["/bin/sh", "-c", command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=switch.environment(),
    )
    server.at_work.append(child)
    threading.Thread(target=_drop, args=(channel, child, switch.folder / "drop"), daemon=True).start()
    out, err = child.communicate(switch.here(script).encode())
    folder = str(switch.folder).encode()
    with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
        channel.sendall(out.replace(folder, b""))
        channel.sendall_stderr(err.replace(folder, b""))
        channel.send_exit_status(child.returncode)
        channel.close()


def _input(channel: paramiko.Channel) -> str:
    found = bytearray()
    with contextlib.suppress(OSError):
        while block := channel.recv(65536):
            found += block
    return found.decode()


def _drop(channel: paramiko.Channel, child: subprocess.Popen[bytes], mark: Path) -> None:
    """Break the connection when a stand-in asks for it."""
    while child.poll() is None:
        if mark.exists():
            mark.unlink()
            channel.get_transport().close()
            return
        time.sleep(0.02)
