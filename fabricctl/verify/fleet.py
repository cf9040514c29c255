"""All agents of a run: started together, asked over one exchange, ended together.

A node that cannot be reached, lacks something or dies on the way costs its own pairs only; every wait has a
deadline.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Self

from fabricctl.errors import FabricctlError
from fabricctl.model.fabric import Fabric
from fabricctl.model.names import PairId, PortId
from fabricctl.model.policy import Policy
from fabricctl.model.probe import AgentReport, Round, Sample
from fabricctl.transport.base import Transport
from fabricctl.verify import agents
from fabricctl.verify.agents import AUTO, Agent, Patience
from fabricctl.verify.bundle import build
from fabricctl.verify.course import Course, Leg, Sink
from fabricctl.verify.exchange import Exchange
from fabricctl.verify.pairing import Parameters

LOG = logging.getLogger(__name__)

MOST_THREADS = 128
"""Nodes that are started, or ended, at the same time."""


class Fleet:
    """The agents of the ports that take part. Use it as a context manager.

    Parameters
    ----------
    ports
        Ports of nodes; each gets an agent process of its own, so that the ports of one node can be probed
        at the same time without waiting for each other.
    engine
        ``native``, ``pyverbs``, or ``auto``: on each node the native one where it loads.
    """

    def __init__(
        self,
        fabric: Fabric,
        ports: Iterable[PortId],
        transport: Transport,
        patience: Patience | None = None,
        *,
        engine: str = AUTO,
    ) -> None:
        self._fabric = fabric
        self._ports = tuple(dict.fromkeys(ports))
        self._way = agents.Way(transport, build(), patience or Patience(), engine)
        self._course: Course | None = None
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

        def end(agent: Agent) -> None:
            with suppress(Exception):
                agent.close()

        if self._course is not None:
            self._course.exchange.close()
        with _threads(len(self._agents)) as pool:
            list(pool.map(end, self._agents.values()))

    def _start(self, port_id: PortId) -> None:
        device, port = self._fabric.device(port_id.device), self._fabric.port(port_id)
        try:
            agent, gid = agents.start(self._way, device, port)
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
        return AgentReport(
            node, python=hello["python"], pyverbs=hello["engines"].get("pyverbs", ""), ports=said
        )

    @property
    def measuring_share(self) -> float:
        """Seconds in which the busiest port was measured, by those from the first preparation to the end."""
        return self._course.measuring_share if self._course else 0.0

    @property
    def course(self) -> Course:
        """What runs the legs; made when it is first needed."""
        if self._course is None:
            rates = {port: self._fabric.port(port).speed_gbps for port in self._ports}
            exchange = Exchange(self._agents.values(), self._way.patience)
            lines = dict(zip(self._agents, exchange.lines, strict=True))
            self._course = Course(exchange, lines, rates)
        return self._course

    def run(self, legs: Iterable[Leg | None], policy: Policy, sink: Sink) -> None:
        """Probe all pairs of all legs; a couple of ports begins as soon as both are free.

        Parameters
        ----------
        legs
            Each with the probes that run, by name, and what each one's plug-in takes from the policy. They
            are asked for as there is room; None means to ask again when a leg is over.
        sink
            Takes samples as they come: one for each pair and probe, with an error where it could not be
            measured. Pairs of a node without any agent have none: :attr:`reports` says why.
        """
        whole: dict[int, tuple[Mapping[str, Parameters], Mapping[str, Parameters]]] = {}

        def able() -> Iterator[Leg | None]:
            for leg in legs:
                if leg is None:
                    yield None
                    continue
                if id(leg.probes) not in whole:
                    whole[id(leg.probes)] = (leg.probes, _whole(leg.probes, policy))
                yield replace(leg, round=self._able(leg, sink), probes=whole[id(leg.probes)][1])

        try:
            self.course.run(able(), sink)
        except BaseException:
            self.close()  # nobody would end what runs on the nodes
            raise

    def run_round(self, this: Round, probes: Mapping[str, Parameters], policy: Policy) -> tuple[Sample, ...]:
        """Probe the pairs of one round and return all samples, in the round's order."""
        found: list[Sample] = []
        self.run([Leg(this, probes)], policy, found.extend)
        places = {pair: place for place, pair in enumerate(this.pairs)}
        return tuple(sorted(found, key=lambda sample: places[sample.pair]))

    def _able(self, leg: Leg, sink: Sink) -> Round:
        """Return the round without the pairs that have no agent at an end, whose samples say why."""
        if not self._why_not:
            return leg.round
        able = []
        for pair in leg.round.pairs:
            if pair.source in self._agents and pair.target in self._agents:
                able.append(pair)
            else:
                sink(list(self._unable(pair, leg.probes)))
        return Round(leg.round.number, tuple(able))

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


def _whole(probes: Mapping[str, Parameters], policy: Policy) -> Mapping[str, Parameters]:
    common = {"path_mtu_bytes": policy.mtu.rdma_bytes, "traffic_class": policy.roce_tos}
    return {name: {**parameters, **common} for name, parameters in probes.items()}


def _threads(wanted: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=max(1, min(wanted, MOST_THREADS)), thread_name_prefix="fleet")


def _reason(exc: FabricctlError) -> str:
    """Return the error without its place, which stands beside it."""
    return f"{exc.what}; {exc.next_step}" if exc.next_step else exc.what
