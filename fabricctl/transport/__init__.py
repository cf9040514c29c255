"""Ways to reach a device: SSH, this machine itself, a job of Slurm's, or recorded replies."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from fabricctl.model.fabric import Device
from fabricctl.transport.base import Launch, Transport
from fabricctl.transport.choice import ChosenTransport

__all__ = ["LAUNCHERS", "connect", "launcher"]

SSH, SLURM = "ssh", "slurm"
LAUNCHERS = (SSH, SLURM)
"""What starts the agents of a verify."""


def connect() -> Transport:
    """Return a transport that takes each device's own way, as its endpoint says."""
    return ChosenTransport()


def launcher(name: str) -> Launch:
    """Return what makes of an open transport, and the nodes of a run, the one that starts programs on them.

    Parameters
    ----------
    name
        One of :data:`LAUNCHERS`: ``ssh`` is the transport itself, ``slurm`` one srun for all nodes.
    """

    def own(over: Transport, nodes: Sequence[Device]) -> AbstractContextManager[Transport]:
        del nodes
        return nullcontext(over)

    def slurm(over: Transport, nodes: Sequence[Device]) -> AbstractContextManager[Transport]:
        from fabricctl.transport.slurm import SlurmTransport  # noqa: PLC0415  only who asks for it needs it

        return SlurmTransport(over, nodes)

    return slurm if name == SLURM else own
