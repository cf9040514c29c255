"""Read files of ``/proc`` and ``/sys``, all of a device with one program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from fabricctl.drivers import functions
from fabricctl.plugin.answers import Unread, partial
from fabricctl.plugin.protocols import Answers, Query

_KEY = "grep files"


_PER_FUNCTION = """\
for word; do
    shift
    case $word in
    *:*) for name in $(functions_of "${word%%:*}"); do
        path=${word#*:}
        path=${path%%%*}$name${path#*%}
        case " $* " in *" $path "*) ;; *) set -- "$@" "$path" ;; esac
    done ;;
    *) set -- "$@" "$word" ;;
    esac
done
exec grep -rH "" "$@"
"""


def query(paths: Iterable[str]) -> Query:
    """Ask for the content of files, and of all files in folders."""
    return Query(_KEY, ("grep", "-rH", "", *paths), counts=True)


def query_of_functions(paths: Iterable[str], per_function: Mapping[str, Sequence[str]]) -> Query:
    """Ask for the content of files and folders, and of those of ports' physical functions.

    Parameters
    ----------
    per_function
        By port name: paths with one ``%``, which stands for the name of a physical function of that port
        (``/sys/class/net/%/qos``).
    """
    words = [f"{port}:{path}" for port, several in per_function.items() for path in several]
    argv = ("sh", "-c", f"{functions.SHELL}{_PER_FUNCTION}", "sh", *paths, *words)
    return Query(_KEY, argv, counts=True)


def content(answers: Answers, path: str) -> str:
    """Return what is in a file; Unread with the kernel's words if it could not be read."""
    found = under(answers, path)
    if path not in found:
        said = [line for line in answers[_KEY].stderr.splitlines() if f"{path}:" in line]
        raise Unread(said[0] if said else f"there is no {path}")
    return found[path]


def under(answers: Answers, start: str) -> dict[str, str]:
    """Return the content of all files that were read and whose path begins with `start`, by path."""
    found: dict[str, str] = {}
    for line in partial(answers, _KEY).splitlines():
        path, colon, value = line.partition(":")
        if colon and path.startswith(start):
            found[path] = f"{found[path]}\n{value.strip()}" if path in found else value.strip()
    return found
