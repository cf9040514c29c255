"""Where things lie: what is shipped (in a checkout and in a wheel), the store, and the user's state."""

from __future__ import annotations

import os
from pathlib import Path

STORE_VARIABLE = "FABRICCTL_STORE"

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


def state_home() -> Path:
    """Return fabricctl's folder in the user's state: ``$XDG_STATE_HOME/fabricctl``. Labs lie there."""
    named = os.environ.get("XDG_STATE_HOME")
    return (Path(named) if named else Path.home() / ".local" / "state") / "fabricctl"


def store_path() -> Path:
    """Return ``$FABRICCTL_STORE``, else ``store.sqlite`` in fabricctl's folder of the user's state."""
    named = os.environ.get(STORE_VARIABLE)
    return Path(named).expanduser().absolute() if named else state_home() / "store.sqlite"


def state_folder() -> Path:
    """Return the folder that holds the store; locks and the name of the last inventory lie beside it."""
    return store_path().parent


def make_private_folder(folder: Path) -> None:
    """Create `folder` with mode 0700; one that is there already keeps its mode.

    Raises
    ------
    OSError
        It cannot be created.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
