"""Agents without hardware: one process speaks the agents' side of the wire for all ports of a run.

It is no part of what goes to a node. Its numbers are drawn from a stated model (``world.py``), so they say
nothing of any fabric; every sample names the engine ``simulated``.
"""

ENGINE = "simulated"
ENGINE_VERSION = "1"
