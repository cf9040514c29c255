"""A driver that is made of functions, as most are: a module for reading and one for setting."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from fabricctl.model.fabric import Port, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.plan import Disruption
from fabricctl.model.reading import Entry, PortReading, Value
from fabricctl.plugin.protocols import Answers, Method, Parameter, Query

Read = tuple[Mapping[PortId, PortReading], Mapping[str, Entry]]
"""The reading of each port, and the facts of the device."""


@dataclass(frozen=True, slots=True)
class MadeDriver:
    """A :class:`fabricctl.plugin.protocols.Driver`; its members do what the protocol says."""

    name: str
    role: Role
    queries: Callable[[Sequence[Port]], tuple[Query, ...]]
    parse: Callable[[Sequence[Port], Answers], Read]
    wanted: Callable[[PortIntent], Mapping[str, Value]]
    disruption: Callable[[str, Entry, Value], Disruption]
    unsupported: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    method: Method | None = None
    mtu_headers_bytes: int = 0
