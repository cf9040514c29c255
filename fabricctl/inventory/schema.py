"""What the ``fabric_`` variables of a host may be; field names are the variables without the prefix."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field

from fabricctl.model.fabric import LinkLayer, Role
from fabricctl.model.names import HOST_NAME

PREFIX = "fabric_"
FABRIC_WIDE = frozenset(
    {"policy", "simulated", "known_hosts", "link_layer", "scheduler", "password_file", "ca_file"}
)
"""Variables that a site may set for all hosts: by themselves they make no host a part of the fabric."""
NO_DRIVER = "none"
"""The driver of a device that is only checked and probed, never configured."""

NO_SCHEDULER = "none"
"""The scheduler of a fabric whose nodes no scheduler gives to jobs."""

LONGEST_TEXT = 200
LONGEST_PATH = 4096

_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.:/@+-]*$"
_ADDRESS = r"^[A-Za-z0-9_:][A-Za-z0-9_.:%-]*$"
"""A host's name, or an address, an IPv6 one with a zone or without."""
_WHOLE = re.compile(r"-?(0|[1-9][0-9]*)")
_USER = r"^[^-\s]\S*$"
_BROADCAST = ipaddress.IPv4Address("255.255.255.255")


def not_bool(value: Any) -> Any:
    """Refuse yes and no where a number is meant."""
    if isinstance(value, bool):
        raise ValueError("must be a number, not yes or no")  # noqa: TRY004  pydantic turns only ValueError into an error
    return value


def _text(value: Any) -> Any:
    if isinstance(value, bool | int | float):
        raise ValueError("must be text: put it in quotes")  # noqa: TRY004  as above
    return value


def _number(value: Any) -> Any:
    """Refuse another spelling in quotes (``"03"``): as a key it would be a second one for the same number."""
    if isinstance(value, str) and not _WHOLE.fullmatch(value):
        raise ValueError("must be a whole number")
    return not_bool(value)


def _printable(value: str) -> str:
    """Refuse what moves a terminal's cursor, begins a line of its own, or turns the direction of others."""
    for character in value:
        if not character.isprintable():
            raise ValueError(f"has a character that cannot be shown (U+{ord(character):04X})")
    return value


def _short(value: str) -> str:
    if len(value) > LONGEST_TEXT:
        raise ValueError(f"must have at most {LONGEST_TEXT} characters, not {len(value)}")
    return value


def _said(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be empty")
    return value


def _expandable(value: str) -> str:
    try:
        Path(value).expanduser()
    except RuntimeError:
        raise ValueError("begins with the home folder of a user that is not known here") from None
    return value


def _interface(value: str) -> str:
    try:
        interface = ipaddress.ip_interface(value)
    except ValueError:
        raise ValueError("must be an address with its prefix length, such as 10.10.0.1/24") from None
    if "/" not in value:
        raise ValueError("lacks its prefix length, such as 10.10.0.1/24")
    if "%" in value:
        raise ValueError("has a zone, which means something only on its own host")
    narrow = interface.network.prefixlen >= interface.max_prefixlen - 1
    if not narrow and interface.ip == interface.network.network_address:
        raise ValueError("is the address of the network, not of a port in it")
    if interface.version == 4 and not narrow and interface.ip == interface.network.broadcast_address:  # noqa: PLR2004  IPv4
        raise ValueError("is the broadcast address of the network, not of a port in it")
    if why := _impossible(interface.ip):
        raise ValueError(why)
    return str(interface)


def _impossible(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """Return why no port of a fabric can have the address, empty if one can."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped:
            return (
                f"is an IPv4 address in the form of IPv6: write {address.ipv4_mapped} with its prefix length"
            )
        if address.is_link_local:
            return "is a link-local address: it means another port on every host, and no switch routes it"
    reasons = {
        "the unspecified address": address.is_unspecified,
        "a loopback address": address.is_loopback,
        "a multicast address": address.is_multicast,
        "the broadcast address": address == _BROADCAST,
    }
    return next((f"is {name}: no port can have it" for name, applies in reasons.items() if applies), "")


Int = Annotated[int, BeforeValidator(_number)]
Text = Annotated[str, BeforeValidator(_text), AfterValidator(_short), AfterValidator(_printable)]
Title = Annotated[Text, AfterValidator(_said)]
FilePath = Annotated[
    str,
    BeforeValidator(_text),
    Field(max_length=LONGEST_PATH),
    AfterValidator(_printable),
    AfterValidator(_expandable),
]
Name = Annotated[str, BeforeValidator(_text), Field(pattern=_NAME, max_length=64)]
HostName = Annotated[str, BeforeValidator(_text), Field(pattern=rf"^{HOST_NAME.pattern}$", max_length=253)]
Address = Annotated[str, BeforeValidator(_text), AfterValidator(_interface)]
Metres = Annotated[float, BeforeValidator(not_bool), Field(ge=0, le=100_000)]
TcpPort = Annotated[int, BeforeValidator(not_bool), Field(ge=1, le=65535)]
Speed = Annotated[int, BeforeValidator(not_bool), Field(ge=1, le=3200)]


class Strict(BaseModel):
    """A mapping in which every key is known; its values do not show up in errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


class LinkVars(Strict):
    """``link``: the switch port at the other end of a node's cable."""

    switch: Name
    port: Name
    cable_length_m: Metres = 0.0


class PortVars(Strict):
    """One entry of ``fabric_ports``."""

    name: Name
    rdma: Name | None = None
    rail: Annotated[int, BeforeValidator(not_bool), Field(ge=0, le=1023)] | None = None
    address: Address | None = None
    speed_gbps: Speed | None = None
    link_layer: LinkLayer | None = None
    link: LinkVars | None = None


class UplinkVars(Strict):
    """One entry of ``fabric_uplinks``: a cable from this switch to a higher one."""

    port: Name
    switch: Name
    peer_port: Name
    speed_gbps: Speed | None = None
    cable_length_m: Metres = 0.0


class HostVars(Strict):
    """The ``fabric_`` variables of a host."""

    role: Role
    driver: Name | None = None
    ports: tuple[PortVars, ...] = ()
    uplinks: tuple[UplinkVars, ...] = ()
    tier: Name | None = None
    pod: Name | None = None
    link_layer: LinkLayer = LinkLayer.ETHERNET
    policy: FilePath | None = None
    simulated: Text = ""
    known_hosts: FilePath = ""
    password_file: FilePath = ""
    ca_file: FilePath = ""
    scheduler: Name | None = None
    scheduler_node: HostName | None = None


class ConnectionVars(BaseModel):
    """Ansible's own variables, as far as they say how to reach a host."""

    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)

    host: Annotated[str, BeforeValidator(_text), Field(pattern=_ADDRESS, max_length=253)] | None = Field(
        default=None, validation_alias=AliasChoices("ansible_host", "ansible_ssh_host")
    )
    port: TcpPort | None = Field(
        default=None, validation_alias=AliasChoices("ansible_port", "ansible_ssh_port")
    )
    rest_port: TcpPort | None = Field(default=None, validation_alias="ansible_httpapi_port")
    user: Annotated[Text, Field(pattern=_USER)] | None = Field(
        default=None, validation_alias=AliasChoices("ansible_user", "ansible_ssh_user")
    )
    key_file: FilePath = Field(
        default="",
        validation_alias=AliasChoices("ansible_ssh_private_key_file", "ansible_private_key_file"),
    )
    connection: Text = Field(default="ssh", validation_alias="ansible_connection")
    become: bool = Field(default=False, validation_alias="ansible_become")
