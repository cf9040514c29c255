"""The names of facts: what is true of a port or a device and is not set by us.

Port facts
----------
"""

from __future__ import annotations

LINK_STATE = "link_state"
"""str: ``up`` or ``down`` (carrier)."""
SPEED = "speed_mbps"
"""int: negotiated speed in Mb/s."""
RDMA_DEVICE = "rdma_device"
"""str: the verbs device on this port (``mlx5_0``, ``rxe0``)."""
RDMA_STATE = "rdma_state"
"""str: ``ACTIVE``, ``DOWN``, ... of the verbs port."""
RDMA_MTU = "rdma_mtu_bytes"
"""int: active RDMA MTU, one of 256, 512, 1024, 2048, 4096."""
GIDS = "gids"
"""tuple of str ``index type gid``, one a non-empty GID table entry (``1 RoCE v2 ::ffff:10.10.0.1``)."""
MAC = "mac"
"""str: hardware address, lower case with colons."""
DRIVER = "driver"
"""str: kernel driver of the NIC (``mlx5_core``, ``rdma_rxe``)."""
FIRMWARE = "firmware"
"""str: NIC firmware version."""
PARTNER = "link_partner"
"""str: ``device/port`` as LLDP names it, or a port GUID on InfiniBand."""
LINK_DOWNS = "link_down_count"
"""int: how often carrier was lost since boot."""

PLANE = "control_plane"
"""str: what sets this port on this host: ``MLNX_OFED``, ``inbox driver``, ``niccli``, ..."""
FUNCTIONS = "functions"
"""tuple of str: the physical functions that carry the port and take its settings: itself, a bond's members,
a virtual function's parent."""
PENDING = "pending_reset"
"""tuple of str ``setting: what to do``: settings whose value was stored and holds only after a reset."""
NETWORK_MANAGER = "network_manager"
"""str: who brings the port up at boot: ``NetworkManager``, ``netplan``, ``systemd-networkd``, ``ifupdown`` or
``none``."""

HEADROOM = "headroom_bytes"
"""tuple of 8 ints: bytes of headroom (xoff) of every priority on a switch port, as the switch computed it; 0
where there is none."""
PAUSE_POINT = "pause_point_bytes"
"""tuple of 8 ints: bytes queued of every priority at which a switch port asks the other end to pause (xoff
threshold), where the switch knows it; 0 where it does not, or where it follows the free buffer."""
FEC = "fec"
"""str: forward error correction in use on the link, as the device calls it (``rs``, ``fc``, ``none``)."""
BOOT_ID = "boot_id"
"""str (device): changes with every boot."""
KERNEL = "kernel"
"""str (device): kernel release."""
RIVALS = "rivals"
"""tuple of str (device, port): who sets the same things, as the unit or the flag that stops it
(``lldpad.service``, ``firmware DCBX, willing: dcb dcbx set dev eth1 host ieee``)."""

FINGERPRINT: tuple[str, ...] = (
    DRIVER,
    FIRMWARE,
    GIDS,
    PARTNER,
    SPEED,
    LINK_DOWNS,
    RDMA_MTU,
    BOOT_ID,
    KERNEL,
)
"""What a certificate is bound to, besides the digest of the port's settings."""
