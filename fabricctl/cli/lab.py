"""``fabricctl lab``: a small fabric of virtual machines to learn and test on."""

from __future__ import annotations

import getpass
import json
import os
import time
from dataclasses import asdict
from typing import Any

import click

from fabricctl.lab import fabric, faults, flow, programs, state
from fabricctl.lab.image import MIRROR_VARIABLE
from fabricctl.model.words import quoted
from fabricctl.resources import store_path
from fabricctl.store import Store

_NAME = click.option(
    "--name", default="lab", show_default=True, help="Which lab; several may run side by side."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


def _report(line: str) -> None:
    click.echo(f"lab: {line}", err=True)


def _show(value: Any) -> None:
    click.echo(json.dumps(value, indent=2))


@click.group(no_args_is_help=True)
def command() -> None:
    """Run a small RDMA fabric of virtual machines on this machine.

    Real Debian guests with soft-RoCE, real dcb, tc, ip, rdma, lldpd, sshd and systemd; a Linux
    bridge as switch; cables that are UNIX sockets. Nothing leaves this machine and no root is
    needed. It writes an inventory and a policy, so that every other command works on it:

    \b
        fabricctl lab up
        fabricctl plan ~/.local/state/fabricctl/lab/lab/inventory.yml
        fabricctl lab fault loss node2 --percent 1
        fabricctl lab clear
        fabricctl lab down

    What it cannot show: real pauses, real congestion control, microseconds. DCB settings are
    kept and read back, but nothing is paused by them.

    \b
    Exit codes: 0 done; 1 it could not be built, started or reached; 2 usage, or there is no such
    lab (down: 0, there is nothing to end); 5 another command is working on it; ssh: the code of
    the remote command, 255 if the login failed.
    """


@command.command()
@_NAME
@click.option("--nodes", default=4, show_default=True, help="Nodes, named node1, node2, ...")
@click.option("--rails", default=1, show_default=True, help="Fabric ports of each node.")
@click.option("--leaves", default=1, show_default=True, help="Leaf switches; with several there is a spine.")
@click.option(
    "--mirror",
    default="",
    envvar=MIRROR_VARIABLE,
    help="Where to take Debian from. Default: from where this machine takes it.",
)
@_JSON
def up(name: str, nodes: int, rails: int, leaves: int, mirror: str, *, as_json: bool) -> None:
    """Bring a lab up.

    The first time an image is built and one guest is booted and saved, which takes a few minutes
    and about 500 MB in ~/.cache/fabricctl/lab. After that a lab is up in seconds. Node N of rail R
    has the address 10.(10+R).0.N and hangs on leaf ((N-1) mod leaves)+1.

    If a lab of this name was left by a killed run, it is removed first.
    """
    where = state.places(name)
    shape = fabric.Shape(nodes, rails, leaves)
    flow.up(where, shape, mirror=mirror, report=_report)
    if as_json:
        _show(asdict(flow.status(where)))
        return
    for label, path in (
        ("inventory", where.inventory),
        ("policy", where.policy),
        ("key", where.user_key),
        ("known hosts", where.known_hosts),
    ):
        click.echo(f"{label:12} {path}")
    click.echo(f"next         fabricctl plan {quoted(str(where.inventory))}")


@command.command()
@_NAME
@_JSON
def status(name: str, *, as_json: bool) -> None:
    """Show the guests of a lab, the faults that are on, and how often a guest was replaced.

    A guest is running, frozen, dead (its process has ended) or silent (its QEMU does not answer).
    A guest that hangs while it starts is replaced, and that is counted here.
    """
    now = flow.status(state.places(name))
    if as_json:
        _show({**asdict(now), "replaced": now.replaced})
        return
    click.echo(f"lab {now.name}: {now.phase}, {now.accelerator}, guests replaced: {now.replaced}")
    for one in now.guests:
        origin = "saved" if one.restored else "booted"
        click.echo(
            f"  {one.name:8} {one.role:6} {one.condition:8} ssh port {one.ssh_port:<5} "
            f"pid {one.pid:<7} {origin}, replaced {one.replaced}"
        )
    for fault in now.faults:
        click.echo(f"  fault: {faults.describe(fault)}")
    click.echo(f"inventory {now.inventory}")


@command.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@_NAME
@click.argument("node")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[CMD]...")
def ssh(name: str, node: str, words: tuple[str, ...]) -> None:
    """Log in at a node or switch as root, or run a command there.

    \b
        fabricctl lab ssh node1
        fabricctl lab ssh node1 ibv_devinfo
        fabricctl lab ssh leaf1 dcb pfc show dev eth1

    The exit code is that of the command; 255 means that the login failed.
    """
    where = state.places(name)
    argv = ssh_command(where, node, words)
    # The user's terminal becomes ssh's own: nothing of ours is left in between.
    os.execv(programs.find("ssh"), argv)  # noqa: S606


def ssh_command(where: state.Places, node: str, words: tuple[str, ...]) -> list[str]:
    """Return the ssh command line for a guest."""
    now = flow.existing(where)
    fabric.plan(now.shape).guest(node)
    options = {
        "IdentityFile": where.user_key,
        "IdentitiesOnly": "yes",
        "UserKnownHostsFile": where.known_hosts,
        "GlobalKnownHostsFile": "/dev/null",
        "StrictHostKeyChecking": "yes",
        "BatchMode": "yes",
        "ConnectTimeout": 20,
        "LogLevel": "ERROR",
    }
    argv = ["ssh", "-F", "/dev/null", "-p", str(now.record(node).ssh_port)]
    for key, value in options.items():
        argv += ["-o", f"{key}={value}"]
    return [*argv, "root@127.0.0.1", *words]


@command.command()
@_NAME
@click.argument("node")
def reboot(name: str, node: str) -> None:
    """Reboot a node or switch in place and wait until it is back.

    It keeps what is on its disk and loses what was not made persistent, as a real one does: that
    is how to find out whether a setting survives. Takes half a minute to a minute.
    """
    took_s = flow.reboot(state.places(name), node, report=_report)
    click.echo(f"{node} is back after {took_s:.0f} s")


@command.command()
@_NAME
def down(name: str) -> None:
    """End a lab and remove all it left, but for the cached image.

    Its certificates are revoked. To remove the cache as well, delete ~/.cache/fabricctl/lab.
    """
    where = state.places(name)
    source = str(where.inventory.resolve())
    if store_path().exists():
        with Store.open() as store:
            store.end_certificates(source, getpass.getuser(), f"lab {name} was taken down", time.time())
    if flow.down(where, report=_report):
        click.echo(f"lab {name} is down")
    else:
        click.echo(f"there was no lab {name}")


@command.command()
@_NAME
def clear(name: str) -> None:
    """Undo all faults: replug, thaw, remove loss and delay, restore settings, restart the dead."""
    done = faults.clear(state.places(name), report=_report)
    click.echo(f"faults undone: {done}")


@command.group(no_args_is_help=True)
def fault() -> None:
    """Break something on purpose.

    TARGET is a node or a switch; --port its interface (default eth1). All faults stay until
    `fabricctl lab clear`, and `fabricctl lab status` lists them.
    """


_PORT = click.option("--port", default="eth1", show_default=True, help="Interface of TARGET.")


def _break(name: str, kind: str, target: str, port: str = "", **more: Any) -> None:
    wish = state.Fault(kind, target, port, **more)
    click.echo(faults.describe(faults.make(state.places(name), wish, report=_report)))


_DIRECTION = click.option(
    "--direction",
    type=click.Choice(["both", "out", "in"]),
    default="both",
    show_default=True,
    help="Out of the node, into it, or both.",
)


@fault.command()
@_NAME
@click.argument("target")
@click.option("--percent", type=click.FloatRange(0, 100), required=True, help="Frames that vanish.")
@_PORT
@_DIRECTION
def loss(name: str, target: str, percent: float, port: str, direction: str) -> None:
    """Lose a share of the frames on the cable in a node's port, each direction by itself."""
    _break(name, "loss", target, port, amount=percent, direction=direction)


@fault.command()
@_NAME
@click.argument("target")
@click.option("--ms", type=click.FloatRange(0, 10000), required=True, help="Added one-way delay.")
@_PORT
@_DIRECTION
def delay(name: str, target: str, ms: float, port: str, direction: str) -> None:
    """Delay all frames on the cable in a node's port, each direction by this much."""
    _break(name, "delay", target, port, amount=ms, direction=direction)


@fault.command("link-down")
@_NAME
@click.argument("target")
@_PORT
def link_down(name: str, target: str, port: str) -> None:
    """Pull a cable: both ends lose the carrier."""
    _break(name, "link-down", target, port)


@fault.command()
@_NAME
@click.argument("target")
@_PORT
@click.option("--with", "other", metavar="TARGET2", required=True, help="Node or switch of the other cable.")
@click.option("--with-port", "other_port", default="eth1", show_default=True, help="Interface of TARGET2.")
def swap(name: str, target: str, port: str, other: str, other_port: str) -> None:
    """Swap two cables: each device hangs where the other one should be."""
    _break(name, "swap", target, port, partner=f"{other}/{other_port}")


@fault.command()
@_NAME
@click.argument("target")
@click.option("--bytes", "size", type=click.IntRange(68, 9216), required=True, help="New MTU.")
@_PORT
def mtu(name: str, target: str, size: int, port: str) -> None:
    """Give a port another MTU than its neighbours have: larger frames vanish there."""
    _break(name, "mtu", target, port, amount=size)


@fault.command("pfc-off")
@_NAME
@click.argument("target")
@_PORT
def pfc_off(name: str, target: str, port: str) -> None:
    """Switch PFC off for all priorities of one port, so that the two ends disagree."""
    _break(name, "pfc-off", target, port)


@fault.command()
@_NAME
@click.argument("target")
def freeze(name: str, target: str) -> None:
    """Stop a machine as if it hung: its links stay up and it answers nothing."""
    _break(name, "freeze", target)


@fault.command()
@_NAME
@click.argument("target")
def kill(name: str, target: str) -> None:
    """Take a machine's power away. `clear` boots it again from its disk."""
    _break(name, "kill", target)
