"""What was done, when and by whom."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fabricctl.model.verdict import Outcome


class RunKind(StrEnum):
    """What a run did."""

    APPLY = "apply"
    ROLLBACK = "rollback"
    VERIFY = "verify"
    LINKS = "links"


@dataclass(frozen=True, slots=True)
class Run:
    """One run.

    Parameters
    ----------
    id
        ``v20261129-201730-3f2a``: names the kind by its first letter, then the start in UTC.
    ended_at
        Unix time; None while it runs, or if it was killed.
    outcome
        None while it runs.
    summary
        One line.
    interrupted
        It has no end and its process is gone: it was killed.
    """

    id: str
    kind: RunKind
    started_at: float
    by: str
    inventory: str
    ended_at: float | None = None
    outcome: Outcome | None = None
    summary: str = ""
    interrupted: bool = False
