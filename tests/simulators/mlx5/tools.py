#!/usr/bin/python3 -IS
"""Stands in for mlnx_qos and dcb on a host with mlx5 ports.

It plays the program under whose name it is started: link or copy it to those names. Its state is
``state.json`` in the folder that FABRICCTL_SIM names (``/run/fabricctl-sim``), made by ``lay.py``; files that
show it are below ``sys`` there, or FABRICCTL_SIM_SYS. What each prints and refuses follows the source of
mlnx-tools and iproute2 and the kernel's en_dcbnl.c. Every call that is to change something is in the
state's ``log``.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Port = dict[str, Any]
FOLDER = Path(os.environ.get("FABRICCTL_SIM", "/run/fabricctl-sim"))
SYS = Path(os.environ.get("FABRICCTL_SIM_SYS", str(FOLDER / "sys")))
ENOENT, EINVAL = "No such file or directory", "Invalid argument"
ETS = "ets"


class Refused(Exception):  # noqa: N818  the kernel's answer
    """The driver said no, with these words."""


class Host:
    """The state, while it is locked."""

    def __init__(self, state: dict[str, Any]) -> None:
        self.state = state

    def port(self, name: str) -> Port:
        if name not in self.state["ports"]:
            raise Refused("No such device")
        found: Port = self.state["ports"][name]
        return found

    def log(self, words: list[str]) -> None:
        self.state["log"].append(" ".join(words))

    def may(self, what: str, port: Port) -> None:
        if port.get("no_dcb") or (what == "buffer" and port.get("no_buffer")):
            raise Refused("Operation not supported")
        if what in self.state["refuses"]:
            raise Refused("Operation not permitted")


@contextlib.contextmanager
def host() -> Iterator[Host]:
    """Hold the state; what shows it in sysfs is written at the end."""
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        file = FOLDER / "state.json"
        found = Host(json.loads(file.read_text()))
        try:
            yield found
        finally:
            file.write_text(json.dumps(found.state))
            for name, port in found.state["ports"].items():
                show(name, port)


def show(name: str, port: Port) -> None:
    """Write what MLNX_OFED's driver shows of buffers, and old ones of trust."""
    folder = SYS / "class/net" / name / "qos"
    if not folder.is_dir():
        return
    rows = [f"{number}\t\t{buffer}" for number, buffer in enumerate(port["p2b"])]
    put(folder / "prio2buffer", "\n".join(["Priority\tBuffer", *rows]))
    rows = [f"{number}\t{size}\t0\t\t0" for number, size in enumerate(port["sizes"])]
    head = [
        f"Port buffer size = {port['total']}",
        "Spare buffer size = 0",
        "Buffer\tSize\txoff_threshold\txon_threshold",
    ]
    put(folder / "buffer_size", "\n".join([*head, *rows]))
    if port["trust_sysfs"]:
        rows = [f"{dscp}\t{priority}" for dscp, priority in enumerate(port["firmware_map"])]
        put(folder / "dscp2prio", "\n".join(["dscp\tprio", *rows]))
        put(folder / "trust", port["trust"])


def put(file: Path, text: object) -> None:
    """Write a file if that changes it."""
    wanted = f"{text}\n" if text != "" else ""
    if not file.exists() or file.read_text() != wanted:
        file.write_text(wanted)


# the driver


def set_pfc(name: str, port: Port, mask: list[int], delay: int) -> None:
    """Set PFC: a changed mask toggles the link and clears pause; a delay is taken from 1 to 999."""
    if mask != port["pfc"]:
        port["pfc"] = mask
        port["pause"] = {"rx": "off", "tx": "off"}
        file = SYS / "class/net" / name / "carrier_down_count"
        put(file, int(file.read_text()) + 1)
    if 0 < delay < 1000:
        port["cable"] = delay


def set_ets(port: Port, prio_tc: list[int], tsa: list[str], bw: list[int]) -> None:
    """Set ETS; shares of classes that are not ets are kept as 100 whatever they are set to."""
    shares = [share for share, kind in zip(bw, tsa) if kind == ETS]  # noqa: B905  Python 3.9
    if shares and sum(shares) != 100:
        raise Refused(EINVAL)
    port["prio_tc"], port["tsa"] = prio_tc, tsa
    port["bw"] = [share if kind == ETS else 100 for share, kind in zip(bw, tsa)]  # noqa: B905  Python 3.9


