"""A port as probes use it: which ports have a GID, which need none, and which are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabricctl.agent import sysfs
from fabricctl.agent.place import Place
from fabricctl.agent.wire import SETUP, Refusal

MAPPED = "0000:0000:0000:0000:0000:ffff:0a0a:0001"


def _place(root: Path, node_type: str, layer: str, gids: dict[int, tuple[str, str]]) -> Place:
    device = root / "class" / "infiniband" / "irdma0"
    port = device / "ports" / "1"
    for folder in ("gids", "gid_attrs/types", "gid_attrs/ndevs"):
        (port / folder).mkdir(parents=True)
    (device / "node_type").write_text(f"{node_type}\n")
    (port / "link_layer").write_text(f"{layer}\n")
    for index, (gid, kind) in {0: (sysfs.NO_GID, ""), **gids}.items():
        (port / "gids" / str(index)).write_text(f"{gid}\n")
        (port / "gid_attrs" / "types" / str(index)).write_text(f"{kind}\n")
        (port / "gid_attrs" / "ndevs" / str(index)).write_text("eth1\n")
    return Place("eth1" if layer == "Ethernet" else "irdma0", "irdma0", "10.10.0.1/24")


@pytest.fixture(autouse=True)
def _root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sysfs, "ROOT", tmp_path)


@pytest.mark.parametrize(
    "gids",
    [
        {},
        {0: ("0200:0000:0000:0000:0000:0000:0000:0000", "IB/RoCE v1")},
        {1: (MAPPED, "RoCE v2")},
    ],
)
def test_an_iwarp_port_is_refused_with_the_true_reason_whatever_its_gids(
    tmp_path: Path, gids: dict[int, tuple[str, str]]
) -> None:
    place = _place(tmp_path, "4: RNIC", "Ethernet", {0: (MAPPED, "IB/RoCE v1"), **gids})
    with pytest.raises(Refusal) as caught:
        place.gid()
    assert caught.value.kind == SETUP
    assert caught.value.text == (
        "irdma0 is an iWARP device: its queue pairs are connected by rdma_cm only, which the probes do not"
        " do yet"
    )


def test_a_roce_port_has_the_gid_of_its_address(tmp_path: Path) -> None:
    gid = _place(tmp_path, "1: CA", "Ethernet", {3: (MAPPED, "RoCE v2")}).gid()
    assert gid is not None
    assert (gid.index, str(gid.address)) == (3, "10.10.0.1")


def test_infiniband_needs_none(tmp_path: Path) -> None:
    assert _place(tmp_path, "1: CA", "InfiniBand", {}).gid() is None
