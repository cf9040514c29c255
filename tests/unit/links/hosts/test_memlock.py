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
        "; what users get was not seen (/etc/security/limits.d/rdma.conf:2: * - memlock unlimited)"
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


LOW = "/etc/security/limits.d/99-low.conf"


def test_s51_users_get_less_than_root_s_own_session_has(hosts: Any) -> None:
    """PAM's ``*`` does not hold for root: its session is unlimited, an ordinary user has 64 KiB."""
    hosts.guest().write(LOW, "* soft memlock 64\n* hard memlock 64")
    (found,) = hosts.judge("memlock")
    assert found.outcome is Outcome.FAIL
    assert found.what == (
        f"PAM lets users lock 64 KiB ({LOW}:1: * soft memlock 64, {LOW}:2: * hard memlock 64), "
        "the policy asks for unlimited; root's own session has unlimited"
    )
    assert (found.measured, found.limit, found.culprit) == ("64 KiB", "unlimited", "node1")
    assert found.next_step == (
        f"on node1: '* - memlock unlimited' in place of {LOW}:1, {LOW}:2, then let users log in anew"
    )
    hosts.policy(memlock_bytes=64 << 10)
    assert hosts.bad("memlock") == []
    hosts.policy(memlock_bytes=(64 << 10) + 1)
    (found,) = hosts.judge("memlock")
    assert found.next_step.startswith("on node1: '* - memlock 65' in place of ")


def test_slurmd_does_not_go_through_pam(hosts: Any) -> None:
    node = hosts.guest()
    node.process(812, "slurmd")
    node.write(LOW, "* - memlock 64\n* - nofile 64")
    assert hosts.bad("memlock") == []
    assert hosts.bad("open_files") == []


@pytest.mark.parametrize("kind", ["soft", "hard", "-"])
def test_each_kind_of_line_lowers_the_soft_limit(hosts: Any, kind: str) -> None:
    hosts.guest().write("/etc/security/limits.conf", f"*\t{kind}\tmemlock\t8192  # stock")
    (found,) = hosts.judge("memlock")
    assert (found.outcome, found.measured) == (Outcome.FAIL, "8 MiB")
    assert f"(/etc/security/limits.conf:1: * {kind} memlock 8192)" in found.what


@pytest.mark.parametrize("who", ["@students", "guest", "1000:"])
def test_single_users_and_groups_get_less(hosts: Any, who: str) -> None:
    hosts.guest().write(LOW, f"* - memlock unlimited\n{who} hard memlock 64")
    (found,) = hosts.judge("memlock")
    assert found.outcome is Outcome.UNKNOWN
    assert found.what == (
        f"PAM lets some users lock 64 KiB ({LOW}:2: {who} hard memlock 64), the policy asks for unlimited; "
        "root's own session has unlimited; whether they run jobs is not known"
    )
    assert (found.next_step, found.culprit) == ("on node1, as a user who runs jobs: ulimit -l", "")


def test_a_group_that_gets_enough_may_be_that_of_all_who_run_jobs(hosts: Any) -> None:
    node = hosts.guest()
    node.write(LOW, "* - memlock 64\n@hpc - memlock unlimited")
    (found,) = hosts.judge("memlock")
    assert found.outcome is Outcome.UNKNOWN
    assert found.what.endswith("; @hpc get enough: whether others run jobs is not known")
    node.write(LOW, "* - memlock 64\n@hpc soft memlock unlimited")
    (found,) = hosts.judge("memlock")
    assert found.outcome is Outcome.FAIL, "PAM lowers the soft limit to the hard one, that is still 64 KiB"


def test_a_later_line_replaces_an_earlier(hosts: Any) -> None:
    node = hosts.guest()
    node.write("/etc/security/limits.conf", "* - memlock 64")
    node.write("/etc/security/limits.d/10-rdma.conf", "* - memlock unlimited")
    assert hosts.bad("memlock") == []
    node.write("/etc/security/limits.d/20-low.conf", "* soft memlock 128")
    (found,) = hosts.judge("memlock")
    assert (found.outcome, found.measured) == (Outcome.FAIL, "128 KiB")


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("limits.d/low.conf.bak", "* - memlock 64"),
        ("limits.conf", "# * - memlock 64"),
        ("limits.conf", "root - memlock 64"),
        ("limits.conf", "* - memlock much"),
        ("limits.conf", "* both memlock 64"),
        ("limits.conf", "* - memlock -1"),
        ("limits.conf", "* - memlock infinity"),
    ],
)
def test_lines_that_lower_nothing(hosts: Any, file: str, line: str) -> None:
    hosts.guest().write(f"/etc/security/{file}", line)
    assert hosts.bad("memlock") == []


def test_a_session_of_a_user_has_what_pam_gave_it(hosts: Any) -> None:
    node = hosts.guest()
    node.write("/proc/session/status", "Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000")
    node.write(LOW, "@students - memlock 64")
    assert hosts.bad("memlock") == []
