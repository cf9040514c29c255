"""From what a query printed to a value or a reason: readers raise, :func:`entry` makes it a Missing."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fabricctl.model.reading import Entry, Known, Missing, Value
from fabricctl.plugin.protocols import Answers

_TIMED_OUT = frozenset({124, 137})
_NOT_FOUND = frozenset({126, 127})
_SHOWN = 200
_CANNOT = "Operation not supported"
"""What the kernel says (EOPNOTSUPP) of a function that a driver does not have."""

# What indexing, converting and walking parsed text of any shape can raise.
_ODD = (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError)


class Unread(Exception):  # noqa: N818  not an error of the program: a reason why there is no value
    """There is no value; the message is the reason that a reading shows."""


class Lacking(Unread):
    """There is no value, and none can be set as long as driver and firmware are what they are."""


def entry(reader: Callable[[], Value]) -> Entry:
    """Return what `reader` reads; whatever it stumbles over becomes the reason of a Missing."""
    try:
        return Known(_printable(reader()))
    except Lacking as exc:
        return Missing(_short(str(exc)), impossible=True)
    except Unread as exc:
        return Missing(_short(str(exc)))
    except _ODD as exc:
        return Missing(f"unparsable: {_short(repr(exc))}")


def entries(reader: Callable[[], Mapping[str, Entry]]) -> Mapping[str, Entry]:
    """Return what `reader` reads; empty if there is nothing to be read (then nobody can compare either)."""
    try:
        return reader()
    except (Unread, *_ODD):
        return {}


def text(answers: Answers, key: str) -> str:
    """Return what the query printed; Unread if it was not asked, failed or ran out of time."""
    answer = answers.get(key)
    if answer is None:
        raise Unread("not asked")
    if answer.rc == 0:
        return answer.stdout
    said = _short(answer.stderr) or _short(answer.stdout)
    program = key.split(maxsplit=1)[0]
    if answer.rc in _TIMED_OUT:
        raise Unread(f"{program}: no answer in time")
    if answer.rc in _NOT_FOUND:
        raise Unread(f"{program}: the program is not installed ({said})")
    raise refusal(f"{program}: {said or f'failed with exit status {answer.rc}'}")


def refusal(said: str) -> Unread:
    """Return the error for what a program said instead of an answer: Lacking if the driver has none of it."""
    return Lacking(said) if _CANNOT in said else Unread(said)


def partial(answers: Answers, key: str) -> str:
    """Return what a query printed even if it failed for some of what it was asked (grep, sha256sum)."""
    answer = answers.get(key)
    if answer is not None and answer.stdout and answer.rc not in _TIMED_OUT:
        return answer.stdout
    return text(answers, key)


def parsed(answers: Answers, key: str) -> Any:
    """Return the JSON that the query printed; Unread if there is none."""
    printed = text(answers, key)
    if not printed.strip():
        answer = answers[key]
        raise Unread(f"{key.split(maxsplit=1)[0]}: printed nothing {_short(answer.stderr)}".rstrip())
    try:
        return json.loads(printed)
    except (ValueError, RecursionError):
        raise Unread(f"unparsable: {_short(printed)}") from None


def whole_number(value: object) -> int:
    """Return `value` as an int if it is one, or a float without a fraction; Unread otherwise."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value % 1:
        raise Unread(f"unparsable: {_short(repr(value))} is no whole number")
    return int(value)


def eight(values: object, lowest: int, highest: int) -> tuple[int, ...]:
    """Return a list of 8 whole numbers within bounds as a tuple; Unread otherwise."""
    if not isinstance(values, list) or len(values) != 8:  # noqa: PLR2004  priorities and classes are eight
        raise Unread(f"unparsable: {_short(repr(values))} is no list of 8 numbers")
    numbers = tuple(whole_number(value) for value in values)
    if not all(lowest <= number <= highest for number in numbers):
        raise Unread(f"unparsable: {numbers} is not within {lowest}..{highest}")
    return numbers


def first(values: Iterable[Any], wanted: Callable[[Any], bool], missing: str) -> Any:
    """Return the first of `values` that is wanted; Unread with `missing` if none is."""
    for value in values:
        if wanted(value):
            return value
    raise Unread(missing)


def _printable(value: Value) -> Value:
    """Return `value`; Unread if it holds what would upset a terminal or a store: a device is not trusted."""
    words = value if isinstance(value, tuple) else (value,)
    for word in words:
        if isinstance(word, str) and not word.isprintable():
            raise Unread(f"unparsable: {word!r}")
    return value


def _short(said: str) -> str:
    words = "".join(char if char.isprintable() else "?" for char in " ".join(said.split()))
    return words if len(words) <= _SHOWN else words[: _SHOWN - 1] + "…"
