"""What a scheduler says of a node: whether jobs run there, and whether new ones may come."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Use(StrEnum):
    """Whether somebody's job is on a node."""

    FREE = "free"
    BUSY = "in use"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Job:
    """A job that holds a node: its number as the scheduler writes it (``1234``, ``77_3``), and its user."""

    id: str
    user: str


@dataclass(frozen=True, slots=True)
class NodeUse:
    """The use of one node.

    Parameters
    ----------
    jobs
        Jobs that hold the node. A node can be in use without one: the scheduler may hide the jobs of others.
    drained
        Whether no new job is put there, by somebody's order. A job may still run.
    reason
        The text that was given with that order; empty if there is none.
    why
        What the scheduler calls the node's state, or why nothing is known of it.
    """

    state: Use
    jobs: tuple[Job, ...] = ()
    drained: bool = False
    reason: str = ""
    why: str = ""