def set_buffer(port: Port, p2b: list[int], sizes: list[int]) -> None:
    """Set buffers: they fit, and no priority goes to one without room."""
    if sum(sizes) > port["total"] or any(sizes[buffer] == 0 for buffer in p2b):
        raise Refused(EINVAL)
    port["p2b"], port["sizes"] = p2b, sizes


def set_app(port: Port, dscp: int, priority: int) -> None:
    """Add an entry: the first switches trust, another of the same DSCP replaces it."""
    port["trust"] = "dscp"
    port["firmware_map"][dscp] = priority
    port["app"][str(dscp)] = priority


def del_app(port: Port, dscp: int, priority: int) -> None:
    """Delete an entry: the last one switches trust back."""
    if port["app"].get(str(dscp)) != priority:
        raise Refused(ENOENT)
    del port["app"][str(dscp)]
    port["firmware_map"][dscp] = 0
    if not port["app"]:
        port["trust"] = "pcp"


# dcb


def dcb(words: list[str]) -> int:
    """Play dcb: objects pfc, app, ets, buffer and dcbx, and batches from standard input."""
    flags = "".join(word[1:] for word in words if word.startswith("-") and word != "-")
    plain = [word for word in words if not word.startswith("-")]
    if set(flags) - set("jNsfbp"):
        return complain(f"invalid option -- '{flags}'")
    if "b" not in flags:
        return dcb_line(plain, json_out="j" in flags)
    rc = 0
    for number, line in enumerate(sys.stdin, start=1):
        if line.split() and dcb_line(line.split(), json_out="j" in flags):
            rc = complain(f"Command failed -:{number}")
            if "f" not in flags:
                break
    return rc


def dcb_line(words: list[str], *, json_out: bool) -> int:
    what, verb, word, name, *rest = [*words, "", "", "", ""][: max(4, len(words))]
    if word != "dev":
        return complain(f'What is "{verb}"?')
    with host() as found:
        try:
            port = found.port(name)
            found.may(what, port)
            if verb == "show":
                return say(json.dumps(dcb_show(port, what), separators=(",", ":")) if json_out else "?")
            found.log(["dcb", *words])
            dcb_set(name, port, [what, verb], rest)
        except Refused as exc:
            return complain(f"Attribute {'read' if verb == 'show' else 'write'}: {exc}")
        except ValueError as exc:
            return complain(str(exc))
    return 0


def dcb_show(port: Port, what: str) -> dict[str, Any]:
    if what == "app":
        pairs = sorted((int(dscp), priority) for dscp, priority in port["app"].items())
        return {"dscp_prio": [list(pair) for pair in pairs]} if pairs else {}
    if what == "dcbx":
        return {"host": True, "ieee": True} if port["dcbx"] == "host" else {"ieee": True, "cee": True}
    shown: dict[str, dict[str, Any]] = {
        "pfc": {
            "pfc_cap": 8,
            "macsec_bypass": False,
            "delay": port["cable"],
            "prio_pfc": [bool(on) for on in port["pfc"]],
            "requests": port["requests"],
            "indications": port["indications"],
        },
        "ets": {
            "willing": False,
            "ets_cap": 8,
            "cbs": False,
            "tc_bw": port["bw"],
            "tc_tsa": port["tsa"],
            "prio_tc": port["prio_tc"],
        },
        "buffer": {"prio_buffer": port["p2b"], "buffer_size": port["sizes"], "total_size": port["total"]},
    }
    return shown[what]


def dcb_set(name: str, port: Port, command: list[str], rest: list[str]) -> None:
    what, verb = command
    if what == "app":
        dcb_app(port, verb, rest)
        return
    if verb != "set" or what not in {"pfc", "ets", "buffer"}:
        raise ValueError(f'What is "{verb}"?')
    given = lists(rest, port, what)
    if what == "pfc":
        set_pfc(name, port, given["prio-pfc"], given["delay"])
    elif what == "buffer":
        set_buffer(port, given["prio-buffer"], given["buffer-size"])
    else:
        # Of all classes, those included that it was not told about.
        total, expected = sum(given["tc-bw"]), 100 if ETS in given["tc-tsa"] else 0
        if total != expected:
            raise ValueError(f"Bandwidth percentages in tc-bw sum to {total}%, expected {expected}%")
        set_ets(port, given["prio-tc"], given["tc-tsa"], given["tc-bw"])


