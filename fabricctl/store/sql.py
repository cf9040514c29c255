"""One SQLite file: opened, closed, read and written; everything of the store stands on it."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fabricctl.errors import StoreError
from fabricctl.resources import store_path
from fabricctl.store.database import connect, is_absent, mapped


class Sql:
    """The file and its statements."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self.path = path

    @classmethod
    def open(cls, path: Path | None = None, *, readonly: bool = False) -> Self:
        """Open the store, creating it (mode 0600) unless it is only to be read.

        Parameters
        ----------
        path
            None: ``$FABRICCTL_STORE``, else ``fabricctl/store.sqlite`` in the user's state folder.

        Raises
        ------
        StoreError
            It is absent (read only), damaged, not ours, of a newer fabricctl, or its disk is full.
        BusyError
            Another process has been writing for more than ten seconds.
        """
        place = (path or store_path()).absolute()
        return cls(connect(place, readonly=readonly), place)

    @staticmethod
    def is_absent(path: Path | None = None) -> bool:
        """Say whether there is no store yet, so that nothing has been recorded."""
        return is_absent(path or store_path())

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _execute(self, sql: str, values: tuple[object, ...]) -> int:
        with mapped(self.path):
            return self._connection.execute(sql, values).rowcount

    def _rows(self, sql: str, values: tuple[object, ...]) -> list[sqlite3.Row]:
        with mapped(self.path):
            cursor = self._connection.cursor()
            cursor.row_factory = sqlite3.Row
            return cursor.execute(sql, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Keep all that the block writes, or none of it; one within another is part of that one."""
        within = self._connection.in_transaction
        if within:
            yield
            return
        with mapped(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # on a full disk SQLite takes it back by itself
                    self._connection.execute("ROLLBACK")
                raise

    def _load(self, text: str | bytes) -> Any:
        try:
            return json.loads(text)
        except ValueError as exc:
            step = "restore the file from a backup"
            raise StoreError(
                "the store holds text that is no JSON", where=str(self.path), next_step=step
            ) from exc

    def _unpack(self, blob: bytes) -> Any:
        try:
            return self._load(zlib.decompress(blob))
        except zlib.error as exc:
            step = "restore the file from a backup"
            raise StoreError(f"the store is damaged: {exc}", where=str(self.path), next_step=step) from exc


def as_json(value: object) -> str:
    """Return JSON values as short text."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def packed(value: object) -> bytes:
    """Return JSON values compressed; `Sql._unpack` undoes it."""
    return zlib.compress(as_json(value).encode(), level=6)
