"""Reading sysfs: ports, GID tables, counters."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabricctl.agent import sysfs
from fabricctl.agent.wire import Refusal

MAPPED = "0000:0000:0000:0000:0000:ffff:0a0a:0001"


def _port(root: Path, device: str, number: int, netdev: str, layer: str = "Ethernet") -> Path:
    port = root / "class" / "infiniband" / device / "ports" / str(number)
    for name in ("gids", "gid_attrs/types", "gid_attrs/ndevs", "hw_counters", "counters"):
        (port / name).mkdir(parents=True)
    (port / "link_layer").write_text(f"{layer}\n")
    (port / "state").write_text("4: ACTIVE\n")
    (port / "gids" / "0").write_text(f"{sysfs.NO_GID}\n")
    (port / "gids" / "2").write_text(f"{MAPPED}\n")
    (port / "gid_attrs" / "types" / "2").write_text("RoCE v2\n")
    (port / "gid_attrs" / "ndevs" / "2").write_text(f"{netdev}\n")
    return port


def test_port_is_found_by_its_netdev_on_a_device_with_two(tmp_path: Path) -> None:
    _port(tmp_path, "mlx4_0", 1, "eth1")
    _port(tmp_path, "mlx4_0", 2, "eth2")
    found = sysfs.find_port("eth2", "", tmp_path)
    assert (found.device, found.number, found.netdev) == ("mlx4_0", 2, "eth2")
    assert found.state == "ACTIVE"
    assert not found.is_infiniband


def test_s39_device_of_the_inventory_that_is_on_another_netdev_is_refused(tmp_path: Path) -> None:
    _port(tmp_path, "mlx5_0", 1, "eth2")
    _port(tmp_path, "mlx5_1", 1, "eth1")
    with pytest.raises(Refusal, match="no port of mlx5_0 is on eth1"):
        sysfs.find_port("eth1", "mlx5_0", tmp_path)


def test_no_device_says_what_to_load(tmp_path: Path) -> None:
    with pytest.raises(Refusal, match=r"no RDMA device; load .* modprobe rdma_rxe && rdma link add"):
        sysfs.find_port("eth1", "rxe0", tmp_path)


def test_infiniband_port_needs_no_netdev(tmp_path: Path) -> None:
    _port(tmp_path, "mlx5_0", 1, "", layer="InfiniBand")
    found = sysfs.find_port("ib0", "mlx5_0", tmp_path)
    assert found.is_infiniband
    assert found.netdev == ""


def test_gid_table_leaves_out_empty_entries(tmp_path: Path) -> None:
    _port(tmp_path, "rxe0", 1, "eth1")
    port = sysfs.find_port("eth1", "rxe0", tmp_path)
    assert [str(gid) for gid in sysfs.gid_table(port)] == ["2 RoCE v2 10.10.0.1"]
    assert sysfs.gid_entry(port, 0) is None


def test_counters_come_from_the_port_and_its_netdev(tmp_path: Path) -> None:
    folder = _port(tmp_path, "rxe0", 1, "eth1")
    (folder / "hw_counters" / "out_of_sequence").write_text("17\n")
    (folder / "hw_counters" / "lifespan").write_text("1\n")
    (folder / "hw_counters" / "odd").write_text("N/A (not supported)\n")
    (folder / "counters" / "port_rcv_data").write_text("99\n")
    statistics = tmp_path / "class" / "net" / "eth1" / "statistics"
    statistics.mkdir(parents=True)
    (statistics / "rx_dropped").write_text("4\n")
    port = sysfs.find_port("eth1", "rxe0", tmp_path)
    assert sysfs.counters(port) == {"out_of_sequence": 17, "port_rcv_data": 99, "netdev_rx_dropped": 4}


def test_deltas_survive_a_32_bit_wrap_and_tell_a_reset() -> None:
    before = {"same": 5, "wraps": (1 << 32) - 2, "reset": 1 << 40, "gone": 1}
    after = {"same": 5, "wraps": 3, "reset": 7, "new": 1}
    assert sysfs.deltas(before, after) == {"same": 0, "wraps": 5, "reset": None}


@pytest.mark.parametrize(
    ("before", "after", "rise"),
    [
        (5, 0, None),
        (1_000_000, 3, None),
        ((1 << 31) + 7, 7, None),
        ((1 << 31) + 8, 7, (1 << 31) - 1),
        ((1 << 32) - 1, 0, 1),
        (1 << 32, 0, None),
        (0, 1 << 40, 1 << 40),
    ],
)
def test_a_small_counter_that_fell_was_reset(before: int, after: int, rise: int | None) -> None:
    assert sysfs.deltas({"packets": before}, {"packets": after}) == {"packets": rise}
