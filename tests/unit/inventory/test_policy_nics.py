"""What a policy says of NICs alone: DCQCN, receive buffers."""

from __future__ import annotations

from pathlib import Path

import pytest

from fabricctl.inventory import InventoryFileError
from fabricctl.inventory.policy import read_policy

SOUND = (Path(__file__).parent / "sound_policy.yml").read_text()


def _without(text: str, word: str) -> str:
    return "\n".join(line for line in text.splitlines() if word not in line) + "\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SOUND, True),
        (SOUND + "dcqcn: off\n", False),
        (_without(SOUND, "cnp:"), None),
        (_without(_without(SOUND, "default:"), "ecn:"), None),
        (SOUND + "dcqcn: on\n", True),
    ],
    ids=["follows from ecn and cnp", "off", "no cnp", "no ecn", "said"],
)
def test_s27_dcqcn_follows_from_ecn_and_cnp_unless_said(
    tmp_path: Path, text: str, *, expected: bool | None
) -> None:
    path = tmp_path / "policy.yml"
    path.write_text(text)
    assert read_policy(path).dcqcn is expected


def test_buffers_by_priority_and_by_number(tmp_path: Path) -> None:
    path = tmp_path / "policy.yml"
    path.write_text(SOUND + "nic_buffers: {priority: {3: 1}, bytes: {0: 130944, 1: 1KiB}}\n")
    policy = read_policy(path)
    assert policy.nic_priority_buffer == (0, 0, 0, 1, 0, 0, 0, 0)
    assert policy.nic_buffer_bytes == (130944, 1024, 0, 0, 0, 0, 0, 0)


def test_without_them_both_are_the_nics_own(tmp_path: Path) -> None:
    path = tmp_path / "policy.yml"
    path.write_text(SOUND)
    assert (read_policy(path).nic_priority_buffer, read_policy(path).nic_buffer_bytes) == ((), ())


@pytest.mark.parametrize(("nic", "fits"), [(1500, 1024), (4191, 2048), (4192, 4096), (9000, 4096)])
def test_s30_an_rdma_mtu_that_does_not_fit_the_ports_is_refused(tmp_path: Path, nic: int, fits: int) -> None:
    path = tmp_path / "policy.yml"
    mtu = SOUND.replace("nic_bytes: 9000", f"nic_bytes: {nic}")
    for rdma in (256, 512, 1024, 2048, 4096):
        path.write_text(mtu.replace("rdma_bytes: 4096", f"rdma_bytes: {rdma}"))
        if rdma <= fits:
            assert read_policy(path).mtu.rdma_bytes == rdma
            continue
        with pytest.raises(
            InventoryFileError, match=f"rdma_bytes {rdma} needs nic_bytes {rdma + 96} or more"
        ):
            read_policy(path)


def test_dcqcn_where_nothing_marks_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "policy.yml"
    path.write_text(_without(_without(SOUND, "default:"), "ecn:") + "dcqcn: on\n")
    with pytest.raises(InventoryFileError, match="dcqcn: nothing marks: without ecn no NIC has a reason"):
        read_policy(path)


@pytest.mark.parametrize("tos", [-1, 106])
def test_a_forced_type_of_service_may_be_unset_or_that_of_the_lossless_class(
    tmp_path: Path, tos: int
) -> None:
    path = tmp_path / "policy.yml"
    path.write_text(SOUND + f"nic_parameters: {{mlx5: {{traffic_class: {tos}}}}}\n")
    assert read_policy(path).nic_parameters["mlx5"]["traffic_class"] == tos
