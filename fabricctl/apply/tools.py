"""The real tools of a flow: SSH reads, ansible writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from fabricctl import readback
from fabricctl.apply.compose import Job
from fabricctl.apply.rollout import Readings, Tools
from fabricctl.apply.usage import scheduler_of
from fabricctl.model.fabric import Device, Fabric
from fabricctl.model.plan import PushOutcome
from fabricctl.transport import connect

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

        yield Tools(read=read, push=_push, report=report, scheduler=lambda: scheduler_of(fabric))


def _push(jobs: Sequence[Job]) -> Sequence[PushOutcome]:
    from fabricctl.apply.push import push  # noqa: PLC0415  ansible is slow to import, a plan needs none

    return push(jobs, deadline_s=_PUSH_BASE_S + _PUSH_PER_DEVICE_S * len(jobs))
