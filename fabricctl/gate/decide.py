"""May a job run on these nodes, now? Pure: certificates and the time come in, a decision goes out."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from fabricctl.model.certificate import Answer, Certificate, Decision
from fabricctl.model.names import PortId
from fabricctl.model.policy import ALL_PAIRS, GatePolicy, Stance
from fabricctl.model.verdict import Outcome
from fabricctl.model.words import count

LOSS = "loss"
"""Name of the probe whose failure a cable can explain."""

CLOCK_SLACK_S = 60.0
"""How far in the future a certificate may have been issued: clocks differ that much, not more."""


@dataclass(frozen=True, slots=True)
class _Objection:
    """Why a job should not run: one line, and whether it is known to be bad (NO) or not known to be good."""

    answer: Answer
    line: str


@dataclass(frozen=True, slots=True)
class _Port:
    """A port's certificates that can count, the newest first."""

    newest: Certificate
    older: tuple[Certificate, ...]


def decide(certificates: Iterable[Certificate], nodes: Sequence[str], now: float) -> Decision:
    """Decide for the nodes of a job.

    Yes takes, of every port of every node, a newest certificate that passed, has not expired, is not revoked
    and is not dated in the future; and, unless the policy's ``gate.pairs`` is ``ports``, that every two ports
    of the job on the same rail passed together. A fault that is known makes it no; what is not known makes it
    unknown, and the policy says whether that lets the job in. Evidence from a simulated fabric is always
    called so.

    Parameters
    ----------
    certificates
        Of the ports of the nodes, all that may still count (``Store.standing``); in any order.
    nodes
        Of the job, at least one.
    now
        Unix time in seconds.
    """
    job = tuple(dict.fromkeys(nodes))
    if not job:
        return undecided("no nodes are named", job, now)
    ports = _by_port(certificates, job)
    policy = _policy(ports)
    objections = [
        *_objections(ports, job, now),
        *_mixed(ports),
        *_pair_objections(ports, policy, now),
        *_simulated(ports, policy),
    ]
    if not objections:
        return _accept(ports, job, now, policy)
    # What is known to be bad counts more than what is not known; sorting keeps the order otherwise.
    objections.sort(key=lambda objection: objection.answer is not Answer.NO)
    first = objections[0]
    more = f" (and {len(objections) - 1} more)" if len(objections) > 1 else ""
    return _refuse(first.answer, f"{first.line}{more}", job, now, policy)


def undecided(reason: str, nodes: Sequence[str], now: float, policy: GatePolicy | None = None) -> Decision:
    """Return the decision where the certificates cannot even be read.

    Parameters
    ----------
    reason
        One line with what to do about it.
    policy
        None if it is not known: then the job is refused.
    """
    return _refuse(Answer.UNKNOWN, reason, tuple(nodes), now, policy or GatePolicy())


def _refuse(answer: Answer, line: str, nodes: tuple[str, ...], now: float, policy: GatePolicy) -> Decision:
    lets_in = answer is Answer.UNKNOWN and policy.unknown is not Stance.REFUSE
    waived = " (let in: the policy's gate.unknown is " + policy.unknown + ")" if lets_in else ""
    return Decision(answer, lets_in, f"{answer}: {line}{waived}", nodes, now)


def _accept(
    ports: Mapping[PortId, _Port], nodes: tuple[str, ...], now: float, policy: GatePolicy
) -> Decision:
    held = [port.newest for port in ports.values()]
    until = min(certificate.expires_at for certificate in held)
    oldest = min(certificate.issued_at for certificate in held)
    text = (
        f"{count(len(nodes), 'node')}, {count(len(held), 'port')} certified by policy {held[0].policy},"
        f" the oldest {_when(oldest)},"
        f" valid until {_when(until)}"
    )
    answer = str(Answer.YES)
    if stand_ins := _stand_ins(ports):
        answer = "yes, with a warning" if policy.simulated is Stance.WARN else answer
        text = f"{text}; {stand_ins}"
    return Decision(Answer.YES, allow=True, line=f"{answer}: {text}", nodes=nodes, at=now)


