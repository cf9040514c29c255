"""What a policy says of bandwidth: ``limits.bandwidth`` and its relatives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from fabricctl.inventory import InventoryFileError
from fabricctl.inventory.policy import read_policy
from fabricctl.model.policy import BandwidthLimit, Limits

SOUND: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "sound_policy.yml").read_text())
MTU = {"nic_bytes": 9000, "switch_bytes": 9216, "rdma_bytes": 4096}


def limits(folder: Path, given: dict[str, Any], **others: Any) -> Limits:
    path = folder / "policy.yml"
    path.write_text(
        yaml.safe_dump(
            {**SOUND, "mtu": MTU, **others, "limits": {**SOUND["limits"], **given}}, sort_keys=False
        )
    )
    return read_policy(path).limits


def refused(folder: Path, given: dict[str, Any], **others: Any) -> list[str]:
    with pytest.raises(InventoryFileError) as caught:
        limits(folder, given, **others)
    return [str(caught.value), *(str(other) for other in caught.value.others)]


def test_every_key(tmp_path: Path) -> None:
    found = limits(
        tmp_path,
        {
            "bandwidth": {
                "write_bandwidth": {
                    "same_leaf": {"min_share": 0.95},
                    "any": {"min_share": 0.9, "min_gbps": 80},
                },
                "send_bandwidth": {"any": {"min_gbps": 0.5}},
            },
            "bandwidth_seconds": 0.25,
            "bandwidth_queue_pairs": 4,
            "bandwidth_sizes": ["64KiB", "1MiB", 100],
            "bandwidth_depth": 32,
        },
    )
    assert found.bandwidth == (
        BandwidthLimit("write_bandwidth", 0.95, None, "same_leaf"),
        BandwidthLimit("write_bandwidth", 0.9, 80.0, "any"),
        BandwidthLimit("send_bandwidth", None, 0.5, "any"),
    )
    assert (found.bandwidth_seconds, found.bandwidth_queue_pairs, found.bandwidth_depth) == (0.25, 4, 32)
    assert found.bandwidth_sizes == (65_536, 1_048_576, 100)
    assert {"write_bandwidth", "send_bandwidth"} <= found.limited


def test_nothing_said_is_the_model_s_default(tmp_path: Path) -> None:
    found, default = limits(tmp_path, {}), Limits((), None)
    for name in ("", "_seconds", "_queue_pairs", "_sizes", "_depth"):
        assert getattr(found, f"bandwidth{name}") == getattr(default, f"bandwidth{name}")


def test_a_bandwidth_limit_alone_certifies(tmp_path: Path) -> None:
    path = tmp_path / "policy.yml"
    policy = {**SOUND, "limits": {"bandwidth": {"write_bandwidth": {"any": {"min_gbps": 80}}}}}
    path.write_text(yaml.safe_dump(policy))
    assert read_policy(path).limits.limited == {"write_bandwidth"}
    path.write_text(yaml.safe_dump({**policy, "limits": {"bandwidth": {}}}))
    with pytest.raises(InventoryFileError, match="no latency, loss or bandwidth limit"):
        read_policy(path)


@pytest.mark.parametrize(
    ("given", "where", "what"),
    [
        ({"bandwidth_seconds": 0.04}, "limits.bandwidth_seconds", "must be at least 0.05"),
        ({"bandwidth_seconds": 61}, "limits.bandwidth_seconds", "must be at most 60"),
        ({"bandwidth_seconds": True}, "limits.bandwidth_seconds", "must be a number, not yes or no"),
        ({"bandwidth_seconds": float("nan")}, "limits.bandwidth_seconds", "must be"),
        ({"bandwidth_queue_pairs": 0}, "limits.bandwidth_queue_pairs", "must be at least 1"),
        ({"bandwidth_queue_pairs": 65}, "limits.bandwidth_queue_pairs", "must be at most 64"),
        ({"bandwidth_depth": 0}, "limits.bandwidth_depth", "must be at least 1"),
        ({"bandwidth_sizes": []}, "limits.bandwidth_sizes", "must have 1 to 16 entries"),
        ({"bandwidth_sizes": ["1MiB"] * 17}, "limits.bandwidth_sizes", "must have 1 to 16 entries"),
        ({"bandwidth_sizes": [0, "1MiB"]}, "limits.bandwidth_sizes[0]", "must be at least 1"),
        ({"bandwidth_sizes": ["1mb"]}, "limits.bandwidth_sizes[0]", "must be a size in bytes"),
        (
            {"bandwidth_sizes": [8, 4096]},
            "limits.bandwidth_sizes",
            "no message is longer than the path MTU (4096 bytes): an MTU hole would pass",
        ),
        (
            {"bandwidth": {"write_bandwith": {"any": {"min_gbps": 1}}}},
            "limits.bandwidth.write_bandwith",
            "there is no such probe; did you mean write_bandwidth?",
        ),
        (
            {"bandwidth": {"read_latency": {"any": {"min_gbps": 1}}}},
            "limits.bandwidth.read_latency",
            "measures no bandwidth",
        ),
        (
            {"latency": {"write_bandwidth": {"any": {"p50_us": 5}}}},
            "limits.latency.write_bandwidth",
            "has no latency; limit it below limits.bandwidth: write_bandwidth",
        ),
        (
            {"bandwidth": {"write_bandwidth": {"any": {}}}},
            "limits.bandwidth.write_bandwidth.any",
            "limits nothing; give min_share or min_gbps",
        ),
        (
            {"bandwidth": {"write_bandwidth": {"same_lead": {"min_gbps": 1}}}},
            "limits.bandwidth.write_bandwidth.same_lead",
            "must be one of any, loopback, same_leaf",
        ),
        (
            {"bandwidth": {"write_bandwidth": {"any": {"min_share": 0}}}},
            "limits.bandwidth.write_bandwidth.any.min_share",
            "must be more than 0",
        ),
        (
            {"bandwidth": {"write_bandwidth": {"any": {"min_share": 1.01}}}},
            "limits.bandwidth.write_bandwidth.any.min_share",
            "must be at most 1",
        ),
        (
            {"bandwidth": {"write_bandwidth": {"any": {"min_share": 90}}}},
            "limits.bandwidth.write_bandwidth.any.min_share",
            "must be at most 1",
        ),
        (
            {"bandwidth": {"write_bandwidth": {"any": {"min_gbps": 0}}}},
            "limits.bandwidth.write_bandwidth.any.min_gbps",
            "must be more than 0",
        ),
        (
            {"bandwidth": {"write_bandwidth": {"any": {"min_shar": 0.5}}}},
            "limits.bandwidth.write_bandwidth.any.min_shar",
            "unknown key; did you mean min_share?",
        ),
        (
            {"bandwidth": {"write_bandwidth": {"any": {"min_share": 0.99}}}},
            "limits.bandwidth.write_bandwidth.any.min_share",
            "0.99 of the line rate cannot be reached: at a path MTU of 4096 and with these sizes no more",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path: Path, given: dict[str, Any], where: str, what: str) -> None:
    (said,) = [line for line in refused(tmp_path, given) if f"{where}: " in line]
    assert "policy.yml:" in said
    assert f"{where}: {what}" in said


@pytest.mark.parametrize(
    ("mtu", "share", "possible"),
    [(4096, 0.98, True), (4096, 0.981, False), (1024, 0.92, True), (1024, 0.95, False), (256, 0.76, False)],
)
def test_a_share_is_held_against_the_path_mtu(tmp_path: Path, mtu: int, share: float, possible: bool) -> None:  # noqa: FBT001
    given = {"bandwidth": {"write_bandwidth": {"any": {"min_share": share}}}}
    others = {"mtu": {**MTU, "rdma_bytes": mtu}}
    if possible:
        assert limits(tmp_path, given, **others).bandwidth[0].min_share == share
    else:
        assert "cannot be reached" in refused(tmp_path, given, **others)[0]
