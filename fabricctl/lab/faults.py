"""Break a lab on purpose, and undo it."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from fabricctl.errors import LabError, UsageError
from fabricctl.lab import cabling, flow, guest, identity, state
from fabricctl.lab.console import Console
from fabricctl.lab.fabric import Role
from fabricctl.lab.qmp import Qmp

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fabricctl.lab.boot import Lab
    from fabricctl.lab.fabric import End, Fabric
    from fabricctl.lab.state import Fault, Places, State

    Report = Callable[[str], None]

_COMMAND_S = 30
# netem holds delayed frames in a queue; its default of 1000 would lose some on its own.
_NETEM_LIMIT = 100000
# A guest under emulation sees late that a carrier is gone, and programs in it, like lldpd, later still.
_UNTIL_DOWN = (
    'n=0; while [ "$(cat /sys/class/net/{port}/carrier)" = 1 ] && [ $((n += 1)) -le 100 ]; do sleep 0.1; done'
)
_UNPLUGGED_S = 1.0
NETEM_KINDS = ("loss", "delay")
GUEST_KINDS = ("freeze", "kill")


def describe(fault: Fault) -> str:
    """Return a fault as a line of text."""
    at = f"{fault.guest} {fault.port}".rstrip()
    match fault.kind:
        case "loss":
            return f"{at}: loses {fault.amount:g} percent, direction {fault.direction}"
        case "delay":
            return f"{at}: delays by {fault.amount:g} ms, direction {fault.direction}"
        case "mtu":
            return f"{at}: MTU {fault.amount:.0f} bytes (was {fault.before})"
        case "link-down":
            return f"{at}: cable pulled"
        case "pfc-off":
            return f"{at}: PFC off (was {fault.before or 'off'})"
        case "swap":
            return f"{at}: cable swapped with that of {fault.partner.replace('/', ' ')}"
        case "freeze":
            return f"{at}: frozen"
        case _:
            return f"{at}: without power"


def make(where: Places, wish: Fault, *, report: Report) -> Fault:
    """Break something; return the fault with what undoes it.

    Raises
    ------
    UsageError
        There is no such guest or port, or this fault does not fit it.
    LabError
        The guest cannot be reached, or refused.
    """
    with state.locked(where.lock_file, wait=False):
        lab, ledger = flow.open_lab(where)
        now = ledger.state
        check(lab.fabric, wish)
        if wish.kind == "swap":
            cabling.check(lab.fabric, wish, now.faults)
        if any(same_place(wish, f) and f.kind == wish.kind for f in now.faults):
            # The first reading of "before" is the true one.
            old = next(f for f in now.faults if same_place(wish, f) and f.kind == wish.kind)
            wish = replace(wish, before=old.before)
            now = replace(now, faults=tuple(f for f in now.faults if f is not old))
        elif wish.kind in {"mtu", "pfc-off"}:
            wish = replace(wish, before=_reading(lab, wish))
        after = replace(now, faults=(*now.faults, wish))
        # Written first: a fault half made can be cleared, one forgotten cannot.
        ledger.set(after)
        _inflict(lab, after, wish)
        report(f"undo with: fabricctl lab clear --name {where.name}")
        return wish


def same_place(one: Fault, other: Fault) -> bool:
    """Tell whether two faults hit the same guest and port."""
    return (one.guest, one.port) == (other.guest, other.port)


def check(fabric: Fabric, wish: Fault) -> None:
    """Refuse what does not fit the fabric.

    Raises
    ------
    UsageError
        Says what to name instead.
    """
    target = fabric.guest(wish.guest)
    if wish.kind in GUEST_KINDS:
        return
    end = cabling.end_at(fabric, wish.guest, wish.port)
    if wish.kind in NETEM_KINDS and target.role is Role.SWITCH:
        peer = fabric.peer(end)
        advice = "choose a node's port: a switch port's own queues are left alone"
        if peer is not None and fabric.guest(peer.guest).role is Role.NODE:
            advice = f"hit the cable at its other end: {peer.guest} --port {peer.port}"
        raise UsageError(
            f"{wish.kind} is made at the node's end of a cable",
            where=f"{target.name}/{wish.port}",
            next_step=advice,
        )


def _inflict(lab: Lab, now: State, fault: Fault) -> None:
    match fault.kind:
        case "loss" | "delay":
            _shell(lab, fault.guest, netem_script(fault.port, now.faults, fault.guest))
        case "mtu":
            _shell(lab, fault.guest, f"ip link set dev {fault.port} mtu {fault.amount:.0f}")
        case "pfc-off":
            _shell(lab, fault.guest, f"dcb pfc set dev {fault.port} prio-pfc all:off")
        case "link-down":
            _set_links(lab, _both(lab, now.faults, fault), up=False)
        case "swap":
            ends = cabling.ends_of(lab.fabric, fault)
            with _unplugged(lab, now, ends):
                cabling.swap(lab.run, ends)
        case "freeze":
            _monitor(lab, fault.guest, "stop")
        case _:
            record = now.record(fault.guest)
            guest.stop(flow.process_of(record), lab.run)


def netem_words(faults: Iterable[Fault], place: tuple[str, str], direction: str) -> str:
    """Return netem's words for all loss and delay that hit one direction of a port; or nothing."""
    words = ""
    for fault in faults:
        if (fault.guest, fault.port) != place or fault.direction not in {direction, "both"}:
            continue
        if fault.kind == "delay":
            words += f" delay {fault.amount:g}ms"
        elif fault.kind == "loss":
            words += f" loss {fault.amount:g}%"
    return f"netem limit {_NETEM_LIMIT}{words}" if words else ""


