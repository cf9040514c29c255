"""Soft-RoCE (rdma_rxe) on any netdev: DCB through ``dcb``, where the netdev has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fabricctl.drivers.nic.rxe import parse, steps
from fabricctl.model.fabric import Port, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.plan import Disruption
from fabricctl.model.reading import Entry, PortReading, Value
from fabricctl.plugin.protocols import Answers, Query


class RxeDriver:
    """Reads and sets soft-RoCE ports."""

    name = "rxe"
    role = Role.NODE
    unsupported: Mapping[str, str] = steps.UNSUPPORTED

    def queries(self, ports: Sequence[Port]) -> tuple[Query, ...]:
        """Return everything to ask a node with these ports."""
        return parse.queries(ports)

    def parse(
        self, ports: Sequence[Port], answers: Answers
    ) -> tuple[Mapping[PortId, PortReading], Mapping[str, Entry]]:
        """Return the reading of each port and the facts of the node."""
        return parse.parse(ports, answers)

    def wanted(self, intent: PortIntent) -> Mapping[str, Value]:
        """Return the settings that realise the intent."""
        return steps.wanted(intent)

    def disruption(self, setting: str, old: Entry, new: Value) -> Disruption:
        """Return what changing `setting` does to traffic."""
        return steps.disruption(setting, old, new)


PLUGIN = RxeDriver()
