"""What the ``fabric_`` variables of a host may be; field names are the variables without the prefix."""

from __future__ import annotations

import ipaddress
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

_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.:/@+-]*$"


def _not_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("must be a number, not yes or no")  # noqa: TRY004  pydantic turns only ValueError into an error
    return value


def _text(value: Any) -> Any:
    if isinstance(value, bool | int | float):
        raise ValueError("must be text: put it in quotes")  # noqa: TRY004  as above
    return value


def _interface(value: str) -> str:
    try:
        interface = ipaddress.ip_interface(value)
    except ValueError:
        raise ValueError("must be an address with its prefix length, such as 10.10.0.1/24") from None
    if "/" not in value:
        raise ValueError("lacks its prefix length, such as 10.10.0.1/24")
    narrow = interface.network.prefixlen >= interface.max_prefixlen - 1
    if not narrow and interface.ip == interface.network.network_address:
        raise ValueError("is the address of the network, not of a port in it")
    return str(interface)


Int = Annotated[int, BeforeValidator(_not_bool)]
Text = Annotated[str, BeforeValidator(_text)]
Name = Annotated[str, BeforeValidator(_text), Field(pattern=_NAME, max_length=64)]
HostName = Annotated[str, BeforeValidator(_text), Field(pattern=rf"^{HOST_NAME.pattern}$", max_length=253)]
Address = Annotated[str, BeforeValidator(_text), AfterValidator(_interface)]
Metres = Annotated[float, BeforeValidator(_not_bool), Field(ge=0, le=100_000)]
TcpPort = Annotated[int, BeforeValidator(_not_bool), Field(ge=1, le=65535)]
Speed = Annotated[int, BeforeValidator(_not_bool), Field(ge=1, le=3200)]


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
    rail: Annotated[int, BeforeValidator(_not_bool), Field(ge=0, le=1023)] | None = None
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
    policy: Text | None = None
    simulated: Text = ""
    known_hosts: Text = ""
    password_file: Text = ""
    ca_file: Text = ""
    scheduler: Name | None = None
    scheduler_node: HostName | None = None


class ConnectionVars(BaseModel):
    """Ansible's own variables, as far as they say how to reach a host."""

    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)

    host: Annotated[str, BeforeValidator(_text), Field(pattern=r"^[^-\s]\S*$")] | None = Field(
        default=None, validation_alias=AliasChoices("ansible_host", "ansible_ssh_host")
    )
    port: TcpPort | None = Field(
        default=None, validation_alias=AliasChoices("ansible_port", "ansible_ssh_port")
    )
    rest_port: TcpPort | None = Field(default=None, validation_alias="ansible_httpapi_port")
    user: Annotated[str, BeforeValidator(_text), Field(pattern=r"^[^-\s]\S*$")] | None = Field(
        default=None, validation_alias=AliasChoices("ansible_user", "ansible_ssh_user")
    )
    key_file: Text = Field(
        default="",
        validation_alias=AliasChoices("ansible_ssh_private_key_file", "ansible_private_key_file"),
    )
    connection: Text = Field(default="ssh", validation_alias="ansible_connection")
    become: bool = Field(default=False, validation_alias="ansible_become")
