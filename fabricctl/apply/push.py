"""Run one composed script on each of several devices with ansible-runner; the only user of it."""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import ansible_runner

from fabricctl import resources
from fabricctl.apply import cli_push
from fabricctl.apply.compose import PORT_MARK, Job
from fabricctl.apply.render import FOLDERS
from fabricctl.errors import FabricctlError, MissingToolError, RefusedError, UsageError
from fabricctl.model.fabric import NETWORK_CLI, REST
from fabricctl.model.plan import PushOutcome
from fabricctl.transport import rest

MAX_COMMAND_BYTES = 120_000
"""Linux passes no single argument longer than 128 KiB."""

_MOST_FORKS = 64


@dataclass
class _Heard:
    """What the events have said so far, by device."""

    tasks: dict[str, int] = field(default_factory=dict)
    failed: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    unreachable: dict[str, str] = field(default_factory=dict)
    other: list[str] = field(default_factory=list)

    def event(self, event: Mapping[str, Any]) -> bool:
        """Note one event; False, so that ansible-runner keeps no file of it."""
        facts = event.get("event_data") or {}
        host, result = str(facts.get("host")), facts.get("res") or {}
        match event.get("event"):
            case "runner_on_ok":
                self.tasks[host] = self.tasks.get(host, 0) + 1
            case "runner_on_failed" if "rc" not in result:
                # Nothing ran there: a device's command line could not be reached, or a plugin is missing.
                self.unreachable[host] = str(result.get("msg", "the task could not be started"))
            case "runner_on_failed":
                self.tasks[host] = self.tasks.get(host, 0) + 1
                self.failed[host] = result
            case "runner_on_unreachable":
                self.unreachable[host] = str(result.get("msg", "unreachable"))
            case "error" | "verbose" if event.get("stdout"):
                self.other.append(str(event["stdout"]))
            case _:
                pass
        return False


