"""Read 802.3x pause of the whole link with ``ethtool``, one shell for all ports."""

from __future__ import annotations

from collections.abc import Sequence

from fabricctl.drivers import functions, sections
from fabricctl.model import settings
from fabricctl.model.fabric import Port
from fabricctl.model.reading import Entry
from fabricctl.plugin.answers import entry, refusal
from fabricctl.plugin.protocols import Answers, Query

_KEY = "ethtool pause"
_MARK = "function "
_ASK = f"""\
for port; do
    for name in $(functions_of "$port"); do
        echo "{_MARK}$name"
        ethtool -a "$name" 2>&1
    done
done
"""
_STATES = {"on": True, "off": False}


def query(ports: Sequence[Port]) -> Query:
    """Ask for the pause parameters of all ports' physical functions."""
    return Query(_KEY, ("sh", "-c", f"{functions.SHELL}{_ASK}", "sh", *(port.id.port for port in ports)))


def read_settings(name: str, answers: Answers) -> dict[str, Entry]:
    """Return whether function `name` pauses, or is paused, as a whole; impossible where it has no pause."""
    return {settings.PAUSE: entry(lambda: _paused(name, answers))}


def _paused(name: str, answers: Answers) -> bool:
    said = sections.of(_KEY, name, answers, _MARK).splitlines()
    given = {label.strip(): value.strip() for label, _, value in (line.partition(":") for line in said)}
    if "RX" not in given or "TX" not in given:
        raise refusal(f"ethtool: {' '.join(' '.join(said).split()) or 'printed nothing'}")
    return _STATES[given["RX"]] or _STATES[given["TX"]]
