"""What several commands share: finding the inventory, JSON on standard output, messages on standard error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO, TypeVar

import click

from fabricctl.errors import UsageError
from fabricctl.model.codec import encode
from fabricctl.model.fabric import Fabric
from fabricctl.model.policy import Policy
from fabricctl.resources import make_private_folder, state_folder

LAST_INVENTORY = "last-inventory"
"""File beside the store that names the inventory applied last."""

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


class FilePath(click.Path):
    """A path that is named: an empty text (an unset variable in a script) would mean this folder."""

    def __init__(self, *, file_okay: bool = True) -> None:
        super().__init__(file_okay=file_okay, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; a usage error if the text is empty."""
        if not str(value).strip():
            self.fail("it is empty; name a file, or leave it out", param, ctx)
        return super().convert(value, param, ctx)


def inventory_argument(function: Decorated) -> Decorated:
    """Add ``[INVENTORY]``, ``-i`` and ``--policy`` to a command."""
    function = click.option(
        "--policy",
        type=FilePath(),
        help="Policy file, instead of the inventory's fabric_policy.",
    )(function)
    function = click.option(
        "-i",
        "inventory_option",
        metavar="INVENTORY",
        type=FilePath(),
        help="The same as [INVENTORY].",
    )(function)
    return click.argument("inventory", required=False, type=FilePath())(function)


def inventory_option(function: Decorated) -> Decorated:
    """Add only ``-i`` and ``--policy`` to a command that takes other arguments."""
    function = click.option(
        "--policy",
        type=FilePath(),
        help="Policy file, instead of the inventory's fabric_policy.",
    )(function)
    return click.option(
        "-i",
        "inventory_option",
        metavar="INVENTORY",
        type=FilePath(),
        help="The inventory to use.",
    )(function)


def json_option(function: Decorated) -> Decorated:
    """Add ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")(function)


def find_inventory(argument: Path | None, option: Path | None = None) -> Path:
    """Return the inventory to use and say which, when it was not named.

    It is the argument, ``-i``, ``FABRICCTL_INVENTORY``, ``./inventory.yml``, or the last one applied,
    in that order.

    Raises
    ------
    UsageError
        There is none, two different ones were named, or the variable names a file that is not there.
    """
    if argument and option and argument != option:
        raise UsageError(f"two inventories were named: {argument} and {option}", next_step="name one")
    named = argument or option
    if named:
        return named
    if variable := os.environ.get("FABRICCTL_INVENTORY"):
        if not Path(variable).exists():
            raise UsageError(
                f"FABRICCTL_INVENTORY names {variable}, which is not there",
                next_step="set it right, or unset it",
            )
        tell(f"inventory: {variable} (FABRICCTL_INVENTORY)")
        return Path(variable)
    for path, why in _defaults():
        if path.exists():
            tell(f"inventory: {path} ({why})")
            return path
    raise UsageError(
        "no inventory was named and there is no ./inventory.yml",
        next_step='name one, set FABRICCTL_INVENTORY, or begin with "fabricctl init"',
    )


def _defaults() -> list[tuple[Path, str]]:
    found = [(Path("inventory.yml"), "in this folder")]
    last = state_folder() / LAST_INVENTORY
    if last.is_file():
        found.append((Path(last.read_text(encoding="utf-8").strip()), "the last one applied"))
    return found


def remember_inventory(path: Path) -> None:
    """Make `path` the inventory that later commands use by default."""
    folder = state_folder()
    make_private_folder(folder)
    beside = folder / f"{LAST_INVENTORY}.{os.getpid()}"
    beside.write_text(f"{path.resolve()}\n", encoding="utf-8")
    beside.replace(folder / LAST_INVENTORY)


def load(path: Path, policy: Path | None = None) -> tuple[Fabric, Policy]:
    """Read the inventory and its policy."""
    from fabricctl import inventory  # noqa: PLC0415  pydantic is slow to import

    return inventory.read(path, policy=policy)


def emit_json(value: object) -> None:
    """Print `value` (of the model, or plain) as JSON on standard output."""
    click.echo(json.dumps(encode(value), indent=2, ensure_ascii=False))


def tell(line: str) -> None:
    """Print a progress line on standard error."""
    click.echo(line, err=True)


def on_terminal() -> bool:
    """Say whether standard error is a terminal, so that a progress bar makes sense."""
    stream: TextIO | None = sys.stderr  # None where it was closed from the beginning
    return stream is not None and stream.isatty()


def words(listed: str | None, option: str) -> tuple[str, ...]:
    """Return the words of an option that takes several with commas between them; none if it was not given.

    Raises
    ------
    UsageError
        It was given and is empty: an unset variable in a script must not come to mean "all".
    """
    if listed is None:
        return ()
    found = tuple(word for word in (part.strip() for part in listed.split(",")) if word)
    if not found:
        raise UsageError(f"{option} is empty", next_step="name something, or leave the option out for all")
    return found
