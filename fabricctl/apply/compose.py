"""Compose the one script that a push runs on a device; pure text, every value quoted.

Each change lies in ``/run/fabricctl/<apply>.<slot>/`` until it is confirmed: the scripts that undo it, one a
port, and ``revert.sh``, which a systemd timer runs unless the change is confirmed in time. The folder is in
memory: a reboot in between falls back to the state before by itself, because nothing is kept over a reboot
until it is confirmed. A port's script is kept as ``/etc/fabricctl/ports/<port>.sh``.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fabricctl.errors import UsageError
from fabricctl.model import settings
from fabricctl.model.fabric import Device
from fabricctl.model.names import boot_unit

RUN_FOLDER = "/run/fabricctl"
PORTS_FOLDER = "/etc/fabricctl/ports"
UNIT_FILE = "/etc/systemd/system/fabricctl-port@.service"

RC_BUSY = 75
"""Another change is at work or waits to be confirmed on the device: nothing was changed."""
RC_UNARMED = 77
"""The timer that would revert could not be started: nothing was changed."""
RC_TOO_LATE = 78
"""The change was reverted before it could be confirmed."""

PORT_MARK = "fabricctl-port"
"""First word of the lines ``fabricctl-port NAME RC`` that report on each port."""

UNIT = r"""[Unit]
Description=Set fabric port %I as fabricctl last applied it
After=network-pre.target systemd-networkd.service NetworkManager.service networking.service rdma-hw.target
After=sys-subsystem-net-devices-%i.device
BindsTo=sys-subsystem-net-devices-%i.device

[Service]
Type=oneshot
RemainAfterExit=yes
# Some of what it sets may appear only a little after the device: it is tried again for a minute.
ExecStart=/bin/sh -c 'for n in 1 2 3 4 5 6; do /bin/sh "$$0" && exit; sleep 10; done; exit 1' \
  /etc/fabricctl/ports/%I.sh

[Install]
# The device brings it up again when its driver is loaded anew.
WantedBy=multi-user.target sys-subsystem-net-devices-%i.device
"""


@dataclass(frozen=True, slots=True)
class Job:
    """What to run on one device: a POSIX shell script, as root."""

    device: Device
    script: str


@dataclass(frozen=True, slots=True)
class PortChange:
    """What a push runs on one port.

    Parameters
    ----------
    script, names
        The port's script and the settings of it to set.
    undo, undo_names
        The script that restores what was read before, and the settings that it can restore.
    """

    port: str
    script: str
    names: tuple[str, ...]
    undo: str
    undo_names: tuple[str, ...]


def push_script(apply_id: str, slot: int, changes: Sequence[PortChange], within_s: int) -> str:
    """Return the script that arms the revert timer and then sets the ports.

    Parameters
    ----------
    slot
        Number of the push within the apply; a device may see several.
    within_s
        Seconds after which the device reverts unless the change is confirmed.
    """
    name = slot_name(apply_id, slot)
    folder = f"{RUN_FOLDER}/{name}"
    lines = [_prologue(), _refuse_others(apply_id), f"dir={_q(folder)}", 'mkdir -p "$dir" || exit 1']
    for change in changes:
        stem = _file_name(change.port)
        lines.append(_file(f'"$dir"/{_q(stem + ".new")}', change.script))
        lines.append(_file(f'"$dir"/{_q(stem + ".undo")}', change.undo))
        lines.append(_file(f'"$dir"/{_q(stem + ".names")}', " ".join(change.undo_names) + "\n"))
    lines.append(_file('"$dir"/revert.sh', _revert_body(name)))
    lines.append(_arm(name, within_s))
    for change in changes:
        names = " ".join(_q(setting) for setting in change.names)
        lines.append(f'/bin/sh "$dir"/{_q(change.port + ".new")} {names} </dev/null 9>&-; rc=$?')
        lines.append(f"echo {PORT_MARK} {_q(change.port)} $rc; [ $rc = 0 ] || failed=1")
    lines.append("exit $failed")
    return "\n".join(lines) + "\n"


def revert_script(apply_id: str, ports: Sequence[str] = ()) -> str:
    """Return the script that undoes the unconfirmed changes of an apply now, the latest first.

    Parameters
    ----------
    ports
        Only these; the others stay as they are, with their timer running. Empty is all.
    """
    names = " ".join(_q(port) for port in ports)
    return f"""\
