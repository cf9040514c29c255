"""How much of a line rate can be payload."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fabricctl.model.fabric import LinkLayer
from fabricctl.plugin.goodput import INFINIBAND_BYTES, ROCE_BYTES, Operation, goodput_share


def test_the_headers_of_a_packet() -> None:
    assert (ROCE_BYTES, INFINIBAND_BYTES) == (82, 26)


@pytest.mark.parametrize(
    ("sizes", "mtu", "layer", "operation", "expected"),
    [
        ((4096,), 4096, LinkLayer.ETHERNET, Operation.SEND, 4096 / 4178),
        ((4096,), 4096, LinkLayer.ETHERNET, Operation.WRITE, 4096 / 4194),
        ((4096,), 4096, LinkLayer.ETHERNET, Operation.READ, 4096 / 4182),
        ((8192,), 4096, LinkLayer.ETHERNET, Operation.READ, 8192 / (2 * 4178 + 8)),
        ((1 << 20,), 4096, LinkLayer.ETHERNET, Operation.WRITE, 1048576 / (1048576 + 256 * 82 + 16)),
        ((1 << 20,), 1024, LinkLayer.ETHERNET, Operation.WRITE, 1048576 / (1048576 + 1024 * 82 + 16)),
        ((1 << 20,), 4096, LinkLayer.INFINIBAND, Operation.SEND, 4096 / 4122),
        ((8,), 4096, LinkLayer.ETHERNET, Operation.WRITE, 8 / 106),
        ((4097,), 4096, LinkLayer.ETHERNET, Operation.SEND, 4097 / (4097 + 164)),
        ((8, 4096), 4096, LinkLayer.ETHERNET, Operation.SEND, 4104 / (4104 + 164)),
    ],
)
def test_the_share_of_known_messages(
    sizes: tuple[int, ...], mtu: int, layer: LinkLayer, operation: Operation, expected: float
) -> None:
    assert goodput_share(sizes, mtu, layer, operation) == pytest.approx(expected, rel=1e-12)


def test_small_path_mtus_cannot_fill_a_link() -> None:
    share = {
        mtu: round(goodput_share((1 << 20,), mtu, LinkLayer.ETHERNET, Operation.WRITE), 3)
        for mtu in (256, 512, 1024, 2048, 4096)
    }
    assert share == {256: 0.757, 512: 0.862, 1024: 0.926, 2048: 0.961, 4096: 0.98}


@given(
    st.lists(st.integers(1, 1 << 24), min_size=1, max_size=8),
    st.sampled_from([256, 512, 1024, 2048, 4096]),
    st.sampled_from(LinkLayer),
    st.sampled_from(Operation),
)
def test_it_is_a_share_and_grows_with_the_path_mtu(
    sizes: list[int], mtu: int, layer: LinkLayer, operation: Operation
) -> None:
    share = goodput_share(sizes, mtu, layer, operation)
    assert 0 < share < 1
    assert share <= goodput_share(sizes, 4096, layer, operation) + 1e-3  # a READ's second AETH is four bytes
