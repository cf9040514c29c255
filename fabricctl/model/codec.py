"""Values of the model to JSON and back, by their declared types."""

from __future__ import annotations

import dataclasses
import enum
import functools
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from fabricctl.errors import WireError
from fabricctl.model.histogram import Histogram
from fabricctl.model.names import PairId, PortId
from fabricctl.model.reading import Known, Missing
from fabricctl.model.verdicts import Verdicts

T = TypeVar("T")


def encode(value: object) -> Any:
    """Return `value` as dicts, lists, strings, numbers, booleans and None.

    A port becomes ``device/port``, a pair ``[source, target]``, an enum its value, Known and Missing
    ``{"known": ...}`` and ``{"missing": ...}``, a histogram its own text; private fields are left out.
    """
    kind: Any = type(value)
    if kind in _PLAIN:
        return value
    names = _names(kind)
    if names is None:
        return _encode_own(value)
    return {name: encode(getattr(value, name)) for name in names}


def _encode_own(value: object) -> Any:
    """Return a value that is not encoded by its fields."""
    match value:
        case PortId():
            return str(value)
        case PairId():
            return [str(value.source), str(value.target)]
        case Histogram():
            return value.encode()
        case enum.Enum():
            return value.value
        case Known():
            return {"known": encode(value.value)}
        case Missing():
            return {"missing": value.reason} | ({"impossible": True} if value.impossible else {})
        case Mapping():
            return {str(encode(k)): encode(v) for k, v in value.items()}
        case tuple() | list() | Verdicts():
            return [encode(item) for item in value]
        case _:
            return value


_PLAIN = frozenset({str, int, float, bool, type(None)})
"""Most values are of exactly these kinds, and stay what they are."""


@functools.cache
def _names(kind: Any) -> tuple[str, ...] | None:
    """Return the fields by which values of a kind are encoded; None if it has a form of its own."""
    own = (enum.Enum, Known, Missing, Mapping, Verdicts)
    if issubclass(kind, own) or not dataclasses.is_dataclass(kind):
        return None
    return tuple(field.name for field in dataclasses.fields(kind) if field.init)


def decode(kind: type[T], data: Any) -> T:
    """Return the value of type `kind` that :func:`encode` turned into `data`.

    Raises
    ------
    WireError
        The data do not fit the type.
    """
    try:
        return typing.cast("T", _decode(kind, data))
    except (KeyError, TypeError, ValueError, AttributeError) as exc:
        message = f"stored data do not fit {getattr(kind, '__name__', kind)}: {exc!r}"
        raise WireError(message, next_step="they were written by another version") from exc


def _decode(kind: Any, data: Any) -> Any:
    origin = get_origin(kind)
    if origin in {types.UnionType, typing.Union}:
        return _decode_union(get_args(kind), data)
    if origin is tuple:
        return _decode_tuple(get_args(kind), data)
    if origin is Sequence:
        return _decode_tuple((*get_args(kind), Ellipsis), data)
    if origin is not None and issubclass(origin, Mapping):
        key, item = get_args(kind)
        return {_decode(key, k): _decode(item, v) for k, v in data.items()}
    return _decode_plain(kind, data)


def _decode_plain(kind: Any, data: Any) -> Any:
    if kind in _READERS:
        return _READERS[kind](data)
    if kind is Known:
        return Known(_decode_value(data["known"]))
    if kind is Missing:
        return Missing(data["missing"], data.get("impossible", False))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(data)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        hints = _hints(kind)
        return kind(**{name: _decode(hints[name], item) for name, item in data.items()})
    if kind in {int, float} and isinstance(data, str):
        return kind(data)  # a mapping's key
    if kind is float and isinstance(data, int):
        return float(data)
    if not isinstance(data, kind):
        message = f"{data!r} is no {kind.__name__}"
        raise TypeError(message)
    return data


def _pair(data: Any) -> PairId:
    source, target = data
    return PairId(PortId.parse(source), PortId.parse(target))


_READERS: dict[Any, Callable[[Any], Any]] = {
    PortId: PortId.parse,
    PairId: _pair,
    Histogram: Histogram.decode,
}
"""Kinds that have a form of their own."""

_hints = functools.cache(get_type_hints)


def _decode_value(data: Any) -> Any:
    return tuple(data) if isinstance(data, list) else data


def _decode_union(kinds: tuple[Any, ...], data: Any) -> Any:
    if data is None and type(None) in kinds:
        return None
    if Known in kinds:
        return _decode_plain(Known if "known" in data else Missing, data)
    if bool in kinds:
        return _decode_value(data)
    if str in kinds and isinstance(data, str):
        return data
    if int in kinds and isinstance(data, int):
        return data
    rest = [kind for kind in kinds if kind not in {type(None), str, int}]
    return _decode(rest[0], data)


def _decode_tuple(kinds: tuple[Any, ...], data: Any) -> Any:
    if not isinstance(data, list):
        message = f"{data!r} is no list"
        raise TypeError(message)
    if len(kinds) == 2 and kinds[1] is Ellipsis:  # noqa: PLR2004  tuple[X, ...]
        return tuple(_decode(kinds[0], item) for item in data)
    return tuple(_decode(kind, item) for kind, item in zip(kinds, data, strict=True))
