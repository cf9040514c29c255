"""What the checks of hosts share: the nodes to judge, what to say where there is none, and how to say it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fabricctl.model.fabric import Device
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.answers import Unread, partial
from fabricctl.plugin.protocols import Answers
from fabricctl.plugin.surveying import Observation, Survey

Judge = Callable[[Device, Observation], Iterable[Finding]]


def nodes(survey: Survey) -> tuple[tuple[Device, Observation], ...]:
    """Return the nodes that were asked and answered, in inventory order."""
    return tuple(
        (device, survey.devices[device.name])
        for device in survey.fabric.nodes()
        if device.name in survey.devices and not survey.devices[device.name].error
    )


def unanswered(check: str, survey: Survey) -> tuple[Finding, ...]:
    """Return what to say where no node answered; nothing if none was asked."""
    asked = [device for device in survey.fabric.nodes() if device.name in survey.devices]
    if not asked:
        return ()
    what = f"none of {len(asked)} nodes answered: there is nothing to judge"
    step = "see why they could not be asked (check reach), then run this again"
    return (Finding(check, "fabric", Outcome.UNKNOWN, what, next_step=step),)


def each(check: str, survey: Survey, judge: Judge) -> tuple[Finding, ...]:
    """Judge every node that answered by itself; one unknown finding if there is none."""
    found = nodes(survey)
    if not found:
        return unanswered(check, survey)
    return tuple(finding for device, seen in found for finding in judge(device, seen))


def whole(answers: Answers, key: str) -> list[str]:
    """Return the lines that a script printed before its ``done``, without what would upset a terminal.

    Raises
    ------
    Unread
        The script was not asked, or not to its end.
    """
    lines = partial(answers, key).splitlines()
    if "done" not in lines:
        raise Unread(f"{key}: the answer is not whole")
    lines = lines[: len(lines) - 1 - lines[::-1].index("done")]
    return [line if line.isprintable() else _clean(line) for line in lines]


def _clean(line: str) -> str:
    return "".join(char if char.isprintable() or char == "\t" else "?" for char in line)


def bytes_said(amount: int | None) -> str:
    """Return a number of bytes as ``8 MiB``, None as ``unlimited``."""
    if amount is None:
        return "unlimited"
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if amount >= size:
            return f"{amount / size:.4g} {unit}"
    return f"{amount} bytes"


def listed(names: Iterable[str], most: int = 4) -> str:
    """Return names with commas, the last of many as a number: ``node1, node2 and 14 more``."""
    found = list(names)
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return f"{', '.join(found[:most])}{more}"
