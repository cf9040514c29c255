"""The names of settings, what each holds, and the order in which they may be set.

A driver sets and reads back settings by these names; a driver may add names of its own, prefixed with
its name and a dot (``mlx5.cnp_dscp``). A setting is a configuration value of one port.
"""

from __future__ import annotations

MTU = "mtu_bytes"
"""int: layer-3 MTU of a netdev, or the port MTU of a switch as its OS counts it, in bytes."""
PAUSE = "global_pause"
"""bool: 802.3x pause of the whole link in either direction; it must be off where PFC is on."""
TRUST = "trust"
"""str: ``dscp`` or ``pcp``: what classifies an arriving packet."""
DSCP_PRIORITY = "dscp_priority"
"""tuple of 64 ints 0..7: the priority of every DSCP."""
PRIORITY_TC = "priority_tc"
"""tuple of 8 ints 0..7: the traffic class of every priority."""
TC_SCHEDULER = "tc_scheduler"
"""tuple of 8 strs ``strict`` or ``ets`` (802.1Qaz TSA), or ``vendor``."""
TC_BANDWIDTH = "tc_bandwidth_percent"
"""tuple of 8 ints, 0 for strict classes; the ets classes sum to 100."""
CABLE_LENGTH = "cable_length_m"
"""int: cable length in metres from which the NIC works out its PFC headroom."""
LOSSLESS_BUFFERS = "lossless_buffers"
"""tuple of ints, ascending: the priorities whose packets a switch port keeps in buffers with headroom."""
PRIORITY_BUFFER = "priority_buffer"
"""tuple of 8 ints: the receive buffer of every priority."""
BUFFER_SIZE = "buffer_size_bytes"
"""tuple of 8 ints: the size of every receive buffer in bytes."""
PFC = "pfc_priorities"
"""tuple of ints, ascending: the priorities with 802.1Qbb pause on, both ways."""
WATCHDOG = "pfc_watchdog"
"""tuple of ints, ascending: the priorities on which a switch port ends pause storms (PFC watchdog)."""
WATCHDOG_DETECT = "pfc_watchdog_detect_ms"
"""int: time without a packet sent, in milliseconds, after which a paused queue counts as stormed."""
WATCHDOG_RESTORE = "pfc_watchdog_restore_ms"
"""int: time without a pause, in milliseconds, after which a stormed queue works again."""
WATCHDOG_POLL = "pfc_watchdog_poll_ms"
"""int: how often the switch looks, in milliseconds; the same for all its ports."""
WATCHDOG_ACTION = "pfc_watchdog_action"
"""str: what becomes of a stormed queue's packets, ``drop`` or ``forward``."""
ECN = "ecn"
"""bool: whether the lossless queue marks."""
ECN_KMIN = "ecn_kmin_bytes"
"""int: average queue length at which marking begins, in bytes."""
ECN_KMAX = "ecn_kmax_bytes"
"""int: average queue length from which every packet is marked, in bytes."""
ECN_PMAX = "ecn_pmax_percent"
"""int 0..100: marking probability at Kmax."""
CNP_DSCP = "cnp_dscp"
"""int 0..63: DSCP of the congestion notifications that the NIC sends."""
CNP_PRIORITY = "cnp_priority"
"""int 0..7: 802.1p priority of the congestion notifications that the NIC sends."""
DCQCN = "dcqcn"
"""bool: whether the NIC answers marks with notifications, and slows down for them, on the lossless
priority."""
ROCE_MODE = "roce_mode"
"""str: default RoCE mode of rdma_cm, ``RoCE v2`` or ``IB/RoCE v1``."""
ROCE_TOS = "roce_tos"
"""int 0..255: default type of service of rdma_cm (DSCP << 2, plus ECN bits)."""
MTU_KEPT = "mtu_kept"
"""str: MTU in bytes that the host's own network manager gives the port at boot and at every reconnect, in
decimal; ``none`` if it says nothing about it."""
BOOT = "boot"
"""str: SHA-256 of the script that sets the port again at boot, ``none`` if a reboot would lose it; on a
switch that saves its configuration itself, ``saved`` if what is saved sets the port as it is now."""

SAVED = "saved"
NOT_KEPT = "none"
"""Values of ``boot``: the device's own saved configuration holds it; a reboot loses it."""

SAFE_ORDER: tuple[str, ...] = (
    MTU,
    PAUSE,
    TRUST,
    DSCP_PRIORITY,
    PRIORITY_TC,
    TC_SCHEDULER,
    TC_BANDWIDTH,
    CABLE_LENGTH,
    LOSSLESS_BUFFERS,
    PRIORITY_BUFFER,
    BUFFER_SIZE,
    PFC,
    ECN,
    ECN_KMIN,
    ECN_KMAX,
    ECN_PMAX,
    WATCHDOG,
    WATCHDOG_DETECT,
    WATCHDOG_RESTORE,
    WATCHDOG_POLL,
    WATCHDOG_ACTION,
    CNP_DSCP,
    CNP_PRIORITY,
    DCQCN,
    ROCE_MODE,
    ROCE_TOS,
    MTU_KEPT,
    BOOT,
)
"""Classification and buffers before PFC, PFC before ECN, the watchdog after them, persistence last.

Names that are not listed go with DCQCN, before it: they are its parameters and the like.
"""

KEPT: frozenset[str] = frozenset({MTU_KEPT, BOOT})
"""Settings that only say what a reboot brings: they follow once a change is confirmed."""


def safe_rank(setting: str) -> int:
    """Return the place of `setting` in the safe order."""
    if setting in SAFE_ORDER:
        return SAFE_ORDER.index(setting)
    return SAFE_ORDER.index(DCQCN) - 1
