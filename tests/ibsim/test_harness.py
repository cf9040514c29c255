"""The simulator does what the tests of ``fabricctl links`` rely on: the raw tools see each fault."""

from __future__ import annotations

from pathlib import Path

from ibsim_fabric import SimulatedFabric
from ibsim_layout import Shape
from ibsim_programs import until


def test_a_fabric_as_planned(fabric: SimulatedFabric) -> None:
    assert fabric.wrong() == set()
    assert "22 nodes checked, 0 bad nodes found" in fabric.tool("ibqueryerrors", "--skip-sl")
    assert "SMINFO_MASTER" in fabric.tool("sminfo")


def test_two_simulators_side_by_side(fabric: SimulatedFabric, tmp_path: Path) -> None:
    shape = Shape(leaves=1, nodes_per_leaf=2, spines=1, uplinks=1)
    with SimulatedFabric(tmp_path, shape) as other:
        other.console(f"Unlink {other.at('node0002')}")
        assert len(other.wrong()) == 2
        assert other.wrong() == {ends for ends in other.wrong() if "0x0c42a10300000011" in ends}
        assert fabric.wrong() == set()
        assert len(fabric.tool("ibnetdiscover", "--list").splitlines()) == 22
        assert len(other.tool("ibnetdiscover", "--list").splitlines()) == 3


def test_counters_are_raised_between_two_looks(fabric: SimulatedFabric) -> None:
    fabric.after("ibqueryerrors", *fabric.count("leaf01", 5, SymbolErrorCounter=7))
    assert "SymbolErrorCounter" not in fabric.tool("ibqueryerrors", "--skip-sl")
    assert fabric.played("ibqueryerrors")
    assert "[SymbolErrorCounter == 7]" in fabric.tool("ibqueryerrors", "--skip-sl", "-C", "mlx5_0", "-P", "1")


def test_the_subnet_manager_mends_a_link(fabric: SimulatedFabric) -> None:
    fabric.unlink("leaf02", 6)
    assert len(fabric.wrong()) == 2
    fabric.relink()
    until("the link is active", lambda: not fabric.wrong())


def test_a_crashed_subnet_manager_is_started_again(fabric: SimulatedFabric) -> None:
    before = fabric.manager.crashes
    fabric.manager.crash()
    fabric.settle()
    assert "SMINFO_MASTER" in fabric.tool("sminfo")
    assert fabric.manager.crashes == before + 1
    fabric.manager.crashes = before
