"""Everything that a verify run saw and concluded, kept so that it can be shown and judged again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fabricctl.model.fabric import Fabric
from fabricctl.model.policy import Policy
from fabricctl.model.probe import AgentReport, Sample
from fabricctl.model.reading import DeviceReading
from fabricctl.model.verdict import Suspect, Verdict


@dataclass(frozen=True)
class Evidence:
    """What a verify run had before it and what it concluded.

    Parameters
    ----------
    fabric, policy
        As they were at the time, not as the inventory has them now.
    agents
        By node.
    readings
        By device: what the certificates' fingerprints were taken from.
    """

    fabric: Fabric
    policy: Policy
    agents: Mapping[str, AgentReport] = field(default_factory=dict)
    verdicts: Sequence[Verdict] = ()
    suspects: tuple[Suspect, ...] = ()
    samples: tuple[Sample, ...] = ()
    readings: Mapping[str, DeviceReading] = field(default_factory=dict)