def lists(rest: list[str], port: Port, what: str) -> dict[str, Any]:
    """Return the lists of an object as the words change them."""
    keys = {
        "pfc": {"prio-pfc": "pfc", "delay": "cable"},
        "ets": {"prio-tc": "prio_tc", "tc-tsa": "tsa", "tc-bw": "bw"},
        "buffer": {"prio-buffer": "p2b", "buffer-size": "sizes"},
    }[what]
    found: dict[str, Any] = {name: port[key] for name, key in keys.items()}
    name = ""
    for word in rest:
        index, colon, text = word.partition(":")
        if name == "delay":
            found[name], name = int(word), ""
        elif not colon and word in keys:
            name = word
        elif not colon or not name:
            raise ValueError(f'What is "{word}"?')
        else:
            value: Any = {"on": 1, "off": 0}.get(text, int(text) if text.isdecimal() else text)
            at = range(8) if index == "all" else [int(index)]
            found[name] = [value if number in at else old for number, old in enumerate(found[name])]
    return found


def dcb_app(port: Port, verb: str, rest: list[str]) -> None:
    if verb == "flush":
        for dscp, priority in sorted(port["app"].items()):
            del_app(port, int(dscp), priority)
        return
    if rest[:1] != ["dscp-prio"]:
        raise Refused(EINVAL)
    for word in rest[1:]:
        dscp, priority = (int(part) for part in word.split(":"))
        if verb == "replace" and str(dscp) in port["app"]:
            complain(f"Attribute write: {ENOENT}\nCould not remove replaced APP entries")
        if verb == "del":
            del_app(port, dscp, priority)
        else:
            set_app(port, dscp, priority)


# mlnx_qos


def mlnx_qos(words: list[str]) -> int:
    """Play mlnx_qos; it prints everything after whatever it sets."""
    import optparse  # noqa: PLC0415  dcb starts faster without

    parser = optparse.OptionParser(usage="%prog -i <interface> [options]", prog="mlnx_qos")
    for names in (
        "-i --interface",
        "-f --pfc",
        "-p --prio_tc",
        "-s --tsa",
        "-t --tcbw",
        "-d --dcbx",
        "--trust",
    ):
        parser.add_option(*names.split())
    for name in ("--cable_len", "--prio2buffer", "--buffer_size"):
        parser.add_option(name)
    parser.add_option("--dscp2prio", action="append")
    parser.add_option("-a", action="store_true", dest="all")
    options, rest = parser.parse_args(words)
    if rest or not options.interface:
        return say("Bad arguments" if rest else "Interface name is required") or 1
    with host() as found:
        if [name for name, value in vars(options).items() if value and name not in {"interface", "all"}]:
            found.log(["mlnx_qos", *words])
        try:
            port = found.port(options.interface)
            qos_set(found, options, port)
            qos_print(port, everything=bool(options.all))
        except ValueError as exc:
            return say(str(exc)) or 1
        except Refused as exc:
            # Its own error path adds a text to an exception.
            return complain(
                f"Traceback (most recent call last):\nOSError: [Errno 1] {exc}\n\n"
                "During handling of the above exception, another exception occurred:\n\n"
                'TypeError: can only concatenate str (not "OSError") to str'
            )
    return 0


def qos_set(found: Host, options: Any, port: Port) -> None:
    name = options.interface
    found.may("", port)
    if options.dcbx:
        port["dcbx"] = {"os": "host", "fw": "fw"}[options.dcbx]
    if options.cable_len:
        set_pfc(name, port, port["pfc"], int(options.cable_len))
    if options.pfc:
        found.may("pfc", port)
        set_pfc(name, port, numbers(options.pfc, "pfc list must have 8 items"), port["cable"])
    if options.dscp2prio and options.trust:
        raise ValueError("trust and dscp2prio commands cannot be used at the same time.")
    qos_trust(options, port)
    qos_buffer(options, port)
    if options.tsa or options.tcbw or options.prio_tc:
        prio_tc = (
            numbers(options.prio_tc, "prio_tc list must have 8 items") if options.prio_tc else port["prio_tc"]
        )
        tsa = options.tsa.split(",") if options.tsa else port["tsa"]
        bw = numbers(options.tcbw, "tcbw list must have 8 items") if options.tcbw else port["bw"]
        if options.tcbw and any(share for share, kind in zip(bw, tsa) if kind != ETS):  # noqa: B905  Python 3.9
            raise ValueError("ETS BW for a strict/vendor TC must be 0")
        set_ets(port, prio_tc, tsa, bw)


