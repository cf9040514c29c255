"""Reads a policy file."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from fabricctl.errors import InventoryError
from fabricctl.inventory.complaints import Complaint, complaints, dotted
from fabricctl.inventory.policy_model import policy_of
from fabricctl.inventory.policy_rules import contradictions
from fabricctl.inventory.policy_schema import PolicyFile
from fabricctl.inventory.positions import Step, compose, entries, repeated_keys, scalars, spot
from fabricctl.inventory.problems import Problems
from fabricctl.inventory.sources import Kind, display, kind_of
from fabricctl.model.policy import Policy

LOOKS_LIKE_ONE = 2
"""A file with so many of a policy's keys is one, be it a good one or not."""

LONGEST_SHOWN = 40
"""So many characters of a value that makes no sense are shown."""

_STAND_INS: Mapping[str, Any] = {
    "name": "-",
    "mtu": {"rdma_bytes": 1024, "nic_bytes": 9000, "switch_bytes": 9000},
    "limits": {"loss": {"bound_rate": 0.5}},
}
"""What takes the place of a required key of which nothing is left."""


def read_policy(path: Path) -> Policy:
    """Read the policy file at `path`.

    Raises
    ------
    InventoryFileError
        Everything that is wrong with the file, each with its line.
    """
    shown = display(path)
    problems = Problems()
    if kind_of(path) not in {Kind.FILE, Kind.NONE}:
        # It is read more than once, and a pipe may never begin.
        problems.add(shown, "is not a regular file", "write the policy to a file")
        problems.raise_if_any()
    node = compose(path, shown)
    values = _values(path, shown, problems, node)
    if node is None or not isinstance(values, dict):
        problems.add(f"{shown}:1", "a policy is a mapping", 'see "fabricctl init" for an example')
        problems.raise_if_any()
        raise AssertionError(shown)
    for key, first, line in repeated_keys(node):
        problems.add(f"{shown}:{line}", f"{key}: stands here for the second time", f"first: line {first}")
    given, found = _validated(values)
    for complaint in found:
        text = f"{dotted(complaint.path)}: {complaint.what}" if complaint.path else complaint.what
        problems.add(f"{shown}:{spot(node, complaint.path).line}", text, complaint.next_step)
    problems.raise_if_any()
    if given is None:
        raise AssertionError(shown)
    return policy_of(given, path)


def is_policy(path: Path) -> bool:
    """Say whether a file looks like a policy: several of its keys are a policy's, none is a group's."""
    try:
        node = compose(path, str(path))
    except InventoryError:
        return False
    keys = {key for key, _, _ in entries(node)}
    return len(keys & set(PolicyFile.model_fields)) >= LOOKS_LIKE_ONE and "all" not in keys


def _validated(values: dict[str, Any]) -> tuple[PolicyFile | None, list[Complaint]]:
    """Return the policy, and all that can be found wrong at once: values, and what they are together."""
    try:
        given = PolicyFile.model_validate(values)
    except ValidationError as exc:
        found = complaints(PolicyFile, exc)
        good, doubtful = _good_part(values, exc)
        return None, [*found, *(contradictions(good, doubtful) if good else ())]
    return given, list(contradictions(given))


def _good_part(values: dict[str, Any], error: ValidationError) -> tuple[PolicyFile | None, set[str]]:
    """Return the policy without what is wrong in it, and the top-level keys that lost something."""
    rest = copy.deepcopy(values)
    doubtful: set[str] = set()
    while True:
        for detail in error.errors(include_url=False):
            path = detail["loc"]
            if not path:
                return None, doubtful
            if detail["type"] == "extra_forbidden" and len(path) == 1:
                # Whatever is not there may be what was meant.
                doubtful |= PolicyFile.model_fields.keys() - values.keys()
            doubtful.add(str(path[0]))
            if detail["type"] == "missing":
                path = path[:-1]
            if not path:
                rest[str(detail["loc"][0])] = copy.deepcopy(_STAND_INS[str(detail["loc"][0])])
            else:
                _remove(rest, path)
        try:
            return PolicyFile.model_validate(rest), doubtful
        except ValidationError as exc:
            if exc.errors(include_url=False) == error.errors(include_url=False):
                return None, doubtful  # what is wrong could not be found to be taken out
            error = exc


def _remove(values: dict[Any, Any], path: tuple[Step, ...]) -> None:
    """Take a value out, or the smallest mapping's value that holds it; what is not there stays so."""
    at: dict[Any, Any] = values
    for number, step in enumerate(path, 1):
        key = next((key for key in at if str(key) == str(step)), None)
        inner = at.get(key)
        if number == len(path) or not isinstance(inner, dict) or path[number] == "[key]":
            at.pop(key, None)
            return
        at = inner


def _values(path: Path, shown: str, problems: Problems, node: yaml.Node | None) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except yaml.MarkedYAMLError as exc:
        line = exc.problem_mark.line + 1 if exc.problem_mark else 1
        problems.add(f"{shown}:{line}", f"cannot be used: {exc.problem}")
        problems.raise_if_any()
        raise
    except RecursionError:
        problems.add(f"{shown}:1", "cannot be used: it is nested too deeply")
        problems.raise_if_any()
        raise
    except ValueError:
        # What looks like a number or a date and is none, such as 2026-13-01 or a number of 5,000 digits.
        for bad in _senseless(node):
            text = bad.value if len(bad.value) <= LONGEST_SHOWN else f"{bad.value[:LONGEST_SHOWN]}..."
            problems.add(f"{shown}:{bad.start_mark.line + 1}", f"cannot be used: {text}", "put it in quotes")
        problems.raise_if_any()
        raise


def _senseless(node: yaml.Node | None) -> Iterator[yaml.ScalarNode]:
    """Walk the scalars below `node` that YAML takes for a value of a kind and cannot make one of."""
    for scalar in scalars(node):
        try:
            yaml.constructor.SafeConstructor().construct_object(scalar)
        except ValueError:
            yield scalar
