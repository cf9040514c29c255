"""Nodes have the verbs devices that the inventory names; others are told, so that jobs can be kept off them.

Passes: the devices that the inventory names are there. One that is active and that it does not name (on a
management port, or of another fabric) is told as a note: a library that takes every device it finds takes it
too.

Fails: a device that the inventory names is not there.

Unknown: a node does not say which verbs devices it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fabricctl.model.fabric import Device, Role
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.answers import Unread, text
from fabricctl.plugin.protocols import Query
from fabricctl.plugin.surveying import Need, Observation, Survey

_KEY = "verbs devices"
_ASK = """\
cd /sys/class/infiniband 2>/dev/null || exit 0
for name in *; do
    [ -e "$name" ] || continue
    state= parent=
    read -r state 2>/dev/null <"$name/ports/1/state"
    read -r parent 2>/dev/null <"$name/parent" || parent=$(ls "$name/device/net" 2>/dev/null)
    echo "$name|$state|"$parent
done
:
"""
_ACTIVE = "ACTIVE"


@dataclass(frozen=True)
class _Foreign:
    name: str = "foreign"
    needs: Need = Need.READINGS

    def queries(self, device: Device) -> tuple[Query, ...]:
        """Ask a node for the names and states of all its verbs devices."""
        return (Query(_KEY, ("sh", "-c", _ASK)),) if _named(device) else ()

    def judge(self, survey: Survey) -> tuple[Finding, ...]:
        """Return a finding for each node of which the inventory names verbs devices."""
        found: list[Finding] = []
        for device in survey.fabric.nodes():
            seen = survey.devices.get(device.name)
            if seen is not None and not seen.error and _named(device):
                found.append(self._of(device, seen))
        return tuple(found)

    def _of(self, device: Device, seen: Observation) -> Finding:
        try:
            present = list(_devices(text(seen.answers, _KEY)))
        except Unread as exc:
            what = f"which verbs devices it has is not known: {exc}"
            step = f"on {device.name}: rdma link show"
            return Finding(self.name, device.name, Outcome.UNKNOWN, what, next_step=step)
        named = _named(device)
        gone = [name for name in named if name not in {each for each, _, _ in present}]
        if gone:
            return self._gone(device, gone, [name for name, _, _ in present])
        others = [
            f"{name} on {netdev}" if netdev else name
            for name, state, netdev in present
            if state == _ACTIVE and name not in named
        ]
        if not others:
            what = f"it has {', '.join(named)}, and no other verbs device is active"
            return Finding(self.name, device.name, Outcome.PASS, what)
        are = "is" if len(others) == 1 else "are"
        what = (
            f"{', '.join(others)} {are} active and not of the fabric: jobs must be kept off, as with "
            f"NCCL_IB_HCA=={','.join(named)}"
        )
        step = f"set NCCL_IB_HCA=={','.join(named)}, or name the device in the inventory"
        return Finding(self.name, device.name, Outcome.PASS, what, next_step=step)

    def _gone(self, device: Device, gone: list[str], present: list[str]) -> Finding:
        has = f"it has {', '.join(present)}" if present else "it has none at all"
        return Finding(
            self.name,
            device.name,
            Outcome.FAIL,
            f"there is no verbs device {', '.join(gone)}: {has}",
            measured=", ".join(present),
            limit=", ".join(_named(device)),
            next_step=(
                f"on {device.name}: see that the NIC is there (lspci), its RDMA driver is loaded and well "
                "(kernel log), and by which name (rdma link show)"
            ),
            culprit=device.name,
        )


def _named(device: Device) -> tuple[str, ...]:
    if device.role is not Role.NODE:
        return ()
    return tuple(dict.fromkeys(port.verbs_device for port in device.ports if port.verbs_device))


def _devices(said: str) -> Iterator[tuple[str, str, str]]:
    """Walk name, state and interface of each device."""
    for line in said.splitlines():
        words = line.split("|")
        if len(words) == 3 and line.isprintable():  # noqa: PLR2004  name, state, interface
            name, state, netdev = words
            yield name, state.partition(":")[2].strip(), netdev.strip()


PLUGIN = _Foreign()
