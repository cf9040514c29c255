"""Opens the SQLite file, brings its schema up to date, and turns SQLite's errors into ours."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fabricctl.errors import BusyError, FabricctlError, StoreError
from fabricctl.resources import make_private_folder
from fabricctl.store.migrations import MIGRATIONS

BUSY_TIMEOUT_S = 10.0
"""How long a writer waits for another writer; readers never wait (write-ahead log)."""

ELSEWHERE = "set FABRICCTL_STORE to a file elsewhere"

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_OURS = {"runs", "records", "evidence", "certificates"}
"""Tables that every version of the store has: a file without them is another program's."""


def connect(path: Path, *, readonly: bool) -> sqlite3.Connection:
    """Open the store at `path` with its newest schema.

    A file is looked at before anything in it or its mode is changed; one that is not ours is left as it is.
    To read, nothing is ever written: an older store is read as a copy in memory that has the newest schema.

    Raises
    ------
    StoreError
        There is no store (read only), it is damaged or foreign, a newer fabricctl wrote it, or its disk is
        full.
    BusyError
        Another process has been writing for longer than the busy timeout.
    """
    if readonly:
        if is_absent(path):
            raise StoreError(
                "there is no store",
                where=str(path),
                next_step='run "fabricctl verify" or set FABRICCTL_STORE',
            )
        _look(path)
        connection = _open(path, mode="ro")
        return connection if _version(connection, path) == len(MIGRATIONS) else _newest(connection, path)
    return _open_writable(path)


