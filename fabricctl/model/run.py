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


@dataclass(frozen=True, slots=True)
class Run:
    """One run.

    Parameters
    ----------
    id
        ``v20261129-2017-3f2a``: sorts by time, names the kind by its first letter.
    ended_at
        Unix time; None while it runs, or if it was killed.
    outcome
        None while it runs.
    summary
        One line.
    """

    id: str
    kind: RunKind
    started_at: float
    by: str
    inventory: str
    ended_at: float | None = None
    outcome: Outcome | None = None
    summary: str = ""
