"""The real tools of a flow: SSH reads, ansible writes."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from fabricctl import readback
from fabricctl.apply.compose import Job, script_path
from fabricctl.apply.rollout import Readings, Tools
from fabricctl.apply.usage import scheduler_of
from fabricctl.errors import FabricctlError
from fabricctl.model.fabric import Device, Fabric
from fabricctl.model.names import PortId
from fabricctl.model.plan import PushOutcome
from fabricctl.transport import connect
from fabricctl.transport.base import Transport

READ_S = 60.0
"""Longest time for reading one device."""

_PUSH_BASE_S = 240.0
_PUSH_PER_DEVICE_S = 2.0


@contextmanager
def connected(fabric: Fabric, report: Callable[[str], None]) -> Iterator[Tools]:
    """Open the ways to the devices of a fabric, for as long as the block runs."""
    with connect() as transport:

        def read(devices: Sequence[Device]) -> Readings:
            return readback.read(fabric, devices, transport, deadline_s=READ_S)

        yield Tools(
            read=read,
            push=_push,
            report=report,
            scheduler=lambda: scheduler_of(fabric),
            boot_scripts=lambda ports: boot_scripts(fabric, ports, transport),
        )


def boot_scripts(fabric: Fabric, ports: Sequence[PortId], transport: Transport) -> tuple[str, ...]:
    """Return the boot scripts of those ports that have one; a device that does not answer has none."""

    def of_device(name: str) -> list[str]:
        paths = [script_path(port.port) for port in ports if port.device == name]
        script = f"for file in {shlex.join(paths)}; do base64 <\"$file\" | tr -d '\\n'; echo; done"
        try:
            reply = transport.run(fabric.device(name), script, deadline_s=READ_S)
            return [base64.b64decode(line, validate=True).decode() for line in reply.stdout.split()]
        except (FabricctlError, ValueError):
            return []

    names = list(dict.fromkeys(port.device for port in ports))
    with readback.workers(len(names)) as pool:
        return tuple(text for texts in pool.map(of_device, names) for text in texts)


def _push(jobs: Sequence[Job]) -> Sequence[PushOutcome]:
    from fabricctl.apply.push import push  # noqa: PLC0415  ansible is slow to import, a plan needs none

    return push(jobs, deadline_s=_PUSH_BASE_S + _PUSH_PER_DEVICE_S * len(jobs))
