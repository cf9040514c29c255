"""Run the host's programs: argument lists, deadlines, and errors that say what to install."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

from fabricctl.errors import LabError, MissingToolError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

# Which Debian package brings a program, for the error's next step.
PACKAGES = {
    "dpkg": "dpkg",
    "mke2fs": "e2fsprogs",
    "mmdebstrap": "mmdebstrap",
    "qemu-img": "qemu-utils",
    "qemu-system-x86_64": "qemu-system-x86",
    "sqfstar": "squashfs-tools",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "zstd": "zstd",
}


def find(name: str) -> str:
    """Return the path of the program `name`.

    Raises
    ------
    MissingToolError
        It is not installed.
    """
    # An ordinary user's PATH often lacks the folder of mke2fs.
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")
    if found is None:
        package = PACKAGES.get(name, name)
        raise MissingToolError(
            f"the lab needs the program {name}",
            next_step=f"install it: apt-get install {package}",
        )
    return found


def need(names: Sequence[str]) -> None:
    """Check that all programs are there before a long build starts.

    Raises
    ------
    MissingToolError
        Names all packages that are missing at once.
    """
    missing = [name for name in names if not _installed(name)]
    if missing:
        packages = " ".join(sorted({PACKAGES.get(name, name) for name in missing}))
        raise MissingToolError(
            f"the lab needs {', '.join(missing)}",
            next_step=f"install them: apt-get install {packages}",
        )


def _installed(name: str) -> bool:
    try:
        find(name)
    except MissingToolError:
        return False
    return True


def run(
    argv: Sequence[str],
    *,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> str:
    """Run a program and return what it printed.

    Raises
    ------
    LabError
        It failed or did not end within `timeout_s` seconds.
    MissingToolError
        It is not installed.
    """
    try:
        done = subprocess.run(
            [find(argv[0]), *argv[1:]],
            check=True,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            env=None if env is None else dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.CalledProcessError as error:
        raise LabError(
            f"{argv[0]} failed with status {error.returncode}: {last_lines(error.stderr)}",
            next_step="read the message above; free disk space and the network are common causes",
        ) from error
    except subprocess.TimeoutExpired as error:
        raise LabError(f"{argv[0]} did not end within {timeout_s:.0f} s", next_step="try again") from error
    return done.stdout


def last_lines(text: str, count: int = 6) -> str:
    """Return the last lines of a program's output that say something, as one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(lines[-count:]) or "no message"
