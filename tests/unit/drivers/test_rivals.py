"""Who else sets the same things on a whole device: units, agents without one, and tuned."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from fabricctl.drivers import host
from fabricctl.model import facts
from fabricctl.model.fabric import Port
from fabricctl.model.names import PortId
from fabricctl.model.reading import Entry, Known, Missing
from fabricctl.plugin.protocols import Answer

_QUERY = host.queries([Port(PortId("node1", "eth1"))])[0]


def _units(*units: tuple[str, str], more: str = "") -> str:
    blocks = (f"Id={name}\nNames={name}\nActiveState={state}\nUnitFileState=\n" for name, state in units)
    return "\n".join(blocks) + more


def _rivals(said: str, files: str = "", rc: int = 0, stderr: str = "") -> Entry:
    answers = {"systemctl": Answer(rc, said, stderr), "grep files": Answer(2, files, "")}
    return host.read_facts(answers)[facts.RIVALS]


@pytest.mark.parametrize(
    "name",
    [
        "lldpad.service",
        "fcoe.service",
        "rdma-qos.service",
        "dmsd.service",
        "dpf-dmsd.service",
        "mlnx-qos.service",
        "mlx5-tos.service",
        "roce-qos.service",
        "roce_config.service",
    ],
)
def test_a_rival_that_runs_is_named_by_its_unit(name: str) -> None:
    assert name in _QUERY.argv
    for state in ("active", "activating", "reloading"):
        assert _rivals(_units((name, state), ("sshd.service", "active"))) == Known((name,))
    for state in ("inactive", "failed", "deactivating"):
        assert _rivals(_units((name, state))) == Known(())


def test_a_unit_that_systemctl_leaves_out_is_no_rival_and_hides_none() -> None:
    assert _rivals(_units(("lldpad.service", "active"))) == Known(("lldpad.service",))
    assert _rivals(_units(("fabricctl-port@eth1.service", "inactive"))) == Known(())


def test_a_unit_under_another_name_is_found() -> None:
    said = "Id=doca-management.service\nNames=doca-management.service dmsd.service\nActiveState=active\n"
    assert _rivals(said) == Known(("dmsd.service",))


def test_a_host_without_systemd_is_missing_with_its_words() -> None:
    words = "System has not been booted with systemd as init system"
    assert _rivals("", rc=1, stderr=words) == Missing(f"systemctl: {words}")
    assert _rivals("nonsense") == Missing("systemctl names no unit")
    assert _rivals("", rc=127, stderr="x") == Missing("systemctl: the program is not installed (x)")


def test_an_agent_in_a_container_is_named_by_its_program() -> None:
    agent = "\nProcess=nic-configurati\n\nProcess=lldpad\n\nProcess=bash\n"
    assert _rivals(_units(("lldpad.service", "inactive"), more=agent)) == Known(
        (
            "nic-configuration-daemon (NVIDIA NIC configuration operator)",
            "lldpad, not started by systemd",
        )
    )
    # One that systemd started is named once, by its unit.
    assert _rivals(_units(("lldpad.service", "active"), more="\nProcess=lldpad\n")) == Known(
        ("lldpad.service",)
    )


_TUNED = "/etc/tuned/active_profile:gpu throughput-performance\n"


@pytest.mark.parametrize("folder", ["/etc/tuned", "/etc/tuned/profiles"])
def test_a_tuned_profile_that_sets_pause_is_named(folder: str) -> None:
    files = f"{_TUNED}{folder}/gpu/tuned.conf:[net]\n{folder}/gpu/tuned.conf:pause = rx off tx off\n"
    found = _rivals(_units(("tuned.service", "active")), files)
    assert found == Known(("tuned.service: its profile gpu sets pause",))
    assert _rivals(_units(("tuned.service", "inactive")), files) == Known(())
    assert _rivals(_units(("tuned.service", "active")), files.replace("gpu/", "idle/")) == Known(())


def test_tuned_without_such_a_profile_is_no_rival() -> None:
    files = f"{_TUNED}/etc/tuned/gpu/tuned.conf:[net]\n/etc/tuned/gpu/tuned.conf:coalesce=adaptive-rx on\n"
    assert _rivals(_units(("tuned.service", "active")), files) == Known(())
    assert _rivals(_units(("tuned.service", "active")), "/proc/sys/kernel/osrelease:6.12\n") == Known(())


def test_the_question_finds_agents_and_keeps_systemctls_failure(tmp_path: Path) -> None:
    systemctl = tmp_path / "systemctl"
    environment = {**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"}
    agent = tmp_path / "nic-configuration-daemon"
    agent.symlink_to("/bin/sleep")
    unit = tmp_path / "etc/systemd/system/lldpad.service"
    unit.parent.mkdir(parents=True)
    unit.touch()
    argv = [word.replace('"$folder/systemd/', f'"{tmp_path}$folder/systemd/') for word in _QUERY.argv]
    for status in (0, 1):
        systemctl.write_text(f"#!/bin/sh\necho Id=lldpad.service\necho ActiveState=inactive\nexit {status}\n")
        systemctl.chmod(0o755)
        with subprocess.Popen([agent, "60"]) as running:
            done = subprocess.run(
                argv, capture_output=True, text=True, check=False, env=environment, timeout=60
            )
            running.kill()
        assert done.returncode == status
        assert ("Process=nic-configurati" in done.stdout) is (status == 0)
        expected = ("nic-configuration-daemon (NVIDIA NIC configuration operator)",) if status == 0 else ()
        assert _rivals(done.stdout) == Known(expected)


def test_units_without_a_file_are_not_asked_about() -> None:
    assert _rivals("Asked=0\n\n") == Known(())
    assert isinstance(_rivals("Asked=2\n\n"), Missing)
