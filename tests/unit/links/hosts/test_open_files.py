"""Open files: the hard limit decides, the soft one is told."""

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


def test_a_soft_limit_that_jobs_raise_is_told(hosts: Any) -> None:
    """systemd's default is 1024 and 524288."""
    hosts.guest().write("/proc/session/limits", FILES.format(1024, 524288))
    (found,) = hosts.judge("open_files")
    assert found.outcome is Outcome.PASS
    assert found.what == (
        "what is started by an SSH session may open 1024 files and raise that to 524288; "
        "the policy asks for 65536"
    )
    assert found.next_step == "a line '* - nofile 65536' and one for root in /etc/security/limits.d/rdma.conf"


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