def numbers(text: str, otherwise: str) -> list[int]:
    found = [int(word) for word in text.split(",")]
    if len(found) != 8:
        raise ValueError(otherwise)
    return found


def qos_trust(options: Any, port: Port) -> None:
    for word in options.dscp2prio or []:
        action, dscp, priority = word.split(",")
        if port["trust_sysfs"]:
            # del does nothing there, and says nothing of it.
            if action == "set":
                port["firmware_map"][int(dscp)] = int(priority)
        else:
            {"set": set_app, "del": del_app}[action](port, int(dscp), int(priority))
    if options.trust not in {None, "dscp", "pcp"}:
        raise ValueError("Invalid trust state command. Refer to the help.")
    if not options.trust or options.trust == port["trust"]:
        return
    if port["trust_sysfs"]:
        port["trust"] = options.trust
    elif options.trust == "dscp":
        for dscp in range(64):
            set_app(port, dscp, dscp >> 3)
    else:
        for dscp, priority in list(port["app"].items()):
            del_app(port, int(dscp), priority)


def qos_buffer(options: Any, port: Port) -> None:
    if not (options.buffer_size or options.prio2buffer):
        return
    if port.get("no_buffer"):
        raise ValueError("Buffers commands are not supported on your system")
    sizes = numbers(options.buffer_size, "?") if options.buffer_size else port["sizes"]
    p2b = numbers(options.prio2buffer, "?") if options.prio2buffer else port["p2b"]
    if options.buffer_size and (SYS / "class/net" / options.interface / "qos/buffer_size").exists():
        # Through sysfs the sizes go first, and the assignment is forgotten.
        p2b = port["p2b"]
    try:
        set_buffer(port, p2b, sizes)
    except Refused:
        raise ValueError("Buffers commands error") from None


def qos_print(port: Port, *, everything: bool) -> None:
    trust = port["trust"]
    lines = [f"DCBX mode: {'OS' if port['dcbx'] == 'host' else 'Firmware'} controlled"]
    lines.append(f"Priority trust state: {trust}")
    if trust == "dscp":
        lines += ["dscp2prio mapping:", *qos_map(port)]
    if port.get("no_buffer"):
        lines.insert(0, "Buffers commands are not supported on your system")
    else:
        sizes = "".join(f"{size}," for size in port["sizes"])
        lines.append(f"Receive buffer size (bytes): {sizes}max_buffer_size={port['total']}")
    lines += [
        f"Cable len: {port['cable']}",
        "PFC configuration:",
        "\tpriority    0   1   2   3   4   5   6   7",
    ]
    lines.append("\tenabled     " + "".join(f"{on}   " for on in port["pfc"]))
    if not port.get("no_buffer"):
        lines.append("\tbuffer      " + "".join(f"{buffer}   " for buffer in port["p2b"]))
    for tc in range(8) if everything else sorted(set(port["prio_tc"])):
        share = f", bw: {port['bw'][tc]}%" if port["tsa"][tc] == ETS else ""
        lines.append(f"tc: {tc} ratelimit: unlimited, tsa: {port['tsa'][tc]}{share}")
        lines += [f"\t priority:  {prio}" for prio, its in enumerate(port["prio_tc"]) if its == tc]
    say("\n".join(lines))


def qos_map(port: Port) -> list[str]:
    pairs = (
        enumerate(port["firmware_map"])
        if port["trust_sysfs"]
        else sorted(((int(dscp), priority) for dscp, priority in port["app"].items()), reverse=True)
    )
    by_priority: dict[int, list[str]] = {}
    for dscp, priority in pairs:
        by_priority.setdefault(priority, []).append(f"{dscp:02d},")
    return [
        f"\tprio:{priority} dscp:{''.join(words[at : at + 8])}"
        for priority, words in sorted(by_priority.items())
        for at in range(0, len(words), 8)
    ]


PROGRAMS = {"dcb": dcb, "mlnx_qos": mlnx_qos}


def complain(text: str) -> int:
    """Print an error; return the exit status."""
    sys.stderr.write(f"{text}\n")
    return 1


def say(text: str) -> int:
    """Print a line; return the exit status."""
    sys.stdout.write(f"{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(PROGRAMS[Path(sys.argv[0]).name](sys.argv[1:]))
