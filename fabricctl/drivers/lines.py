"""Compose what a device without a shell is told: lines for its command line, and what their answers must be.

The text goes line by line to ``playbooks/library/fabricctl_lines.py``, which ends at the first line that the
device refuses (``% ...``). A rule stands after the line whose answer it is about, and is not sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from fabricctl.errors import RefusedError
from fabricctl.model.fabric import Port

RC_BUSY = 75
"""Another change waits to be confirmed on the device: nothing was changed."""
RC_TOO_LATE = 78
"""The change was reverted before it could be confirmed."""

_MARK = "!fabricctl "
_CLI_NAME = re.compile(r"[A-Za-z][A-Za-z-]*\d+(?:/\d+){0,3}")


def refuse_if(pattern: str, why: str, rc: int = 1) -> str:
    """Return the rule that ends with `rc` and `why` if the answer matches `pattern`."""
    return _rule(refuse=pattern, why=why, rc=rc)


def require(pattern: str, why: str, rc: int = 1) -> str:
    """Return the rule that ends with `rc` and `why` unless the answer matches `pattern`."""
    return _rule(require=pattern, why=why, rc=rc)


def end_unless(pattern: str) -> str:
    """Return the rule that ends with success unless the answer matches `pattern`."""
    return _rule(unless_end=pattern)


def each(pattern: str, line: str) -> str:
    """Return the rule that sends `line` for each match of `pattern`, its group in place of ``{}``."""
    return _rule(each=pattern, line=line)


def allow(pattern: str) -> str:
    """Return the rule that a refusal which matches `pattern` is none."""
    return _rule(allow=pattern)


def text(lines: Sequence[str]) -> str:
    """Return lines as the text that a method of a driver gives."""
    return "".join(f"{line}\n" for line in lines)


def check_names(ports: Sequence[Port]) -> None:
    """Check that each port's name is one of an interface, so that it can stand in a line.

    Raises
    ------
    RefusedError
        One is not (``Ethernet1``, ``Ethernet1/1`` and ``Ethernet1/1/1`` are).
    """
    for port in ports:
        if not _CLI_NAME.fullmatch(port.id.port):
            raise RefusedError(
                f"{port.id.port!r} is no name of a switch port",
                device=port.id.device,
                next_step='write it as the switch does in its running-config, "Ethernet1/1"',
            )


def _rule(**values: str | int) -> str:
    return _MARK + json.dumps(values)
