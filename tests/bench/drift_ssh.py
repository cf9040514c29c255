"""How long does a drift check of many SSH hosts take, against an Ansible playbook that reads the same?

    python tests/bench/drift_ssh.py --hosts 64

Starts an sshd of its own on loopback (Debian: openssh-server), which plays all hosts, and compares in one
run: ``fabricctl drift``, and ``ansible-playbook`` with one task for each query of the driver, facts not
gathered, pipelining on and as many forks as hosts. Prints wall times, their ratio, and the peak memory of
fabricctl. The aims: at least 10 times faster, less than 300 MB. What the hosts answer is this machine's own.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from fabricctl import inventory, readback
from fabricctl.apply.record import Applied, ApplyRecord, State, keep
from fabricctl.model.fabric import Fabric
from fabricctl.model.plan import Plan
from fabricctl.model.reading import Known
from fabricctl.model.run import RunKind
from fabricctl.model.verdict import Outcome
from fabricctl.store import Store
from fabricctl.transport import connect

POLICY = """\
name: bench
mtu: {nic_bytes: 9000, switch_bytes: 9216, rdma_bytes: 4096}
limits: {loss: {bound_rate: 0.001}}
"""


MOST_ADDRESSES = 16
"""One sshd listens on so many addresses and no more."""


def address_of(number: int) -> str:
    """Return the loopback address of a host: each is a machine of its own to SSH."""
    return f"127.0.1.{number + 1}"


@contextlib.contextmanager
def ssh_server(folder: Path, hosts: int) -> Iterator[int]:
    """Run an sshd with keys of its own, on a loopback address for each host, and return its port."""
    sshd = shutil.which("sshd") or "/usr/sbin/sshd"
    for name in ("host", "user"):
        key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
        subprocess.run(key, check=True)
    shutil.copy(folder / "user.pub", folder / "authorized")
    with socket.socket() as free:
        free.bind((address_of(0), 0))
        port = int(free.getsockname()[1])
    settings = {
        "Port": port,
        "HostKey": folder / "host",
        "AuthorizedKeysFile": folder / "authorized",
        "PidFile": "none",
        "StrictModes": "no",
        "UsePAM": "no",
        "MaxStartups": "500",
        "Subsystem": "sftp internal-sftp",
    }
    Path("/run/sshd").mkdir(exist_ok=True)  # sshd refuses to start without it
    servers = []
    for first in range(0, hosts, MOST_ADDRESSES):
        config = folder / f"sshd_config.{first}"
        lines = [f"{key} {value}" for key, value in settings.items()]
        addresses = range(first, min(hosts, first + MOST_ADDRESSES))
        lines += [f"ListenAddress {address_of(number)}" for number in addresses]
        config.write_text("\n".join(lines) + "\n")
        servers.append(subprocess.Popen([sshd, "-D", "-q", "-f", str(config)]))
    try:
        for number in range(hosts):
            _await(address_of(number), port)
        yield port
    finally:
        for server in servers:
            server.terminate()
        for server in servers:
            server.wait()


def _await(address: str, port: int) -> None:
    for _ in range(100):
        with contextlib.suppress(OSError), socket.create_connection((address, port), 0.2):
            return
        time.sleep(0.1)
    raise click.ClickException(f"sshd does not listen on {address}")


def write_inventory(folder: Path, port: int, hosts: int, driver: str) -> Path:
    """Write an inventory of nodes that are all the same sshd."""
    (folder / "policy.yml").write_text(POLICY)
    known = (folder / "host.pub").read_text().split()[:2]
    names = ",".join(f"[{address_of(number)}]:{port}" for number in range(hosts))
    (folder / "known_hosts").write_text(f"{names} {' '.join(known)}\n")
    nodes = {
        f"node{number:03d}": {
            "ansible_host": address_of(number),
            "fabric_ports": [{"name": "lo", "rdma": "rxe0", "address": f"10.0.{number}.1/24"}],
        }
        for number in range(hosts)
    }
    shared = {
        "fabric_policy": "policy.yml",
        "fabric_known_hosts": "known_hosts",
        "ansible_port": port,
        "ansible_user": getpass.getuser(),
        "ansible_ssh_private_key_file": str(folder / "user"),
        "fabric_role": "node",
        "fabric_driver": driver,
    }
    path = folder / "inventory.yml"
    path.write_text(json.dumps({"all": {"vars": shared, "hosts": nodes}}))
    return path


def record_what_is(fabric: Fabric, store: Path) -> None:
    """Record what the first host holds as the applied intent of all."""
    first = fabric.devices[0]
    with connect() as transport:
        reading = readback.read(fabric, [first], transport)[first.name]
    if reading.error:
        raise click.ClickException(reading.error)
    held = reading.ports[first.ports[0].id].settings
    wanted = {name: entry.value for name, entry in held.items() if isinstance(entry, Known)}
    ports = tuple(port.id for device in fabric.devices for port in device.ports)
    with Store.open(store) as opened:
        run = opened.begin(RunKind.APPLY, getpass.getuser(), fabric.source)
        record = ApplyRecord(State.DONE, Plan(()), dict.fromkeys(ports, wanted), proven=ports)
        keep(opened, Applied(run, record), new=True)
        opened.finish(run, Outcome.PASS, "for the benchmark")


def write_playbook(folder: Path, fabric: Fabric) -> Path:
    """Write a playbook with a task for each query that the driver asks."""
    device = fabric.devices[0]
    tasks = [
        {
            "name": query.key,
            "ansible.builtin.command": {"argv": list(query.argv)},
            "changed_when": False,
            "failed_when": False,
        }
        for query in readback.driver_of(device).queries(device.ports)
    ]
    path = folder / "read.yml"
    path.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": tasks}]))
    return path


def timed(argv: Sequence[str], environment: dict[str, str]) -> tuple[float, int]:
    """Run a program and return its wall time in seconds and its exit code."""
    began = time.monotonic()
    done = subprocess.run(
        argv, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
    )
    return time.monotonic() - began, done.returncode


@click.command()
@click.option("--hosts", default=64, show_default=True, type=click.IntRange(1, 250), help="SSH hosts.")
@click.option("--driver", default="rxe", show_default=True, help="NIC driver.")
def main(hosts: int, driver: str) -> None:
    """Measure both in turn, and print one line each."""
    with tempfile.TemporaryDirectory() as name, ssh_server(folder := Path(name), hosts) as port:
        path = write_inventory(folder, port, hosts, driver)
        fabric, _ = inventory.read(path)
        record_what_is(fabric, folder / "store.sqlite")
        playbook = write_playbook(folder, fabric)
        ours = {**os.environ, "FABRICCTL_STORE": str(folder / "store.sqlite")}
        seconds, rc = timed([sys.executable, "-m", "fabricctl", "drift", str(path)], ours)
        peak_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        click.echo(f"fabricctl drift: {hosts} hosts in {seconds:.1f} s, exit {rc}, peak {peak_mb:.0f} MB")
        theirs = {
            **os.environ,
            "ANSIBLE_PIPELINING": "1",
            "ANSIBLE_FORKS": str(hosts),
            "ANSIBLE_SSH_ARGS": f"-o UserKnownHostsFile={folder / 'known_hosts'} -o ControlMaster=auto"
            f" -o ControlPersist=60s -o ControlPath={folder}/%C-%r",
        }
        program = str(Path(sys.executable).with_name("ansible-playbook"))
        other, code = timed([program, "-i", str(path), str(playbook)], theirs)
        click.echo(f"ansible-playbook: {hosts} hosts in {other:.1f} s, exit {code}")
        if rc or code:
            raise click.ClickException("a host was not read: the times say nothing")
        click.echo(f"ratio {other / seconds:.1f}")


if __name__ == "__main__":
    main()
