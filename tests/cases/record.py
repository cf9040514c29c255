"""Record a case for a driver from a device that can be reached: ``python tests/cases/record.py --help``."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import secrets
from pathlib import Path

import yaml

from fabricctl import inventory, readback
from fabricctl.apply.intent import intents
from fabricctl.apply.render import render_port
from fabricctl.errors import RefusedError
from fabricctl.model.codec import encode
from fabricctl.model.fabric import Device, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.plugin.protocols import Answers
from fabricctl.transport import connect

CASES = Path(__file__).resolve().parent


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
    answers = ask(device)
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


def ask(device: Device) -> Answers:
    """Return the device's answers to its driver's questions."""
    queries = readback.driver_of(device).queries(device.ports)
    mark = f"fabricctl-{secrets.token_hex(16)}"
    with connect() as transport:
        reply = transport.run(device, readback.script(queries, mark), deadline_s=60)
    return readback.unframe(queries, mark, reply.stdout, reply.stderr)


def write(folder: Path, device: Device, answers: Answers, wishes: dict[PortId, PortIntent]) -> None:
    """Write the recording and what must come of it: from now on that is what the tests hold true."""
    driver = readback.driver_of(device)
    ports, facts = driver.parse(device.ports, answers)
    wanted = {port: driver.wanted(intent) for port, intent in wishes.items()}
    first = device.ports[0]
    script = render_port(device.role, device.driver, first.id.port, first.rdma, wanted[first.id])
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


def versions(device: Device) -> list[str]:
    """Return the versions of the tools that answered."""
    script = "uname -sr; . /etc/os-release; echo $PRETTY_NAME; ip -V; dcb -V; lldpcli -v; ethtool --version"
    with connect() as transport:
        reply = transport.run(device, script, deadline_s=60)
    lines = [line for line in reply.stdout.splitlines() if line]
    if not lines:
        raise RefusedError("it does not name its versions", device=device.name)
    return lines


if __name__ == "__main__":
    main()
