"""Bonds and virtual functions: what is read and set belongs to the physical functions, all of them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from fabricctl.apply.render import render_port
from fabricctl.drivers import dcb, files, functions, netdev
from fabricctl.model import facts, settings
from fabricctl.model.fabric import Port, Role
from fabricctl.model.names import PortId
from fabricctl.model.reading import Known, Missing
from fabricctl.plugin.protocols import Answer, Query


@pytest.fixture
def sys_(tmp_path: Path) -> Path:
    """Lay out a bond of eth1 and eth2, a virtual function of eth1 with a representor beside it, and eth3."""
    net = tmp_path / "sys/class/net"
    for name in ("eth1", "eth2", "eth3", "bond0", "eth1v0", "eth1r0"):
        (net / name).mkdir(parents=True)
        (net / name / "mtu").write_text("1500\n")
    (net / "bond0/bonding").mkdir()
    (net / "bond0/bonding/slaves").write_text("eth1 eth2\n")
    parents = net / "eth1v0/device/physfn/net"
    parents.mkdir(parents=True)
    for name, port in (("eth1", "p0"), ("eth1r0", "pf0vf0")):
        (parents / name).symlink_to(net / name)
        (net / name / "phys_port_name").write_text(f"{port}\n")
    return tmp_path


def _ask(root: Path, query: Query) -> Answer:
    """Run a query with the folder in the place of /sys."""
    argv = [word.replace("/sys/", f"{root}/sys/") for word in query.argv]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return Answer(done.returncode, done.stdout.replace(str(root), ""), done.stderr.replace(str(root), ""))


def _ports(*names: str) -> list[Port]:
    return [Port(PortId("node1", name)) for name in names]


def _answers(root: Path, *names: str) -> dict[str, Answer]:
    ports = _ports(*names)
    paths = [path for name in names for path in netdev.paths(name)]
    asked = [
        functions.query(ports),
        files.query_of_functions(paths, dict.fromkeys(names, netdev.PER_FUNCTION)),
    ]
    return {query.key: _ask(root, query) for query in asked}


@pytest.mark.parametrize(
    ("name", "expected"), [("eth3", ("eth3",)), ("bond0", ("eth1", "eth2")), ("eth1v0", ("eth1",))]
)
def test_the_physical_functions_of_a_port_are_found(sys_: Path, name: str, expected: tuple[str, ...]) -> None:
    answers = _answers(sys_, "eth3", "bond0", "eth1v0")
    assert functions.read_facts(name, answers) == {facts.FUNCTIONS: Known(expected)}
    assert netdev.read_settings(name, answers) == {settings.MTU: Known(1500)}


def test_functions_that_differ_have_no_common_value_and_are_named(sys_: Path) -> None:
    (sys_ / "sys/class/net/eth2/mtu").write_text("9000\n")
    found = netdev.read_settings("bond0", _answers(sys_, "bond0"))
    assert found == {
        settings.MTU: Missing("not the same everywhere: bond0 has 1500, eth1 has 1500, eth2 has 9000")
    }


def test_a_bond_without_members_has_no_settings(sys_: Path) -> None:
    (sys_ / "sys/class/net/bond0/bonding/slaves").write_text("\n")
    answers = _answers(sys_, "bond0")
    assert netdev.read_settings("bond0", answers) == {
        settings.MTU: Missing("bond0 has no physical function: a bond without members?")
    }


def test_what_no_function_can_have_is_impossible() -> None:
    answers = {"functions": Answer(0, "bond0 eth1 eth2\n", "")}
    same = functions.merged("bond0", answers, lambda _: {"x": Missing("no such file", impossible=True)})
    assert same == {"x": Missing("no such file", impossible=True)}
    mixed = functions.merged(
        "bond0", answers, lambda f: {"x": Known(1) if f == "eth1" else Missing("none", impossible=True)}
    )
    assert mixed == {
        "x": Missing("not the same everywhere: eth1 has 1, eth2 has none (none)", impossible=True)
    }


def test_dcb_is_asked_of_every_function_in_one_batch(sys_: Path) -> None:
    bin_ = sys_ / "bin"
    bin_.mkdir()
    (bin_ / "dcb").write_text("#!/bin/sh\ncat\n")
    (bin_ / "dcb").chmod(0o755)
    (query,) = dcb.queries(_ports("eth3", "bond0"))
    argv = [word.replace("/sys/", f"{sys_}/sys/") for word in query.argv]
    environment = {**os.environ, "PATH": f"{bin_}:{os.environ['PATH']}"}
    asked = subprocess.run(argv, capture_output=True, text=True, check=True, env=environment).stdout
    objects = ("pfc", "app", "ets", "buffer")
    assert asked.splitlines() == [
        *(f"{what} show dev eth3" for what in objects),
        *(f"{what} show dev {name}" for what in objects for name in ("eth1", "eth2")),
    ]
    said = "\n".join(json.dumps({"line": number}) for number in range(12))
    answers = {"functions": Answer(0, "eth3 eth3\nbond0 eth1 eth2\n", ""), query.key: Answer(0, said, "")}
    found = dcb.split(_ports("eth3", "bond0"), answers)
    assert found["dcb app eth3"].stdout == '{"line": 1}'
    assert found["dcb pfc eth2"].stdout == '{"line": 5}'
    assert found["dcb buffer eth2"].stdout == '{"line": 11}'


@pytest.mark.parametrize(
    ("name", "touched"), [("bond0", ["eth1", "eth2", "bond0"]), ("eth1v0", ["eth1", "eth1v0"])]
)
def test_a_script_sets_every_function_and_the_port_itself(sys_: Path, name: str, touched: list[str]) -> None:
    bin_ = sys_ / "bin"
    bin_.mkdir()
    for tool in ("ip", "dcb"):
        (bin_ / tool).write_text(f'#!/bin/sh\necho {tool} "$@" >>{sys_}/log\n')
        (bin_ / tool).chmod(0o755)
    wanted = {settings.MTU: 4200, settings.PFC: (3,)}
    script = render_port(Role.NODE, "rxe", name, "", wanted).replace("/sys/", f"{sys_}/sys/")
    environment = {**os.environ, "PATH": f"{bin_}:/usr/bin:/bin"}
    done = subprocess.run(["/bin/sh", "-s"], input=script, text=True, check=False, env=environment)
    assert done.returncode == 0
    log = (sys_ / "log").read_text().splitlines()
    changes = [line for line in log if " show " not in line]
    pfc = [f"dcb pfc set dev {each} prio-pfc all:off 3:on" for each in touched if each != name]
    assert changes == [*(f"ip link set dev {each} mtu 4200" for each in touched), *pfc]


def test_a_failure_names_the_function(sys_: Path) -> None:
    bin_ = sys_ / "bin"
    bin_.mkdir()
    (bin_ / "dcb").write_text('#!/bin/sh\ncase "$*" in *eth2*) echo no >&2; exit 1;; esac\n')
    (bin_ / "dcb").chmod(0o755)
    script = render_port(Role.NODE, "rxe", "bond0", "", {settings.PFC: (3,)})
    environment = {**os.environ, "PATH": f"{bin_}:/usr/bin:/bin"}
    done = subprocess.run(
        ["/bin/sh", "-s"],
        input=script.replace("/sys/", f"{sys_}/sys/"),
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 1
    assert done.stderr == "fabricctl: bond0: pfc_priorities: no (on eth2)\n"
