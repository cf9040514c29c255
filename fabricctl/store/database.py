"""Opens the SQLite file, brings its schema up to date, and turns SQLite's errors into ours."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fabricctl.errors import BusyError, FabricctlError, StoreError
from fabricctl.resources import make_private_folder
from fabricctl.store.migrations import MIGRATIONS

BUSY_TIMEOUT_S = 10.0
"""How long a writer waits for another writer; readers never wait (write-ahead log)."""

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def connect(path: Path, *, readonly: bool) -> sqlite3.Connection:
    """Open the store at `path` with its newest schema.

    Raises
    ------
    StoreError
        There is no store (read only), it is damaged or foreign, or a newer fabricctl wrote it.
    BusyError
        Another process has been writing for longer than the busy timeout.
    """
    if readonly:
        if not path.is_file():
            raise StoreError(
                "there is no store",
                where=str(path),
                next_step='run "fabricctl verify" or set FABRICCTL_STORE',
            )
        connection = _open(path, readonly=True)
        if _version(connection, path) == len(MIGRATIONS):
            return connection
        connection.close()
        # An older schema: bring it up to date once, then read.
        _open_writable(path).close()
        return _open(path, readonly=True)
    return _open_writable(path)


@contextmanager
def mapped(path: Path) -> Iterator[None]:
    """Turn what SQLite raises in the block into StoreError or BusyError."""
    try:
        yield
    except sqlite3.Error as exc:
        raise _translate(exc, path) from exc


def _translate(exc: sqlite3.Error, path: Path) -> FabricctlError:
    where = str(path)
    code = getattr(exc, "sqlite_errorcode", None)
    if code is not None and code & 0xFF in _BUSY:
        return BusyError(
            "another run is writing to the store", where=where, next_step="try again in a moment"
        )
    match exc:
        case sqlite3.IntegrityError():
            return StoreError(f"the store refuses the record: {exc}", where=where, next_step="report this")
        case sqlite3.OperationalError() | sqlite3.InternalError():
            step = "check the file's owner, its mode and the space left on its disk"
            return StoreError(f"the store cannot be used: {exc}", where=where, next_step=step)
        case sqlite3.ProgrammingError() | sqlite3.NotSupportedError() | sqlite3.InterfaceError():
            return StoreError(f"the store was used wrongly: {exc}", where=where, next_step="report this")
        case _:
            step = "move the file away (a new one is begun) or restore it from a backup"
            return StoreError(f"the store is damaged: {exc}", where=where, next_step=step)


def _open(path: Path, *, readonly: bool) -> sqlite3.Connection:
    mode = "ro" if readonly else "rwc"
    with mapped(path):
        connection = sqlite3.connect(
            f"{path.as_uri()}?mode={mode}", uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None
        )
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA user_version")  # the first look at the file: damage shows here
        except sqlite3.Error:
            connection.close()
            raise
    return connection


def _open_writable(path: Path) -> sqlite3.Connection:
    try:
        make_private_folder(path.parent)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            status = os.fstat(handle)
            if status.st_uid == os.geteuid() and status.st_mode & 0o077:
                os.fchmod(handle, 0o600)
        finally:
            os.close(handle)
    except OSError as exc:
        raise StoreError(
            f"the store cannot be written: {exc.strerror}",
            where=str(path),
            next_step="use the account that owns it, or set FABRICCTL_STORE to a file elsewhere",
        ) from exc
    connection = _open(path, readonly=False)
    try:
        with mapped(path):
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")  # a revocation must survive a power cut
        _migrate(connection, path)
    except FabricctlError:
        connection.close()
        raise
    return connection


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
            connection.execute("ROLLBACK")
            raise
