"""Validates the variables of each host by itself."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from fabricctl import resources
from fabricctl.inventory import connections
from fabricctl.inventory.ansible import CONNECTION, Listing
from fabricctl.inventory.complaints import Complaint, complaints, dotted
from fabricctl.inventory.positions import Step
from fabricctl.inventory.problems import Problems, suggestion
from fabricctl.inventory.schema import (
    FABRIC_WIDE,
    NO_DRIVER,
    NO_SCHEDULER,
    PREFIX,
    ConnectionVars,
    HostVars,
)
from fabricctl.inventory.sources import Place, Sources
from fabricctl.model.fabric import REST, Endpoint, LinkLayer, Role
from fabricctl.model.names import HOST_NAME
from fabricctl.model.words import quoted
from fabricctl.plugin import finder

_SSH_PORT = 22
_REST_PORT = 8765
"""Where NVUE listens."""
_DEVICE_KEYS = frozenset(HostVars.model_fields) - FABRIC_WIDE
_NAME_ADVICE = "use letters, digits, dots, dashes and underscores, no dash or dot first"


@dataclass(frozen=True)
class Host:
    """A host of the fabric whose own variables are sound."""

    name: str
    given: HostVars
    endpoint: Endpoint


@dataclass
class HostReader:
    """Turns a listing into hosts, noting problems with their file and line.

    Parameters
    ----------
    refused
        Hosts of the fabric whose own variables are not sound; complaints that only follow from their absence
        would hide the cause.
    """

    listing: Listing
    sources: Sources
    problems: Problems
    refused: set[str] = field(default_factory=set)
    _taken: dict[str, str] = field(default_factory=dict)
    _plugins: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def hosts(self) -> tuple[Host, ...]:
        """Return the sound hosts of the fabric; a host without a device variable is no part of it."""
        found = (self._host(name) for name in self.listing.hosts)
        return tuple(host for host in found if host is not None)

    def place(self, host: str, path: tuple[Step, ...]) -> Place:
        """Return where a variable of `host`, or what is below it, stands."""
        return self.sources.locate(host, self.listing.groups[host], path)

    def note(self, host: str, path: tuple[Step, ...], what: str, next_step: str = "") -> None:
        """Note a problem with a variable of `host`."""
        place = self.place(host, path)
        self.problems.add(place.where, f"{place.owner}: {dotted(path)}: {what}", next_step)

    def _host(self, name: str) -> Host | None:
        variables = self.listing.hosts[name]
        ours = {key.removeprefix(PREFIX): value for key, value in variables.items() if key.startswith(PREFIX)}
        device = not _DEVICE_KEYS.isdisjoint(ours)
        given = self._validate(name, HostVars, ours, device=device)
        if not device:
            return None
        connection = self._validate(
            name, ConnectionVars, {k: v for k, v in variables.items() if k in CONNECTION}
        )
        self._check_name(name)
        if not isinstance(given, HostVars) or not isinstance(connection, ConnectionVars):
            self.refused.add(name)
            return None
        self._check_driver(name, given)
        self._check_scheduler(name, given)
        endpoint = self._endpoint(name, given, connection)
        if connection.connection in connections.CONNECTIONS:
            self._check_connection(name, variables, endpoint)
        return Host(name, given, endpoint)

    def _check_name(self, name: str) -> None:
        """Refuse what is no host name, or cannot stand in Slurm's host lists beside the other names."""
        if not HOST_NAME.fullmatch(name):
            self.problems.add(self._at(name), f"{name!r} is no name for a device", _NAME_ADVICE)
        first = self._taken.setdefault(name.lower(), name)
        if first != name:
            what = f"{name} and {first} differ only in capitals"
            advice = f"host names are the same in both; {first} is at {self._at(first)}"
            self.problems.add(self._at(name), what, advice)

    def _at(self, name: str) -> str:
        return self.sources.host(name).where

    def _validate(
        self, host: str, model: type[BaseModel], values: Mapping[str, Any], *, device: bool = True
    ) -> BaseModel | None:
        try:
            return model.model_validate(values)
        except ValidationError as exc:
            for complaint in complaints(model, exc):
                unknown = complaint.what == "unknown key"
                if device or unknown:
                    self._complain(host, complaint, prefix=PREFIX if model is HostVars else "")
            return None

    def _complain(self, host: str, complaint: Complaint, *, prefix: str) -> None:
        first, *rest = complaint.path
        path = (f"{prefix}{first}", *rest)
        place = self.place(host, path)
        if place.depth < len(path) and complaint.what == "is missing":
            place = self.place(host, path[:-1]) if rest else self.sources.host(host)
        next_step = complaint.next_step
        if complaint.what == "unknown key" and not rest and prefix:
            next_step = _prefixed_suggestion(str(first))
        if place.secret:
            next_step = ""
        self.problems.add(place.where, f"{place.owner}: {dotted(path)}: {complaint.what}", next_step)

    def _named(self, kind: str) -> tuple[str, ...]:
        """Return the names of all plug-ins of a kind, looked for once and not for each host."""
        if kind not in self._plugins:
            self._plugins[kind] = finder.names(kind)
        return self._plugins[kind]

    def _check_driver(self, host: str, given: HostVars) -> None:
        kind = "NIC driver" if given.role is Role.NODE else "switch driver"
        known = (*self._named(kind), NO_DRIVER)
        path = (f"{PREFIX}driver",)
        if given.driver is None:
            if given.link_layer is LinkLayer.ETHERNET:
                advice = f"name a {kind}, or {NO_DRIVER} for a device that is not to be configured"
                self.problems.add(self.sources.host(host).where, f"{host}: {path[0]}: is missing", advice)
        elif given.driver not in known:
            self.note(
                host, path, f"there is no {kind} called {given.driver}", suggestion(given.driver, known)
            )

    def _check_scheduler(self, host: str, given: HostVars) -> None:
        known = (*self._named("scheduler"), NO_SCHEDULER)
        if given.scheduler is not None and given.scheduler not in known:
            what = f"there is no scheduler called {given.scheduler}"
            self.note(host, (f"{PREFIX}scheduler",), what, suggestion(given.scheduler, known))
        if given.scheduler_node is not None and given.role is Role.SWITCH:
            self.note(host, (f"{PREFIX}scheduler_node",), "a switch runs no jobs", "leave it out")

    def _endpoint(self, host: str, given: HostVars, connection: ConnectionVars) -> Endpoint:
        kind = connections.CONNECTIONS.get(connection.connection)
        if kind is None:
            what = f"{connection.connection} cannot be used"
            self.note(
                host,
                ("ansible_connection",),
                what,
                "devices are reached by ssh, network_cli, httpapi or local",
            )
        if kind == REST and not (connection.user and given.password_file):
            what = "is missing: a REST interface wants a user and a password"
            path = ("ansible_user",) if not connection.user else (f"{PREFIX}password_file",)
            self.problems.add(self.sources.host(host).where, f"{host}: {path[0]}: {what}")
        port = connection.rest_port if kind == REST else None
        return Endpoint(
            host=connection.host or host,
            port=port or connection.port or (_REST_PORT if kind == REST else _SSH_PORT),
            user=connection.user or "",
            key_file=_expanded(connection.key_file),
            known_hosts=_expanded(given.known_hosts, self.sources.base),
            become=connection.become,
            connection=kind or "ssh",
            password_file=_expanded(given.password_file, self.sources.base),
            ca_file=_expanded(given.ca_file, self.sources.base),
        )

    def _check_connection(self, host: str, variables: Mapping[str, Any], endpoint: Endpoint) -> None:
        """Refuse connection variables that would silently not be used, and files that are not as needed."""
        flaws = [*connections.unused(variables, endpoint)]
        if not self._is_shipped:
            flaws += connections.unusable_files(variables, endpoint)
        for flaw in flaws:
            what, advice = flaw.what, flaw.next_step
            if flaw.file:
                secret = self.place(host, (flaw.variable,)).secret
                what = what.replace("FILE", "as it says" if secret else flaw.file)
                advice = advice.replace("FILE", "it" if secret else quoted(flaw.file))
            self.note(host, (flaw.variable,), what, advice)

    @functools.cached_property
    def _is_shipped(self) -> bool:
        """Whether it is an example that comes with fabricctl: the files that it names are another site's."""
        return self.sources.base.resolve().is_relative_to(resources.folder("inventories").resolve())


def _prefixed_suggestion(wrong: str) -> str:
    """Suggest a variable by what follows the prefix, which all of them share."""
    near = suggestion(wrong, HostVars.model_fields)
    if near.startswith("known: "):
        return f"known: {', '.join(sorted(PREFIX + name for name in HostVars.model_fields))}"
    return near.replace("did you mean ", f"did you mean {PREFIX}")


def _expanded(text: str, base: Path | None = None) -> str:
    """Expand ``~``; a relative path starts from `base` if there is one, else from the working folder."""
    if not text:
        return ""
    path = Path(text).expanduser()
    return str((base / path).resolve() if base else path)