def _stand_ins(ports: Mapping[PortId, _Port]) -> str:
    found = sorted({port.newest.simulated for port in ports.values() if port.newest.simulated})
    return f"SIMULATED evidence ({'; '.join(found)})" if found else ""


def _simulated(ports: Mapping[PortId, _Port], policy: GatePolicy) -> Iterator[_Objection]:
    stand_ins = _stand_ins(ports)
    if stand_ins and policy.simulated is Stance.REFUSE:
        yield _Objection(
            Answer.NO,
            f"{stand_ins} proves nothing about real hardware;"
            ' verify the real fabric, or set gate.simulated to "allow" in the policy',
        )


def _mixed(ports: Mapping[PortId, _Port]) -> Iterator[_Objection]:
    """Object to certificates that cannot be put together: of different limits, or of different fabrics."""
    held = [port.newest for port in ports.values()]
    for other in held[1:]:
        first = held[0]
        if _is_comparable(first, other):
            continue
        line = (
            f"{first.port} and {other.port} are certified {_difference(first, other)}; verify both with one"
        )
        yield _Objection(Answer.UNKNOWN, line)
        return


def _difference(one: Certificate, other: Certificate) -> str:
    if one.policy_digest != other.policy_digest:
        return f"by different limits (policies {one.policy} and {other.policy})"
    if one.inventory != other.inventory:
        return f"from different inventories ({one.inventory} and {other.inventory})"
    kinds = (f"simulated ({c.simulated})" if c.simulated else "real" for c in (one, other))
    return f"on different fabrics ({' and '.join(kinds)})"


def _is_comparable(one: Certificate, other: Certificate) -> bool:
    return (
        one.policy_digest == other.policy_digest
        and one.inventory == other.inventory
        and one.simulated == other.simulated
    )


def _by_port(certificates: Iterable[Certificate], nodes: Sequence[str]) -> dict[PortId, _Port]:
    """Sort certificates by port; ports that their node has no more are left out."""
    held: dict[PortId, list[Certificate]] = {}
    latest: dict[str, Certificate] = {}
    for certificate in sorted(certificates, key=lambda c: (c.issued_at, c.id), reverse=True):
        held.setdefault(certificate.port, []).append(certificate)
        latest.setdefault(certificate.port.device, certificate)
    return {
        port: _Port(held[port][0], tuple(held[port][1:]))
        for port in sorted(held)
        if port.device in nodes and port in latest[port.device].node_ports
    }


def _policy(ports: Mapping[PortId, _Port]) -> GatePolicy:
    """Return the gate's policy as the newest certificate has it."""
    newest = max((port.newest for port in ports.values()), key=lambda c: c.issued_at, default=None)
    return newest.gate if newest else GatePolicy()


def _objections(ports: Mapping[PortId, _Port], nodes: Sequence[str], now: float) -> Iterator[_Objection]:
    by_node: dict[str, list[Certificate]] = {}
    for port, held in ports.items():
        by_node.setdefault(port.device, []).append(held.newest)
    for node in nodes:
        if node not in by_node:
            yield _Objection(Answer.UNKNOWN, f"{node} has no certificate; {_verify(node)}")
            continue
        newest = max(by_node[node], key=lambda c: c.issued_at)
        for port in newest.node_ports:
            if port in ports:
                yield from _port_objections(ports[port].newest, now)
            else:
                yield _Objection(Answer.UNKNOWN, f"{port} has no certificate; {_verify(node)}")


def _port_objections(held: Certificate, now: float) -> Iterator[_Objection]:
    port, node, again = held.port, held.port.device, _verify(held.port.device)
    if held.revoked:
        yield _Objection(Answer.NO, f"{port}: its certificate was revoked {held.revoked}; {again}")
    elif held.outcome is Outcome.FAIL:
        yield _Objection(Answer.NO, f"{port} failed {_when(held.issued_at)}: {_failure(held)}")
    elif held.outcome is not Outcome.PASS:
        yield _Objection(
            Answer.UNKNOWN,
            f"{port} could not be judged {_when(held.issued_at)}: {_finding(held)};"
            f' run "fabricctl explain {node}", then {again}',
        )
    elif held.issued_at > now + CLOCK_SLACK_S:
        line = (
            f"{port}: its certificate is dated {_when(held.issued_at)}, in the future; set the clocks right"
        )
        yield _Objection(Answer.UNKNOWN, f"{line}, then {again}")
    elif held.expires_at <= now:
        yield _Objection(Answer.UNKNOWN, f"{port}: its certificate expired {_when(held.expires_at)}; {again}")


