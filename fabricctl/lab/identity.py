"""What makes a guest the one it is: name, keys, addresses, randomness; written outside, put in."""

from __future__ import annotations

import os
import secrets
import shlex
import time
from typing import TYPE_CHECKING

from fabricctl.lab import programs
from fabricctl.lab.console import pack
from fabricctl.lab.fabric import Role, address

if TYPE_CHECKING:
    from pathlib import Path

    from fabricctl.lab.console import Console
    from fabricctl.lab.fabric import Fabric, Guest

_KEY_S = 20
_APPLY_S = 60
_SEED_BYTES = 512


def make_key(path: Path, comment: str) -> str:
    """Make an ed25519 key pair unless it is there, and return the public half."""
    public = path.with_name(f"{path.name}.pub")
    if not (path.is_file() and public.is_file()):
        path.unlink(missing_ok=True)
        programs.run(
            ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", comment, "-f", str(path)),
            timeout_s=_KEY_S,
        )
    return public.read_text()


def environment(fabric: Fabric, guest: Guest) -> str:
    """Return ``guest.env``, which the guest's identity script reads."""
    words: list[str] = []
    for rail, end in enumerate(fabric.ends(guest.name)):
        word = f"{end.port}={guest.mac(end.nic)}"
        if guest.role is Role.NODE:
            word += f"={address(guest.number, rail)}"
        words.append(word)
    pairs = {
        "LAB_NAME": guest.name,
        "LAB_ROLE": guest.role.value,
        "LAB_PORTS": " ".join(words),
    }
    return "".join(f"{key}={shlex.quote(value)}\n" for key, value in pairs.items())


def hosts(fabric: Fabric) -> str:
    """Return ``/etc/hosts``: every node by its address on rail 0."""
    lines = ["127.0.0.1 localhost"]
    lines += [f"{address(g.number, 0).split('/')[0]} {g.name}" for g in fabric.of_role(Role.NODE)]
    return "\n".join(lines) + "\n"


def files(fabric: Fabric, guest: Guest, host_key: Path, user_public: str) -> list[tuple[str, bytes, int]]:
    """Return the files that are put into a guest: path, content, mode."""
    public = host_key.with_name(f"{host_key.name}.pub")
    return [
        ("/etc/fabriclab/guest.env", environment(fabric, guest).encode(), 0o644),
        ("/etc/hostname", f"{guest.name}\n".encode(), 0o644),
        ("/etc/hosts", hosts(fabric).encode(), 0o644),
        ("/etc/machine-id", f"{secrets.token_hex(16)}\n".encode(), 0o444),
        ("/etc/ssh/ssh_host_ed25519_key", host_key.read_bytes(), 0o600),
        ("/etc/ssh/ssh_host_ed25519_key.pub", public.read_bytes(), 0o644),
        ("/root/.ssh/authorized_keys", user_public.encode(), 0o600),
        ("/var/lib/systemd/random-seed", os.urandom(_SEED_BYTES), 0o600),
    ]


def give(console: Console, entries: list[tuple[str, bytes, int]], *, resumed: bool) -> None:
    """Make the guest behind `console` the one that `entries` describe.

    Parameters
    ----------
    resumed
        It was started from the saved guest: clock, randomness and boot id are made its own too.
    """
    console.unpack(pack(entries), deadline_s=_APPLY_S)
    wake = f"/usr/lib/fabriclab/wake {time.time():.3f} &&" if resumed else ""
    console.run(f"chmod 700 /root /root/.ssh; {wake} /usr/lib/fabriclab/identity", deadline_s=_APPLY_S)


def set_clock(console: Console) -> None:
    """Set a guest's clock, which stood still while it was frozen."""
    console.run(f"date -s @{time.time():.3f}", deadline_s=_APPLY_S)
