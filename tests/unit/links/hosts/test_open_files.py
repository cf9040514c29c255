"""Open files: the hard limit decides, jobs raise the soft one to it."""

from __future__ import annotations

from typing import Any

import pytest

from fabricctl.model.verdict import Outcome

FILES = "Max open files  {}  {}  files\nMax locked memory  unlimited  unlimited  bytes\n"


@pytest.mark.parametrize(
    ("name", "step"),
    [
        (
            "slurmd",
            "LimitNOFILE=65536 in the systemd unit of slurmd (systemctl edit slurmd), then restart it",
        ),
        (
            "slurmstepd",
            "LimitNOFILE=65536 in the systemd unit of slurmd (systemctl edit slurmd), then restart it",
        ),
        (
            "pbs_mom",
            "LimitNOFILE=65536 in the systemd unit of pbs_mom (systemctl edit pbs_mom), then restart it",
        ),
    ],
)
def test_a_launcher_with_few(hosts: Any, name: str, step: str) -> None:
    hosts.guest().process(812, name, FILES.format(1024, 4096))
    (found,) = hosts.judge("open_files")
    assert (found.outcome, found.measured, found.limit) == (Outcome.FAIL, "4096", ">= 65536")
    assert found.what == f"what is started by {name} (pid 812) may open 4096 files, the policy asks for 65536"
    assert found.next_step == step


def test_a_soft_limit_that_jobs_raise_is_right(hosts: Any) -> None:
    """systemd's default is 1024 and 524288."""
    hosts.guest().write("/proc/session/limits", FILES.format(1024, 524288))
    (found,) = hosts.judge("open_files")
    assert (found.outcome, found.measured, found.limit) == (Outcome.PASS, "524288", ">= 65536")
    assert found.what == (
        "what is started by an SSH session may raise its limit to 524288 open files (from 1024, by itself); "
        "the policy asks for 65536"
    )
    assert found.next_step == ""


def test_users_get_fewer_than_root_s_own_session(hosts: Any) -> None:
    node = hosts.guest()
    low = "/etc/security/limits.d/99-low.conf"
    node.write(low, "* hard nofile 4096")
    (found,) = hosts.judge("open_files")
    assert (found.outcome, found.measured, found.culprit) == (Outcome.FAIL, "4096", "node1")
    assert found.what == (
        f"PAM lets users open 4096 files ({low}:1: * hard nofile 4096), the policy asks for 65536; "
        "root's own session may open 131072"
    )
    assert found.next_step == (
        f"on node1: '* - nofile 65536' in place of {low}:1, then let users log in anew"
    )
    node.write(low, "@students - nofile 4096")
    (found,) = hosts.judge("open_files")
    assert (found.outcome, found.culprit) == (Outcome.UNKNOWN, "")
    assert found.next_step == "on node1, as a user who runs jobs: ulimit -Hn"
    node.write(low, "* soft nofile 1024")
    assert hosts.bad("open_files") == [], "users raise that themselves"


def test_a_session_of_root_whose_users_have_another_limit(hosts: Any) -> None:
    node = hosts.guest()
    node.write("/proc/session/limits", FILES.format(1024, 4096))
    assert [outcome for outcome, _, _ in hosts.bad("open_files")] == [Outcome.FAIL]
    node.write("/etc/security/limits.d/rdma.conf", "* hard nofile 1048576")
    assert [outcome for outcome, _, _ in hosts.bad("open_files")] == [Outcome.UNKNOWN]


def test_the_limit_is_the_policy_s(hosts: Any) -> None:
    hosts.guest().write("/proc/session/limits", FILES.format(65535, 65535))
    assert len(hosts.bad("open_files")) == 1
    hosts.policy(open_files=65535)
    assert hosts.bad("open_files") == []