umask 077; failed=0; set --
for dir in {RUN_FOLDER}/{_q(apply_id)}.*; do set -- "$dir" "$@"; done
for dir; do
  [ -e "$dir/revert.sh" ] || continue
  /bin/sh "$dir/revert.sh" {names} </dev/null || failed=1
done
exit $failed
"""


def confirm_script(
    apply_id: str,
    slots: Sequence[int],
    keep: Mapping[str, str],
    forget: Sequence[str] = (),
    managed: Mapping[str, str] | None = None,
) -> str:
    """Return the script that stops the revert timers and keeps the ports' settings over reboots.

    Parameters
    ----------
    slots
        Those that were pushed to the device; all of them must still be unreverted.
    keep
        By port: the script to run at boot.
    forget
        Ports whose settings are to be lost at reboot, as they were before.
    managed
        By port: the script that has the host's network manager keep its MTU.
    """
    # What another change has set and may yet revert is not to be kept.
    lines = [_prologue(), _refuse_others(apply_id)]
    for slot in slots:
        name = slot_name(apply_id, slot)
        unit = _q(_unit(name))
        # A revert that has started but waits for our lock is stopped too: it has changed nothing yet.
        lines.append(f"systemctl stop {unit}.timer {unit}.service 2>/dev/null")
        folder = f"{RUN_FOLDER}/{name}"
        lines.append(f"if ! [ -d {_q(folder)} ] || [ -e {_q(folder + '/reverting')} ]; then")
        lines.append(f"  echo 'fabricctl: {name} was reverted before it was confirmed' >&2; late=1")
        lines.append("fi")
    lines.append(f"[ $late = 0 ] || exit {RC_TOO_LATE}")
    lines += [_manage(port, script) for port, script in (managed or {}).items()]
    if keep:
        lines.append(_keep(keep))
    if forget:
        lines.append(_forget(forget))
    folders = (f"{RUN_FOLDER}/{slot_name(apply_id, slot)}" for slot in slots)
    lines += [f"rm -rf {_q(folder)} || failed=1" for folder in folders]
    lines.append("exit $failed")
    return "\n".join(lines) + "\n"


def slot_name(apply_id: str, slot: int) -> str:
    """Return the name of one push of an apply; names sort in the order of the pushes."""
    return f"{apply_id}.{slot:04d}"


def _prologue() -> str:
    return f"""\
umask 077; failed=0; late=0
mkdir -p {RUN_FOLDER} || exit 1
exec 9>{RUN_FOLDER}/lock || exit 1
if ! flock -w 60 9; then
  echo 'fabricctl: another change is at work on this device; try again when it is done' >&2
  exit {RC_BUSY}
fi"""


def _refuse_others(apply_id: str) -> str:
    return f"""\
for other in {RUN_FOLDER}/*.[0-9][0-9][0-9][0-9]/; do
  [ -d "$other" ] || continue
  name=${{other%/}}; name=${{name##*/}}
  case $name in {_q(apply_id)}.*) continue;; esac
  if systemctl is-active --quiet "fabricctl-revert-$name.timer"; then
    echo "fabricctl: ${{name%.*}} waits to be confirmed here; confirm it or let its timer revert it" >&2
    exit {RC_BUSY}
  fi
  rm -rf "$other"
done"""


def _unit(name: str) -> str:
    return f"fabricctl-revert-{name}"


def _arm(name: str, within_s: int) -> str:
    # --collect: a failed revert does not block its unit's name. The lock's descriptor is not handed on.
    return f"""\
if ! systemd-run --quiet --collect --unit={_q(_unit(name))} --on-active={int(within_s)}s \\
  --timer-property=AccuracySec=1s /bin/sh "$dir"/revert.sh </dev/null 9>&-; then
  echo 'fabricctl: the timer that would revert could not be started (systemd-run); nothing was changed' >&2
  rm -rf "$dir"; exit {RC_UNARMED}
