"""PCIe access control services (ACS) above NICs and GPUs are as the policy has them.

A bridge whose ACS control register has request or completion redirect on sends what one device below it has
for another up to the root complex: GPU-direct through a PCIe switch is then half as fast or less. A BIOS
that says "off" may leave a switch's bridges on, so every bridge above each NIC and GPU is read.

Passes if the policy's ``links.acs`` is ``off`` and no bridge redirects, or ``on`` and every bridge that has
ACS does; with ``any`` always, and if there is a GPU, bridges that redirect are told.
Fails if a bridge is not as the policy says.
Unknown if the policy says ``on`` or ``off`` and the registers cannot be read: only root can.
"""

from __future__ import annotations

from collections.abc import Iterator

from fabricctl.linkparts import pci
from fabricctl.linkparts.hosts import each, listed
from fabricctl.linkparts.pci import ACS, Function, Tree
from fabricctl.model.fabric import Device
from fabricctl.model.policy import LinkPolicy
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.answers import Unread
from fabricctl.plugin.protocols import Query
from fabricctl.plugin.surveying import Need, Observation, Survey

_NAME = "access_control"
_CONTROL = 6
_REDIRECT = 1 << 2 | 1 << 3
"""P2P request redirect and P2P completion redirect of the control register."""


class _AccessControl:
    name = _NAME
    needs = Need.ANSWERS

    def queries(self, device: Device) -> tuple[Query, ...]:
        """Ask for the bridges above the node's NICs and GPUs."""
        return pci.queries(device)

    def judge(self, survey: Survey) -> tuple[Finding, ...]:
        """Judge the bridges of every node."""
        return each(self.name, survey, lambda device, seen: (_judge(survey.rules, device.name, seen),))


def _judge(rules: LinkPolicy, node: str, seen: Observation) -> Finding:
    try:
        tree = pci.read(seen.answers)
    except Unread as exc:
        return Finding(_NAME, node, Outcome.UNKNOWN, str(exc), next_step=f"on {node}, as root: lspci -vvv")
    try:
        controls = {bridge.address: _control(bridge) for bridge in _bridges(tree)}
    except Unread as exc:
        return _unread(rules, node, str(exc))
    if not controls:
        return Finding(_NAME, node, Outcome.PASS, "there is no bridge above its NICs that could redirect")
    have = {bridge: control for bridge, control in controls.items() if control is not None}
    on = [bridge for bridge, control in have.items() if control & _REDIRECT]
    off = [bridge for bridge, control in have.items() if not control & _REDIRECT]
    seen_of = f"{len(controls)} bridges above NICs and GPUs"
    limit = f"acs: {rules.acs}"
    if rules.acs == "off" and on:
        what = f"ACS redirects at {len(on)} of {seen_of} ({listed(on)}), the policy says off"
        return _wrong(node, what, f"{len(on)} redirect", limit, _off_step(on))
    if rules.acs == "on" and off:
        what = f"ACS does not redirect at {len(off)} of {seen_of} ({listed(off)}), the policy says on"
        step = "turn ACS on in the BIOS; if it is on there, see that no boot script clears it (setpci)"
        return _wrong(node, what, f"{len(on)} redirect", limit, step)
    what = f"ACS redirects at {len(on)} of {seen_of}, {len(have)} have ACS"
    note = bool(on and tree.gpus and rules.acs == "any")
    if note:
        what = f"{what} ({listed(on)}); GPU-direct through a PCIe switch is slower for it"
    return Finding(
        _NAME,
        node,
        Outcome.PASS,
        what,
        f"{len(on)} redirect",
        limit,
        next_step=_off_step(on) if note else "",
    )


def _bridges(tree: Tree) -> Iterator[Function]:
    """Walk the bridges above NICs and GPUs, each once."""
    below = [tree.physical(tree.functions[path]) for paths in tree.ports.values() for path in paths]
    below += [tree.functions[path] for path in tree.gpus]
    found = {bridge.path: bridge for function in below for bridge in tree.above(function)}
    yield from found.values()


def _control(bridge: Function) -> int | None:
    """Return the ACS control register, None if the bridge has no ACS."""
    at = bridge.extended(ACS)
    return None if at is None else bridge.word(at + _CONTROL)


def _unread(rules: LinkPolicy, node: str, reason: str) -> Finding:
    if rules.acs == "any":
        return Finding(_NAME, node, Outcome.PASS, f"the policy does not mind, and it was not read: {reason}")
    step = f"on {node}, as root: lspci -vvv, and look for ACSCtl of every bridge"
    return Finding(_NAME, node, Outcome.UNKNOWN, reason, limit=f"acs: {rules.acs}", next_step=step)


def _wrong(node: str, what: str, measured: str, limit: str, step: str) -> Finding:
    return Finding(_NAME, node, Outcome.FAIL, what, measured, limit, next_step=step, culprit=node)


def _off_step(bridges: list[str]) -> str:
    return (
        f"turn ACS off in the BIOS; what stays on, at each boot: setpci -s {bridges[0]} ECAP_ACS+6.w=0000"
        + (" and so on" if len(bridges) > 1 else "")
    )


PLUGIN = _AccessControl()
