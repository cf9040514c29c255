"""What is recorded of a device can be shown to everyone."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from fabricctl.plugin.protocols import Answer


@pytest.fixture(scope="module")
def record() -> Any:
    path = Path(__file__).resolve().parents[2] / "cases/record.py"
    spec = importlib.util.spec_from_file_location("record_of_cases", path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["record_of_cases"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("username admin privilege 15 secret sha512 $6$x$y", "username admin privilege 15 secret <removed>"),
        ("enable password sha512 $6$x$y", "enable password <removed>"),
        ("snmp-server community s3cret ro", "snmp-server community <removed>"),
        ("snmp-server user u g v3 auth sha s3cret priv aes s3cret", "snmp-server user u g v3 auth <removed>"),
        ("   neighbor 10.0.0.1 password 7 s3cret", "   neighbor 10.0.0.1 password <removed>"),
        ("tacacs-server key 7 s3cret", "tacacs-server key <removed>"),
        (
            '{"TACPLUS": {"global": {"passkey": "s3cret"}}}',
            '{"TACPLUS": {"global": {"passkey": "<removed>"}}}',
        ),
        ("interface Ethernet1/1", "interface Ethernet1/1"),
        ("   qos trust dscp", "   qos trust dscp"),
        ('{"PORT": {"Ethernet0": {"mtu": "9100"}}}', '{"PORT": {"Ethernet0": {"mtu": "9100"}}}'),
    ],
)
def test_secrets_of_a_configuration_are_not_recorded(record: Any, line: str, kept: str) -> None:
    found = record.without_secrets(Answer(0, f"a\n{line}\nb\n", ""))
    assert found == Answer(0, f"a\n{kept}\nb\n", "")
