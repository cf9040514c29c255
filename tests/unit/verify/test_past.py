"""The past as a run recalls it from the store: what counts, what it rests on, and what is no past of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from fabricctl.model import facts
from fabricctl.model.fabric import Fabric, LinkLayer
from fabricctl.model.names import PortId
from fabricctl.model.past import Basis, Past, Result
from fabricctl.model.policy import Limits, MtuPolicy, Policy
from fabricctl.model.reading import DeviceReading, Known, PortReading
from fabricctl.model.run import RunKind
from fabricctl.model.verdict import Outcome
from fabricctl.store import Store
from fabricctl.verify import coverage
from fabricctl.verify.certify import fingerprint, policy_digest
from fabricctl.verify.risk import change
from fabricctl.verify.schedule import expand
from tests.fakes.certificates import FAIL, LIFE, NOW, PASS, SAME, UNKNOWN, certificate, port

Build = Callable[..., Fabric]

POLICY = Policy("lab", LinkLayer.ETHERNET, None, None, MtuPolicy(9000, 9216, 4096), (), {}, Limits((), None))


def test_the_past_is_recalled_from_the_store(star: Build, tmp_path: Path) -> None:
    fabric = replace(star(4), source="/inventory.yml", simulated="")
    life = POLICY.gate.max_age_s
    readings = {
        f"node{n}": DeviceReading(
            f"node{n}",
            NOW,
            {port(n): PortReading(port(n), {}, {facts.FIRMWARE: Known(f"{n}")})},
        )
        for n in (1, 2, 3)
    }
    with Store.open(tmp_path / "s") as store:
        run = store.begin(RunKind.VERIFY, "me", fabric.source, now=NOW)
        other = store.begin(RunKind.VERIFY, "me", "/other.yml", now=NOW)

        def put(n: int, at: float, peers: Mapping[int, Outcome], inventory: str = fabric.source) -> None:
            held = certificate(
                port(n),
                at=at,
                id=f"{n}-{at}",
                run_id=run.id if inventory == fabric.source else other.id,
                inventory=inventory,
                peers={str(port(peer)): outcome for peer, outcome in peers.items()},
                expires_at=at + life,
                policy_digest=policy_digest(POLICY.limits),
                fingerprint=fingerprint(port(n), readings.get(f"node{n}")),
            )
            store.put_certificates([held])

        put(1, NOW - 5 * life, {4: PASS})  # too long ago
        put(1, NOW - 100, {2: PASS, 3: PASS})
        put(2, NOW - 100, {1: FAIL, 3: PASS})
        put(3, NOW - 50, {1: UNKNOWN})
        put(1, NOW - 10, {2: PASS})
        put(4, NOW - 5, {1: PASS}, "/other.yml")
        past = coverage.recall(store, fabric, POLICY, readings, NOW)
    assert past.results == {
        port(1): {
            port(2): Result(NOW - 10, PASS, by_both=False),
            port(3): Result(NOW - 50, UNKNOWN, by_both=False),
        },
        port(2): {port(3): Result(NOW - 100, PASS, by_both=False)},
    }
    # Those that nothing rests on any more are not kept.
    assert {p: sorted(rests) for p, rests in past.bases.items()} == {
        port(1): [NOW - 10],
        port(2): [NOW - 100],
        port(3): [NOW - 50],
    }
    assert past.bases[port(1)][NOW - 10] == Basis(
        NOW - 10 + life, "", policy_digest(POLICY.limits), {"firmware": "1"}
    )
    assert past.certificates.keys() == {port(1), port(2), port(3)}
    assert past.certificates[port(1)].peers == {}
    assert past.fingerprints == {port(n): {"firmware": f"{n}"} for n in (1, 2, 3)}
    assert {n: change(port(n), past) for n in (1, 2, 3, 4)} == {1: "", 2: "", 3: "", 4: "no certificate"}
    assert (past.now, past.max_age_s) == (NOW, life)


def test_of_one_moment_the_worse_counts(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s") as store:
        run = store.begin(RunKind.VERIFY, "me", "/i.yml", now=NOW)
        store.put_certificates(
            [
                certificate(port(1), id="a", run_id=run.id, peers={str(port(2)): PASS}),
                certificate(port(2), id="b", run_id=run.id, peers={str(port(1)): FAIL}),
            ]
        )
        last = store.last_verdicts("/i.yml", 0.0)
        assert last.results == {port(1): {port(2): Result(NOW - 60, FAIL)}}
        assert last.bases == {port(n): {NOW - 60: Basis(NOW - 60 + LIFE, "", "d", SAME)} for n in (1, 2)}
        assert store.last_verdicts("/i.yml", NOW) == ({}, {})
        assert store.last_verdicts("/other.yml", 0.0) == ({}, {})


class Site:
    """Ports whose runs are kept in a store, and the past as a later run sees it."""

    def __init__(self, fabric: Fabric, store: Store) -> None:
        self.fabric = replace(fabric, source="/inventory.yml", simulated="")
        self.store = store
        self.policy = POLICY
        self.cables = {p.id: "1" for p in fabric.node_ports()}

    def verify(self, *passed: tuple[int, int], at: float, simulated: str = "") -> None:
        run = self.store.begin(RunKind.VERIFY, "me", self.fabric.source, now=at)
        peers: dict[PortId, dict[str, Outcome]] = {}
        for a, b in passed:
            peers.setdefault(port(a), {})[str(port(b))] = PASS
            peers.setdefault(port(b), {})[str(port(a))] = PASS
        self.store.put_certificates(
            certificate(
                of,
                at=at,
                id=f"{of}-{at}",
                run_id=run.id,
                inventory=self.fabric.source,
                simulated=simulated,
                peers=held,
                policy_digest=policy_digest(self.policy.limits),
                fingerprint=fingerprint(of, self._readings()[of.device]),
            )
            for of, held in peers.items()
        )

    def _readings(self) -> dict[str, DeviceReading]:
        return {
            p.device: DeviceReading(p.device, NOW, {p: PortReading(p, {}, {facts.FIRMWARE: Known(cable)})})
            for p, cable in self.cables.items()
        }

    def past(self, simulated: str = "") -> Past:
        fabric = replace(self.fabric, simulated=simulated)
        return coverage.recall(self.store, fabric, self.policy, self._readings(), NOW)

    def changed(self, simulated: str = "") -> set[str]:
        pairs = expand(self.fabric, "changed", past=self.past(simulated))
        return {f"{p.source.device} {p.target.device}" for p in pairs if p.source < p.target}


ALL = ((1, 2), (1, 3), (2, 3))


@pytest.fixture
def site(star: Build, tmp_path: Path) -> Iterator[Site]:
    with Store.open(tmp_path / "s") as store:
        yield Site(star(3), store)


@pytest.mark.parametrize("what", ["cable", "revoked", "limits"])
def test_a_later_certificate_of_another_couple_vouches_for_nothing_before_it(site: Site, what: str) -> None:
    site.verify(*ALL, at=NOW - 300)
    assert site.changed() == set()
    if what == "cable":
        site.cables[port(1)] = "2"
    elif what == "revoked":
        site.store.revoke("node1", "ops", "flaps", NOW - 200)
    else:
        site.policy = replace(POLICY, limits=Limits((), None, latency_samples=7))
    left = {"node1 node2", "node1 node3"} | ({"node2 node3"} if what == "limits" else set())
    assert site.changed() == left
    site.verify((1, 3), at=NOW - 100)
    assert site.changed() == left - {"node1 node3"}
    site.verify((1, 2), (2, 3), at=NOW - 50)
    assert site.changed() == set()


@pytest.mark.parametrize(("then", "now"), [("model a", ""), ("", "model a"), ("model a", "model b")])
def test_what_stood_in_for_the_hardware_then_is_no_past_of_now(site: Site, then: str, now: str) -> None:
    site.verify(*ALL, at=NOW - 300, simulated=then)
    assert site.changed(then) == set()
    assert site.changed(now) == {"node1 node2", "node1 node3", "node2 node3"}
    past = site.past(now)
    assert (past.results, past.bases, past.certificates) == ({}, {}, {})
    site.verify((1, 2), at=NOW - 400, simulated=now)
    assert site.past(now).results == {port(1): {port(2): Result(NOW - 400, PASS)}}
