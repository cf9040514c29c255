"""All agents of a run: started together, asked round by round, ended together.

A node that cannot be reached, lacks something or dies on the way costs its own pairs only; every wait has a
deadline.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Self

from fabricctl.errors import FabricctlError
from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PairId, PortId
from fabricctl.model.policy import Policy
from fabricctl.model.probe import AgentReport, Round, Sample
from fabricctl.transport.base import Transport
from fabricctl.verify import agents
from fabricctl.verify.agents import Agent, Patience
from fabricctl.verify.bundle import build
from fabricctl.verify.pairing import Parameters, measure

LOG = logging.getLogger(__name__)

MOST_THREADS = 128
"""Nodes that are started, or pairs that are probed, at the same time."""


class Fleet:
    """The agents of the ports that take part. Use it as a context manager.

    Parameters
    ----------
    ports
        Ports of nodes; each gets an agent process of its own, so that the ports of one node can be probed
        at the same time without waiting for each other.
    """

    def __init__(
        self,
        fabric: Fabric,
        ports: Iterable[PortId],
        transport: Transport,
        patience: Patience | None = None,
    ) -> None:
        self._fabric = fabric
        self._ports = tuple(dict.fromkeys(ports))
        self._transport = transport
        self._patience = patience or Patience()
        self._agents: dict[PortId, Agent] = {}
        self._why_not: dict[PortId, str] = {}
        self._gids: dict[PortId, str] = {}

    def __enter__(self) -> Self:
        """Start all agents; those that fail are in :attr:`reports`."""
        try:
            with _threads(len(self._ports)) as pool:
                list(pool.map(self._start, self._ports))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all agents; never raises."""
        for agent in self._agents.values():
            with suppress(Exception):
                agent.close()

    def _start(self, port_id: PortId) -> None:
        device, port = self._fabric.device(port_id.device), self._fabric.port(port_id)
        try:
            agent, gid = agents.start(self._transport, device, port, build(), self._patience)
        except FabricctlError as exc:
            self._why_not[port_id] = _reason(exc)
        except Exception as exc:  # a device that breaks our program must not stop the others
            LOG.exception("starting the agent of %s", port_id)
            self._why_not[port_id] = f"the agent could not be started: {type(exc).__name__}: {exc}"
        else:
            self._agents[port_id] = agent
            self._gids[port_id] = gid

    @property
    def reports(self) -> Mapping[str, AgentReport]:
        """What each node's agents said at the start; `error` is set where none of its ports can be used."""
        by_node: dict[str, list[PortId]] = {}
        for port in self._ports:
            by_node.setdefault(port.device, []).append(port)
        return {node: self._report(node, ports) for node, ports in by_node.items()}

    def _report(self, node: str, ports: list[PortId]) -> AgentReport:
        said = {port: self._gids.get(port) or self._why_not[port] for port in ports}
        working = [self._agents[port] for port in ports if port in self._agents]
        if not working:
            return AgentReport(node, error=self._why_not[ports[0]], ports=said)
        hello = working[0].hello
        return AgentReport(node, python=hello["python"], pyverbs=hello["pyverbs"], ports=said)

    def run_round(self, this: Round, probes: Mapping[str, Parameters], policy: Policy) -> tuple[Sample, ...]:
        """Probe all pairs of a round at the same time, each pair's probes one after the other.

        Parameters
        ----------
        probes
            By name, in the order in which they run: what each probe's plug-in takes from the policy.

        Returns
        -------
        tuple
            A sample for each pair and probe, with an error where it could not be measured. Pairs of a node
            without any agent have none: :attr:`reports` says why.
        """
        full = {
            name: {
                **parameters,
                "path_mtu_bytes": policy.mtu.rdma_bytes,
                "traffic_class": policy.roce_tos,
            }
            for name, parameters in probes.items()
        }

        def probe(pair: PairId) -> list[Sample]:
            return list(self._probe(pair, full))

        with _threads(len(this.pairs)) as pool:
            try:
                return tuple(sample for samples in pool.map(probe, this.pairs) for sample in samples)
            except BaseException:
                self.close()  # then no thread has anything left to wait for
                raise

    def _probe(self, pair: PairId, probes: Mapping[str, Parameters]) -> Iterator[Sample]:
        source, target = self._agents.get(pair.source), self._agents.get(pair.target)
        if source is None or target is None:
            return (sample for sample in self._unable(pair, probes))
        return (measure(pair, name, parameters, source, target) for name, parameters in probes.items())

    def _unable(self, pair: PairId, probes: Iterable[str]) -> Iterator[Sample]:
        """Yield samples for a port that cannot be used on a node whose other ports can."""
        lame = [port for port in (pair.source, pair.target) if port in self._why_not]
        if any(self._is_absent(port.device) for port in lame):
            return
        reason = "; ".join(f"{port}: {self._why_not[port]}" for port in lame)
        device = lame[0].device if len(lame) == 1 else ""
        for name in probes:
            yield Sample(pair, name, "", 0.0, 0.0, error=reason, error_kind="setup", error_device=device)

    def _is_absent(self, node: str) -> bool:
        return not any(port.device == node for port in self._agents)


def _threads(wanted: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=max(1, min(wanted, MOST_THREADS)), thread_name_prefix="fleet")


def _reason(exc: FabricctlError) -> str:
    """Return the error without its place, which stands beside it."""
    return f"{exc.what}; {exc.next_step}" if exc.next_step else exc.what
