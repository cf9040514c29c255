"""Start programs on nodes through Slurm: one ``srun`` for all nodes of a run."""

from __future__ import annotations

from fabricctl.transport.slurm.transport import SlurmTransport

__all__ = ["SlurmTransport"]
