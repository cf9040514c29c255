"""How much longer does a loop in the shell take than ``verify``, for the same pairs and the same counts?

    python tests/bench/shell_loop.py -i inventory.yml --probes read_latency,write_pingpong,write_bandwidth

The loop is what operators write: for every directed pair, one after the other, start ``ib_read_lat`` on the
target over SSH, wait until it listens, run it on the source, and then the same with ``ib_write_lat`` and
``ib_write_bw``; as many samples as the policy asks for, and bandwidth for as long. Then ``fabricctl verify``
does the probes that count the same over the same pairs. Prints both times for each pair and their ratio; the
aim is 3. Needs perftest on the nodes, and a fabric that is set as its policy says (``fabricctl apply``). It
stops ours at the same three probes: what ``verify`` finds beyond them (loss, path MTU, settings read before
and after) is in its time as well.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from itertools import permutations
from pathlib import Path

import click

from fabricctl import inventory
from fabricctl.model.fabric import Device, Fabric, Port
from fabricctl.model.policy import Policy

AIM = 3.0
PORT = 18515
LISTENING = "Waiting for client"
_ONE = """\
coproc server {{ exec {server} 2>&1; }}
pid=$server_PID  # bash forgets it when the server ends
while read -r line <&"${{server[0]}}"; do case $line in *"{listening}"*) break ;; esac; done
{client} >"$out" 2>&1 || {{ echo {name} failed >&2; tail -n 20 "$out" >&2; exit 1; }}
wait "$pid" || true
"""


def login(device: Device) -> str:
    """Return the start of an ``ssh`` command line to a device."""
    at = device.endpoint
    known = [f"-oUserKnownHostsFile={at.known_hosts}"] if at.known_hosts else []
    key = ["-i", at.key_file] if at.key_file else []
    name = f"{at.user}@{at.host}" if at.user else at.host
    return shlex.join(["ssh", "-n", *known, *key, "-p", str(at.port), name])


def tools(port: Port, policy: Policy, gid: int) -> dict[str, str]:
    """Return the three command lines of one end."""
    common = f"-d {port.rdma} -x {gid} -F -p {PORT} --tclass={policy.roce_tos}"
    limits = policy.limits
    latency = f"-s {limits.message_bytes} -n {limits.latency_samples + limits.warmup}"
    seconds = max(1, round(limits.bandwidth_seconds))
    many = f"-q {limits.bandwidth_queue_pairs} -t {limits.bandwidth_depth}"
    flow = f"-s {max(limits.bandwidth_sizes)} -D {seconds} {many} --report_gbits"
    return {
        "ib_read_lat": f"stdbuf -oL ib_read_lat {common} {latency} -o 1",
        "ib_write_lat": f"stdbuf -oL ib_write_lat {common} {latency}",
        "ib_write_bw": f"stdbuf -oL ib_write_bw {common} {flow}",
    }


def script(fabric: Fabric, policy: Policy, gid: int, log: str) -> str:
    """Return the loop over all directed pairs of the first ports of the nodes; what is said goes to `log`."""
    lines = ["set -u", f"out={shlex.quote(log)}"]
    ports = [(node, node.ports[0]) for node in fabric.nodes() if node.ports]
    for (source, near), (target, far) in permutations(ports, 2):
        ours, theirs = tools(near, policy, gid), tools(far, policy, gid)
        to = far.address.partition("/")[0]
        lines += [
            _ONE.format(
                server=f"{login(target)} {shlex.quote(theirs[name])}",
                client=f"{login(source)} {shlex.quote(f'{ours[name]} {to}')}",
                listening=LISTENING,
                name=shlex.quote(f"{name} {near.id} {far.id}"),
            )
            for name in ours
        ]
    return "\n".join(lines)


def seconds_of(argv: list[str], **options: str) -> tuple[float, str]:
    """Run a command and return how long it took and what it printed; ends the benchmark if it failed."""
    began = time.monotonic()
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env={**os.environ, **options})
    took = time.monotonic() - began
    if done.returncode not in {0, 4}:  # a probe that is left out leaves its limit unknown
        sys.exit(f"{argv[0]} ended with {done.returncode}: {done.stderr[-2000:]}")
    return took, done.stdout


@click.command()
@click.option("-i", "path", type=click.Path(path_type=Path), required=True, help="Inventory.")
@click.option("--probes", default="read_latency,write_pingpong,write_bandwidth", show_default=True)
@click.option("--gid", default=1, show_default=True, help="GID index that perftest uses on all nodes.")
def main(path: Path, probes: str, gid: int) -> None:
    """Time both, print a line each and the ratio, and fail if the aim is missed."""
    fabric, policy = inventory.read(path)
    pairs = len([node for node in fabric.nodes() if node.ports])
    pairs *= pairs - 1
    with tempfile.TemporaryDirectory() as folder:
        loop, _ = seconds_of(["bash", "-c", script(fabric, policy, gid, f"{folder}/log")])
        click.echo(f"shell loop: {loop:.1f} s, {loop / pairs:.1f} s for each of {pairs} directed pairs")
        argv = [sys.executable, "-m", "fabricctl", "verify", "-i", str(path), "--pairs", "all", "--json"]
        store = str(Path(folder) / "store.sqlite")
        verify, said = seconds_of([*argv, "--probes", probes], FABRICCTL_STORE=store)
    share = json.loads(said).get("measuring_share")
    click.echo(f"fabricctl verify: {verify:.1f} s, {verify / pairs:.1f} s a pair; measuring share {share}")
    click.echo(f"ratio {loop / verify:.1f}, aim at least {AIM:g}")
    if loop / verify < AIM:
        sys.exit(1)


if __name__ == "__main__":
    main()
