"""Where the playbooks, templates, lab sources and example inventories lie, in a checkout and in a wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def folder(name: str) -> Path:
    """Return the folder of shipped files called `name`.

    Parameters
    ----------
    name
        ``playbooks``, ``templates`` or ``inventories``.

    Raises
    ------
    FileNotFoundError
        The installation lacks the folder: a broken wheel.
    """
    for candidate in (_PACKAGE / "_shared" / name, _PACKAGE.parent / name):
        if candidate.is_dir():
            return candidate
    message = f"the installation of fabricctl has no folder {name!r}: install it again"
    raise FileNotFoundError(message)
