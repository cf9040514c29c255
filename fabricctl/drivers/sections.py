"""Ask every physical function of all ports with one shell, and take the answers apart again."""

from __future__ import annotations

from collections.abc import Sequence

from fabricctl.drivers import functions
from fabricctl.model.fabric import Port
from fabricctl.plugin.answers import Unread, partial
from fabricctl.plugin.protocols import Answers, Query

_MARK = "== function "
_EACH = f"""\
for port; do
    for name in $(functions_of "$port"); do
        echo "{_MARK}$name"
        ask "$name" 2>&1
    done
done
:
"""


def query(key: str, ports: Sequence[Port], ask: str) -> Query:
    """Ask what the shell function ``ask``, which `ask` is the body of, prints of each function ``$1``."""
    script = f"{functions.SHELL}ask() {{\n{ask}}}\n{_EACH}"
    return Query(key, ("sh", "-c", script, "sh", *(port.id.port for port in ports)))


def of(key: str, name: str, answers: Answers, mark: str = _MARK) -> str:
    """Return what was printed, errors included, of the function `name`; Unread if it was not asked about.

    Parameters
    ----------
    mark
        What begins the line ahead of each function's part.
    """
    found: list[str] | None = None
    for line in partial(answers, key).splitlines():
        if line.startswith(mark):
            if found is not None:
                break
            found = [] if line.removeprefix(mark) == name else None
        elif found is not None:
            found.append(line)
    if found is None:
        raise Unread(f"{key}: it was not asked about {name}")
    return "\n".join(found)
