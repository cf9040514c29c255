from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fabricctl.apply import tools
from fabricctl.errors import UnreachableError
from fabricctl.model.fabric import Endpoint
from fabricctl.model.names import PortId
from fabricctl.transport.base import Reply
from fabricctl.transport.local import LocalTransport

PORTS = (PortId("node1", "eth1"), PortId("node2", "eth1"), PortId("leaf1", "eth1"), PortId("leaf1", "eth2"))


class Partly(LocalTransport):
    """Every device is this machine, but node2 does not answer."""

    def run(self, device: Any, script: str, *, deadline_s: float) -> Reply:
        if device.name == "node2":
            raise UnreachableError("no route to host", device=device.name)
        here = replace(device, endpoint=Endpoint("localhost", connection="local"))
        return super().run(here, script, deadline_s=deadline_s)


def test_boot_scripts_are_read_from_the_devices_that_answer(
    fakes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "#!/bin/sh\necho 'ü $x'\n\n"
    (tmp_path / "eth1.sh").write_text(text, encoding="utf-8")
    monkeypatch.setattr(tools, "script_path", lambda port: str(tmp_path / f"{port}.sh"))
    assert tools.boot_scripts(fakes.fabric(), PORTS, Partly()) == (text, text)
    assert tools.boot_scripts(fakes.fabric(), (), Partly()) == ()
