"""Turns an inventory and its policy into model values; all mistakes in them come out with file and line."""

from __future__ import annotations

from pathlib import Path

from fabricctl.errors import InventoryError
from fabricctl.inventory import ansible
from fabricctl.inventory.build import Builder
from fabricctl.inventory.hosts import Host, HostReader
from fabricctl.inventory.policy import is_policy, read_policy
from fabricctl.inventory.problems import InventoryFileError, Problems
from fabricctl.inventory.sources import (
    YAML,
    Kind,
    Sources,
    display,
    kind_of,
    static_files,
    total_bytes,
    variable_files,
)
from fabricctl.model.fabric import Fabric
from fabricctl.model.policy import Policy

__all__ = ["InventoryFileError", "read"]


def read(path: Path, *, policy: Path | None = None) -> tuple[Fabric, Policy]:
    """Read the inventory at `path` and the policy that it names.

    The inventory is whatever ``ansible-inventory`` takes. Hosts without a ``fabric_`` variable of their own
    (login nodes) are no part of the fabric.

    Parameters
    ----------
    policy
        Policy file to use instead of the one that ``fabric_policy`` names.

    Raises
    ------
    InventoryFileError
        Everything that is wrong, each with file, line and a suggestion. Nothing has been contacted.
    InventoryError
        Ansible cannot read the inventory.
    MissingToolError
        Ansible is not installed.
    """
    problems = Problems()
    if kind_of(path) is Kind.NONE:
        problems.add(str(path), "there is no such inventory", 'write one with "fabricctl init"')
        problems.raise_if_any()
    for file in static_files(path):
        if kind_of(file) is not Kind.FILE:
            # It is read more than once, and a device may never end.
            problems.add(str(file), "is neither a file nor a folder", "write the inventory to a file")
    for file in variable_files(path):
        if kind_of(file) is Kind.OTHER:
            problems.add(display(file), "is neither a file nor a folder", "write the variables to a file")
    problems.raise_if_any()
    _refuse_policies(path, problems)
    with ansible.resolving(path, size_bytes=total_bytes(path)) as started:
        # Ansible takes the longer of the two, so the files are read beside it.
        sources = Sources.scan(path)
        listing = _listing(started, sources)
    reader = HostReader(listing, sources, problems)
    hosts = reader.hosts()
    fabric = Builder(hosts, reader).fabric(str(path.resolve()))
    chosen = _policy(policy or _named_policy(hosts, reader), problems)
    if chosen:
        _check_layers(fabric, chosen, reader)
    problems.raise_if_any()
    if chosen is None:
        message = f"{path} was refused without a reason"
        raise AssertionError(message)
    return fabric, chosen


def _refuse_policies(path: Path, problems: Problems) -> None:
    """Refuse a folder that is taken for an inventory and holds a policy: Ansible would read it as groups."""
    files = [] if not path.is_dir() else [file for file in static_files(path) if file.suffix in YAML]
    policies = [file for file in files if is_policy(file)]
    if policies:
        rest = [file for file in files if file not in policies]
        advice = f"name {display(rest[0])}" if rest else "name the inventory file itself"
        what = f"it holds {policies[0].relative_to(path)}, which is no inventory"
        problems.add(display(path), what, advice)
    problems.raise_if_any()


def _listing(started: ansible.Resolving, sources: Sources) -> ansible.Listing:
    try:
        return started.listing()
    except InventoryError as exc:
        place = sources.odd_range() if ansible.HOST_RANGE in exc.what else None
        if place is None:
            raise
        what = f"{place.owner!r}: Ansible's host range must be begin:end"
        raise InventoryError(what, where=place.where, next_step="write node[1:4]") from exc


def _named_policy(hosts: tuple[Host, ...], reader: HostReader) -> Path | None:
    named: dict[str, str] = {}
    for host in hosts:
        if host.given.policy:
            named.setdefault(host.given.policy, host.name)
        else:
            where = reader.sources.host(host.name).where
            reader.problems.add(
                where, f"{host.name}: fabric_policy: is missing", "name the policy file in all: vars:"
            )
            return None
    if len(named) > 1:
        first, second = list(named)[:2]
        what = f"{named[second]} has {second}, {named[first]} has {first}"
        reader.note(named[second], ("fabric_policy",), what, "a fabric has one policy")
        return None
    for text, host_name in named.items():
        file = reader.sources.base / Path(text).expanduser()
        if kind_of(file) is Kind.FILE:
            return file
        if kind_of(file) is Kind.NONE:
            what = f"there is no file {display(file)}"
        else:
            what = f"{display(file)} is not a regular file"
        reader.note(host_name, ("fabric_policy",), what, "it is relative to the inventory")
    return None


def _policy(path: Path | None, problems: Problems) -> Policy | None:
    if path is None:
        return None
    try:
        return read_policy(path)
    except InventoryFileError as exc:
        for error in (exc, *exc.others):
            problems.add(error.where, error.what, error.next_step)
        return None


def _check_layers(fabric: Fabric, policy: Policy, reader: HostReader) -> None:
    for device in fabric.devices:
        odd = [port for port in device.ports if port.link_layer is not policy.link_layer]
        if odd:
            what = f"{odd[0].id} is {odd[0].link_layer}, the policy {policy.name} is for {policy.link_layer}"
            advice = "set fabric_link_layer, or choose another policy"
            reader.problems.add(reader.sources.host(device.name).where, what, advice)
