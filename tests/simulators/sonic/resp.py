"""Talk to a Redis server on a UNIX socket."""

from __future__ import annotations

import socket
from typing import Any

CONFIG_DB, APPL_DB, COUNTERS_DB, STATE_DB = 4, 0, 2, 6


class RedisError(Exception):
    """What Redis said no with."""


class Redis:
    """One connection."""

    def __init__(self, path: str, database: int) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.connect(path)
        except OSError:
            self._socket.close()
            raise
        self._file = self._socket.makefile("rb")
        self.call("SELECT", str(database))

    def call(self, *words: str) -> Any:
        """Return the answer to one command."""
        return self.calls([words])[0]

    def calls(self, commands: list[tuple[str, ...]]) -> list[Any]:
        """Return the answers to several commands that are sent at once."""
        self._socket.sendall(b"".join(_packed(words) for words in commands))
        return [self._answer() for _ in commands]

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def _answer(self) -> Any:
        line = self._file.readline()
        kind, rest = line[:1], line[1:-2].decode()
        if kind == b"+":
            return rest
        if kind == b"-":
            raise RedisError(rest)
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == "-1" else self._file.read(int(rest) + 2)[:-2].decode()
        return [self._answer() for _ in range(int(rest))]


def _packed(words: tuple[str, ...]) -> bytes:
    parts = [word.encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


def load(redis: Redis) -> dict[str, dict[str, dict[str, str]]]:
    """Return CONFIG_DB by table and key."""
    keys = [key for key in redis.call("KEYS", "*") if "|" in key]
    config: dict[str, dict[str, dict[str, str]]] = {}
    for key, flat in zip(keys, redis.calls([("HGETALL", key) for key in keys]) if keys else [], strict=True):
        table, _, name = key.partition("|")
        config.setdefault(table, {})[name] = dict(zip(flat[::2], flat[1::2], strict=True))
    return config


def store(redis: Redis, old: dict[str, Any], new: dict[str, Any]) -> None:
    """Write the rows that differ."""
    commands: list[tuple[str, ...]] = []
    for table in set(old) | set(new):
        before, after = old.get(table, {}), new.get(table, {})
        for key in set(before) | set(after):
            if before.get(key) == after.get(key):
                continue
            commands.append(("DEL", f"{table}|{key}"))
            pairs = [word for pair in after.get(key, {}).items() for word in pair]
            if pairs:
                commands.append(("HSET", f"{table}|{key}", *pairs))
    if commands:
        redis.calls(commands)
