"""The native engine's library in C (``native_loop/``): where it is, its structures, its errors."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import stat
import zipimport
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Optional

from fabricctl.agent.connection import no_memory
from fabricctl.agent.guard import Guard
from fabricctl.agent.timing import complain
from fabricctl.agent.wire import DEADLINE, PEER, SETUP, Refusal

VERSION = 1
"""What the library says of itself (``VERSION`` in loop.h)."""
VERBS = "libibverbs.so.1"
TIME_IS_UP, CALLED_OFF, SYSTEM = -1, -2, -1000
"""What its functions return beside 0 and a completion's status; SYSTEM minus an errno."""
VERBS_CALLS = (
    "get_device_list",
    "free_device_list",
    "get_device_name",
    "open_device",
    "close_device",
    "query_device",
    "query_port",
    "alloc_pd",
    "dealloc_pd",
    "reg_mr",
    "dereg_mr",
    "create_cq",
    "destroy_cq",
    "create_qp",
    "modify_qp",
    "destroy_qp",
)
C_CALLS = ("calloc", "free", "clock_gettime", "__errno_location")

u32, u64, pointer = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_void_p


class Table(ctypes.Structure):
    """``struct table`` of loop.h: what the library calls of libibverbs and of the C library."""

    _fields_ = [(name, pointer) for name in (*VERBS_CALLS, *C_CALLS)]


class PortState(ctypes.Structure):
    """``struct port_state``."""

    _fields_ = [
        *((name, u32) for name in ("state", "lid", "mtu", "reads")),
        ("clock_khz", u64),
        ("clock_mask", u64),
    ]


class Wish(ctypes.Structure):
    """``struct wish``."""

    _fields_ = [
        ("memory", pointer),
        ("memory_bytes", u64),
        ("buffer_bytes", u64),
        ("unreliable", ctypes.c_char_p),
        *((name, u32) for name in ("pairs", "depth", "receives", "inline_bytes")),
    ]


class Route(ctypes.Structure):
    """``struct route``."""

    _fields_ = [
        ("gid", ctypes.c_uint8 * 16),
        *((name, u32) for name in ("is_global", "gid_index", "lid", "hop_limit", "traffic_class")),
        *((name, u32) for name in ("flow_label", "mtu", "far_number", "far_psn", "near_psn", "reads")),
        *((name, u32) for name in ("far_reads", "timeout", "retries", "rnr_retries", "rnr_timer")),
    ]


class Limit(ctypes.Structure):
    """``struct limit``."""

    _fields_ = [("until_ns", u64), ("called_off", pointer)]


class Course(ctypes.Structure):
    """``struct course``."""

    _fields_ = [
        ("lengths", pointer),
        ("pairs", pointer),
        *((name, u64) for name in ("count", "run_ns", "offset")),
        *((name, u32) for name in ("lengths_count", "pairs_count", "op", "unused")),
        *((name, u64) for name in ("bytes", "messages", "nanoseconds")),
    ]


class Slots(ctypes.Structure):
    """``struct slots``."""

    _fields_ = [(name, u64) for name in ("first", "step", "count", "paths", "mark")]


STRUCTURES = (Table, PortState, Wish, Route, Limit, Course, Slots)
"""In the order of ``fabricctl_size``."""

_FUNCTIONS: dict[str, tuple[Any, Sequence[Any]]] = {
    "open": (ctypes.c_int, (pointer, ctypes.c_char_p, u32, pointer)),
    "port": (ctypes.c_int, (pointer, pointer)),
    "register": (ctypes.c_int, (pointer, pointer, u64, pointer, pointer)),
    "forget": (None, (pointer, pointer)),
    "close": (None, (pointer,)),
    "link": (ctypes.c_int, (pointer, pointer, pointer, pointer)),
    "number": (u32, (pointer, u32)),
    "stamps": (ctypes.c_int, (pointer,)),
    "connect": (ctypes.c_int, (pointer, u32, pointer)),
    "peer": (None, (pointer, u64, u64, u32)),
    "release": (None, (pointer,)),
    "round_trips": (ctypes.c_int, (pointer, u32, u32, u32, u64, pointer, pointer, pointer)),
    "pingpong": (ctypes.c_int, (pointer, u32, u64, u32, u64, u32, pointer, pointer)),
    "messages": (ctypes.c_int, (pointer, u32, u32, u64, pointer, pointer)),
    "absorb": (ctypes.c_int, (pointer, u32, u64, pointer)),
    "stream": (ctypes.c_int, (pointer, pointer, pointer)),
    "word_out": (ctypes.c_int, (pointer, u32, u64, u64, pointer)),
    "word_in": (ctypes.c_int, (pointer, u64, u64, pointer)),
    "burst": (ctypes.c_int, (pointer, pointer, pointer)),
    "absent": (u64, (pointer, pointer, pointer)),
}


