"""A stand-in for ``ansible-inventory --list`` that starts no program; a test holds it to the real one."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fabricctl.inventory import ansible

Lister = Callable[[Path], str]


def list_yaml(path: Path) -> str:
    """Return what ``ansible-inventory`` prints for one YAML file without ranges and templates."""
    groups: dict[str, Any] = {}
    variables: dict[str, dict[str, Any]] = {}
    tree = yaml.safe_load(path.read_text())
    for name, body in tree.items():
        _walk(name, body or {}, {}, groups, variables)
    return json.dumps({"_meta": {"hostvars": variables}, **groups})


def _walk(
    name: str,
    body: dict[str, Any],
    inherited: dict[str, Any],
    groups: dict[str, Any],
    variables: dict[str, dict[str, Any]],
) -> None:
    given = {**inherited, **(body.get("vars") or {})}
    groups[name] = {"children": list(body.get("children") or {}), "hosts": list(body.get("hosts") or {})}
    for host, own in (body.get("hosts") or {}).items():
        variables[host] = {**given, **(own or {})}
    for child, inner in (body.get("children") or {}).items():
        _walk(child, inner or {}, given, groups, variables)


Run = Callable[[str, tuple[str, ...], Path, ansible.Deadline], str]


@pytest.fixture
def in_place_of_ansible(monkeypatch: pytest.MonkeyPatch) -> Callable[[Run], None]:
    """Let a function answer in place of the programs that would be started."""

    def replace(run: Run) -> None:
        def started(program: str, arguments: tuple[str, ...]) -> Any:
            return contextlib.nullcontext((program, arguments))

        def output(_: str, process: Any, path: Path, end: ansible.Deadline) -> str:
            return run(*process, path, end)

        monkeypatch.setattr(ansible, "_started", started)
        monkeypatch.setattr(ansible, "_output", output)

    return replace


@pytest.fixture
def quick_ansible(in_place_of_ansible: Callable[[Run], None]) -> None:
    """Answer ``ansible-inventory`` in this process."""

    def run(program: str, arguments: tuple[str, ...], path: Path, end: ansible.Deadline) -> str:
        assert program == "ansible-inventory"
        assert arguments == ("-i", str(path), "--list")
        assert end.within_s >= ansible.DEADLINE_S
        return list_yaml(path)

    in_place_of_ansible(run)


@pytest.fixture
def yaml_lister() -> Lister:
    """The stand-in itself."""
    return list_yaml
