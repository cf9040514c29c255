from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from fabricctl.apply import compose
from fabricctl.apply.compose import PortChange
from fabricctl.errors import UsageError
from fabricctl.model.names import boot_unit

Make = Callable[..., Any]

NASTY = "eth1; echo was-here; $(echo was-here >&2) 'q'"


def change(port: str = "eth1", undo_names: tuple[str, ...] = ("mtu_bytes",)) -> PortChange:
    return PortChange(port, "echo new $*\n", ("mtu_bytes", "pfc_priorities"), "echo old $*\n", undo_names)


@pytest.mark.parametrize(
    "script",
    [
        compose.push_script("a1", 1, [change(), change(NASTY)], 600),
        compose.revert_script("a1"),
        compose.revert_script("a1", ["eth1", NASTY]),
        compose.confirm_script("a1", [1, 2], {"eth1": "echo it's\n"}, ["eth2"]),
        compose.confirm_script("a1", [], {}, []),
    ],
)
def test_scripts_are_posix_shell(script: str) -> None:
    done = subprocess.run(
        ["dash", "-n"], input=script, capture_output=True, text=True, check=False, timeout=10
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_names_from_an_inventory_stay_words(make_world: Make) -> None:
    world = make_world()
    reply = world.run("node1", compose.push_script("a1", 1, [change(NASTY)], 600))
    assert f"fabricctl-port {NASTY} 0" in reply.stdout
    assert "was-here" not in [line.strip() for line in reply.stdout.splitlines() + reply.stderr.splitlines()]


def test_the_timer_is_armed_before_anything_is_set() -> None:
    script = compose.push_script("a1", 7, [change()], 300)
    armed = script.index("systemd-run --quiet --collect --unit=fabricctl-revert-a1.0007 --on-active=300s")
    assert armed < script.index('/bin/sh "$dir"/eth1.new mtu_bytes pfc_priorities')


def test_push_sets_the_named_settings_and_reverts_what_was_known(make_world: Make) -> None:
    world = make_world()
    pushed = world.run("node1", compose.push_script("a1", 1, [change(), change("eth2", ())], 600))
    assert pushed.stdout.splitlines() == [
        "new mtu_bytes pfc_priorities",
        "fabricctl-port eth1 0",
        "new mtu_bytes pfc_priorities",
        "fabricctl-port eth2 0",
    ]
    one = world.run("node1", compose.revert_script("a1", ["eth1"]))
    assert one.stdout.splitlines() == ["old mtu_bytes", "fabricctl-port eth1 0"]
    assert world.timers() == ["node1:fabricctl-revert-a1.0001.timer"]
    # Nothing of eth2 was known: its script must not run without names, which would set everything.
    rest = world.run("node1", compose.revert_script("a1"))
    assert rest.stdout.splitlines() == ["fabricctl-port eth2 0"]
    assert (world.timers(), world.leftovers()) == ([], [])


def test_reverting_takes_the_latest_push_first(make_world: Make) -> None:
    world = make_world()
    for slot in (1, 2, 10):
        first = PortChange("eth1", "true\n", ("mtu_bytes",), f"echo undo {slot}\n", ("mtu_bytes",))
        world.run("node1", compose.push_script("a1", slot, [first], 600))
    reply = world.run("node1", compose.revert_script("a1"))
    assert [line for line in reply.stdout.splitlines() if line.startswith("undo")] == [
        "undo 10",
        "undo 2",
        "undo 1",
    ]


def test_reverting_what_is_not_there_is_no_failure(make_world: Make) -> None:
    assert make_world().run("node1", compose.revert_script("a1")).returncode == 0


def test_confirm_keeps_exactly_the_script_and_enables_its_unit(make_world: Make) -> None:
    world = make_world()
    text = "#!/bin/sh\necho '$HOME' \\n `id`\n"
    done = world.run("node1", compose.confirm_script("a1", [], {"eth-1": text}, []))
    assert (done.returncode, done.stderr) == (0, "")
    kept = world.root / "node1/etc/fabricctl/ports/eth-1.sh"
    assert hashlib.sha256(kept.read_bytes()).hexdigest() == hashlib.sha256(text.encode()).hexdigest()
    assert (world.root / r"node1/enabled/fabricctl-port@eth\x2d1.service").exists()
    assert list(kept.parent.iterdir()) == [kept]
    gone = world.run("node1", compose.confirm_script("a2", [], {}, ["eth-1"]))
    assert gone.returncode == 0
    assert not kept.exists()


def test_confirm_after_the_revert_is_too_late(make_world: Make) -> None:
    world = make_world()
    world.run("node1", compose.push_script("a1", 1, [change()], 600))
    world.fire_timers("node1")
    done = world.run("node1", compose.confirm_script("a1", [1], {"eth1": "true\n"}, []))
    assert done.returncode == compose.RC_TOO_LATE
    assert "a1.0001 was reverted before it was confirmed" in done.stderr
    assert not (world.root / "node1/etc/fabricctl").exists()


def test_a_revert_that_failed_can_be_tried_again(make_world: Make) -> None:
    world = make_world()
    bad = PortChange("eth1", "true\n", ("mtu_bytes",), "exit 1\n", ("mtu_bytes",))
    world.run("node1", compose.push_script("a1", 1, [bad], 600))
    assert world.run("node1", compose.revert_script("a1")).returncode == 1
    assert world.leftovers() == ["node1/run/fabricctl/a1.0001"]
    late = world.run("node1", compose.confirm_script("a1", [1], {}, []))
    assert late.returncode == compose.RC_TOO_LATE
    # Its timer is gone by now: the next change does not stumble over what is left.
    assert world.run("node1", compose.push_script("a2", 1, [change()], 600)).returncode == 0
    assert world.leftovers() == ["node1/run/fabricctl/a2.0001"]


@pytest.mark.parametrize(
    ("port", "name"),
    [("eth1", "eth1"), ("enp3s0f0np0.100", "enp3s0f0np0.100"), ("rdma-0", r"rdma\x2d0"), (".x", r"\x2ex")],
)
def test_instance_is_what_systemd_escape_says(port: str, name: str) -> None:
    assert boot_unit(port) == f"fabricctl-port@{name}.service"
    if tool := shutil.which("systemd-escape"):
        done = subprocess.run([tool, "--", port], capture_output=True, text=True, check=True, timeout=10)
        assert done.stdout.strip() == name


def test_a_port_name_cannot_leave_its_folder() -> None:
    with pytest.raises(UsageError, match="is no network interface"):
        compose.confirm_script("a1", [], {"../../cron.d/x": "true\n"}, [])
    with pytest.raises(UsageError, match="is no network interface"):
        compose.push_script("a1", 1, [change("../x")], 600)


def test_confirm_runs_what_the_network_manager_is_told_by_name_and_leaves_no_file(make_world: Make) -> None:
    world = make_world()
    scripts = {"eth1": 'cat; echo "told $*"\n', "eth2": "exit 1\n"}
    done = world.run("node1", compose.confirm_script("a1", [], {"eth1": "true\n"}, [], scripts))
    assert done.stdout.splitlines() == ["told mtu_kept", "fabricctl-port eth1 0", "fabricctl-port eth2 1"]
    # The rest is kept all the same.
    assert (done.returncode, (world.root / "node1/etc/fabricctl/ports/eth1.sh").exists()) == (1, True)
    assert list((world.root / "node1/run/fabricctl").glob("*.kept")) == []


@pytest.mark.parametrize("remembered", ["enabled", "disabled", ""])
def test_what_systemd_remembers_of_a_unit_is_forgotten_where_it_is_wrong(
    make_world: Make, remembered: str
) -> None:
    world = make_world()
    (world.root / "bin/systemctl").write_text(
        f'#!/bin/sh\n[ "$1" != show ] || echo "{remembered}"\n'
        '[ "$1" != daemon-reload ] || : >"$FAKE_ROOT/reloaded"\n'
    )
    reloaded = world.root / "node1/reloaded"
    world.run("node1", compose.confirm_script("a1", [], {"eth1": "true\n"}, []))
    assert reloaded.exists() is (remembered == "disabled")
    reloaded.unlink(missing_ok=True)
    world.run("node1", compose.confirm_script("a2", [], {}, ["eth1"]))
    assert reloaded.exists() is (remembered == "enabled")
