from __future__ import annotations

import importlib
import inspect
import pkgutil
import socket

import paramiko
import pytest
from paramiko import hostkeys, pkey, ssh_exception

from fabricctl.errors import DeadlineError, DeviceError, UnreachableError
from fabricctl.transport.ssh import errors

# Windows only: they cannot be imported elsewhere.
_WINDOWS = {"_winapi", "win_pageant", "win_openssh"}


_ARGUMENTS: dict[type[BaseException], tuple[object, ...]] = {
    paramiko.BadAuthenticationType: ("bad type", ["password"]),
    ssh_exception.PartialAuthentication: (["password"],),
    paramiko.ChannelException: (2, "Connect failed"),
    paramiko.ProxyCommandFailure: ("nc", "no route"),
    ssh_exception.NoValidConnectionsError: ({("10.0.0.1", 22): ConnectionRefusedError()},),
    hostkeys.InvalidHostKey: ("node1 ssh-rsa !", ValueError("no base64")),
    pkey.UnknownKeyType: ("x", b"abc"),
}


def _paramikos() -> list[type[BaseException]]:
    found: set[type[BaseException]] = set()
    for info in pkgutil.iter_modules(paramiko.__path__):
        if info.name in _WINDOWS:
            continue
        module = importlib.import_module(f"paramiko.{info.name}")
        for _, kind in inspect.getmembers(module, inspect.isclass):
            if issubclass(kind, BaseException) and kind.__module__.startswith("paramiko"):
                found.add(kind)
    return sorted(found, key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", _paramikos())
def test_every_exception_of_paramiko_has_a_meaning(kind: type[BaseException]) -> None:
    assert kind in errors.MEANINGS


def test_the_walk_finds_the_exceptions_that_matter() -> None:
    assert {paramiko.AuthenticationException, paramiko.BadHostKeyException} <= set(_paramikos())


@pytest.mark.parametrize(
    "kind", [kind for kind in errors.MEANINGS if kind is not paramiko.BadHostKeyException]
)
def test_every_mapped_exception_becomes_one_clear_line(kind: type[BaseException]) -> None:
    error = errors.ours(kind(*_ARGUMENTS.get(kind, ("said\nso",))), "node1", "10.0.0.1:22", 15.0)
    assert isinstance(error, DeviceError)
    assert error.device == "node1"
    assert error.next_step
    assert "\n" not in str(error)


def test_silence_is_a_deadline_and_keeps_the_limit() -> None:
    error = errors.ours(TimeoutError("timed out"), "node1", "10.0.0.1:22", 15.0)
    assert isinstance(error, DeadlineError)
    assert error.after_s == 15.0
    assert "within 15 s (10.0.0.1:22)" in str(error)


def test_no_route_is_unreachable_and_names_the_port() -> None:
    inner = ConnectionRefusedError(111, "Connection refused")
    refused = ssh_exception.NoValidConnectionsError({("10.0.0.1", 22): inner})
    error = errors.ours(refused, "node1", "10.0.0.1:22", 15.0)
    assert isinstance(error, UnreachableError)
    assert str(error).startswith("node1: no connection (10.0.0.1:22: Connection refused); ")
    assert "sshd runs" in error.next_step


def test_an_unknown_name_points_to_the_inventory() -> None:
    error = errors.ours(socket.gaierror(-2, "Name or service not known"), "node1", "nod1:22", 15.0)
    assert "ansible_host" in error.next_step


def test_ours_stays_ours() -> None:
    mine = UnreachableError("gone", device="node1")
    assert errors.ours(mine, "node2", "x:22", 1.0) is mine