def netem_script(port: str, faults: Iterable[Fault], name: str) -> str:
    """Return the script that puts a port's loss and delay into force, replacing what there was.

    What leaves is hit by the port's root qdisc, what enters by that of an ifb device to which
    all that enters is redirected.
    """
    faults = tuple(faults)
    ifb = f"in-{port}"
    out, into = (netem_words(faults, (name, port), d) for d in ("out", "in"))
    lines = [
        "set -e",
        f"tc qdisc del dev {port} root 2>/dev/null || true",
        f"tc qdisc del dev {port} clsact 2>/dev/null || true",
        f"ip link del {ifb} 2>/dev/null || true",
    ]
    if out:
        lines.append(f"tc qdisc add dev {port} root {out}")
    if into:
        lines += [
            f"ip link add {ifb} mtu {guest.HOST_MTU_BYTES} txqueuelen 10000 type ifb",
            f"ip link set {ifb} up",
            f"tc qdisc add dev {ifb} root {into}",
            f"tc qdisc add dev {port} clsact",
            f"tc filter add dev {port} ingress matchall action mirred egress redirect dev {ifb}",
        ]
    return "\n".join(lines)


def _reading(lab: Lab, wish: Fault) -> str:
    if wish.kind == "mtu":
        return _shell(lab, wish.guest, f"cat /sys/class/net/{wish.port}/mtu").strip()
    return pfc_words(_shell(lab, wish.guest, f"dcb -j pfc show dev {wish.port}"))


def pfc_words(printed: str) -> str:
    """Return the words that set PFC as ``dcb -j pfc show`` printed it: ``3:on 4:off ...``.

    Raises
    ------
    LabError
        dcb printed something else.
    """
    try:
        table = json.loads(printed)["prio_pfc"]
        pairs = enumerate(table) if isinstance(table, list) else table.items()
        return " ".join(f"{priority}:{'on' if on else 'off'}" for priority, on in pairs)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise LabError(f"dcb printed no PFC table: {printed[:200]!r}", next_step="report this bug") from error


def _shell(lab: Lab, name: str, script: str) -> str:
    with Console(lab.run / f"{name}.con", name=name) as console:
        return console.run(script, deadline_s=_COMMAND_S)


