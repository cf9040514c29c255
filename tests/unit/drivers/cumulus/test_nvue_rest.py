"""NVUE over REST: readings and pushes as with ``nv``, a checked certificate, no password that leaks."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fabricctl import readback
from fabricctl.apply.compose import Job
from fabricctl.apply.push import host_variables
from fabricctl.errors import DeadlineError, HostKeyError, UnreachableError, UsageError
from fabricctl.model import facts
from fabricctl.model.fabric import REST, Device, Endpoint, Role
from fabricctl.model.reading import DeviceReading, Known
from fabricctl.transport import connect
from fabricctl.transport import rest as transport
from fabricctl.transport.rest import RestTransport

Make = Callable[..., Any]
PASSWORD = "s3cret!"  # noqa: S105  the simulator's
_CONNECT = socket.socket.connect


@pytest.fixture(autouse=True)
def _loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let these tests connect to this machine, and to nothing else."""

    def loopback(self: socket.socket, address: Any) -> None:
        assert address[0] == "127.0.0.1", address
        _CONNECT(self, address)

    monkeypatch.setattr(socket.socket, "connect", loopback)


class Site:
    """A switch that listens, and its device."""

    def __init__(self, bench: Any, server: Any, folder: Path) -> None:
        self.bench, self.server = bench, server
        password = folder / "password"
        password.write_text(f"{PASSWORD}\n")
        password.chmod(0o600)
        self.end = Endpoint(
            host="127.0.0.1",
            port=server.port,
            user="cumulus",
            connection=REST,
            password_file=str(password),
            ca_file=str(server.ca),
        )

    def device(self, **changes: Any) -> Device:
        return Device("leaf1", Role.SWITCH, "cumulus", replace(self.end, **changes), self.bench.ports)

    def read(self, device: Device | None = None) -> DeviceReading:
        with connect() as way:
            return readback.read_device(device or self.device(), way, 20)

    def get(self, *paths: str, deadline_s: float = 20, **changes: Any) -> Any:
        return RestTransport().converse(
            self.device(**changes), [f"GET {' '.join(paths)}"], deadline_s=deadline_s
        )


@pytest.fixture
def make_site(
    make: Make, simulator: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Site]]:
    servers = []

    def made(version: str = "5.9.1", config: Any = None) -> Site:
        bench = make(version, config)
        server = simulator("nvue_rest", "rest.py").Server(tmp_path)
        servers.append(server.__enter__())
        site = Site(bench, server, tmp_path)
        # What host_variables exports to the script.
        for name, value in transport.environment(site.device()).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("FABRICCTL_RUN", str(tmp_path / "run"))
        return site

    yield made
    for server in servers:
        server.__exit__()


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    return make_site()


# Reading


@pytest.mark.parametrize("version", ["5.2.1", "5.4.0", "5.9.1", "5.16.0"])
def test_rest_reads_what_nv_reads(make_site: Callable[..., Site], version: str) -> None:
    site = make_site(version, {"interface": {"swp1": {"type": "swp", "link": {"mtu": 9000}}}})
    over_rest = site.read()
    assert over_rest.error == ""
    with_nv = site.bench.read()
    for port, reading in over_rest.ports.items():
        assert dict(reading.settings) == dict(with_nv[port.port].settings)
        assert dict(reading.counters) == dict(with_nv[port.port].counters)
    booted = Known("2026-11-01T10:00:00")  # since 5.6 NVUE says it
    assert (over_rest.facts[facts.BOOT_ID] == booted) is (site.bench.sim.release >= (5, 6))


def test_a_device_is_one_connection_of_a_few_requests(site: Site) -> None:
    site.server.requests.clear()
    assert site.read().error == ""
    assert len(site.server.requests) == 6 + 2 * len(site.bench.ports)
    assert all(line.startswith("GET /nvue_v1/") for line in site.server.requests)


def test_what_is_set_is_read_back(site: Site) -> None:
    assert site.bench.push({"swp1": site.bench.wanted()}).returncode == 0
    found = site.read().ports[site.bench.ports[0].id]
    wanted = {k: v for k, v in site.bench.wanted().items() if k not in site.bench.driver.unsupported}
    assert {name: found.settings[name] for name in wanted} == {k: Known(v) for k, v in wanted.items()}
    assert found.settings["boot"] == Known("none")
    assert found.facts[facts.PARTNER] == Known("node1/eth1")


