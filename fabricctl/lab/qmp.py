"""Talk to a QEMU process over its QMP socket."""

from __future__ import annotations

import json
import socket
import time
from typing import TYPE_CHECKING, Any, Self

from fabricctl.errors import LabError

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

_READ_BYTES = 65536
_POLL_S = 0.05


class Qmp:
    """One QMP session; every wait has a deadline.

    Parameters
    ----------
    path
        The socket.
    timeout_s
        How long one answer, and the socket's appearance, may take.
    """

    def __init__(self, path: Path, *, timeout_s: float = 20) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._rest = b""
        self._socket = connect(path, timeout_s=timeout_s)
        self._message()
        self.command("qmp_capabilities")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()

    def command(self, name: str, /, **arguments: object) -> Any:
        """Run one QMP command and return its answer.

        Raises
        ------
        LabError
            QEMU refuses, has gone, or does not answer in time.
        """
        message: dict[str, object] = {"execute": name}
        if arguments:
            # QMP names have dashes where Python has underscores.
            message["arguments"] = {key.replace("_", "-"): arguments[key] for key in arguments}
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
            while True:
                answer = self._message()
                if "return" in answer:
                    return answer["return"]
                if "error" in answer:
                    raise LabError(f"QEMU refused {name}: {answer['error'].get('desc')}")
        except OSError as error:
            raise self._lost(name) from error

    def wait_migrated(self, *, deadline_s: float) -> None:
        """Wait until a running migration, in or out, has completed.

        Raises
        ------
        LabError
            It failed or took longer than `deadline_s` seconds.
        """
        end = time.monotonic() + deadline_s
        while time.monotonic() < end:
            status = self.command("query-migrate").get("status", "none")
            if status == "completed":
                return
            if status in {"failed", "cancelled"}:
                raise LabError("QEMU could not save or restore the guest", where=str(self._path))
            time.sleep(_POLL_S)
        raise LabError(
            f"saving or restoring the guest took longer than {deadline_s:.0f} s",
            where=str(self._path),
        )

    def _message(self) -> dict[str, Any]:
        end = time.monotonic() + self._timeout_s
        while b"\n" not in self._rest:
            if time.monotonic() > end:
                raise self._lost("a message")
            try:
                piece = self._socket.recv(_READ_BYTES)
            except TimeoutError as error:
                raise self._lost("a message") from error
            if not piece:
                raise self._lost("a message")
            self._rest += piece
        line, self._rest = self._rest.split(b"\n", 1)
        message: dict[str, Any] = json.loads(line)
        return message

    def _lost(self, what: str) -> LabError:
        return LabError(
            f"QEMU did not answer ({what})",
            where=str(self._path),
            next_step="the guest's process has ended or hangs: fabricctl lab status",
        )


def connect(path: Path, *, timeout_s: float) -> socket.socket:
    """Connect to a UNIX socket, waiting for it to appear.

    Raises
    ------
    LabError
        Nobody listens there within `timeout_s` seconds.
    """
    end = time.monotonic() + timeout_s
    while True:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(timeout_s)
        try:
            sock.connect(str(path))
        except OSError as error:
            sock.close()
            if time.monotonic() > end:
                raise LabError(
                    f"nobody listens: {error.strerror}",
                    where=str(path),
                    next_step="the guest's process has ended: fabricctl lab status",
                ) from error
            time.sleep(_POLL_S)
        else:
            return sock
