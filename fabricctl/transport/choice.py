"""The transport that takes each device's own way, as its endpoint says."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Self, cast

from fabricctl.errors import UsageError
from fabricctl.model.fabric import NETWORK_CLI, REST, Device
from fabricctl.transport.base import Process, Reply, Transport

# Imported when a device first needs it: SSH brings in paramiko, which takes a noticeable part of a second.
_WAYS = {
    "ssh": ("fabricctl.transport.ssh", "SshTransport"),
    NETWORK_CLI: ("fabricctl.transport.ssh", "SshTransport"),
    REST: ("fabricctl.transport.rest", "RestTransport"),
    "local": ("fabricctl.transport.local", "LocalTransport"),
}


class ChosenTransport:
    """Passes each call on to the transport that ``device.endpoint.connection`` names."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, Transport] = {}

    def run(self, device: Device, script: str, *, deadline_s: float) -> Reply:
        """Run a shell script on the device."""
        return self._way(device).run(device, script, deadline_s=deadline_s)

    def put(self, device: Device, path: str, content: bytes, *, mode: int, deadline_s: float) -> None:
        """Write a file on the device."""
        self._way(device).put(device, path, content, mode=mode, deadline_s=deadline_s)

    def start(self, device: Device, argv: tuple[str, ...], *, deadline_s: float) -> Process:
        """Start a program on the device."""
        return self._way(device).start(device, argv, deadline_s=deadline_s)

    def converse(self, device: Device, lines: Sequence[str], *, deadline_s: float) -> tuple[Reply, ...]:
        """Give a device without a shell lines for its command line."""
        return self._way(device).converse(device, lines, deadline_s=deadline_s)

    def close(self) -> None:
        """Close all that was opened."""
        with self._lock:
            opened = list(self._open.values())
            self._open.clear()
        for transport in opened:
            transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _way(self, device: Device) -> Transport:
        name = device.endpoint.connection
        if name not in _WAYS:
            raise UsageError(
                f"connection {name!r} is not known",
                where=device.name,
                next_step=f"set ansible_connection to one of: {', '.join(_WAYS)}",
            )
        with self._lock:
            if name not in self._open:
                module, kind = _WAYS[name]
                self._open[name] = cast("Transport", getattr(importlib.import_module(module), kind)())
            return self._open[name]