class Library:
    """The loaded library; its functions are attributes, called without Python's lock.

    Parameters
    ----------
    path
        Of the library.
    verbs
        Name of libibverbs.

    Raises
    ------
    Refusal
        One of them does not load, or they do not fit together (kind ``setup``).
    """

    def __init__(self, path: str, verbs: str) -> None:
        # By dlsym, which takes the newest version of a symbol: see loop.h.
        self._verbs, self._c = _loaded(verbs, _install_verbs()), ctypes.CDLL(None)
        self._library = _loaded(path, "build fabricctl for this machine")
        try:
            calls = [getattr(self._verbs, f"ibv_{name}") for name in VERBS_CALLS]
            calls += [getattr(self._c, name) for name in C_CALLS]
        except AttributeError as exc:
            raise Refusal(SETUP, f"{verbs} lacks what the native engine calls: {exc}") from exc
        self.table = Table(*(ctypes.cast(call, pointer).value for call in calls))
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(self._library, f"fabricctl_{name}")
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)
        size = self._library.fabricctl_size
        size.restype, size.argtypes = u32, (u32,)
        if self._library.fabricctl_version() != VERSION or any(
            size(index) != ctypes.sizeof(kind) for index, kind in enumerate(STRUCTURES)
        ):
            raise Refusal(SETUP, f"{path} is of another version of fabricctl; install fabricctl anew")

    def __getattr__(self, name: str) -> Any:
        """Say for the type checker that there are functions; those that exist are found before."""
        raise AttributeError(name)


def _loaded(path: str, remedy: str) -> Any:
    try:
        return ctypes.CDLL(path)
    except OSError as exc:
        raise Refusal(SETUP, f"{exc}; {remedy}") from exc


def _install_verbs() -> str:
    return "install it: apt-get install libibverbs1 ibverbs-providers, or: dnf install libibverbs"


_library: Optional[Library] = None


def load() -> Library:
    """Load the library, once; Refusal (kind ``setup``) if that fails."""
    global _library  # noqa: PLW0603  once a process
    if _library is None:
        with file() as path:
            _library = Library(path, VERBS)
    return _library


def name() -> str:
    """Return the file name of the library for this machine."""
    return f"loop-{platform.machine()}.so"


@contextmanager
def file() -> Iterator[str]:
    """Give a path under which the library can be loaded while the block runs.

    Inside the agent's archive it is no file: it then goes into memory that has a path, or where nothing may
    be run from there, into the archive's own folder, which belongs to this user alone.
    """
    here = Path(__file__).parent / "native_loop" / name()
    if here.is_file():
        yield str(here)
        return
    content = _from_archive(here)
    if content is None:
        raise Refusal(
            SETUP,
            f"the native engine is not built for {platform.machine()}; install a C compiler and the headers"
            " of libibverbs (apt-get install gcc libc6-dev libibverbs-dev) where fabricctl is installed, and"
            " install fabricctl again",
        )
    with ExitStack() as stack:
        path = ""
        with suppress(OSError, AttributeError):  # an old kernel or C library has no such memory
            path = stack.enter_context(_in_memory(content))
        if not path or not _is_loadable(path):
            path = stack.enter_context(_beside_the_archive(content))
        yield path


def _from_archive(path: Path) -> Optional[bytes]:
    loader = globals().get("__loader__")
    if not isinstance(loader, zipimport.zipimporter):
        return None
    try:
        return bytes(loader.get_data(str(path)))
    except OSError:
        return None


@contextmanager
def _in_memory(content: bytes) -> Iterator[str]:
    handle = os.memfd_create(name())
    try:
        _write(handle, content)
        yield f"/proc/self/fd/{handle}"
    finally:
        os.close(handle)


def _is_loadable(path: str) -> bool:
    try:
        ctypes.CDLL(path)
    except OSError:  # a system that runs nothing from memory
        return False
    return True


@contextmanager
def _beside_the_archive(content: bytes) -> Iterator[str]:
    folder = Path(globals()["__loader__"].archive).parent
    found = folder.stat()
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Refusal(SETUP, f"the native engine is not loaded from {folder}: others can write there")
    path = folder / f"{name()}.{os.getpid()}"
    with suppress(FileNotFoundError):
        path.unlink()
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        _write(handle, content)
        os.close(handle)
        yield str(path)
    finally:
        path.unlink()


def _write(handle: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(handle, view) :]


def settle(code: int, what: str, kind: str = SETUP) -> None:
    """Raise the Refusal for what a function that needs no waiting returned, if it is not 0.

    Parameters
    ----------
    what
        Was not done: "queue pairs cannot be made".
    kind
        Of the Refusal.
    """
    if code == 0:
        return
    number = SYSTEM - code
    if number == errno.ENOMEM:
        raise no_memory(what)
    raise Refusal(kind, f"{what}: {os.strerror(number)}")


def ended(code: int, guard: Guard, waiting_for: str) -> None:
    """Raise the Refusal for what a loop returned, if it is not 0."""
    if code == 0:
        return
    if code > 0:
        raise complain(code)
    if code in {TIME_IS_UP, CALLED_OFF}:
        guard.check(waiting_for)
        raise Refusal(DEADLINE, f"no answer in time from {waiting_for}")
    # Also ENOMEM, of a full queue: it has nothing to do with a limit of locked memory.
    raise Refusal(PEER, f"the NIC refused a request: {os.strerror(SYSTEM - code)}")