fi"""


def _revert_body(name: str) -> str:
    unit = _q(_unit(name))
    return f"""\
# Undo an unconfirmed change: all of it, or only the ports that are named.
dir={_q(f"{RUN_FOLDER}/{name}")}
exec 9>{RUN_FOLDER}/lock
flock -w 300 9 || exit {RC_BUSY}
cd "$dir" || exit 0
if [ $# = 0 ]; then : >reverting; set -- *.undo; fi
failed=0
for port; do
  port=${{port%.undo}}
  [ -e "$port.undo" ] || continue
  # The names are words of our own, one a setting; without a name the script would set everything.
  names=$(cat "./$port.names")
  if [ -z "$names" ] || /bin/sh "./$port.undo" $names 9>&-; then
    rm -f "./$port.undo"; echo {PORT_MARK} "$port" 0
  else
    failed=1; echo {PORT_MARK} "$port" 1
  fi
done
set -- *.undo
if ! [ -e "$1" ]; then
  systemctl stop {unit}.timer 2>/dev/null
  rm -rf "$dir"
fi
exit $failed
"""


def _manage(port: str, script: str) -> str:
    # In a file: a program that reads its standard input would swallow the rest of the script.
    path = f"{RUN_FOLDER}/{_file_name(port)}.kept"
    return f"""\
{_file(_q(path), script)}
/bin/sh {_q(path)} {settings.MTU_KEPT} </dev/null 9>&-; rc=$?
rm -f {_q(path)}; echo {PORT_MARK} {_q(port)} $rc; [ $rc = 0 ] || failed=1"""


def _keep(scripts: Mapping[str, str]) -> str:
    lines = [
        "keep() {",
        '  cat >"$1.beside" && chmod "$2" "$1.beside" && sync "$1.beside" && mv -f "$1.beside" "$1"',
        "}",
        f"mkdir -p -m 0755 /etc/fabricctl {PORTS_FOLDER} || failed=1",
    ]
    lines += [_here(f"keep {_q(script_path(port))} 0755", text, "failed=1") for port, text in scripts.items()]
    lines.append(_here(f"keep {UNIT_FILE} 0644", UNIT, "failed=1"))
    # No daemon-reload, which takes seconds on a busy node: the units are for the next boot, and for a device
    # that comes anew; systemd reads both from disk.
    lines.append(f"systemctl enable --no-reload --quiet {_units(scripts)} || failed=1")
    lines.append(_forget_state("disabled", scripts))
    return "\n".join(lines)


def _forget(ports: Sequence[str]) -> str:
    files = " ".join(_q(script_path(port)) for port in ports)
    disable = f"systemctl disable --no-reload --quiet {_units(ports)} || failed=1"
    return f"{disable}\nrm -f {files} || failed=1\n{_forget_state('enabled', ports)}"


def _forget_state(stale: str, ports: Mapping[str, str] | Sequence[str]) -> str:
    # Of a unit that it has loaded, as after a boot, systemd remembers whether it was enabled, and says so.
    show = f"systemctl show -p UnitFileState --value {_units(ports)}"
    return f"! {show} | grep -q '^{stale}' || systemctl daemon-reload"


def _units(ports: Mapping[str, str] | Sequence[str]) -> str:
    return " ".join(_q(boot_unit(port)) for port in ports)


def script_path(port: str) -> str:
    """Return where on its device the boot script of a port lies; UsageError if that is no name of Linux's."""
    return f"{PORTS_FOLDER}/{_file_name(port)}.sh"


def _file_name(port: str) -> str:
    if "/" in port:
        raise UsageError(f"the port name {port!r} is no network interface of a Linux system")
    return port


def _file(target: str, text: str) -> str:
    return _here(f"cat >{target}", text, "exit 1")


def _here(command: str, text: str, otherwise: str) -> str:
    # The delimiter holds the text's digest, so that no line of the text can equal it.
    mark = f"END_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    body = text if text.endswith("\n") else text + "\n"
    return f"{command} <<'{mark}' || {otherwise}\n{body}{mark}"


def _q(text: str) -> str:
    return shlex.quote(text)
