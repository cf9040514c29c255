"""The choice of the GID, by the field reports it must get right."""

from __future__ import annotations

import pytest

from fabricctl.agent.gid import Gid, choose
from fabricctl.agent.wire import Refusal

V1, V2 = "IB/RoCE v1", "RoCE v2"
LOCAL = "fe80:0000:0000:0000:0202:c9ff:fe00:0001"
MAPPED = "0000:0000:0000:0000:0000:ffff:0a0a:0001"  # 10.10.0.1
OTHER = "0000:0000:0000:0000:0000:ffff:0a0a:0063"  # 10.10.0.99
ELSEWHERE = "0000:0000:0000:0000:0000:ffff:c0a8:0101"  # 192.168.1.1
ULA = "fd00:0000:0000:0000:0000:0000:0000:0001"


def _table(*rows: tuple[int, str, str, str]) -> list[Gid]:
    return [Gid(*row) for row in rows]


def test_s01_hosts_with_different_indexes_choose_by_address_not_by_index() -> None:
    one = _table(
        (0, LOCAL, V1, "eth1"), (1, LOCAL, V2, "eth1"), (2, MAPPED, V1, "eth1"), (3, MAPPED, V2, "eth1")
    )
    two = _table((0, MAPPED, V2, "eth1"))
    assert choose(one, "eth1", "10.10.0.1/24").index == 3
    assert choose(two, "eth1", "10.10.0.1/24").index == 0


def test_s03_all_ipv6_takes_the_unique_local_address_not_link_local() -> None:
    table = _table((0, LOCAL, V1, "eth1"), (1, LOCAL, V2, "eth1"), (2, ULA, V2, "eth1"))
    assert choose(table, "eth1", "fd00::1/64").index == 2
    assert choose(table, "eth1", "").index == 2


def test_s03_expected_ipv4_that_is_not_there_is_said_with_what_is() -> None:
    table = _table((0, LOCAL, V1, "eth1"), (1, LOCAL, V2, "eth1"), (2, ULA, V2, "eth1"))
    with pytest.raises(Refusal) as caught:
        choose(table, "eth1", "10.10.0.1/24")
    assert caught.value.kind == "setup"
    assert caught.value.text == (
        "no RoCE v2 GID of eth1 in 10.10.0.0/24; the port has: 0 IB/RoCE v1 fe80::202:c9ff:fe00:1 on eth1,"
        " 1 RoCE v2 fe80::202:c9ff:fe00:1 on eth1, 2 RoCE v2 fd00::1 on eth1;"
        " give eth1 the address 10.10.0.1/24 of the inventory, or correct the inventory"
    )


def test_s04_link_local_version_2_never_wins_over_global() -> None:
    table = _table((0, LOCAL, V2, "eth1"), (5, ULA, V2, "eth1"))
    assert choose(table, "eth1", "").index == 5


def test_s04_only_link_local_is_refused() -> None:
    with pytest.raises(Refusal, match="no global RoCE v2 GID on eth1"):
        choose(_table((0, LOCAL, V2, "eth1")), "eth1", "")


def test_s08_after_a_flap_the_new_index_is_found() -> None:
    before = _table((3, MAPPED, V2, "eth1"))
    after = _table((7, MAPPED, V2, "eth1"))
    assert choose(before, "eth1", "10.10.0.1/24").index == 3
    assert choose(after, "eth1", "10.10.0.1/24").index == 7


def test_the_very_address_wins_over_a_lower_index_in_the_subnet() -> None:
    table = _table((1, OTHER, V2, "eth1"), (2, MAPPED, V2, "eth1"))
    assert choose(table, "eth1", "10.10.0.1/24").index == 2
    assert choose(table, "eth1", "10.10.0.7/24").index == 1


def test_other_subnets_and_other_netdevs_are_left_alone() -> None:
    table = _table((0, ELSEWHERE, V2, "eth1"), (1, MAPPED, V2, "eth1.100"), (2, MAPPED, V2, "macvlan0"))
    with pytest.raises(Refusal, match=r"1 RoCE v2 10\.10\.0\.1 on eth1\.100"):
        choose(table, "eth1", "10.10.0.1/24")


def test_without_an_address_ipv4_comes_before_ipv6() -> None:
    table = _table((1, ULA, V2, "eth1"), (2, MAPPED, V2, "eth1"))
    assert choose(table, "eth1", "").index == 2


def test_empty_table_says_none() -> None:
    with pytest.raises(Refusal, match="the port has: none"):
        choose([], "eth1", "10.10.0.1/24")
