"""The chain's ends in a NIC: what it sends RDMA and notifications with, and how it answers marks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from fabricctl.model import settings
from fabricctl.model.policy import Policy
from fabricctl.model.reading import Known
from fabricctl.plugin.holding import PRIORITIES, Held, said, same
from fabricctl.plugin.protocols import Driver

_ECN_BITS = ("Not-ECT", "ECT(1)", "ECT(0)", "CE")
_ECT = frozenset({1, 2})
"""ECN bits of a packet that may be marked: others are dropped where they would be."""


def own(held: Held, driver: Driver) -> list[str]:
    """Return the settings of a NIC's driver alone that follow from the class of RDMA: its links of the chain.

    Those are the ones that the driver would want otherwise for another class; its parameters and what it sets
    for DCQCN are not among them.
    """
    here = replace(held.intent, dcqcn=None)
    priority, tos = here.lossless_priority, here.roce_tos
    if priority is None or tos is None:
        return []
    elsewhere = replace(
        here, lossless_priority=(priority + 1) % PRIORITIES, roce_tos=tos ^ 4, pfc_priorities=()
    )
    ours, others = driver.wanted(here), driver.wanted(elsewhere)
    return [
        name
        for name, value in ours.items()
        if "." in name and name in held.wanted and not same(value, others.get(name))
    ]


def sent(held: Held, policy: Policy) -> Iterator[str]:
    """Yield what is wrong with the packets of RDMA, as the driver makes them."""
    if policy.lossless is None:
        return
    mode, meant = held.known.get(settings.ROCE_MODE), held.wanted.get(settings.ROCE_MODE)
    if mode is not None and meant is not None and mode != meant:
        yield f"RoCE is sent as {mode}, not {meant}: it has no DSCP that could lead to a class"
    tos, meant = held.known.get(settings.ROCE_TOS), held.wanted.get(settings.ROCE_TOS)
    if not isinstance(tos, int):
        return
    if tos >> 2 != policy.lossless.dscp:
        yield f"RoCE is sent with DSCP {tos >> 2}, the lossless class has {policy.lossless.dscp}"
    elif isinstance(meant, int) and meant & 3 in _ECT and tos & 3 not in _ECT:
        bits = _ECN_BITS[tos & 3]
        yield f"RoCE is sent with ECN bits {bits}, not ECT(0) or ECT(1): switches drop it instead of marking"


def notifications(held: Held, policy: Policy) -> Iterator[str]:
    """Yield where the NIC's notifications are of another class than meant."""
    ours = policy.lossless
    for setting, label, lossless in (
        (settings.CNP_DSCP, "DSCP", ours.dscp if ours else None),
        (settings.CNP_PRIORITY, "priority", ours.priority if ours else None),
    ):
        found, meant = held.known.get(setting), held.wanted.get(setting)
        if found is None or meant is None or same(found, meant):
            continue
        relieve = ": they ride the lossless class that they are to relieve" if found == lossless else ""
        yield f"CNPs are sent with {label} {found}, not {meant}{relieve}"


def reaction(held: Held, driver: Driver) -> tuple[list[str], list[str]]:
    """Return breaks and gaps of a NIC's answer to marks: what its driver sets only to have it answer."""
    on, off = (driver.wanted(replace(held.intent, dcqcn=value)) for value in (True, False))
    breaks, gaps = [], []
    for name, value in on.items():
        idle = off.get(name, False)
        if same(value, idle) or type(value) is not type(idle):
            continue
        entry = held.reading.settings.get(name)
        if isinstance(entry, Known) and name not in driver.unsupported and same(entry.value, idle):
            breaks.append(
                f"switches mark, but the NIC does not slow down for it ({name} is {said(idle)}):"
                " pauses spread"
            )
        elif value is not True:
            # It goes with a switch, which says itself that it is missing.
            continue
        elif name in driver.unsupported:
            gaps.append(f"{name}: {driver.unsupported[name]}")
        elif not isinstance(entry, Known):
            gaps.append(f"{name}: {entry.reason if entry else 'the driver did not report it'}")
    return breaks, gaps
