"""Says in plain words what pydantic found wrong."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from fabricctl.inventory.positions import Step
from fabricctl.inventory.problems import suggestion

LONGEST_STEP = 64
"""So many characters of a key are shown."""


@dataclass(frozen=True)
class Complaint:
    """One thing that is wrong with a value.

    Parameters
    ----------
    path
        Where it is, from the validated mapping on.
    what
        What is wrong, without the path; with the wrong value only if `shows`.
    """

    path: tuple[Step, ...]
    what: str
    next_step: str = ""


_TEXTS = {
    "missing": "is missing",
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "is far too large",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be yes or no",
    "bool_parsing": "must be yes or no",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "mapping_type": "must be a mapping",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "has characters that no such name has",
    "invalid_key": "a key must be text: put it in quotes",
}


def complaints(model: type[BaseModel], error: ValidationError) -> list[Complaint]:
    """Return everything that `error` holds, with suggestions for keys and choices that look like typos."""
    found = []
    for detail in error.errors(include_url=False):
        path = detail["loc"]
        is_key = path[-1:] == ("[key]",)  # a mapping's key is wrong, not the value under it
        path = path[:-1] if is_key else path
        if path and isinstance(detail["input"], date) and (is_key or detail["type"] == "invalid_key"):
            path = (*path[:-1], str(detail["input"]))  # as it stands in the file, not as Python writes it
        found.append(_complaint(model, path, detail, is_key=is_key))
    return found


def _complaint(
    model: type[BaseModel], path: tuple[Step, ...], detail: ErrorDetails, *, is_key: bool
) -> Complaint:
    kind = detail["type"]
    if kind == "too_long" and isinstance(detail["input"], str):
        kind = "string_too_long"  # pydantic counts entries where a text was looked at before its length
    if kind == "extra_forbidden":
        known = _keys(model, path[:-1])
        return Complaint(path, "unknown key", suggestion(path[-1], known))
    if kind in {"enum", "literal_error"}:
        choices = _choices(_key_annotation(model, path[:-1]) if is_key else _annotation(model, path))
        what = f"must be one of {', '.join(choices)}"
        wrong = detail["input"]
        near = suggestion(wrong, choices) if isinstance(wrong, str) else ""
        return Complaint(path, what, near if near.startswith("did") else "")
    context: Mapping[str, Any] = {
        name: f"{value:g}" if isinstance(value, float) else value
        for name, value in detail.get("ctx", {}).items()
    }
    if kind == "value_error":
        return Complaint(path, str(context["error"]))
    return Complaint(path, _TEXTS.get(kind, detail["msg"]).format(**context))


def _annotation(model: Any, path: tuple[Step, ...]) -> Any:
    kind: Any = model
    for step in path:
        kind = _inside(kind, step)
    return _bare(kind)


def _key_annotation(model: Any, path: tuple[Step, ...]) -> Any:
    return _bare(get_args(_annotation(model, path))[0])


def _inside(kind: Any, step: Step) -> Any:
    kind = _bare(kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        field = kind.model_fields.get(str(step))
        return field.annotation if field else Any
    arguments = get_args(kind)
    if get_origin(kind) in {tuple, list}:
        return arguments[0]
    return arguments[-1] if arguments else Any


def _bare(kind: Any) -> Any:
    """Strip Annotated and "or None"."""
    if get_origin(kind) is typing.Annotated:
        return _bare(get_args(kind)[0])
    if get_origin(kind) in {typing.Union, types.UnionType}:
        return _bare(next(part for part in get_args(kind) if part is not types.NoneType))
    return kind


def _keys(model: type[BaseModel], path: tuple[Step, ...]) -> tuple[str, ...]:
    kind = _annotation(model, path)
    return tuple(kind.model_fields) if isinstance(kind, type) and issubclass(kind, BaseModel) else ()


def _choices(kind: Any) -> tuple[str, ...]:
    if isinstance(kind, type) and issubclass(kind, Enum):
        return tuple(str(member.value) for member in kind)
    return tuple(map(str, get_args(kind))) if get_origin(kind) is Literal else ()


def dotted(path: tuple[Step, ...]) -> str:
    """Write a path as people do: ``fabric_ports[0].link.switch``."""
    text = ""
    for step in path:
        short = step if isinstance(step, int) or len(step) <= LONGEST_STEP else f"{step[:LONGEST_STEP]}..."
        text += f"[{short}]" if isinstance(step, int) else f".{short}" if text else str(short)
    return text
