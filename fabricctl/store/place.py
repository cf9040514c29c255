"""Where the store and the locks lie."""

from __future__ import annotations

import os
from pathlib import Path

STORE_VARIABLE = "FABRICCTL_STORE"


def default_path() -> Path:
    """Return ``$FABRICCTL_STORE``, else ``store.sqlite`` in fabricctl's folder of the user's state."""
    named = os.environ.get(STORE_VARIABLE)
    if named:
        return Path(named).expanduser().absolute()
    state = os.environ.get("XDG_STATE_HOME")
    home = Path(state) if state else Path.home() / ".local" / "state"
    return home / "fabricctl" / "store.sqlite"


def state_folder() -> Path:
    """Return the folder that holds the store; locks and the like lie beside it."""
    return default_path().parent


def make_private_folder(folder: Path) -> None:
    """Create `folder` with mode 0700; one that is there already keeps its mode.

    Raises
    ------
    OSError
        It cannot be created.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
