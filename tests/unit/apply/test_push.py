from __future__ import annotations

import random
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import ansible_runner
import pytest
import yaml

from fabricctl import resources
from fabricctl.apply import push as pushing
from fabricctl.apply.compose import Job
from fabricctl.apply.push import push
from fabricctl.errors import RefusedError, UsageError
from fabricctl.model.fabric import Device, Endpoint, Role
from fabricctl.model.plan import PushOutcome
from fabricctl.plugin import finder


def device(name: str, endpoint: Endpoint | None = None, driver: str = "rxe") -> Device:
    return Device(name, Role.NODE, driver, endpoint or Endpoint("127.0.0.1", connection="local"), ())


def test_outcome_of_each_device_and_nothing_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    handlers = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]
    bad = "echo fabricctl-port eth1 1; echo 'fabricctl: eth1: mtu_bytes: too large' >&2; exit 1\n"
    nobody = Endpoint("127.0.0.1", port=1)
    outcomes = push(
        [
            Job(device("n1"), "echo '{{ 7 * 7 }}'\n"),
            Job(device("n2"), bad),
            Job(device("n3", nobody), "true\n"),
        ],
        deadline_s=60,
    )
    assert outcomes[0] == PushOutcome("n1", ok=True, tasks=1)
    assert outcomes[1] == PushOutcome(
        "n2", ok=False, tasks=1, message="eth1: mtu_bytes: too large", ports={"eth1": "mtu_bytes: too large"}
    )
    assert (outcomes[2].ok, outcomes[2].tasks) == (False, 0)
    assert "Connection refused" in outcomes[2].message
    assert [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)] == handlers
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_a_driver_whose_devices_all_fail_does_not_stop_the_next() -> None:
    gone = Endpoint("127.0.0.1", port=1, connection="ssh")
    jobs = [
        Job(device("n1", driver="bnxt"), "exit 1\n"),
        Job(device("n2", gone, driver="mlx5"), "true\n"),
        Job(device("n3"), "true\n"),
    ]
    outcomes = push(jobs, deadline_s=60)
    assert [outcome.ok for outcome in outcomes] == [False, False, True]
    assert outcomes[0].message.endswith("(exit status 1)")
    assert "Connection refused" in outcomes[1].message


def test_a_push_ends_at_its_deadline() -> None:
    began = time.monotonic()
    (outcome,) = push([Job(device("n1"), "sleep 60\n")], deadline_s=3)
    assert outcome == PushOutcome("n1", ok=False, tasks=0, message="no answer within 3 s")
    assert time.monotonic() - began < 30


@pytest.mark.usefixtures("interruptible")
def test_a_signal_stops_it_and_comes_out_as_an_interrupt() -> None:
    timer = threading.Timer(2, signal.raise_signal, [signal.SIGINT])
    timer.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        push([Job(device("n1"), "sleep 60\n")], deadline_s=50)
    timer.join()
    assert time.monotonic() - began < 30


def test_no_jobs_start_no_ansible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ansible_runner, "run", None)
    assert push([], deadline_s=1) == ()


def test_host_keys_are_checked_against_the_file_that_is_named() -> None:
    text = pushing.ssh_arguments("/site/50% of keys/known_hosts")
    shown = subprocess.run(
        ["/bin/sh", "-c", f'for a in {text}; do echo "$a"; done'],
        capture_output=True,
        text=True,
        check=True,
        timeout=10,
    )
    assert shown.stdout.splitlines() == [
        "-o",
        "StrictHostKeyChecking=yes",
        "-o",
        "BatchMode=yes",
        "-o",
        'UserKnownHostsFile="/site/50%% of keys/known_hosts"',
    ]
    assert pushing.environment(Path("/x"), 1)["ANSIBLE_HOST_KEY_CHECKING"] == "True"


def test_variables_hold_the_way_to_the_device_and_are_never_templated() -> None:
    end = Endpoint("::1", 2222, user="{{ x }}", key_file="/k", known_hosts="/kh", become=True)
    values = pushing.host_variables(Job(device("n1", end), "true\n"))
    assert values["ansible_user"] == {"__ansible_unsafe": "{{ x }}"}
    assert values["ansible_port"] == 2222
    assert values["ansible_become"] is True
    assert values["ansible_ssh_private_key_file"] == {"__ansible_unsafe": "/k"}


def test_a_command_runs_its_script_unchanged_and_is_never_too_long() -> None:
    script = "printf '%s' \"it's\" $((1 + 1))\n"
    done = subprocess.run(
        ["/bin/sh", "-c", pushing.command("n1", script)],
        capture_output=True,
        text=True,
        check=True,
        timeout=10,
    )
    assert done.stdout == "it's2"
    with pytest.raises(RefusedError, match="a command line holds 120000"):
        pushing.command("n1", random.Random(7).randbytes(100_000).hex())  # noqa: S311  a fixed text


def test_a_driver_without_a_playbook_is_refused() -> None:
    with pytest.raises(UsageError, match=r"there is no playbooks/nic/none\.yml"):
        push([Job(device("n1", driver="none"), "true\n")], deadline_s=5)


def test_ansible_that_dies_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushing, "_run", lambda *_: "failed")
    (outcome,) = push([Job(device("n1"), "true\n")], deadline_s=5)
    assert outcome.message == "ansible ended (failed) without a word on it"


@pytest.mark.parametrize("kind", ["nic", "switch"])
def test_each_driver_has_its_playbook_for_its_own_group(kind: str) -> None:
    names = finder.names("NIC driver" if kind == "nic" else "switch driver")
    assert names
    for name in names:
        book = yaml.safe_load((resources.folder("playbooks") / kind / f"{name}.yml").read_text())
        assert [play["hosts"] for play in book] == [f"{kind}_{name}"]
        assert [play["gather_facts"] for play in book] == [False]
