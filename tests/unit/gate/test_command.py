"""``fabricctl-gate`` as Slurm calls it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from fabricctl.gate import command
from fabricctl.gate.decide import undecided
from fabricctl.model.certificate import Certificate
from fabricctl.model.names import PortId
from fabricctl.model.run import RunKind
from fabricctl.model.verdict import Outcome
from fabricctl.store import Store


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store in which n1 and n2 passed and n3 failed."""
    for name in ("SLURM_JOB_NODELIST", "SLURM_NODELIST"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "store.sqlite"
    monkeypatch.setenv("FABRICCTL_STORE", str(path))
    ports = [PortId(f"n{i}", "eth1") for i in (1, 2, 3)]
    with Store.open(path) as opened:
        run = opened.begin(RunKind.VERIFY, "ops", "/i.yml")
        now = time.time()
        base = Certificate(
            id="",
            port=ports[0],
            run_id=run.id,
            outcome=Outcome.PASS,
            peers={},
            findings=(),
            fingerprint={},
            engine="pyverbs",
            policy="p",
            policy_digest="d",
            issued_at=now,
            expires_at=now + 1000,
        )
        opened.put_certificates(
            replace(
                base,
                id=f"{run.id}:{port}",
                port=port,
                node_ports=(port,),
                outcome=Outcome.FAIL if port.device == "n3" else Outcome.PASS,
                peers={
                    str(q): Outcome.FAIL if "n3" in {port.device, q.device} else Outcome.PASS for q in ports
                },
            )
            for port in ports
        )
    return path


@pytest.mark.parametrize(
    ("nodes", "code", "word"),
    [("n[1-2]", 0, "yes: "), ("n1,n3", 1, "no: "), ("n1,n4", 4, "unknown: ")],
)
def test_answers(store: Path, capsys: pytest.CaptureFixture[str], nodes: str, code: int, word: str) -> None:
    assert store.is_file()
    assert command.main(["--nodes", nodes]) == code
    printed = capsys.readouterr()
    assert printed.out.startswith(word)
    assert printed.out.count("\n") == 1
    assert printed.err == ""


def test_the_job_s_nodes_come_from_slurm(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_NODELIST", "n[1-2]")
    assert command.main(["--store", str(store)]) == 0
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n3")
    assert command.main([]) == 1
    assert command.main(["--nodes", "n1"]) == 0
    assert capsys.readouterr().out.count("\n") == 3


def test_json(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--nodes", "n1", "--json", "--store", str(store)]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["answer"], said["allow"], said["nodes"]) == ("yes", True, ["n1"])


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    "argv",
    [
        [],
        *(
            ["--nodes", nodes]
            for nodes in (
                "n[",
                " ",
                "n1\n",
                "n1\nn2",
                "n1\x1b[31m",
                "n\uff11",
                "n[\uff11-2]",
                "n[1-9\u0663]",
                f"n[1-{'9' * 5000}]",
                "n1;reboot",
                "$(reboot)",
                "n1,-n2",
                "n1\u00a0",
            )
        ),
    ],
)
def test_wrong_usage(capsys: pytest.CaptureFixture[str], argv: list[str]) -> None:
    assert command.main(argv) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("fabricctl-gate: ")
    assert printed.err.count("\n") == 1
    assert printed.err.strip().isprintable()


def test_a_store_that_is_not_there_or_broken_is_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["--nodes", "n1", "--store", str(tmp_path / "none")]) == 4
    (tmp_path / "bad").write_bytes(b"nonsense " * 200)
    assert command.main(["--nodes", "n1", "--store", str(tmp_path / "bad")]) == 4
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith(f"unknown: {tmp_path}/none: there is no store; run")
    assert "damaged" in out[1]


def test_a_bug_does_not_look_like_a_no(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(command, "decide", broken)
    assert command.main(["--nodes", "n1", "--store", str(store)]) == 70
    assert "internal error; please report" in capsys.readouterr().err


def test_it_starts_without_the_heavy_modules(tmp_path: Path) -> None:
    program = (
        "import sys; from fabricctl.gate.command import main; main(sys.argv[1:]);"
        "print(*sorted({m.split('.')[0] for m in sys.modules}),"
        " *[m for m in sys.modules if m.startswith('fabricctl')])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, "--nodes", "n1", "--store", str(tmp_path / "none")],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    loaded = set(ran.stdout.splitlines()[1].split())
    heavy = {"paramiko", "pydantic", "ansible", "ansible_runner", "yaml", "jinja2", "click", "asyncio"}
    assert not loaded & heavy
    assert not {
        m for m in loaded if m.startswith(("fabricctl.plugin", "fabricctl.readback", "fabricctl.verify"))
    }


OUTPUTS = {
    "a closed pipe": "r, w = os.pipe(); os.close(r); os.dup2(w, {fd})",
    "a full disk": "os.dup2(os.open('/dev/full', os.O_WRONLY), {fd})",
    "nothing": "os.close({fd})",
}


@pytest.mark.parametrize("program", [["fabricctl.gate.command"], ["fabricctl", "gate"]], ids=" ".join)
@pytest.mark.parametrize("output", OUTPUTS)
def test_the_exit_code_is_the_answer_whoever_reads_it(store: Path, output: str, program: list[str]) -> None:
    for nodes, code, *more in (("n1", 0), ("n3", 1, "--json"), ("n9", 4), ("n[", 2)):
        words = [sys.executable, "-m", *program, "--store", str(store), "--nodes", nodes, *more]
        start = f"import os; {OUTPUTS[output].format(fd=1)}; os.execv({sys.executable!r}, {words!r})"
        done = subprocess.run(
            [sys.executable, "-c", start], capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == code, done.stderr
        assert len(done.stderr.splitlines()) == (code == 2)
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("output", OUTPUTS)
def test_a_complaint_that_cannot_be_printed_is_still_wrong_usage(store: Path, output: str) -> None:
    for nodes, code in (("n[", 2), ("n1", 0)):
        words = [sys.executable, "-m", "fabricctl.gate.command", "--store", str(store), "--nodes", nodes]
        both = "; ".join(OUTPUTS[output].format(fd=fd) for fd in (1, 2))
        start = f"import os; {both}; os.execv({sys.executable!r}, {words!r})"
        assert subprocess.run([sys.executable, "-c", start], check=False, timeout=60).returncode == code


def test_a_name_that_the_terminal_cannot_show_is_escaped(
    store: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(command, "ask", lambda *_: undecided("n\u00e9", ("n1",), 0.0))
    assert store.is_file()
    with (tmp_path / "out").open("w", encoding="ascii") as out:
        monkeypatch.setattr(sys, "stdout", out)
        assert command.main(["--nodes", "n1"]) == 4
    assert (tmp_path / "out").read_text() == "unknown: n\\xe9\n"
