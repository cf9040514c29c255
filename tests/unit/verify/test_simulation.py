"""``fabricctl verify --launcher simulated``: any inventory, no device, and every result says what it is."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fabricctl.cli.main import cli
from fabricctl.errors import InventoryError, UsageError
from fabricctl.model.fabric import Fabric
from fabricctl.model.histogram import Histogram
from fabricctl.model.names import PairId, PortId
from fabricctl.model.policy import LatencyLimit, Limits, LossLimit
from fabricctl.model.probe import Sample
from fabricctl.model.reading import Known, Missing
from fabricctl.model.verdict import Outcome
from fabricctl.plugin import finder
from fabricctl.plugin.latency import LatencyProbe
from fabricctl.store import Store
from fabricctl.verify.simulation import marked, told

POLICY = """\
name: small
link_layer: ethernet
lossless: {priority: 3, dscp: 26}
cnp: {priority: 6, dscp: 48}
mtu: {nic_bytes: 4200, switch_bytes: 9000, rdma_bytes: 4096}
pfc_priorities: [3]
limits:
  latency:
    read_latency:
      any: {p50_us: 60}
  loss: {bound_rate: 0.01}
  latency_samples: 100
"""


def inventory(folder: Path, nodes: int = 3) -> Path:
    """Write an inventory of nodes on one leaf, and its policy."""
    hosts: dict[str, Any] = {}
    for number in range(1, nodes + 1):
        link = {"switch": "leaf1", "port": f"eth{number}"}
        port = {"name": "eth1", "rdma": "mlx5_0", "rail": 0, "address": f"10.0.0.{number}/24", "link": link}
        hosts[f"node{number}"] = {"fabric_role": "node", "fabric_driver": "rxe", "fabric_ports": [port]}
    hosts["leaf1"] = {"fabric_role": "switch", "fabric_driver": "linux", "fabric_tier": "leaf"}
    (folder / "policy.yml").write_text(POLICY)
    path = folder / "inventory.yml"
    path.write_text(json.dumps({"all": {"vars": {"fabric_policy": "policy.yml"}, "hosts": hosts}}))
    return path


@pytest.fixture
def fabric() -> Fabric:
    import importlib.util  # noqa: PLC0415
    import sys  # noqa: PLC0415

    path = Path(__file__).parents[2] / "bench" / "thousand.py"
    spec = importlib.util.spec_from_file_location("bench_thousand", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    made: Fabric = module.make_fabric(3, "/i.yml")
    return made


def test_the_mark_names_the_world(fabric: Fabric) -> None:
    plain, faulty = marked(fabric), marked(fabric, {"seed": 1})
    assert plain.simulated.startswith("numbers drawn from a model by --launcher simulated, over numbers")
    assert faulty.simulated != plain.simulated
    assert faulty == marked(fabric, {"seed": 1}) != marked(fabric, {"seed": 2})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", ""),
        ("- 1", "has the keys"),
        ("speed: 3", "has the keys seed, latency_ns, faults"),
        ("seed: x", "seed is no whole number"),
        ("latency_ns: 3", "latency_ns has the classes"),
        ("latency_ns: {far: 3}", "latency_ns has the classes"),
        ("latency_ns: {any: 0}", "no time of 1 to"),
        ("latency_ns: {any: true}", "no time of 1 to"),
        ("faults: [1]", "faults is no mapping"),
        ("faults: {node9/eth1: {}}", "no port node9/eth1"),
        ("faults: {node0001/eth1: {color: red}}", "has loss, slow and way"),
        ("faults: {node0001/eth1: {loss: 2}}", "loss is 0 to 1"),
        ("faults: {node0001/eth1: {slow: 0.5}}", "slow is 1 or more"),
        ("faults: {node0001/eth1: {way: up}}", "way is one of"),
        ("{", "cannot be read"),
    ],
)
def test_a_simulation_that_makes_no_sense_is_named(
    fabric: Fabric, tmp_path: Path, text: str, why: str
) -> None:
    path = tmp_path / "simulation.yml"
    path.write_text(text)
    if not why:
        assert told(path, fabric) == {}
        return
    with pytest.raises(InventoryError, match=why):
        told(path, fabric)


def test_a_simulation_is_read(fabric: Fabric, tmp_path: Path) -> None:
    path = tmp_path / "simulation.yml"
    path.write_text("seed: 4\nlatency_ns: {any: 1500.5}\nfaults: {node0001/eth1: {loss: 0.5, way: sends}}\n")
    assert told(path, fabric) == {
        "seed": 4,
        "latency_ns": {"any": 1500.5},
        "faults": {"node0001/eth1": {"loss": 0.5, "way": "sends"}},
    }


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("FABRICCTL_STORE", str(tmp_path / "store.sqlite"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def run(*words: str) -> Result:
        return CliRunner().invoke(cli, words)

    return run


WORDS = ("--pairs", "all", "--probes", "read_latency,loss", "--launcher", "simulated")


def test_any_inventory_can_be_tried(tmp_path: Path, invoke: Any) -> None:
    path = str(inventory(tmp_path))
    result = invoke("verify", path, *WORDS)
    assert result.exit_code == 0, result.output
    assert "SIMULATED: numbers drawn from a model by --launcher simulated" in result.output
    assert "engine: simulated 1" in result.output
    listed = json.loads(invoke("certs", "list", "--json").stdout)
    assert len(listed) == 3
    gate = invoke("gate", "--nodes", "node1,node2")
    assert gate.exit_code != 0
    assert "simulated" in gate.output
    again = invoke("verify", path, "--resume")
    assert isinstance(again.exception, UsageError)
    assert "has concluded: nothing is left to do" in str(again.exception)


def test_faults_are_found(tmp_path: Path, invoke: Any) -> None:
    path = str(inventory(tmp_path, 5))
    world = tmp_path / "world.yml"
    world.write_text("seed: 1\nfaults: {node4/eth1: {loss: 0.2}}\n")
    result = invoke("verify", path, *WORDS, "--simulation", str(world))
    assert result.exit_code == 1, result.output
    assert "SUSPECT link node4/eth1 - leaf1/eth4: explains 8 pairs" in result.output
    refused = invoke("verify", path, "--pairs", "all", "--simulation", str(world))
    assert isinstance(refused.exception, UsageError)
    assert "--simulation is for simulated ports" in str(refused.exception)


def test_a_run_goes_on_as_a_simulation_without_being_told(
    tmp_path: Path, invoke: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(inventory(tmp_path))

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("fabricctl.verify.ledger.Ledger.conclude", stop)
        invoke("verify", path, *WORDS)
    with Store.open(tmp_path / "store.sqlite") as store:
        (run,) = store.runs()
    assert run.outcome is Outcome.UNKNOWN
    result = invoke("verify", "--resume", path)
    assert result.exit_code == 0, result.output
    assert f"run {run.id} (verify)" in result.output
    again = invoke("verify", "--resume", run.id, path)
    assert isinstance(again.exception, UsageError)
    with Store.open(tmp_path / "store.sqlite") as store:
        assert [held.id for held in store.runs()] == [run.id]


def test_a_large_run_is_reported_and_explained(
    tmp_path: Path, invoke: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fabricctl.verify.ledger.WHOLE_PAIRS", 0)
    path = str(inventory(tmp_path, 6))
    result = invoke("verify", path, *WORDS)
    assert result.exit_code == 0, result.output
    assert re.search(r"and \d+ more pairs of same_leaf: pass: passed read_latency, loss", result.output)
    assert "no distribution of all of them is shown" in result.output
    assert invoke("report").output == result.stdout
    for words in (("explain", "node5:node6"), ("explain", "node1:node2")):
        explained = invoke(*words)
        assert explained.exit_code == 0, explained.output
        assert explained.output.count("read_latency at ") == 2
        assert "n=100" in explained.output
    assert invoke("explain", "node1").exit_code == 0


PASSING = {"read_latency": LatencyProbe("read_latency", "", 0.1), "loss": finder.probe("loss")}


def test_what_passes_without_words_passes_with_them() -> None:
    """Over random samples, some odd: never is a pair called passing of which the judge says otherwise."""
    dice = random.Random(8)  # noqa: S311  no secret
    pair, both = PairId(PortId("a", "x"), PortId("b", "x")), 0
    limits = Limits(
        (LatencyLimit("read_latency", 99.0, 2_000), LatencyLimit("read_latency", 50.0, 1_500, "same_leaf")),
        LossLimit(0.0, 0.02, 0.95),
        latency_samples=300,
    )
    for _ in range(400):
        sample = _random_sample(dice, pair)
        probe: Any = PASSING[sample.probe]
        topology = dice.choice(["same_leaf", "cross_leaf"])
        found = probe.judge(pair, topology, [sample], limits)
        clear = all(f.outcome is Outcome.PASS and not f.next_step for f in found)
        if probe.passes(topology, [sample], limits):
            both += 1
            assert clear, (sample, found)
        assert not probe.passes(topology, [sample, sample], limits)
        assert not probe.passes(topology, [], limits)
    assert both > 30


def _random_sample(dice: random.Random, pair: PairId) -> Sample:
    moved = Known(dice.choice([0, 0, 0, 1]))
    counters = {"source/packet_seq_err": moved, "target/odd": dice.choice([Known(0), Missing("none")])}
    if dice.random() < 0.5:
        top = dice.choice([1_400, 1_600, 2_100])
        values = [dice.randrange(1_000, top) for _ in range(dice.choice([0, 200, 400]))]
        numbers = dice.choice([{}, {"large_asked": 2, "large_answered": dice.choice([1, 2])}])
        held = Histogram.of(values)
        return Sample(pair, "read_latency", "e", 1.0, 1.0, latencies=held, numbers=numbers, counters=counters)
    numbers = {"sent": dice.choice([0, 50, 200]), "missing": dice.choice([0, 0, 0, 1])}
    if dice.random() < 0.2:
        numbers = dice.choice(
            [{}, {"operations": 200}, {"sent": 200}, {"sent": 200, "missing": 0, "corrupt": 1}]
        )
    parameters = dice.choice([{}, {}, {"stopped": "after 1 of 3"}])
    return Sample(pair, "loss", "e", 1.0, 1.0, numbers=numbers, counters=counters, parameters=parameters)
