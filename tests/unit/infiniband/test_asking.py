from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from fabricctl import readback
from fabricctl.infiniband import asking
from fabricctl.infiniband.asking import Hca
from fabricctl.plugin.protocols import Answer

TOOLS = ("ibnetdiscover", "ibqueryerrors", "iblinkinfo", "sminfo", "saquery", "dump_fts")
NOTED = 'printf "%s %s\\n" "${0##*/}" "$*" >>"$NOTES"\n'


class Host:
    """A host with stand-ins for infiniband-diags, which note how they were called."""

    def __init__(self, place: Path) -> None:
        self.bin, self.notes, self.temporary = place / "bin", place / "notes", place / "tmp"
        self.bin.mkdir()
        self.temporary.mkdir()
        self.notes.write_text("")
        for name in TOOLS:
            self.tool(name, f"echo {name} out; echo {name} said >&2\n")
        self.tool(
            "ibnetdiscover", 'for w; do last=$file file=$w; [ "$last" != --cache ] || echo x >"$w"; done\n'
        )

    def tool(self, name: str, body: str) -> None:
        file = self.bin / name
        file.write_text(f"#!/bin/sh\n{NOTED}{body}")
        file.chmod(0o755)

    @property
    def env(self) -> dict[str, str]:
        path = f"{self.bin}:{os.environ['PATH']}"
        return {"PATH": path, "NOTES": str(self.notes), "TMPDIR": str(self.temporary)}

    def ask(self, hca: Hca) -> Answer:
        query = asking.query(hca)
        done = subprocess.run(
            query.argv, env=self.env, capture_output=True, text=True, check=False, timeout=30
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    def called(self, name: str) -> list[str]:
        return [line for line in self.notes.read_text().splitlines() if line.startswith(f"{name} ")]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


def test_all_is_asked_twice_and_keys_are_of_the_port() -> None:
    one, two = asking.query(Hca("mlx5_0")), asking.query(Hca("mlx5_0", 2))
    assert one.counts
    assert one.key != two.key


def test_every_tool_is_asked_of_the_port_and_reads_one_cache(host: Host) -> None:
    answer = host.ask(Hca("mlx5_1", 2))
    assert answer.rc == 0
    for name in ("ibnetdiscover", "iblinkinfo", "sminfo", "saquery", "dump_fts"):
        assert all(line.endswith("-C mlx5_1 -P 2") for line in host.called(name)), name
    cache = host.called("ibnetdiscover")[0].split(" ")[2]
    assert f"--load-cache {cache}" in host.called("iblinkinfo")[0]
    assert f"--load-cache {cache}" in host.called("ibqueryerrors")[0]
    assert "--threshold-file /dev/null" in host.called("ibqueryerrors")[0]
    assert list(host.temporary.iterdir()) == []


def test_without_a_name_the_tools_choose_the_hca(host: Host) -> None:
    host.ask(Hca(""))
    assert "-C" not in host.notes.read_text()


def test_a_name_is_no_shell_text(host: Host) -> None:
    host.ask(Hca("$(touch /tmp/x) ; mlx5_0"))
    assert host.called("sminfo")[0].endswith("-C $(touch /tmp/x) ; mlx5_0 -P 1")


def test_where_no_manager_answers_counters_are_read_all_the_same(host: Host) -> None:
    # ibqueryerrors then ends with 0 and no summary.
    host.ask(Hca("mlx5_0"))
    assert len(host.called("ibqueryerrors")) == 2
    assert "--skip-sl" not in host.called("ibqueryerrors")[0]
    assert "--skip-sl" in host.called("ibqueryerrors")[1]
    host.notes.write_text("")
    host.tool("ibqueryerrors", 'echo "## Summary: 6 nodes checked, 0 bad nodes found"\n')
    host.ask(Hca("mlx5_0"))
    assert len(host.called("ibqueryerrors")) == 1


def test_a_cache_that_no_tool_can_read_is_done_without(host: Host) -> None:
    stale = """case $* in *--load-cache*) echo 'loading cached fabric failed' >&2; exit 255 ;; esac
    echo '## Summary: 6 nodes checked, 0 bad nodes found'
    """
    host.tool("ibqueryerrors", stale)
    host.ask(Hca(""))
    assert ["--load-cache" in line for line in host.called("ibqueryerrors")] == [True, False]
    assert host.called("iblinkinfo") == ["iblinkinfo --line"]


def test_every_port_with_a_manager_is_asked_itself(host: Host) -> None:
    host.tool("saquery", "printf '\\t\\tEndPortLid..............14\\n\\t\\tEndPortLid..............1\\n'\n")
    found = asking.parts(host.ask(Hca("")))
    assert host.called("sminfo") == ["sminfo ", "sminfo 1", "sminfo 14"]
    assert "manager 14" in found


def offering(count: int) -> str:
    return f"for n in $(seq {count}); do printf '\\t\\tEndPortLid..............%s\\n' $n; done\n"


def test_more_than_eight_managers_are_all_asked_and_more_than_64_are_not(host: Host) -> None:
    host.tool("saquery", offering(70))
    found = asking.parts(host.ask(Hca("")))
    assert host.called("sminfo") == ["sminfo ", *(f"sminfo {lid}" for lid in range(1, 65))]
    assert {f"manager {lid}" for lid in range(1, 65)} < set(found)
    assert "manager 65" not in found


def test_each_manager_has_3_s_and_all_together_60(host: Host) -> None:
    argv = asking.query(Hca("")).argv
    host.tool("timeout", 'shift 3; exec "$@"\n')
    host.tool("saquery", offering(12))
    clock = host.temporary.parent / "uptime"
    clock.write_text("1000.00 1.00\n")
    late = f"echo $(( $(cut -d. -f1 {clock}) + 25 )).00 1.00 >{clock}.new; mv {clock}.new {clock}\n"
    host.tool("sminfo", f'[ -z "$1" ] || {{ {late.rstrip()}; }}\n')
    slow = [part.replace("/proc/uptime", str(clock)) for part in argv]
    done = subprocess.run(slow, env=host.env, capture_output=True, text=True, check=True, timeout=30)
    found = asking.parts(Answer(0, done.stdout, done.stderr))
    # Asked at 0, 25 and 50 s; at 75 no more.
    assert [name for name in found if name.startswith("manager")] == ["manager 1", "manager 2", "manager 3"]
    assert [line for line in host.called("timeout") if "sminfo" in line] == [
        "timeout -k 1 10 sminfo",
        *(f"timeout -k 1 3 sminfo {lid}" for lid in (1, 2, 3)),
    ]


def test_the_moment_at_which_counters_are_read_is_stamped(host: Host) -> None:
    uptime = Path("/proc/uptime")
    before = float(uptime.read_text().split()[0])
    host.tool(
        "ibnetdiscover",
        'sleep 0.3; for w; do last=$file file=$w; [ "$last" != --cache ] || echo x >"$w"; done\n',
    )
    found = asking.parts(host.ask(Hca("")))
    after = float(uptime.read_text().split()[0])
    assert before + 0.2 < float(found["uptime"].stdout) < after
    assert found["uptime"].rc == 0


def test_without_a_subnet_nothing_more_is_asked(host: Host) -> None:
    host.tool("ibnetdiscover", "echo 'ibnetdiscover: iberror: failed: discover failed' >&2; exit 255\n")
    answer = host.ask(Hca(""))
    found = asking.parts(answer)
    assert list(found) == ["topology"]
    assert asking.why(answer, found, "links") == "ibnetdiscover: iberror: failed: discover failed"
    assert host.called("iblinkinfo") == []


def test_programs_that_are_not_there(host: Host) -> None:
    (host.bin / "sminfo").unlink()
    host.tool("sminfo", "exit 127\n")
    answer = host.ask(Hca(""))
    assert asking.why(answer, asking.parts(answer), "master") == "sminfo: the program is not installed"
    assert asking.why(None, {}, "links") == "it was not asked"
    late = {"routes": Answer(124, "", "")}
    assert asking.why(Answer(0, "", ""), late, "routes") == "dump_fts: no answer in time"
    mute = {"routes": Answer(3, "", "")}
    assert asking.why(Answer(0, "", ""), mute, "routes") == (
        "dump_fts: it said nothing and ended with exit status 3"
    )


def test_parts_keep_what_each_tool_said(host: Host) -> None:
    found = asking.parts(host.ask(Hca("")))
    assert found["routes"] == Answer(0, "dump_fts out\n", "dump_fts said\n")
    assert found["links"] == Answer(0, "iblinkinfo out\n", "iblinkinfo said\n")


@pytest.mark.parametrize("slow", ["ibnetdiscover", "dump_fts"])
def test_a_script_that_is_ended_leaves_nothing_behind(host: Host, slow: str) -> None:
    host.tool(slow, 'echo $$ >"$NOTES.pid"; exec sleep 30\n')
    argv = asking.query(Hca("")).argv
    with subprocess.Popen(argv, env=host.env, stdout=subprocess.DEVNULL) as running:
        deadline = time.monotonic() + 10
        while not host.called(slow) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert list(host.temporary.iterdir())
        running.terminate()
        assert running.wait(5) == 143
    assert list(host.temporary.iterdir()) == []
    gone = Path("/proc", host.notes.with_name("notes.pid").read_text().strip())
    while gone.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not gone.exists()


def test_routes_are_read_at_the_moment_of_the_cables_only(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, kept = host.env, host.temporary.parent / "kept"
    kept.mkdir()
    monkeypatch.setattr(Host, "env", {**own, "FABRICCTL_TMP": str(kept)})
    assert "routes" not in asking.parts(host.ask(Hca("mlx5_0")))
    assert host.called("dump_fts") == []
    assert asking.parts(host.ask(Hca("mlx5_0")))["routes"].stdout == "dump_fts out\n"
    assert list(host.temporary.iterdir()) == []


def test_a_host_on_which_no_script_can_begin_says_why() -> None:
    answer = Answer(1, "", "mktemp: failed to create directory via template: No space left on device\n")
    assert asking.parts(answer) == {}
    assert asking.why(answer, {}, "links").endswith("No space left on device")


def test_a_subnet_that_did_not_answer_once_is_not_waited_for_again(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = host.temporary.parent / "kept"
    kept.mkdir()
    monkeypatch.setattr(Host, "env", {**host.env, "FABRICCTL_TMP": str(kept)})
    host.tool("ibnetdiscover", "exit 124\n")  # as timeout(1) ends when it had to stop a program
    for part in ("topology", "links", "routes"):
        answer = host.ask(Hca("mlx5_0"))
        assert asking.why(answer, asking.parts(answer), part) == "ibnetdiscover: no answer in time"
    assert len(host.called("ibnetdiscover")) == 1
    assert host.called("dump_fts") == []


def test_a_large_subnet_has_more_time_than_other_questions() -> None:
    assert asking.query(Hca("mlx5_0")).limit_s > readback.QUERY_S
