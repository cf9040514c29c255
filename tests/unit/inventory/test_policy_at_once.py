"""All that can be found wrong with a policy is said in one go, without what only follows from the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fabricctl.inventory.policy import read_policy
from fabricctl.inventory.policy_schema import PolicyFile
from fabricctl.inventory.problems import InventoryFileError
from fabricctl.model.policy import Policy

SOUND = (Path(__file__).parent / "sound_policy.yml").read_text()

PAUSED = (
    "PFC pauses priority 4: notifications would wait with what they relieve; "
    "choose another, or take it out of pfc_priorities"
)


def _says(folder: Path, text: str) -> list[str]:
    path = folder / "policy.yml"
    path.write_text(text)
    with pytest.raises(InventoryFileError) as caught:
        read_policy(path)
    return [line.removeprefix(f"{folder}/") for line in caught.value.lines]


def test_four_mistakes_between_values_are_four_lines(tmp_path: Path) -> None:
    text = SOUND.replace("kmin: 100KB", "kmin: 500KB").replace("cnp: {priority: 6", "cnp: {priority: 4")
    text = text.replace("pfc_priorities: [3]", "pfc_priorities: [3, 4]")
    more = "pfc_watchdog: {poll_ms: 300, detect_ms: 400}\nclass_weights: {3: 50, 0: 60}\n"
    assert _says(tmp_path, text + more) == [
        f"policy.yml:3: cnp.priority: {PAUSED}",
        "policy.yml:7: ecn.default: kmin (500000 bytes) must be less than kmax (400000 bytes)",
        "policy.yml:13: pfc_watchdog: detect_ms 400 must be at least twice poll_ms 300",
        "policy.yml:14: class_weights: the weights sum to 110, not to 100",
    ]


def test_mistakes_in_values_and_between_others_come_together(tmp_path: Path) -> None:
    text = SOUND.replace("pmax: 20", "pmax: 200").replace("switch_bytes: 9216", "switch_bytes: 8000")
    text = text.replace("ecn:\n", "ecn:\n  400: {kmin: 2KB, kmax: 1KB, pmax: 1}\n")
    text = text.replace("dscp: 48", "dscp: 26").replace("name: site\n", "")
    assert [line.partition("; ")[0] for line in _says(tmp_path, text + "gate: {max_age: 7days}\n")] == [
        "policy.yml:1: name: is missing",
        "policy.yml:2: cnp.dscp: 26 is the DSCP of the lossless class already",
        "policy.yml:3: mtu: switch_bytes 8000 is less than nic_bytes 9000",
        "policy.yml:6: ecn[400]: kmin (2000 bytes) must be less than kmax (1000 bytes)",
        "policy.yml:7: ecn.default.pmax: must be at most 100",
        "policy.yml:13: gate.max_age: must be a number of seconds, or with s, m, h, d or w: 7d",
    ]


def test_several_mistakes_in_one_part_are_several_lines(tmp_path: Path) -> None:
    mtu = "nic_bytes: 4000, switch_bytes: 3000"
    text = SOUND.replace("nic_bytes: 9000, switch_bytes: 9216", mtu)
    more = "pfc_watchdog: {poll_ms: 300, detect_ms: 400, restore_ms: 100}\n"
    more += "nic_buffers: {priority: {3: 1, 4: 2}, bytes: {0: 1}}\n"
    assert [line.split(": ", 1)[1] for line in _says(tmp_path, text + more)] == [
        "mtu: rdma_bytes 4096 needs nic_bytes 4192 or more, not 4000",
        "mtu: switch_bytes 3000 is less than nic_bytes 4000",
        "pfc_watchdog: detect_ms 400 must be at least twice poll_ms 300",
        "pfc_watchdog: restore_ms 100 must not be below poll_ms 300",
        "nic_buffers: priority 3 is sent to buffer 1, which has no size in bytes",
        "nic_buffers: priority 4 is sent to buffer 2, which has no size in bytes",
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("lossless: {", "losless: {"),
        ("pfc_priorities: [3]", "pfc_priorities: [3, 9]"),
        ("pfc_priorities: [3]", "pfc_prioritys: [3]"),
        ("priority: 3, dscp: 26", "priority: 3, dscp: 64"),
        ("priority: 6, dscp: 48", "priority: 6"),
        ("ecn:\n  default: {", "ecn:\n  dfault: {"),
        ("poll_ms: 300", "poll_ms: 5"),
        ("mtu: {nic_bytes: 9000,", "mtu: {nic_bytes: 9000000,"),
        ("mtu: {", "mtu: 9000 #{"),
        ("any: {p50_us: 10, p99_us: 30}", "any: {p50_us: x}"),
        ("loss: {bound_rate: 0.001}", "loss: {bound_rate: 2, max_rate: 0.5}"),
        ("bytes: {0: 5, 1: 5}", "bytes: {0: 5, 1: none}"),
        ("class_weights: {3: 50}", "class_weights: {3: 500}"),
        ("site", "[]"),
    ],
)
def test_what_only_follows_from_a_mistake_is_not_said(tmp_path: Path, old: str, new: str) -> None:
    more = """\
pfc_watchdog: {poll_ms: 300, detect_ms: 800}
class_weights: {3: 50}
dcqcn: on
nic_parameters: {mlx5: {traffic_class: 106}}
nic_buffers: {priority: {3: 1}, bytes: {0: 5, 1: 5}}
"""
    text = SOUND + more
    read_policy(_written(tmp_path, text))
    assert text.count(old) == 1
    said = _says(tmp_path, text.replace(old, new))
    lines = {line.split(":")[1] for line in said}
    assert len(lines) == 1, said


def _written(folder: Path, text: str) -> Path:
    (folder / "policy.yml").write_text(text)
    return folder / "policy.yml"


_ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 12) | st.floats() | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.integers(0, 9) | st.text(max_size=2), inner)
    ),
    max_leaves=4,
)


@given(
    st.dictionaries(st.sampled_from([*PolicyFile.model_fields, "x", 3, None]), _ODD, max_size=8),
    st.sampled_from(["", SOUND]),
)
def test_whatever_stands_there_is_refused_or_read(
    tmp_path_factory: pytest.TempPathFactory, odd: dict[Any, Any], base: str
) -> None:
    values = {**(yaml.safe_load(base) or {}), **odd}
    path = tmp_path_factory.mktemp("odd") / "policy.yml"
    path.write_text(yaml.safe_dump(values))
    said: Policy | tuple[str, ...]
    try:
        said = read_policy(path)
    except InventoryFileError as exc:
        said = exc.lines
    assert said
