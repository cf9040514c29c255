"""Locked memory: whose limit counts, and what it must be."""

from __future__ import annotations

from typing import Any

import pytest

from fabricctl.model.verdict import Outcome

SMALL = "Max open files  131072  131072  files\nMax locked memory  {0}  {0}  bytes\n"
STOCK = SMALL.format(8 << 20)
PAM = "* - memlock unlimited"


@pytest.mark.parametrize("limit", [64 << 10, 8 << 20])
def test_s51_slurmd_has_a_small_limit_though_the_session_has_none(hosts: Any, limit: int) -> None:
    hosts.guest().process(812, "slurmd", SMALL.format(limit))
    (found,) = hosts.judge("memlock")
    assert found.outcome is Outcome.FAIL
    size = {64 << 10: "64 KiB", 8 << 20: "8 MiB"}[limit]
    assert found.what == f"slurmd (pid 812) lets its jobs lock {size}, the policy asks for unlimited"
    assert found.next_step == (
        "LimitMEMLOCK=infinity in slurmd.service (systemctl edit slurmd), "
        "PropagateResourceLimitsExcept=MEMLOCK in slurm.conf, then restart slurmd"
    )
    assert (found.measured, found.limit, found.culprit) == (size, "unlimited", "node1")


def test_slurmd_is_right_and_the_session_s_small_limit_does_not_count(hosts: Any) -> None:
    node = hosts.guest()
    node.process(812, "slurmd")
    node.write("/proc/session/limits", STOCK)
    assert hosts.told("memlock") == [
        "unlimited of locked memory for what is started by slurmd (pid 812); the policy asks for unlimited"
    ]


def test_one_step_of_many_has_less(hosts: Any) -> None:
    node = hosts.guest()
    node.process(812, "slurmd")
    node.process(900, "slurmstepd")
    node.process(901, "slurmstepd", STOCK)
    assert [what for _, _, what in hosts.bad("memlock")] == [
        "slurmstepd (pid 901) lets its jobs lock 8 MiB, the policy asks for unlimited"
    ]


def test_so_many_processes_of_a_name_are_looked_at(hosts: Any) -> None:
    node = hosts.guest()
    for number in range(1000, 1040):
        node.process(number, "slurmstepd")
    assert node.answers(("memlock",))["launchers"].stdout.count("slurmstepd") == 8


def test_slurmdbd_starts_no_jobs(hosts: Any) -> None:
    hosts.guest().process(700, "slurmdbd", STOCK)
    (said,) = hosts.told("memlock")
    assert "an SSH session" in said


def test_pods_are_started_by_the_container_runtime(hosts: Any) -> None:
    node = hosts.guest()
    node.process(600, "containerd", STOCK)
    assert hosts.bad("memlock") == [], "without a kubelet it starts no jobs"
    node.process(601, "kubelet")
    assert [what for _, _, what in hosts.bad("memlock")] == [
        "containerd (pid 600) lets its jobs lock 8 MiB, the policy asks for unlimited"
    ]


def test_the_inventory_names_slurm_and_no_slurmd_runs(hosts: Any) -> None:
    hosts.guest()
    hosts.scheduler = "slurm"
    what = "slurmd does not run: the limits that it gives to jobs cannot be seen"
    assert hosts.bad("memlock") == [(Outcome.UNKNOWN, "node1", what)]
    assert hosts.bad("open_files") == [(Outcome.UNKNOWN, "node1", what)]


def test_s51_a_session_with_the_stock_limit(hosts: Any) -> None:
    hosts.guest().write("/proc/session/limits", STOCK)
    assert [(o, w) for o, _, w in hosts.bad("memlock")] == [
        (
            Outcome.FAIL,
            (
                "an SSH session lets its jobs lock 8 MiB, the policy asks for unlimited; root itself may "
                "lock more (CAP_IPC_LOCK), its users' jobs may not"
            ),
        )
    ]
    hosts.policy(memlock_bytes=8 << 20)
    assert hosts.bad("memlock") == []


def test_root_s_own_session_says_nothing_of_users_whose_limit_pam_sets(hosts: Any) -> None:
    """PAM's ``*`` does not hold for root (limits.conf(5))."""
    node = hosts.guest()
    node.write("/proc/session/limits", STOCK)
    node.write("/etc/security/limits.d/rdma.conf", f"# users\n{PAM}")
    (found,) = hosts.judge("memlock")
    assert found.outcome is Outcome.UNKNOWN
    assert found.what.endswith(
        "; what users get was not seen (/etc/security/limits.d/rdma.conf: * - memlock unlimited)"
    )
    assert found.next_step == "on node1, as a user who runs jobs: ulimit -l"


@pytest.mark.parametrize("line", [f"# {PAM}", "root - memlock unlimited", "* - nofile 1048576"])
def test_other_lines_of_pam_s_files_excuse_nothing(hosts: Any, line: str) -> None:
    node = hosts.guest()
    node.write("/proc/session/limits", STOCK)
    node.write("/etc/security/limits.conf", line)
    assert [outcome for outcome, _, _ in hosts.bad("memlock")] == [Outcome.FAIL]


def test_limits_that_cannot_be_read(hosts: Any) -> None:
    hosts.guest().process(812, "slurmd", "")
    assert hosts.bad("memlock") == [
        (Outcome.UNKNOWN, "node1", "the limit on locked memory of slurmd (pid 812) could not be read")
    ]


def test_a_step_that_ended_meanwhile_hides_no_other(hosts: Any) -> None:
    node = hosts.guest()
    node.process(812, "slurmd")
    node.process(815, "slurmstepd", "")
    assert hosts.bad("memlock") == []
