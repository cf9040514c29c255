"""What is sent to a device's shell, the same over every transport."""

from __future__ import annotations

import shlex

_PUT = """\
set -e
umask 077
mkdir -p -- "$(dirname -- "$1")"
part=$(mktemp -- "$1.XXXXXX")
trap 'rm -f -- "$part"' EXIT
cat >"$part"
got=$(wc -c <"$part")
if [ "$got" -ne "$2" ]; then
    echo "only $got of $2 bytes arrived" >&2
    exit 1
fi
chmod -- "$3" "$part"
mv -f -- "$part" "$1"
trap - EXIT
"""


def prefix(*, become: bool) -> tuple[str, ...]:
    """Return what stands before a command that must run as root."""
    return ("sudo", "-n", "--") if become else ()


def shell_argv(*, become: bool) -> tuple[str, ...]:
    """Return the command that reads a script from its standard input."""
    return (*prefix(become=become), "/bin/sh", "-s")


def whole(script: str) -> bytes:
    """Return the bytes to feed to ``sh -s`` for `script`.

    The braces make the shell read all of it before anything runs: a script cut off by a broken connection
    does nothing, and no command in it can swallow the rest from standard input.
    """
    return f"{{ :\n{script}\n}} </dev/null\n".encode()


def put_argv(path: str, size_bytes: int, mode: int, *, become: bool) -> tuple[str, ...]:
    """Return the command that writes its standard input to `path`, whole or not at all.

    Folders on the way that do not exist are made with mode 0700.
    """
    return (*prefix(become=become), "/bin/sh", "-c", _PUT, "sh", path, str(size_bytes), f"{mode:04o}")


def command_line(argv: tuple[str, ...]) -> str:
    """Return `argv` as one line for a remote shell, every word quoted."""
    return shlex.join(argv)


def text(raw: bytes) -> str:
    """Return what a device printed as text; bytes that are not UTF-8 become U+FFFD."""
    return raw.decode("utf-8", errors="replace")


def one_line(said: str) -> str:
    """Return what a device said as one line without control characters, for an error."""
    return "".join(char if char.isprintable() else "?" for char in " ".join(said.split()))