def push(jobs: Sequence[Job], *, deadline_s: float) -> tuple[PushOutcome, ...]:
    """Run each job on its device, all at the same time, and return what ansible said of each.

    Nothing is printed, and neither files nor signal handlers nor connections are left behind.

    Parameters
    ----------
    deadline_s
        Seconds after which ansible is stopped; devices without an answer by then have failed. What runs on
        them may run on: their revert timers see to that.

    Raises
    ------
    KeyboardInterrupt
        SIGINT, SIGTERM or SIGHUP came while it ran; ansible has been stopped.
    UsageError
        A device's driver has no playbook, or a script is too long for one command.
    """
    if not jobs:
        return ()
    bare = cli_push.without_shell(jobs)
    folder = _folder()
    try:
        _prepare(folder, jobs)
        heard = _Heard()
        variables = environment(folder, min(len(jobs), _MOST_FORKS))
        if bare:
            variables |= cli_push.make_home(folder, bare)
        with _stoppable() as stop:
            status = _run(folder, variables, heard, stop, deadline_s)
        if stop.is_set():
            raise KeyboardInterrupt
        return tuple(_outcome(job.device.name, heard, status, deadline_s) for job in jobs)
    finally:
        if bare:
            cli_push.end_connections(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _folder() -> Path:
    """Make a folder of this push's own, whose path is short enough for ansible's sockets in it."""
    folder = Path(tempfile.mkdtemp(prefix="fabricctl-"))
    if cli_push.room_for_sockets(folder):
        return folder
    folder.rmdir()
    return Path(tempfile.mkdtemp(prefix="fabricctl-", dir="/tmp"))


def _prepare(folder: Path, jobs: Sequence[Job]) -> None:
    groups: dict[str, dict[str, Any]] = {}
    books = []
    for job in jobs:
        device = job.device
        book = resources.folder("playbooks") / FOLDERS[device.role] / f"{device.driver}.yml"
        if not book.is_file():
            name = f"playbooks/{FOLDERS[device.role]}/{device.driver}.yml"
            raise UsageError(f"the driver {device.driver!r} cannot push: there is no {name}")
        if book not in books:
            books.append(book)
        group = groups.setdefault(f"{FOLDERS[device.role]}_{device.driver}", {"hosts": {}})
        group["hosts"][device.name] = host_variables(job)
    inventory = {"all": {"children": groups}}
    site = [{"import_playbook": str(book)} for book in books]
    for name, content in (("hosts.json", inventory), ("site.json", site)):
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    (folder / "ansible.cfg").write_text("[defaults]\n", encoding="utf-8")


def host_variables(job: Job) -> dict[str, Any]:
    """Return the inventory variables of one device: how to reach it and what to run."""
    end = job.device.endpoint
    if end.connection == NETWORK_CLI:
        return cli_push.variables(job, ssh_arguments(end.known_hosts))
    if end.connection == REST:
        # The program that speaks REST runs here.
        given = "".join(f"export {k}={shlex.quote(v)}\n" for k, v in rest.environment(job.device).items())
        script = _literal(command(job.device.name, given + job.script))
        return {"ansible_connection": "local", "fabricctl_command": script}
    values: dict[str, Any] = {
        "ansible_host": _literal(end.host),
        "ansible_connection": end.connection,
        "fabricctl_command": _literal(command(job.device.name, job.script)),
    }
    if end.connection == "ssh":
        values["ansible_port"] = end.port
        # No terminal: a broken connection must not hang up on a script that is at work.
        values["ansible_ssh_use_tty"] = False
        values["ansible_ssh_common_args"] = _literal(ssh_arguments(end.known_hosts))
        if end.user:
            values["ansible_user"] = _literal(end.user)
        if end.key_file:
            values["ansible_ssh_private_key_file"] = _literal(end.key_file)
    if end.become:
        values["ansible_become"] = True
        values["ansible_become_method"] = "sudo"
    return values


def command(device: str, script: str) -> str:
    """Return `script` as one shell command that needs nothing but base64 and gzip on the device.

    Raises
    ------
    RefusedError
        It is longer than a command line can be.
    """
    packed = base64.b64encode(gzip.compress(script.encode(), mtime=0)).decode()
    if len(packed) > MAX_COMMAND_BYTES:
        raise RefusedError(
            f"its script has {len(packed)} bytes, a command line holds {MAX_COMMAND_BYTES}",
            device=device,
            next_step="apply to fewer ports at once, with a smaller --batch",
        )
    return f"printf %s {packed} | base64 -d | gzip -dc | /bin/sh"


def _literal(text: str) -> dict[str, str]:
    # Ansible does not template a value that is marked so.
    return {"__ansible_unsafe": text}


def ssh_arguments(known_hosts: str) -> str:
    """Return ssh's options, as a shell would be given them: host keys are always checked."""
    options = ["StrictHostKeyChecking=yes", "BatchMode=yes"]
    if known_hosts:
        # ssh itself splits the value at blanks and expands percent signs.
        options.append('UserKnownHostsFile="{}"'.format(known_hosts.replace("%", "%%")))
    return " ".join(f"-o {shlex.quote(option)}" for option in options)


def environment(folder: Path, forks: int) -> dict[str, str]:
    """Return what ansible finds in its environment, besides what is there already."""
    return {
        "ANSIBLE_CONFIG": str(folder / "ansible.cfg"),
        "ANSIBLE_HOST_KEY_CHECKING": "True",  # ansible-runner turns it off unless it is named here
        "ANSIBLE_PIPELINING": "True",
        "ANSIBLE_FORKS": str(forks),
        "ANSIBLE_GATHERING": "explicit",
        "ANSIBLE_LIBRARY": str(resources.folder("playbooks") / "library"),
        "ANSIBLE_TIMEOUT": "20",
        "ANSIBLE_HOME": str(folder / "home"),
        "ANSIBLE_LOCAL_TEMP": str(folder / "tmp"),
        # One command a device: a kept connection would serve nobody and outlive the run.
        "ANSIBLE_SSH_ARGS": "-o ControlMaster=no -o ControlPath=none",
        "ANSIBLE_SSH_RETRIES": "0",
        "ANSIBLE_NOCOLOR": "True",
        "ANSIBLE_DEPRECATION_WARNINGS": "False",
        "ANSIBLE_LOCALHOST_WARNING": "False",
        "ANSIBLE_INVENTORY_UNPARSED_WARNING": "False",
        "LC_ALL": "C.UTF-8",  # ansible refuses to start in another encoding
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
    }


def _run(
    folder: Path, variables: dict[str, str], heard: _Heard, stop: threading.Event, deadline_s: float
) -> str:
    try:
        runner = ansible_runner.run(
            private_data_dir=str(folder),
            project_dir=str(folder),
            inventory=str(folder / "hosts.json"),
            playbook=str(folder / "site.json"),
            envvars=variables,
            settings={"pexpect_timeout": 0.2, "suppress_output_file": True},
            suppress_env_files=True,
            timeout=max(1, int(deadline_s)),
            event_handler=heard.event,
            cancel_callback=stop.is_set,
            quiet=True,
        )
    except ansible_runner.exceptions.AnsibleRunnerException as exc:
        raise FabricctlError(
            f"ansible could not be run: {exc}", next_step="see the manual's page on apply"
        ) from exc
    except OSError as exc:
        raise FabricctlError(
            f"ansible-runner could not be started: {exc}",
            next_step="it needs pseudo-terminals (is /dev/pts mounted?), processes and room in /tmp",
        ) from exc
    if runner.rc == 127:  # noqa: PLR2004  the shell's "command not found"
        raise MissingToolError("ansible-playbook is not installed", next_step="pip install ansible-core")
    return str(runner.status)


@contextlib.contextmanager
def _stoppable() -> Iterator[threading.Event]:
    """Set an event on SIGINT, SIGTERM and SIGHUP, so that ansible is stopped in order.

    The old handlers come back. A signal that was ignored when we started (a background job of a script) stays
    ignored.
    """
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop  # only the main thread may set handlers, and only it gets the signals
        return

    def note(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    stopping = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    ours = [number for number in stopping if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, note) for number in ours}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _outcome(device: str, heard: _Heard, status: str, deadline_s: float) -> PushOutcome:
    tasks = heard.tasks.get(device, 0)
    if device in heard.unreachable:
        return PushOutcome(device, ok=False, tasks=tasks, message=_one_line(heard.unreachable[device]))
    if device in heard.failed:
        message, ports = _explain(heard.failed[device])
        return PushOutcome(device, ok=False, tasks=tasks, message=message, ports=ports)
    if not tasks:
        return PushOutcome(device, ok=False, tasks=0, message=_silence(heard, status, deadline_s))
    return PushOutcome(device, ok=True, tasks=tasks)


def _explain(result: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """Return one line on a failed task, and by port why its script failed."""
    said = [line for line in str(result.get("stderr", "")).splitlines() if line.strip()]
    ours = [line.removeprefix("fabricctl: ") for line in said if line.startswith("fabricctl: ")]
    ports = {}
    for line in str(result.get("stdout", "")).splitlines():
        words = line.split()
        if len(words) == 3 and words[0] == PORT_MARK and words[2] != "0":  # noqa: PLR2004  MARK NAME RC
            port = words[1]
            why = [text.removeprefix(f"{port}: ") for text in ours if text.startswith(f"{port}: ")]
            ports[port] = "; ".join(why) or f"its script ended with exit status {words[2]}"
    last = said[-1] if said else str(result.get("msg", "the script failed"))
    message = "; ".join(ours) or f"{last} (exit status {result.get('rc', 'unknown')})"
    return _one_line(message), ports


def _silence(heard: _Heard, status: str, deadline_s: float) -> str:
    if status == "timeout":
        return f"no answer within {deadline_s:.0f} s"
    said = _one_line(" ".join(heard.other))
    return f"ansible ended ({status}) without a word on it{': ' if said else ''}{said}"


def _one_line(text: str) -> str:
    return " ".join(text.split())[:500]
