"""Find plug-ins by name: a module in the plug-in's folder, with its object in ``PLUGIN``."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from difflib import get_close_matches
from typing import cast

from fabricctl.errors import UsageError
from fabricctl.plugin.protocols import Check, Driver, Probe, Report, Scheduler
from fabricctl.plugin.surveying import LinkCheck

_FOLDERS = {
    "NIC driver": "fabricctl.drivers.nic",
    "switch driver": "fabricctl.drivers.switch",
    "check": "fabricctl.checks",
    "link check": "fabricctl.linkchecks",
    "probe": "fabricctl.probes",
    "report": "fabricctl.reports",
    "scheduler": "fabricctl.schedulers",
}


def names(kind: str) -> tuple[str, ...]:
    """Return the names of all plug-ins of a kind, sorted, without importing them.

    Parameters
    ----------
    kind
        ``NIC driver``, ``switch driver``, ``check``, ``link check``, ``probe``, ``report`` or ``scheduler``.
    """
    package = importlib.import_module(_FOLDERS[kind])
    found = pkgutil.iter_modules(package.__path__)
    return tuple(sorted(m.name for m in found if not m.name.startswith("_")))


def nic_driver(name: str) -> Driver:
    """Return the NIC driver called `name`; UsageError with the known names if there is none."""
    return cast("Driver", _load("NIC driver", name))


def switch_driver(name: str) -> Driver:
    """Return the switch driver called `name`; UsageError with the known names if there is none."""
    return cast("Driver", _load("switch driver", name))


def check(name: str) -> Check:
    """Return the check called `name`; UsageError with the known names if there is none."""
    return cast("Check", _load("check", name))


def link_check(name: str) -> LinkCheck:
    """Return the link check called `name`; UsageError with the known names if there is none."""
    return cast("LinkCheck", _load("link check", name))


def probe(name: str) -> Probe:
    """Return the probe called `name`; UsageError with the known names if there is none."""
    return cast("Probe", _load("probe", name))


def report(name: str) -> Report:
    """Return the report called `name`; UsageError with the known names if there is none."""
    return cast("Report", _load("report", name))


def scheduler(name: str) -> Scheduler:
    """Return the scheduler called `name`; UsageError with the known names if there is none."""
    return cast("Scheduler", _load("scheduler", name))


def about(kind: str, name: str) -> str:
    """Return the documentation of a plug-in's module; UsageError if there is none of that name."""
    _load(kind, name)
    return (importlib.import_module(f"{_FOLDERS[kind]}.{name}").__doc__ or "").strip()


@functools.cache
def _load(kind: str, name: str) -> object:
    """Return a plug-in; the folder is looked at once for each name, as checks ask for every port's driver."""
    known = names(kind)
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
        raise UsageError(f"there is no {kind} called {name!r}", next_step=hint)
    return importlib.import_module(f"{_FOLDERS[kind]}.{name}").PLUGIN
