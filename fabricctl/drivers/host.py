"""Read what is true of a whole Linux device: boot, kernel, rivals, and what it will set again at boot."""

from __future__ import annotations

from collections.abc import Sequence

from fabricctl.drivers import files
from fabricctl.drivers.answers import Unread, entry, partial
from fabricctl.model import facts, settings
from fabricctl.model.fabric import Port
from fabricctl.model.names import boot_unit
from fabricctl.model.reading import Entry
from fabricctl.plugin.protocols import Answers, Query

NOT_KEPT = "none"
"""Value of the ``boot`` setting of a port that a reboot would reset."""

# Services that write PFC, ETS or application priorities by themselves and so undo what is set here.
_RIVALS = ("lldpad.service", "fcoe.service", "rdma-qos.service", "dmsd.service")
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_KERNEL = "/proc/sys/kernel/osrelease"
_DIGEST_CHARS = 64


def paths() -> tuple[str, ...]:
    """Return the files to read of a device."""
    return (_BOOT_ID, _KERNEL)


def queries(ports: Sequence[Port]) -> tuple[Query, ...]:
    """Ask for rival services, and for each port's boot script and unit."""
    names = [port.id.port for port in ports]
    units = (*_RIVALS, *map(boot_unit, names))
    return (
        Query("systemctl", ("systemctl", "show", "-p", "Id,ActiveState,UnitFileState", *units)),
        Query("sha256sum", ("sha256sum", *map(script_path, names))),
    )


def script_path(name: str) -> str:
    """Return where the script lies that sets port `name` at boot."""
    return f"/etc/fabricctl/ports/{name}.sh"


def read_facts(answers: Answers) -> dict[str, Entry]:
    """Return boot id, kernel release and rivals of the device."""
    return {
        facts.BOOT_ID: entry(lambda: files.content(answers, _BOOT_ID)),
        facts.KERNEL: entry(lambda: files.content(answers, _KERNEL)),
        facts.RIVALS: entry(lambda: _rivals(answers)),
    }


def read_boot(name: str, answers: Answers) -> dict[str, Entry]:
    """Return the digest of the script that will set port `name` at boot."""
    return {settings.BOOT: entry(lambda: _boot(answers, name))}


def _state(answers: Answers, name: str, property_: str) -> str:
    for block in partial(answers, "systemctl").split("\n\n"):
        properties = dict(line.partition("=")[::2] for line in block.splitlines())
        if properties.get("Id") == name:
            return properties[property_]
    raise Unread(f"systemctl does not answer for {name}")


def _rivals(answers: Answers) -> tuple[str, ...]:
    working = {"active", "activating", "reloading"}
    return tuple(name for name in _RIVALS if _state(answers, name, "ActiveState") in working)


def _boot(answers: Answers, name: str) -> str:
    if _state(answers, boot_unit(name), "UnitFileState") != "enabled":
        return NOT_KEPT
    try:
        listed = partial(answers, "sha256sum")
    except Unread:
        if "No such file" in answers["sha256sum"].stderr:
            return NOT_KEPT
        raise
    for line in listed.splitlines():
        digest, _, path = line.partition(" ")
        if path.strip().removeprefix("*") == script_path(name) and len(digest) == _DIGEST_CHARS:
            return digest
    return NOT_KEPT
