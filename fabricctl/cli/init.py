"""``fabricctl init``: a commented inventory and policy to fill in."""

from __future__ import annotations

from pathlib import Path

import click

from fabricctl import resources
from fabricctl.cli.common import FilePath
from fabricctl.errors import UsageError
from fabricctl.model.words import quoted

_FILES = ("inventory.yml", "policy.yml")


@click.command()
@click.argument("directory", metavar="[DIR]", default=".", type=FilePath(file_okay=False))
@click.option("--force", is_flag=True, help="Overwrite an inventory.yml and a policy.yml that are there.")
def command(directory: Path, *, force: bool) -> None:
    """Write a commented starter inventory and policy.

    They go to DIR (default: this folder) as inventory.yml and policy.yml.
    """
    there = [name for name in _FILES if (directory / name).exists()]
    if there and not force:
        raise UsageError(
            f"{' and '.join(there)} would be overwritten",
            where=str(directory),
            next_step="name another folder, or use --force",
        )
    source = resources.folder("inventories") / "starter"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name in _FILES:
            _write(directory / name, (source / name).read_bytes())
    except OSError as exc:
        where = str(exc.filename or directory)
        advice = "choose a folder that you may write to"
        raise UsageError(f"cannot be written: {exc.strerror}", where=where, next_step=advice) from exc
    for name in _FILES:
        click.echo(f"wrote {directory / name}")
    inventory = "" if directory == Path() else f" {quoted(str(directory / _FILES[0]))}"
    click.echo(f"next: describe your fabric in them, then run: fabricctl check{inventory}")


def _write(path: Path, content: bytes) -> None:
    """Write beside `path` and rename, so that a full disk leaves no half of a file."""
    beside = path.with_name(f".{path.name}.new")
    beside.unlink(missing_ok=True)
    beside.touch(mode=0o600)
    beside.write_bytes(content)
    beside.replace(path)
