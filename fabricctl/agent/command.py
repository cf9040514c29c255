"""The agent's command line: ``python3 agent.pyz --idle-s 120 --engine auto``, or ``--self-test``."""

from __future__ import annotations

import sys

OLDEST = (3, 9)
IDLE_S = 120.0


def main(arguments: list[str]) -> int:
    """Serve, or test whether this node could; returns the exit status."""
    if sys.version_info < OLDEST:
        wanted = ".".join(str(n) for n in OLDEST)
        return _say(
            f"Python {sys.version.split()[0]} is too old for the probes; install Python {wanted} or newer"
        )
    if arguments == ["--self-test"]:
        return _self_test()
    given = dict(zip(arguments[::2], arguments[1::2]))
    if len(given) * 2 != len(arguments) or not given.keys() <= {"--idle-s", "--engine"}:
        return _say("usage: agent [--idle-s SECONDS] [--engine auto|native|pyverbs] | --self-test")
    return _serve(float(given.get("--idle-s", IDLE_S)), given.get("--engine", "auto"))


def _serve(idle_s: float, engine: str) -> int:
    from fabricctl.agent.serve import serve  # noqa: PLC0415  an old Python could not even read it

    serve(idle_s, engine)
    return 0


def _self_test() -> int:
    from fabricctl.agent.serve import hello  # noqa: PLC0415  an old Python could not even read it

    found = hello("auto")
    if found["error"]:
        return _say(found["error"])
    devices = ", ".join(found["devices"]) or "no RDMA device"
    engines = ", ".join(f"{name} {version}" for name, version in found["engines"].items())
    sys.stdout.write(f"ready: Python {found['python']}, {engines}, {devices}\n")
    return 0 if found["devices"] else 1


def _say(line: str) -> int:
    sys.stderr.write(f"{line}\n")
    return 1
