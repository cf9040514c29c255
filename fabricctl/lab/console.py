"""The root shell on a guest's virtio console: how the host speaks to a guest that has no network yet."""

from __future__ import annotations

import base64
import io
import secrets
import socket
import tarfile
import textwrap
import time
from typing import TYPE_CHECKING, Self

from fabricctl.errors import LabError
from fabricctl.lab.qmp import connect

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path
    from types import TracebackType

_READ_BYTES = 65536
# What the console's script in the guest prints when it starts.
_READY = "lab: console ready"
# The line discipline of a console cuts longer lines.
_LINE_CHARACTERS = 200


class Console:
    """A session with the guest's root shell; one at a time for each guest."""

    def __init__(self, path: Path, *, name: str, timeout_s: float = 10) -> None:
        self._name = name
        self._socket = connect(path, timeout_s=timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()

    def wait(self, *, deadline_s: float, ask_every_s: float = 1) -> None:
        """Wait until the shell answers.

        Raises
        ------
        LabError
            No answer within `deadline_s` seconds: the guest hangs or has not booted.
        """
        end = time.monotonic() + deadline_s
        while time.monotonic() < end:
            try:
                self.run("true", deadline_s=min(ask_every_s, deadline_s))
            except LabError:
                continue
            return
        raise self._silent(deadline_s)

    def wait_booted(self, *, deadline_s: float) -> None:
        """Wait until a guest that boots has its shell. The session must be older than that shell.

        Nothing is sent before: what the guest cannot read yet would fill the terminal's buffer,
        and it would never answer.

        Raises
        ------
        LabError
            It has none within `deadline_s` seconds.
        """
        try:
            self._until(_READY, time.monotonic() + deadline_s, after="\n")
        except TimeoutError as error:
            raise self._silent(deadline_s) from error
        except OSError as error:
            raise LabError("the guest's console has gone", where=self._name) from error

    def run(self, script: str, *, deadline_s: float) -> str:
        """Run a shell script in the guest and return what it printed.

        Raises
        ------
        LabError
            It failed, or did not end within `deadline_s` seconds.
        """
        token = secrets.token_hex(8)
        # A subshell, so that a script's exit does not end the console's shell.
        text = f"\n(\n{script}\n) </dev/null 2>&1; echo '{token}':$?:\n"
        end = time.monotonic() + deadline_s
        try:
            self._socket.settimeout(deadline_s)
            self._socket.sendall(text.encode())
            answer = self._until(f"{token}:", end)
        except TimeoutError as error:
            raise self._silent(deadline_s) from error
        except OSError as error:
            raise LabError("the guest's console has gone", where=self._name) from error
        printed, _, tail = answer.partition(f"{token}:")
        status = tail.split(":", 1)[0]
        printed = printed.replace("\r\n", "\n")
        if status != "0":
            raise LabError(
                f"a command in the guest failed with status {status}: {printed.strip()[-400:]}",
                where=self._name,
                next_step="look at the guest: fabricctl lab ssh " + self._name,
            )
        return printed

    def unpack(self, archive: bytes, *, deadline_s: float) -> None:
        """Unpack a tar archive at the guest's root."""
        lines = "\n".join(textwrap.wrap(base64.b64encode(archive).decode(), _LINE_CHARACTERS))
        self.run(
            f"base64 -d <<'END' | tar -x -C / -f -\n{lines}\nEND\n",
            deadline_s=deadline_s,
        )

    def _until(self, marker: str, end: float, *, after: str = ":") -> str:
        seen = b""
        while True:
            # The marker counts only with its status and closing colon, or its line's end.
            _, found, tail = seen.partition(marker.encode())
            if found and after.encode() in tail:
                return seen.decode(errors="replace")
            left_s = end - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            self._socket.settimeout(left_s)
            piece = self._socket.recv(_READ_BYTES)
            if not piece:
                raise ConnectionResetError
            seen += piece

    def _silent(self, after_s: float) -> LabError:
        return LabError(
            f"the guest's console was silent for {after_s:.0f} s",
            where=self._name,
            next_step="see why: fabricctl lab status",
        )


def pack(files: Iterable[tuple[str, bytes, int]]) -> bytes:
    """Make a tar archive of (path, content, mode) owned by root."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, content, mode in files:
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.size = len(content)
            entry.mode = mode
            entry.mtime = int(time.time())
            archive.addfile(entry, io.BytesIO(content))
    return out.getvalue()


def is_listening(path: Path) -> bool:
    """Tell whether somebody listens on the UNIX socket at `path`."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(1)
        return sock.connect_ex(str(path)) == 0