def _failure(held: Certificate) -> str:
    suspect = f"; suspect {held.suspects[0]}" if held.suspects else ""
    first = held.findings[0] if held.findings else None
    cure = (first.next_step if first else "") or "repair it"
    if "link " in suspect and first and first.check == LOSS:
        cure = "reseat or replace the cable"
    return (
        f'{_finding(held)}{suspect}; run "fabricctl explain {held.run_id}"; {cure},'
        f' then "fabricctl verify --pairs {held.port.device}:all"'
    )


def _finding(held: Certificate) -> str:
    if not held.findings:
        return "there is no finding on record"
    first = held.findings[0]
    return f"{first.subject}: {first.what}"


def _pair_objections(ports: Mapping[PortId, _Port], policy: GatePolicy, now: float) -> Iterator[_Objection]:
    """Object to every two ports on a rail that did not pass together."""
    if policy.pairs != ALL_PAIRS:
        return
    by_rail: dict[int | None, list[PortId]] = {}
    for port, held in ports.items():
        by_rail.setdefault(held.newest.rail, []).append(port)
    found: dict[frozenset[PortId], _Objection] = {}
    for rail in by_rail.values():
        names = {str(port): port for port in rail}
        for port in rail:
            peers = ports[port].newest.peers
            passed = {name for name, outcome in peers.items() if outcome is Outcome.PASS}
            # Both ends must vouch for the pair: either's certificate may be revoked or outlived.
            for other in (names[name] for name in sorted(names.keys() - passed)):
                objection, couple = _pair_objection(ports[port], other, now), frozenset((port, other))
                if objection and (couple not in found or found[couple].answer is Answer.UNKNOWN):
                    found[couple] = objection
    yield from found.values()


def _pair_objection(held: _Port, other: PortId, now: float) -> _Objection | None:
    name, port = str(other), held.newest.port
    if port.device == other.device:
        return None  # ports of one node need not talk to each other
    first, second = sorted((port, other))
    couple, again = f"{first} and {second}", f'run "fabricctl verify --pairs {first}:{second}"'
    usable = (held.newest, *(c for c in held.older if _still_holds(c, held.newest, now)))
    tested = next((c for c in usable if name in c.peers), None)
    if tested is None:
        return _Objection(Answer.UNKNOWN, f"{couple} have not been proved together; {again}")
    when = _when(tested.issued_at)
    match tested.peers[name]:
        case Outcome.PASS:
            return None
        case Outcome.FAIL:
            explain = f'"fabricctl explain {first}:{second}"'
            return _Objection(Answer.NO, f"{couple} failed together {when}; run {explain}, then {again}")
        case Outcome.UNKNOWN | Outcome.ERROR:
            return _Objection(Answer.UNKNOWN, f"{couple} could not be judged {when}; {again}")
        case _:
            assert_never(tested.peers[name])


def _still_holds(older: Certificate, newest: Certificate, now: float) -> bool:
    """Say whether an older certificate still speaks for the pairs that the newest did not test."""
    if older.revoked or not older.issued_at <= now < older.expires_at or not _is_comparable(older, newest):
        return False
    # A reboot, a flap or another cable in between: what was proved then was proved of another port.
    both = older.fingerprint.keys() & newest.fingerprint.keys()
    if newest.fingerprint and not both:
        return False  # nothing shows that it was this port
    return all(older.fingerprint[fact] == newest.fingerprint[fact] for fact in both)


def _verify(node: str) -> str:
    return f'run "fabricctl verify --pairs {node}:all"'


def _when(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at))
