"""Read what is true of a whole Linux device: boot, kernel, rivals, and what it will set again at boot."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence

from fabricctl.drivers import files
from fabricctl.model import facts, settings
from fabricctl.model.fabric import Port
from fabricctl.model.names import boot_unit
from fabricctl.model.reading import Entry
from fabricctl.plugin.answers import Unread, entry, partial
from fabricctl.plugin.protocols import Answers, Query

# Services that write PFC, ETS, pauses or application priorities by themselves and so undo what is set here.
_RIVALS = (
    "lldpad.service",  # DCBX in user space: pushes PFC and ETS of its own
    "fcoe.service",  # sets DCB through lldpad
    "rdma-qos.service",  # spiderpool's set-rdma-qos.sh: sets everything again once a minute
    "dmsd.service",  # DOCA management service
    "dpf-dmsd.service",  # the same, as the DOCA platform framework installs it
    # What recipes for RoCE call the service in which they run mlnx_qos, dcb, cma_roce_tos or roce_config:
    "mlnx-qos.service",
    "mlnx_qos.service",
    "mlx5-tos.service",
    "roce.service",
    "roce-qos.service",
    "roce-lossless.service",
    "roce_config.service",
)
# Agents that run in containers have no unit; the kernel keeps 15 characters of a program's name.
_AGENTS = {
    "nic-configurati": "nic-configuration-daemon (NVIDIA NIC configuration operator)",
    "lldpad": "lldpad, not started by systemd",
}
# systemd is asked only about units that have a file: to look for one that is nowhere takes it long.
_ASK = f"""\
for unit; do
    shift
    for folder in /etc /run /usr/local/lib /usr/lib /lib; do
        [ ! -e "$folder/systemd/system/$unit" ] || {{ set -- "$@" "$unit"; break; }}
    done
    for folder in transient generator generator.early generator.late; do
        [ ! -e "/run/systemd/$folder/$unit" ] || {{ set -- "$@" "$unit"; break; }}
    done
done
printf 'Asked=%s\\n\\n' "$#"
[ "$#" = 0 ] || systemctl show -p Id,Names,ActiveState,UnitFileState "$@" || exit
cat /proc/[0-9]*/comm 2>/dev/null | sort -u | while read -r name; do
    case $name in {"|".join(_AGENTS)}) printf '\\nProcess=%s\\n' "$name" ;; esac
done
"""
_TUNED = "tuned.service"
_TUNED_FOLDER = "/etc/tuned"
_PAUSE = re.compile(r"^\s*pause\s*=", re.MULTILINE)
_WORKING = frozenset({"active", "activating", "reloading"})
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_KERNEL = "/proc/sys/kernel/osrelease"
_DIGEST_CHARS = 64
_EMPTY = hashlib.sha256(b"").hexdigest()


def paths() -> tuple[str, ...]:
    """Return the files to read of a device."""
    return (_BOOT_ID, _KERNEL, _TUNED_FOLDER)


def queries(ports: Sequence[Port]) -> tuple[Query, ...]:
    """Ask for rival services and agents, and for each port's boot script and unit."""
    names = [port.id.port for port in ports]
    paths = (path(name) for path in (script_path, _wanted_path, _masked_path) for name in names)
    return (
        Query("systemctl", ("sh", "-c", _ASK, "sh", *_RIVALS, _TUNED)),
        Query("sha256sum", ("sha256sum", *paths)),
    )


def script_path(name: str) -> str:
    """Return where the script lies that sets port `name` at boot."""
    return f"/etc/fabricctl/ports/{name}.sh"


def _wanted_path(name: str) -> str:
    """Return the link that has systemd start the unit of port `name` at boot.

    What is on disk counts at a boot. systemd's own answer may be older: it keeps a unit in memory as it first
    saw it, for as long as another one refers to it.
    """
    return f"/etc/systemd/system/multi-user.target.wants/{boot_unit(name)}"


def _masked_path(name: str) -> str:
    """Return what leads to ``/dev/null`` if the unit of port `name` is masked."""
    return f"/etc/systemd/system/{boot_unit(name)}"


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


def _blocks(answers: Answers) -> list[dict[str, str]]:
    """Return the properties of each unit that systemctl knows, and of each agent that runs."""
    said = partial(answers, "systemctl")
    return [dict(line.partition("=")[::2] for line in block.splitlines()) for block in said.split("\n\n")]


def _named(block: Mapping[str, str], name: str) -> bool:
    """Say whether a block is about the unit `name`; an alias is shown under the name that it stands for."""
    return block.get("Id") == name or name in block.get("Names", "").split()


def _rivals(answers: Answers) -> tuple[str, ...]:
    """Return the units that run; one that systemctl does not name is not there."""
    blocks = _blocks(answers)
    if not any("Id" in block or block.get("Asked") == "0" for block in blocks):
        raise Unread("systemctl names no unit")
    running = [block for block in blocks if block.get("ActiveState") in _WORKING]
    found = [name for name in _RIVALS if any(_named(block, name) for block in running)]
    for block in blocks:
        agent = block.get("Process", "")
        if agent in _AGENTS and f"{agent}.service" not in found:
            found.append(_AGENTS[agent])
    if any(_named(block, _TUNED) for block in running):
        found += [f"{_TUNED}: its profile {profile} sets pause" for profile in _pausing(answers)]
    return tuple(found)


def _pausing(answers: Answers) -> tuple[str, ...]:
    """Return the active profiles of tuned that set pause; those that come with tuned do not."""
    under = files.under(answers, f"{_TUNED_FOLDER}/")
    active = under.get(f"{_TUNED_FOLDER}/active_profile", "").split()
    return tuple(
        profile
        for profile in active
        for folder in (_TUNED_FOLDER, f"{_TUNED_FOLDER}/profiles")
        if _PAUSE.search(under.get(f"{folder}/{profile}/tuned.conf", ""))
    )


def _boot(answers: Answers, name: str) -> str:
    try:
        listed = partial(answers, "sha256sum")
    except Unread:
        if "sha256sum" in answers and "No such file" in answers["sha256sum"].stderr:
            return settings.NOT_KEPT
        raise
    digests = {}
    for line in listed.splitlines():
        digest, _, path = line.partition(" ")
        if len(digest) == _DIGEST_CHARS:
            digests[path.strip().removeprefix("*")] = digest
    # The link leads to the unit's file: without that there is nothing to start.
    starts = _wanted_path(name) in digests and digests.get(_masked_path(name)) != _EMPTY
    return digests.get(script_path(name), settings.NOT_KEPT) if starts else settings.NOT_KEPT
