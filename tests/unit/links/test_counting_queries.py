"""What counts is asked twice: every counter that a driver reads comes from a query that is marked so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fabricctl.drivers import ethtool
from fabricctl.model import facts
from fabricctl.model.codec import decode
from fabricctl.model.fabric import Port
from fabricctl.model.names import PortId
from fabricctl.model.reading import Known, Missing
from fabricctl.plugin import finder
from fabricctl.plugin.protocols import Answer

CASES = sorted(
    path.parent for path in (Path(__file__).resolve().parents[2] / "cases").glob("*/*/*/answers.json")
)
CASES = [case for case in CASES if case.parent.parent.name in {"nic", "switch"}]
PORT = Port(PortId("node1", "eth1"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.name}")
def test_no_counter_is_read_from_what_is_asked_once(case: Path) -> None:
    find = finder.nic_driver if case.parent.parent.name == "nic" else finder.switch_driver
    driver = find(case.parent.name)
    ports = decode(tuple[Port, ...], json.loads((case / "ports.json").read_text()))
    answers = decode(dict[str, Answer], json.loads((case / "answers.json").read_text()))
    once = {query.key for query in driver.queries(ports) if not query.counts}
    read, _ = driver.parse(ports, {key: answer for key, answer in answers.items() if key in once})
    known = {
        (str(port), name)
        for port, held in read.items()
        for name, entry in held.counters.items()
        # A watermark is the highest that was ever seen: its rise says nothing.
        if isinstance(entry, Known) and "watermark" not in name
    }
    assert known == set()
    assert any(query.counts for query in driver.queries(ports))


def said(*lines: str) -> dict[str, Answer]:
    """Return what ``ethtool`` prints, in the form of its source (stats.c, fec.c)."""
    return {"ethtool counters": Answer(0, "\n".join(("== function eth1", *lines, "")), "")}


def test_statistics_have_their_own_names_and_those_of_rings_are_left_out() -> None:
    answers = said(
        "NIC statistics:",
        "     rx_crc_errors_phy: 12",
        "     rx_prio3_pause: 4",
        "     rx0_packets: 5",
        "     ch1_events: 5",
        "     [0]: rx_discards: 7",
        "     tx_queue_3_bytes: 5",
        "     Rx out-of-order packets: 3",
        "     rx_pci_signal_integrity: N/A",
        "nonsense",
    )
    found = ethtool.read_counters("eth1", answers)
    assert {name: entry for name, entry in found.items() if isinstance(entry, Known)} == {
        "rx_crc_errors_phy": Known(12),
        "rx_prio3_pause": Known(4),
        "Rx out-of-order packets": Known(3),
    }
    odd = found["rx_pci_signal_integrity"]
    assert isinstance(odd, Missing)
    assert odd.reason.startswith("unparsable")
    assert set(found) == {
        "rx_crc_errors_phy",
        "rx_prio3_pause",
        "Rx out-of-order packets",
        "rx_pci_signal_integrity",
    }


@pytest.mark.parametrize(
    ("line", "fec"),
    [
        ("Active FEC encoding: RS", "rs"),
        ("Active FEC encoding: Off", "none"),
        ("Active FEC encoding: None", "none"),
        ("Active FEC encoding: BaseR", "fc"),
        ("Active FEC encodings: LLRS", "llrs"),
    ],
)
def test_fec_is_named_as_switches_name_it(line: str, fec: str) -> None:
    answers = said("FEC parameters for eth1:", "Supported/Configured FEC encodings: Auto RS", line)
    assert ethtool.read_facts("eth1", answers) == {facts.FEC: Known(fec)}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("Cannot get FEC settings: Operation not supported", "ethtool shows no FEC of it"),
        ("sh: ethtool: not found", "ethtool: the program is not installed"),
        ("sh: 27: ethtool: not found", "ethtool: the program is not installed"),
        ("sh: line 1: ethtool: command not found", "ethtool: the program is not installed"),
    ],
)
def test_a_nic_without_fec_or_a_host_without_ethtool_has_a_reason(line: str, why: str) -> None:
    assert ethtool.read_facts("eth1", said(line)) == {facts.FEC: Missing(why)}
    assert ethtool.read_counters("eth1", said(line)) == {}
    assert ethtool.read_counters("eth1", {}) == {}


def test_a_bonds_members_keep_their_names() -> None:
    text = "".join(
        f"== function {name}\nActive FEC encoding: RS\nNIC statistics:\n     rx_crc_errors_phy: {count}\n"
        for name, count in (("ens1f0", 1), ("ens1f1", 2))
    )
    answers = {
        "functions": Answer(0, "bond0 ens1f0 ens1f1\n", ""),
        "ethtool counters": Answer(0, text, ""),
    }
    assert ethtool.read_counters("bond0", answers) == {
        "ens1f0 rx_crc_errors_phy": Known(1),
        "ens1f1 rx_crc_errors_phy": Known(2),
    }
    assert ethtool.read_facts("bond0", answers) == {facts.FEC: Known("rs")}
    (query,) = (ethtool.query((PORT,)),)
    assert query.counts