def _monitor(lab: Lab, target: str, command: str, /, **arguments: object) -> None:
    with Qmp(lab.run / f"{target}.qmp") as qmp:
        qmp.command(command, **arguments)


def _both(lab: Lab, faults: Iterable[Fault], fault: Fault) -> list[End]:
    """Return both ends of the cable that is in a port now."""
    fabric = cabling.current(lab.fabric, faults)
    end = cabling.end_at(fabric, fault.guest, fault.port)
    return [one for one in (end, fabric.peer(end)) if one is not None]


def _set_links(lab: Lab, ends: Iterable[End], *, up: bool) -> None:
    for end in ends:
        _monitor(lab, end.guest, "set_link", name=f"nic{end.nic}", up=up)


@contextmanager
def _unplugged(lab: Lab, now: State, ends: Iterable[End]) -> Iterator[None]:
    """Take the carrier from ports, and give it back when all guests that run have seen that it was gone."""
    there = [end for end in ends if flow.condition(now, end.guest) not in {"dead", "silent"}]
    _set_links(lab, there, up=False)
    try:
        for end in there:
            if flow.condition(now, end.guest) == "running":
                _shell(lab, end.guest, _UNTIL_DOWN.format(port=end.port))
        time.sleep(_UNPLUGGED_S)
        yield
    finally:
        _set_links(lab, there, up=True)


def clear(where: Places, *, report: Report) -> int:
    """Undo all faults and restart guests whose process ended; return how many faults there were.

    Raises
    ------
    LabError
        A guest cannot be brought back; the faults that are left stay listed.
    """
    with state.locked(where.lock_file, wait=False):
        lab, ledger = flow.open_lab(where)
        count = len(ledger.state.faults)
        _thaw(lab, ledger.state)
        dead = _dead(lab, ledger.state)
        for fault in [fault for fault in ledger.state.faults if fault.kind == "swap"]:
            # Before the dead are booted: each makes its sockets anew at the paths where they are meant to be.
            _unswap(lab, ledger.state, fault)
            _forget(ledger, fault)
        if dead:
            report(f"booting {', '.join(dead)} from disk: about half a minute under emulation")
            flow.restart_dead(lab, ledger, dead, report)
        for fault in ledger.state.faults:
            # What a new boot forgot needs no undoing, but undoing it does no harm.
            _undo(lab, ledger.state, fault, fresh=fault.guest in dead)
            _forget(ledger, fault)
        return count


def _forget(ledger: flow.Ledger, fault: Fault) -> None:
    left = tuple(f for f in ledger.state.faults if f != fault)
    ledger.set(replace(ledger.state, faults=left))


def _dead(lab: Lab, now: State) -> list[str]:
    return [
        one.name
        for one in lab.fabric.guests
        if not guest.alive(flow.process_of(now.record(one.name)), lab.run)
    ]


def _thaw(lab: Lab, now: State) -> None:
    for fault in now.faults:
        if fault.kind == "freeze" and flow.condition(now, fault.guest) == "frozen":
            _monitor(lab, fault.guest, "cont")
            with Console(lab.run / f"{fault.guest}.con", name=fault.guest) as console:
                identity.set_clock(console)


def _unswap(lab: Lab, now: State, fault: Fault) -> None:
    ends = cabling.ends_of(lab.fabric, fault)
    with _unplugged(lab, now, ends):
        cabling.restore(lab.run, ends)


def _undo(lab: Lab, now: State, fault: Fault, *, fresh: bool) -> None:
    if fault.kind == "link-down":
        _set_links(lab, _both(lab, now.faults, fault), up=True)
    if fresh:
        return
    if fault.kind in NETEM_KINDS:
        _shell(lab, fault.guest, netem_script(fault.port, (), fault.guest))
    elif fault.kind == "mtu":
        _shell(lab, fault.guest, f"ip link set dev {fault.port} mtu {fault.before}")
    elif fault.kind == "pfc-off":
        _shell(lab, fault.guest, f"dcb pfc set dev {fault.port} prio-pfc {fault.before}")
