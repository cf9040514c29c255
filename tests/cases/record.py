"""Record a case for a driver from a device that can be reached: ``python tests/cases/record.py --help``."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import yaml

from fabricctl import inventory, readback
from fabricctl.apply.intent import intents
from fabricctl.apply.render import render_port
from fabricctl.errors import RefusedError
from fabricctl.model import settings
from fabricctl.model.codec import encode
from fabricctl.model.fabric import NETWORK_CLI, Device, Port, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.reading import Known, Missing, PortReading, Value
from fabricctl.plugin.protocols import Answer, Answers, Driver, PortGoal
from fabricctl.transport import connect

CASES = Path(__file__).resolve().parent
_SECRET = re.compile(
    r"^(?P<said>.*?\b(?:password|secret|key(?:-string)?|community|passphrase|md5|sha\d*|auth|priv)\s+)\S.*$",
    re.MULTILINE | re.IGNORECASE,
)
"""A line of a switch's configuration that may hold a secret, whatever is behind the word."""
_SECRET_VALUE = re.compile(r'("[^"]*(?:passkey|passwd|password|secret)"\s*:\s*)"[^"]*"', re.IGNORECASE)
"""The same in JSON."""
_CARRIED = re.compile(r"^(cat >\S+\.py <<)'(END_\w+)'[^\n]*\n.*?^\2\n", re.MULTILINE | re.DOTALL)
"""Modules of a program that a script carries: they have tests of their own."""


def main() -> None:
    """Ask one device, and write what it said beside what the driver makes of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("inventory", type=Path)
    parser.add_argument("device")
    parser.add_argument("case", help="name of the folder under tests/cases/<nic|switch>/<driver>")
    parser.add_argument("--what", required=True, help="the machine and the state it was in")
    parser.add_argument("--licence", default="Apache-2.0")
    options = parser.parse_args()
    fabric, policy = inventory.read(options.inventory)
    device = fabric.device(options.device)
    folder = CASES / folder_of(device.role) / device.driver / options.case
    folder.mkdir(parents=True, exist_ok=True)
    answers = {name: without_secrets(answer) for name, answer in ask(device).items()}
    wishes = intents(fabric, policy)
    write(folder, device, answers, {port.id: wishes[port.id] for port in device.ports})
    origin = {
        "what": options.what,
        "kind": "real" if not fabric.simulated else f"real tools on a simulated fabric ({fabric.simulated})",
        "versions": versions(device),
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "licence": options.licence,
    }
    (folder / "origin.yml").write_text(yaml.safe_dump(origin, sort_keys=False))


def folder_of(role: Role) -> str:
    """Return where cases of a role lie."""
    return "nic" if role is Role.NODE else "switch"


def without_secrets(answer: Answer) -> Answer:
    """Return an answer that everyone may see: whole configurations have passwords and keys in them."""
    text = _SECRET_VALUE.sub(r'\1"<removed>"', answer.stdout)
    return replace(answer, stdout=_SECRET.sub(r"\g<said><removed>", text))


def ask(device: Device) -> Answers:
    """Return the device's answers to its driver's questions."""
    queries = readback.driver_of(device).queries(device.ports)
    mark = f"fabricctl-{secrets.token_hex(16)}"
    with connect() as transport:
        if device.endpoint.connection == NETWORK_CLI:
            replies = transport.converse(device, readback.cli_lines(device, queries), deadline_s=60)
            return readback.unframe(queries, mark, readback.framed(replies, mark))
        reply = transport.run(device, readback.script(queries, mark), deadline_s=60)
    return readback.unframe(queries, mark, reply.stdout, reply.stderr)


def write(folder: Path, device: Device, answers: Answers, wishes: dict[PortId, PortIntent]) -> None:
    """Write the recording and what must come of it: from now on that is what the tests hold true."""
    driver = readback.driver_of(device)
    ports, facts = driver.parse(device.ports, answers)
    wanted = {port: driver.wanted(intent) for port, intent in wishes.items()}
    script = script_of(driver, device.ports, ports, wanted)
    for name, value in {
        "ports": device.ports,
        "answers": answers,
        "intent": wishes,
        "reading": {"ports": ports, "facts": facts},
        "wanted": wanted,
    }.items():
        text = json.dumps(encode(value), indent=1, ensure_ascii=False)
        (folder / f"{name}.json").write_text(text + "\n")
    (folder / "script.sh").write_text(script)


def script_of(
    driver: Driver,
    ports: Sequence[Port],
    readings: Mapping[PortId, PortReading],
    wanted: Mapping[PortId, Mapping[str, Value]],
) -> str:
    """Return the text that a case holds: the first port's script, or the whole push of a driver's method."""
    if driver.method is None:
        first = ports[0]
        return render_port(driver.role, driver.name, first.id.port, first.rdma, wanted[first.id])
    goals = [goal_of(driver, port, readings[port.id], wanted[port.id]) for port in ports]
    return _CARRIED.sub(r"\1...\n", driver.method.push("apply-1", 1, goals, 600))


def goal_of(driver: Driver, port: Port, reading: PortReading, wanted: Mapping[str, Value]) -> PortGoal:
    """Return what an apply has a method do to a port that was read so: all that differs and can be had."""
    read = reading.settings
    lacking = {name for name, entry in read.items() if isinstance(entry, Missing) and entry.impossible}
    able = {name: value for name, value in wanted.items() if name not in {*driver.unsupported, *lacking}}
    differs = [name for name, value in able.items() if read.get(name) != Known(value)]
    return PortGoal(
        port=port,
        names=tuple(sorted(differs, key=lambda name: (settings.safe_rank(name), name))),
        wanted=able,
        before={k: e.value for k, e in read.items() if isinstance(e, Known) and k not in settings.KEPT},
    )


def versions(device: Device) -> list[str]:
    """Return the versions of the tools that answered."""
    script = "uname -sr; . /etc/os-release; echo $PRETTY_NAME; ip -V; dcb -V; lldpcli -v; ethtool --version"
    with connect() as transport:
        if device.endpoint.connection == NETWORK_CLI:
            (reply,) = transport.converse(device, ("show version",), deadline_s=60)
        else:
            reply = transport.run(device, script, deadline_s=60)
    lines = [line for line in reply.stdout.splitlines() if line]
    if not lines:
        raise RefusedError("it does not name its versions", device=device.name)
    return lines


if __name__ == "__main__":
    main()