def test_what_is_not_there_is_no_answer_and_hides_nothing(site: Site) -> None:
    alone, several = site.get("/nvue_v1/nowhere"), site.get("/nvue_v1/nowhere", "/nvue_v1/platform")
    assert (alone[0].rc, alone[0].stdout) == (1, "")
    assert alone[0].stderr.startswith("HTTP 404")
    assert several[0].stdout.startswith("== /nvue_v1/nowhere\n\n== /nvue_v1/platform\n{")


def test_paths_for_which_there_is_no_time_are_left_out(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "MANY_S", 0.0)
    (reply,) = site.get("/nvue_v1/platform", "/nvue_v1/system")
    assert reply.stdout.count("== ") < 2


# Trust and passwords


def test_a_certificate_that_nobody_vouches_for_is_refused(site: Site) -> None:
    with pytest.raises(HostKeyError) as caught:
        site.get("/nvue_v1/system", ca_file="")
    assert "certificate" in caught.value.what
    assert "fabric_ca_file" in caught.value.next_step
    assert site.server.requests == []


def test_a_certificate_of_another_name_is_refused(site: Site) -> None:
    with pytest.raises(HostKeyError):
        site.get("/nvue_v1/system", host="localhost")


def test_a_wrong_password_is_told_without_it(site: Site, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("not-the-password\n")
    wrong.chmod(0o600)
    reading = site.read(site.device(password_file=str(wrong)))
    assert reading.error == ("leaf1: the login was refused; check ansible_user and fabric_password_file")
    assert "not-the-password" not in repr(reading)


def test_a_password_that_others_can_read_is_not_used(site: Site) -> None:
    Path(site.end.password_file).chmod(0o644)
    with pytest.raises(UsageError) as caught:
        site.get("/nvue_v1/system")
    assert caught.value.next_step == f"chmod 600 {site.end.password_file}"
    assert site.server.requests == []


def test_a_password_file_that_is_not_there_is_told(site: Site) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        site.get("/nvue_v1/system", password_file="/nonexistent")  # noqa: S106  a path


def test_a_ca_file_that_is_none_is_told(site: Site, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    with pytest.raises(UsageError, match=r"the CA file .* cannot be used"):
        site.get("/nvue_v1/system", ca_file=str(tmp_path / "empty"))


def test_no_password_is_in_what_ansible_is_given_nor_in_what_is_shown(site: Site) -> None:
    job = Job(site.device(), site.bench.driver.method.revert("apply-1", ()))
    variables = host_variables(job)
    assert variables["ansible_connection"] == "local"
    assert set(variables) == {"ansible_connection", "fabricctl_command"}
    given = transport.environment(site.device())
    shown = f"{site.device()!r} {given!r} {variables!r}"
    assert PASSWORD not in shown
    assert json.loads(given["FABRICCTL_REST"])["password_file"] == site.end.password_file


def test_a_default_password_that_was_never_changed_is_told(site: Site) -> None:
    site.bench.sim.fault(other_says=403)
    with pytest.raises(UnreachableError) as caught:
        site.get("/nvue_v1/system")
    assert "default password" in caught.value.next_step


# What goes wrong on the way


def test_a_port_where_nobody_listens_is_unreachable(site: Site) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(UnreachableError, match="no connection"):
            site.get("/nvue_v1/system", port=free.getsockname()[1])


def test_a_switch_that_says_nothing_is_late(site: Site) -> None:
    site.bench.sim.fault(slow_s=1.0)
    with pytest.raises(DeadlineError, match="did not answer within 0 s"):
        site.get("/nvue_v1/system", deadline_s=0.3)


def test_a_peer_that_speaks_no_tls_is_unreachable(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as plain:

        def answer() -> None:
            other, _ = plain.accept()
            with other:
                other.recv(100)
                other.sendall(b"HTTP/1.1 200 OK\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(UnreachableError):
            site.get("/nvue_v1/system", port=plain.getsockname()[1])
        thread.join()


def test_there_is_no_shell(site: Site) -> None:
    way = RestTransport()
    with pytest.raises(UsageError):
        way.run(site.device(), ":", deadline_s=1)
    with pytest.raises(UsageError):
        way.put(site.device(), "/tmp/x", b"", mode=0o600, deadline_s=1)  # noqa: S108  it is refused
    with pytest.raises(UsageError):
        way.start(site.device(), ("true",), deadline_s=1)


def test_a_driver_that_asks_nothing_of_rest_is_told(site: Site) -> None:
    device = replace(site.device(), driver="linux")
    assert "the driver linux asks nothing of a REST interface" in site.read(device).error


# Pushing


def test_a_push_over_rest_makes_a_revision_and_waits(site: Site) -> None:
    done = site.bench.push({"swp1": site.bench.wanted()}, within_s=90)
    assert (done.returncode, done.stdout, done.stderr) == (0, "fabricctl-port swp1 0\n", "")
    state = site.bench.state()
    assert state["waits"]["revision"] == "2"
    assert state["revisions"]["2"]["state"] == "confirm"
    asked = [line for line in site.server.requests if not line.startswith("GET")]
    assert asked == ["POST /nvue_v1/revision", "PATCH /nvue_v1/?rev=2", "PATCH /nvue_v1/revision/2"]
    done = site.bench.confirm(1)
    assert (done.returncode, done.stderr) == (0, "")
    assert site.bench.state()["waits"] is None
    assert site.bench.settings()["boot"] == Known("saved")
    assert site.bench.leftovers() == []


def test_over_rest_the_timer_and_a_revert_take_back(site: Site) -> None:
    assert site.bench.push({"swp1": site.bench.wanted()}, within_s=90).returncode == 0
    site.bench.sim.pass_time(91)
    assert site.bench.config() == {}
    assert site.bench.confirm(1).returncode == 78
    assert site.bench.push({"swp1": site.bench.wanted()}).returncode == 0
    assert site.bench.revert().returncode == 0
    assert (site.bench.config(), site.bench.leftovers()) == ({}, [])


@pytest.mark.parametrize("fault", ["refuse_patch", "refuse_apply"])
def test_a_refusal_over_rest_leaves_nothing(site: Site, fault: str) -> None:
    site.bench.sim.fault(**{fault: "switchd says no"})
    done = site.bench.push({"swp1": site.bench.wanted()})
    assert done.returncode == 1
    assert "switchd says no" in done.stderr or "revision 2 is invalid" in done.stderr
    state = site.bench.state()
    assert (state["applied"], state["waits"], list(state["revisions"])) == ({}, None, ["1"])
    assert site.bench.leftovers() == []


def test_a_waiting_apply_over_rest_keeps_the_next_out(site: Site) -> None:
    assert site.bench.push({"swp1": site.bench.wanted()}).returncode == 0
    done = site.bench.push({"swp2": {"mtu_bytes": 9000}}, apply="apply-20261130-2")
    assert done.returncode == 75


def test_a_waiting_apply_over_rest_is_not_saved_by_a_confirm_without_a_push(site: Site) -> None:
    assert site.bench.push({"swp1": site.bench.wanted()}).returncode == 0
    site.server.requests.clear()
    done = site.bench.confirm(apply="apply-20261130-2")
    assert (done.returncode, done.stderr) == (
        75,
        "fabricctl: apply-20261130-1 waits to be confirmed here; confirm it or let its timer revert it\n",
    )
    assert [line for line in site.server.requests if not line.startswith("GET")] == []
    assert site.bench.confirm(1).returncode == 0


def test_removals_over_rest_are_null_in_a_patch_of_their_own(site: Site) -> None:
    old = site.bench.known("trust", "dscp_priority")
    assert site.bench.push({"swp1": site.bench.wanted()}).returncode == 0
    assert site.bench.confirm(1).returncode == 0
    assert site.bench.push({"swp1": old}, slot=2).returncode == 0
    assert site.bench.confirm(2).returncode == 0
    assert site.bench.known("trust", "dscp_priority") == old
    assert nothing_of_ours(site.bench.config()["qos"].get("mapping", {}))


def nothing_of_ours(profiles: Any) -> bool:
    return not [name for name in profiles if name.startswith("fabricctl-")]


def test_a_switch_that_does_not_let_us_in_is_told_by_the_push(site: Site) -> None:
    site.bench.sim.fault(other_says=403)
    order = site.bench.driver.method.revert("apply-1", ())
    assert site.bench.ordered(order).returncode == 0  # nothing of ours waits: nobody is asked
    done = site.bench.ordered(site.bench.driver.method.confirm("apply-1", ()))
    assert (done.returncode, done.stderr.partition(": {")[0]) == (
        1,
        "fabricctl: GET /revision: HTTP 403",
    )