def is_absent(path: Path) -> bool:
    """Say whether nothing at all is at `path`: nothing has been recorded yet."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False  # it cannot be looked at, which is another matter
    return False


@contextmanager
def mapped(path: Path) -> Iterator[None]:
    """Turn what SQLite raises in the block into StoreError or BusyError."""
    try:
        yield
    except sqlite3.Error as exc:
        raise _translate(exc, path) from exc


def _translate(exc: sqlite3.Error, path: Path) -> FabricctlError:
    where = str(path)
    code = getattr(exc, "sqlite_errorcode", None) or 0
    if code & 0xFF in _BUSY:
        return BusyError(
            "another run is writing to the store", where=where, next_step="try again in a moment"
        )
    if code & 0xFF == sqlite3.SQLITE_FULL or (code & 0xFF == sqlite3.SQLITE_IOERR and _is_full(path)):
        return StoreError("no space is left for the store", where=where, next_step="make room on its disk")
    match exc:
        case sqlite3.IntegrityError():
            return StoreError(f"the store refuses the record: {exc}", where=where, next_step="report this")
        case sqlite3.OperationalError() | sqlite3.InternalError():
            step = "check the file's owner, its mode and the space left on its disk"
            return StoreError(f"the store cannot be used: {exc}", where=where, next_step=step)
        case sqlite3.ProgrammingError() | sqlite3.NotSupportedError() | sqlite3.InterfaceError():
            return StoreError(f"the store was used wrongly: {exc}", where=where, next_step="report this")
        case _ if code & 0xFF == sqlite3.SQLITE_NOTADB:
            return _foreign(path, "it is no store of fabricctl, or a damaged one")
        case _:
            step = "move the file away (a new one is begun) or restore it from a backup"
            return StoreError(f"the store is damaged: {exc}", where=where, next_step=step)


def _is_full(path: Path) -> bool:
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return False
    return disk.f_bavail == 0 or (disk.f_files > 0 and disk.f_favail == 0)


def _foreign(path: Path, what: str) -> StoreError:
    step = "if it was the store, move the file away (a new one is begun) or restore it from a backup"
    return StoreError(what, where=str(path), next_step=f"set FABRICCTL_STORE to another file; {step}")


def _look(path: Path) -> None:
    """Refuse what cannot be a store, without opening it.

    Raises
    ------
    StoreError
        It is a device, a folder, an empty file, or cannot be looked at.
    """
    try:
        status = path.stat()
    except OSError as exc:
        raise StoreError(
            f"the store cannot be opened: {exc.strerror}", where=str(path), next_step=ELSEWHERE
        ) from exc
    if not stat.S_ISREG(status.st_mode):
        kind = "folder" if stat.S_ISDIR(status.st_mode) else "device, a pipe or a socket"
        raise StoreError(f"it is no file but a {kind}", where=str(path), next_step=ELSEWHERE)
    if status.st_size == 0:
        step = "delete the file (a new store is begun), or set FABRICCTL_STORE to another one"
        raise StoreError("the file is empty: it is no store", where=str(path), next_step=step)


def _open(path: Path, *, mode: str) -> sqlite3.Connection:
    """Open a file that is there, and close it again if it is not ours."""
    with mapped(path):
        connection = sqlite3.connect(
            f"{path.as_uri()}?mode={mode}", uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None
        )
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
        except sqlite3.Error:
            connection.close()
            raise
    if not tables >= _OURS:
        connection.close()
        raise _foreign(path, "it is no store of fabricctl")
    return connection


def _open_writable(path: Path) -> sqlite3.Connection:
    if is_absent(path):
        _create(path)
    _look(path)
    # To look only: nothing of a file that is not ours may change, its mode neither.
    _open(path, mode="ro").close()
    _make_private(path)
    connection = _open(path, mode="rw")
    try:
        _prepare(connection, path)
    except FabricctlError:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    with mapped(path):
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")  # a revocation must survive a power cut
    _migrate(connection, path)


def _create(path: Path) -> None:
    """Write an empty store beside `path` and give it the name when it is whole: nobody sees half of one."""
    try:
        make_private_folder(path.parent)
        handle, beside = tempfile.mkstemp(
            prefix=f".{path.name}.", suffix=".new", dir=path.parent
        )  # mode 0600
        os.close(handle)
        try:
            _fill(Path(beside), path)
            # A link, no renaming: a store that another process has made meanwhile is not replaced.
            with suppress(FileExistsError):
                os.link(beside, path)
        finally:
            Path(beside).unlink(missing_ok=True)
    except OSError as exc:
        raise _not_written(path, exc) from exc


def _fill(beside: Path, path: Path) -> None:
    with mapped(path):
        connection = sqlite3.connect(beside, isolation_level=None)
        try:
            _prepare(connection, path)
        finally:
            connection.close()


def _not_written(path: Path, exc: OSError) -> StoreError:
    full = exc.errno in {errno.ENOSPC, errno.EDQUOT}
    why = "no space is left" if full else exc.strerror
    step = "make room on its disk" if full else "use the account that owns it"
    return StoreError(
        f"the store cannot be written: {why}", where=str(path), next_step=f"{step}, or {ELSEWHERE}"
    )


def _make_private(path: Path) -> None:
    """Take the store's mode back to 0600 where it is ours to change."""
    try:
        status = path.stat()
        if status.st_uid == os.geteuid() and status.st_mode & 0o077:
            path.chmod(0o600)
    except OSError as exc:
        raise _not_written(path, exc) from exc


def _newest(connection: sqlite3.Connection, path: Path) -> sqlite3.Connection:
    """Return a copy of an older store in memory, with the newest schema."""
    copy = sqlite3.connect(":memory:", isolation_level=None)
    try:
        with mapped(path):
            connection.backup(copy)
        _migrate(copy, path)
        with mapped(path):
            copy.execute("PRAGMA query_only = ON")
    except FabricctlError:
        copy.close()
        raise
    finally:
        connection.close()
    return copy


def _version(connection: sqlite3.Connection, path: Path) -> int:
    with mapped(path):
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > len(MIGRATIONS):
        connection.close()
        raise StoreError(
            f"the store has schema {version}, this fabricctl knows {len(MIGRATIONS)}",
            where=str(path),
            next_step="upgrade fabricctl, or set FABRICCTL_STORE to another file",
        )
    return version


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    if _version(connection, path) == len(MIGRATIONS):
        return
    with mapped(path):
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Read again inside the transaction: another process may have been faster.
            for number in range(_version(connection, path), len(MIGRATIONS)):
                for statement in MIGRATIONS[number]:
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {number + 1}")
            connection.execute("COMMIT")
        except sqlite3.Error:
            if connection.in_transaction:  # on a full disk SQLite takes it back by itself
                connection.execute("ROLLBACK")
            raise
