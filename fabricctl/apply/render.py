"""Render the script that sets one port: what a push runs now is what the device runs at boot."""

from __future__ import annotations

import functools
import hashlib
import shlex
from collections.abc import Mapping

from jinja2 import Environment, FileSystemLoader, StrictUndefined, TemplateNotFound

from fabricctl import resources
from fabricctl.errors import UsageError
from fabricctl.model import settings
from fabricctl.model.fabric import Role
from fabricctl.model.reading import Value

FOLDERS: Mapping[Role, str] = {Role.NODE: "nic", Role.SWITCH: "switch"}
"""Folder of a role's drivers under ``templates/`` and ``playbooks/``."""


def render_port(role: Role, driver: str, port: str, rdma: str, wanted: Mapping[str, Value]) -> str:
    """Return the POSIX shell script that sets `wanted` on one port.

    Parameters
    ----------
    port
        Name of the netdev or switch port on the device.
    rdma
        Its verbs device; empty on a switch.
    wanted
        By setting name. ``boot`` is left out: it is about the script, not in it.

    Raises
    ------
    UsageError
        The driver has no template.
    """
    name = f"{FOLDERS[role]}/{driver}/port.sh.j2"
    try:
        template = environment().get_template(name)
    except TemplateNotFound as exc:
        raise UsageError(
            f"the driver {driver!r} cannot set ports: there is no templates/{name}",
            next_step="use it for reading only, or add the template",
        ) from exc
    values = {key: value for key, value in wanted.items() if key != settings.BOOT}
    text = template.render(port=port, rdma=rdma, settings=values)
    return text if text.endswith("\n") else text + "\n"


def digest(script: str) -> str:
    """Return the value of the ``boot`` setting of a port whose boot script is `script`."""
    return hashlib.sha256(script.encode()).hexdigest()


@functools.cache
def environment() -> Environment:
    """Return the environment that renders the shipped templates, the same at every call."""
    # The result is a shell script: values are quoted by the `quote` filter, HTML escapes would break it.
    made = Environment(
        loader=FileSystemLoader(resources.folder("templates")),
        undefined=StrictUndefined,
        autoescape=False,  # noqa: S701  shell, not HTML
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["quote"] = lambda value: shlex.quote(str(value))
    return made
