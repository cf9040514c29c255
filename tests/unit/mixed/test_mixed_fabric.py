"""Every kind of device in one inventory, through the product's own commands: check to rollback, and what goes
wrong in the middle."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Mapping
from typing import Any

import pytest

from fabricctl.errors import BusyError
from fabricctl.model import settings
from fabricctl.model.reading import Entry, Known

pytestmark = pytest.mark.timeout(300)

PORTS = {
    "gpu1/eth1": "leaf1/Ethernet0",
    "gpu1/eth2": "leaf2/Ethernet1/1",
    "gpu2/eth1": "leaf3/Ethernet1/1",
    "leaf1/Ethernet4": "spine1/swp1",
    "leaf2/Ethernet32/1": "spine1/swp2",
}
"""By port the other end of its link."""
LINKS = "gpu1,leaf1,leaf2"
"""A node and the switches at the other ends of its links."""
DEVICES = {"gpu1", "gpu2", "leaf1", "leaf2", "leaf3", "spine1"}

Readings = Mapping[str, Mapping[str, Entry]]


def known(readings: Readings) -> dict[str, dict[str, Entry]]:
    """Return what is read as a value; what had none may have another reason for it.

    Timers are left out: those that have run are told apart by what is left over.
    """
    return {
        port: {
            n: entry for n, entry in held.items() if isinstance(entry, Known) and not n.endswith(".timers")
        }
        for port, held in readings.items()
    }


def changed(before: Readings, after: Readings) -> set[str]:
    """Return the ports that are not as they were."""
    return {port for port, held in known(before).items() if any(after[port][n] != held[n] for n in held)}


def test_from_check_to_rollback(pod: Any) -> None:
    first, nxos = pod.read(), set(_lines(pod.leaf3.running))

    checked = pod.call("check")
    assert checked.exit_code == 0, checked.output
    assert "2 nodes, 4 switches, 10 ports, 5 cables" in checked.output

    planned = pod.call("plan")
    assert planned.exit_code == 3, planned.output
    for port in (*PORTS, *PORTS.values()):
        assert port in planned.output
    assert {"link flap", "mtu change", "queue reset", "system-wide", "buffer re-carve"} <= {
        word.strip()
        for word in planned.output.splitlines()[-1].split("disrupts: ")[1].split(";")[0].split(",")
    }
    steps = pod.steps()
    assert set(steps) == DEVICES
    for held in steps.values():
        assert {settings.MTU, settings.DSCP_PRIORITY, settings.PFC} <= held
    for own in ("mlx5.dcqcn_priority_3", "bnxt.roce_dscp", "sonic.tc_group", "eos.ecn_queues"):
        assert any(own in held for held in steps.values()), own
    assert pod.read() == first

    applied = pod.call("apply", "--yes")
    assert applied.exit_code == 0, applied.output
    proof = json.loads(pod.call("apply", "--yes", "--json").stdout)
    assert proof["tasks"] == {}
    assert proof["read_back"]["as_intended"] == proof["read_back"]["settings"] > 200
    assert pod.leftovers() == {}
    now = pod.read()
    assert {port: held[settings.PFC] for port, held in now.items()} == dict.fromkeys(now, Known((3,)))
    assert all(isinstance(held[settings.BOOT], Known) for held in now.values())
    assert {port: held[settings.MTU].value for port, held in now.items() if port.startswith("leaf")} == {
        "leaf1/Ethernet0": 9216,
        "leaf1/Ethernet4": 9216,
        "leaf2/Ethernet1/1": 9214,
        "leaf2/Ethernet32/1": 9214,
        "leaf3/Ethernet1/1": 9216,
    }
    assert pod.call("drift").exit_code == 0

    _change_by_hand(pod)
    drifted = json.loads(pod.call("drift", "--json").stdout)
    assert {
        (each["port"], each["setting"]) for each in drifted["differences"] if each["setting"] == settings.PFC
    } >= {
        (port, settings.PFC)
        for port in ("gpu1/eth1", "gpu2/eth1", "leaf1/Ethernet0", "leaf2/Ethernet1/1", "leaf3/Ethernet1/1")
    } | {("spine1/swp1", settings.PFC)}
    assert pod.call("drift").exit_code == 3

    undone = pod.call("rollback", "--yes")
    assert undone.exit_code == 0, undone.output
    assert changed(first, pod.read()) == set()
    assert pod.leftovers() == {}
    assert pod.leaf2.startup == pod.leaf2.text()
    assert "fabricctl" not in pod.leaf2.text()
    assert set(_lines(pod.leaf3.running)) - {"feature scheduler", "system qos"} == nxos
    assert "fabricctl" not in json.dumps([pod.leaf1.config(), pod.nvue()["applied"]])


def _lines(tree: Mapping[str, Any], above: str = "") -> list[str]:
    found = []
    for line, inner in tree.items():
        found += [f"{above}{line}", *_lines(inner, f"{above}{line} / ")]
    return found


def _change_by_hand(pod: Any) -> None:
    """Take PFC away, or add to it, on each kind of device as its administrator would."""
    for node in (pod.gpu1, pod.gpu2):
        node.run("dcb", "pfc", "set", "dev", "eth1", "prio-pfc", "3:off")
    pod.leaf1.change("PORT_QOS_MAP", "Ethernet0", pfc_enable="3,4")
    (profile,) = (head for head in pod.leaf2.running.root.sections if head.startswith("qos profile"))
    pod.leaf2.operate(profile, "no priority-flow-control")
    pod.leaf3.configure("interface Ethernet1/1", "priority-flow-control mode off")
    (profile,) = pod.nvue()["applied"]["qos"]["pfc"]
    pod.spine1.by_hand({"qos": {"pfc": {profile: {"tx": "disable"}}}})


def test_a_switch_that_refuses_leaves_no_link_with_one_end_changed(pod: Any) -> None:
    first = pod.read()
    # Through the spine, which can only be taken back as a whole, this is about all of the first pod.
    pod1 = {"leaf1", "leaf2", "spine1", "gpu1"}

    pod.leaf1.fail(refuse="Failed to apply patch: the ASIC is out of buffers")
    failed = pod.call("apply", "--yes")
    assert failed.exit_code == 1, failed.output
    assert (
        "leaf1/Ethernet0: failed: Error: Failed to apply patch: the ASIC is out of buffers" in failed.stdout
    )
    assert "spine1/swp1: failed: its link's other end leaf1/Ethernet4 failed" in failed.stdout
    assert "gpu1/eth1: failed: its link's other end leaf1/Ethernet0 failed" in failed.stdout
    assert "NOT reverted" not in failed.stdout
    assert changed(first, pod.read()) == {"gpu2/eth1", "leaf3/Ethernet1/1"}
    assert set(pod.steps()) == pod1
    assert pod.leftovers() == {}
    pod.leaf1.fail()

    second = pod.read()
    said = "% Cannot apply: the hardware has no room for another profile"
    pod.leaf2.faults.refuse["service-profile .*"] = said
    failed = pod.call("apply", "--yes")
    assert failed.exit_code == 1, failed.output
    assert "leaf2/Ethernet1/1: failed: service-profile " in failed.stdout
    assert said in failed.stdout
    assert "NOT reverted" not in failed.stdout
    # SONiC takes back one port of several, so the link that has nothing to do with it is done.
    assert changed(second, pod.read()) == {"gpu1/eth1", "leaf1/Ethernet0"}
    assert set(pod.steps()) == pod1
    assert pod.leftovers() == {}
    pod.leaf2.faults.refuse.clear()

    done = pod.call("apply", "--yes")
    assert done.exit_code == 0, done.output
    assert pod.steps() == {}
    assert pod.leftovers() == {}


def test_a_port_that_refuses_is_reverted_with_its_links_other_end_alone(pod: Any) -> None:
    first = pod.read()
    real = (pod.gpu1.folder / "bin/ip").resolve()
    (pod.gpu1.folder / "played").mkdir()
    (pod.gpu1.folder / "played/ip").symlink_to(real)
    (pod.gpu1.folder / "bin/ip").unlink()
    busy = 'case "$*" in *eth1*) echo "RTNETLINK answers: Device or resource busy" >&2; exit 2 ;; esac'
    pod.gpu1.tool("bin/ip", f'{busy}\nexec {pod.gpu1.folder}/played/ip "$@"')

    failed = pod.call("apply", "--yes", "--limit", LINKS)
    assert failed.exit_code == 1, failed.output
    assert "gpu1/eth1: failed: mtu_bytes: RTNETLINK answers: Device or resource busy" in failed.stdout
    assert "leaf1/Ethernet0: failed: its link's other end gpu1/eth1 failed" in failed.stdout
    others = {"gpu1/eth2", "leaf1/Ethernet4", "leaf2/Ethernet1/1", "leaf2/Ethernet32/1"}
    assert changed(first, pod.read()) == others
    assert pod.leftovers() == {}

    pod.gpu1.tool("bin/ip", f'exec {pod.gpu1.folder}/played/ip "$@"')
    done = json.loads(pod.call("apply", "--yes", "--limit", LINKS, "--json").stdout)
    assert (done["outcome"], set(done["tasks"])) == ("pass", {"gpu1", "leaf1"})
    assert pod.leftovers() == {}


def test_a_confirm_that_never_comes(pod: Any) -> None:
    first = pod.read()
    steps = pod.steps()
    waiting = pod.call("apply", "--yes", "--confirm-within", "5m")
    assert waiting.exit_code == 0, waiting.output
    assert '"fabricctl confirm" keeps it' in waiting.output
    assert changed(first, pod.read()) == {*PORTS, *PORTS.values()}
    assert set(pod.leftovers()) >= DEVICES
    assert isinstance(pod.call("apply", "--yes").exception, BusyError)

    pod.pass_by(361)  # NX-OS counts in minutes of its own clock, and is up to one late
    assert changed(first, pod.read()) == set()
    assert pod.steps() == steps
    late = pod.call("confirm")
    assert late.exit_code == 1, late.output
    for port in (*PORTS, *PORTS.values()):
        why = next(line for line in late.stdout.splitlines() if line.startswith(f"{port}: "))
        assert "was reverted before it was confirmed" in why
    assert changed(first, pod.read()) == set()
    # A job of NX-OS that has run cannot take itself away; it goes with the next change.
    assert set(pod.leftovers()) == {"leaf3"}
    assert pod.call("apply", "--yes", "--limit", "gpu2,leaf3").exit_code == 0
    assert pod.leftovers() == {}


@pytest.mark.parametrize(
    ("moment", "devices"),
    [("setting", "gpu2,leaf3"), ("reading back", "leaf2,leaf3,spine1"), ("confirming", LINKS)],
)
def test_a_run_killed_in_the_middle_is_taken_over_by_the_next(pod: Any, moment: str, devices: str) -> None:
    with pod.start("apply", "--yes", "--limit", devices) as process:
        next(line for line in process.stderr if line.startswith(moment))
        until = time.monotonic() + 60
        while moment == "setting" and not pod.leaf3.checkpoints and time.monotonic() < until:
            time.sleep(0.05)
        assert set(pod.leftovers()) >= ({"leaf3"} if moment == "setting" else set(devices.split(",")))
        process.send_signal(signal.SIGKILL)

    done = pod.call("apply", "--yes", "--limit", devices)
    assert done.exit_code == 0, done.output
    assert "was killed: reverting what it had not confirmed" in done.output
    assert pod.leftovers() == {}
    assert not pod.steps().keys() & set(devices.split(","))


def test_s25_pfc_only_enabled_on_one_side(pod: Any) -> None:
    """S25: each end by itself looks fine, and the pauses of one are for nobody."""
    assert pod.call("apply", "--limit", "gpu1", "--yes").exit_code == 0
    said = {(each["subject"], each["what"]) for each in pod.plan()["checks"]["mended"]}
    both = "PFC priorities are 3 on {0} and {2} on {1}: {1} is wrong, the policy says 3"
    for node, switch, has in (
        ("gpu1/eth1", "leaf1/Ethernet0", "3,4"),
        ("gpu1/eth2", "leaf2/Ethernet1/1", "none"),
    ):
        assert (f"{node} - {switch}", both.format(node, switch, has)) in said
