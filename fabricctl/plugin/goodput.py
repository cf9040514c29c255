"""How much of a line rate can be payload: every packet carries headers, and there are gaps between packets.

Bytes on the line, for each packet besides its payload:

- RoCE v2 (IBTA Architecture Specification, Annex A17; IEEE 802.3 clause 4): preamble 8, Ethernet 14, IPv4 20,
  UDP 8, base transport header (BTH) 12, invariant CRC 4, frame check sequence 4, interframe gap 12: 82 bytes.
- InfiniBand (IBTA Architecture Specification, Volume 1, chapter 5) within a subnet: local route header 8,
  BTH 12, invariant CRC 4, variant CRC 2: 26 bytes.

A message adds what only its first packet has: 16 bytes for a WRITE (RETH), or in the first and the last of
several packets 4 for a READ's responses (AETH); nothing for a SEND. Acknowledgements and the READ's requests
go the other way. What is not counted makes the true share smaller, never larger: a VLAN tag (4 bytes), IPv6
(20 more), a global route header (40), acknowledgements of the other direction, encoding where the speed's
name is that of the signals (InfiniBand up to QDR).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from fabricctl.model.fabric import LinkLayer

ROCE_BYTES = 8 + 14 + 20 + 8 + 12 + 4 + 4 + 12
INFINIBAND_BYTES = 8 + 12 + 4 + 2
PACKET_BYTES = {LinkLayer.ETHERNET: ROCE_BYTES, LinkLayer.INFINIBAND: INFINIBAND_BYTES}
"""What each packet has besides its payload."""
RETH_BYTES = 16
AETH_BYTES = 4


class Operation(Enum):
    """What moves the payload."""

    READ = "READ"
    WRITE = "WRITE"
    SEND = "SEND"


def goodput_share(sizes: Sequence[int], path_mtu_bytes: int, layer: LinkLayer, operation: Operation) -> float:
    """Return the largest share of the line rate that payload can have, 0 < share < 1.

    Parameters
    ----------
    sizes
        Of messages in bytes, 1 or more each, as many of one size as of another.
    path_mtu_bytes
        Largest payload of a packet.
    """
    line = sum(_line_bytes(size, path_mtu_bytes, layer, operation) for size in sizes)
    return sum(sizes) / line


def _line_bytes(size: int, path_mtu_bytes: int, layer: LinkLayer, operation: Operation) -> int:
    packets = -(-size // path_mtu_bytes)
    extra = {
        Operation.WRITE: RETH_BYTES,
        Operation.READ: AETH_BYTES * min(packets, 2),
        Operation.SEND: 0,
    }[operation]
    return size + packets * PACKET_BYTES[layer] + extra
