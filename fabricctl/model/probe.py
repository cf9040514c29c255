"""What is asked of a pair of ports, and what came back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fabricctl.model.histogram import Histogram
from fabricctl.model.names import PairId, PortId
from fabricctl.model.reading import Entry

_NOTHING = Histogram()


@dataclass(frozen=True, slots=True)
class Round:
    """Pairs that run at the same time; no port is in two couples.

    Parameters
    ----------
    pairs
        Directed pairs, a couple's two directions one after the other; what is asked of a couple runs one
        after the other. It may make the pairs as they are asked for (``verify/pairs.py``).
    """

    number: int
    pairs: Sequence[PairId]


@dataclass(frozen=True, slots=True)
class Sample:
    """The raw result of one probe on one directed pair.

    Parameters
    ----------
    probe
        Name of the probe (``read_latency``).
    engine
        What ran the loop (``pyverbs``), with its version.
    error
        Empty, or one line: why there is no result. Then `latencies` and `numbers` are empty.
    error_kind
        Whose it is, in the agent's words (``agent/wire.py``): ``peer`` is the fabric's or the other end's
        own "no" and counts as a failure; all others (``setup``, ``deadline``, ...) are "not measured".
    error_device
        The device whose own "no" or silence the error is; empty where it cannot be put down to one.
    latencies
        Every timed operation, ns, nothing trimmed; the warm-up is left out.
    numbers
        The probe's counts by name (``sent``, ``missing``); missing keys mean "not measured".
    numbers_by_path
        The same per queue pair (index = queue pair) where the probe keeps them apart.
    counters
        NIC counters, delta over the probe, by ``side/name`` with side ``source`` or ``target``.
    parameters
        What the probe ran with: message size, path MTU, GID indexes, traffic class, seed; ``warmup`` is how
        many operations the agent left out, ``floor_ns`` (where it measured one) the median of the same
        operation of the engine with itself.
    """

    pair: PairId
    probe: str
    engine: str
    started_at: float
    duration_s: float
    error: str = ""
    latencies: Histogram = _NOTHING
    numbers: Mapping[str, int] = field(default_factory=dict)
    numbers_by_path: tuple[Mapping[str, int], ...] = ()
    counters: Mapping[str, Entry] = field(default_factory=dict)
    parameters: Mapping[str, str | int | float] = field(default_factory=dict)
    error_kind: str = ""
    error_device: str = ""


@dataclass(frozen=True, slots=True)
class AgentReport:
    """What a node's agent said of itself at the start, or why there is none.

    Parameters
    ----------
    error
        Empty, or one line that says what to install or set on the node.
    ports
        By port: the GID that was chosen, or why none fits.
    """

    node: str
    error: str = ""
    python: str = ""
    pyverbs: str = ""
    ports: Mapping[PortId, str] = field(default_factory=dict)
