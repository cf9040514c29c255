"""What a policy says of links and hosts: the section ``links``."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from fabricctl import resources
from fabricctl.inventory import InventoryFileError
from fabricctl.inventory.policy import read_policy
from fabricctl.inventory.policy_schema import LinksFile
from fabricctl.model.policy import LinkPolicy

SOUND = (Path(__file__).parent / "sound_policy.yml").read_text()

ALL = """\
links:
  interval: 30s
  stable: 1h
  errors_per_s: 0.5
  discards_per_s: 10
  storms_per_s: 0.01
  pause_percent: 12.5
  congestion_per_s: 1000
  uplink_ratio: 1.5
  ib_width: 8
  subnet_managers: [node1, '0x0c42a10300000031']
  symbol_ber: 1.0e-14
  effective_ber: 1e-13
  memlock: 64GiB
  open_files: 131072
  clock_skew_s: 0.25
  max_read_request: 4096
  acs: off
  relaxed_ordering: on
  gpu_direct: either
  numa_affinity: yes
  rails_in_order: true
"""


def links(folder: Path, text: str) -> LinkPolicy:
    path = folder / "policy.yml"
    path.write_text(f"{SOUND}{text}\n")
    return read_policy(path).links


def test_every_key(tmp_path: Path) -> None:
    assert links(tmp_path, ALL) == LinkPolicy(
        interval_s=30,
        stable_s=3600,
        error_per_s=0.5,
        discard_per_s=10.0,
        storm_per_s=0.01,
        pause_percent=12.5,
        congestion_per_s=1000.0,
        uplink_ratio=1.5,
        ib_width=8,
        subnet_managers=("node1", "0x0c42a10300000031"),
        symbol_ber=1e-14,
        effective_ber=1e-13,
        memlock_bytes=64 << 30,
        open_files=131072,
        clock_skew_s=0.25,
        max_read_request_bytes=4096,
        acs="off",
        relaxed_ordering="on",
        gpu_direct="either",
        numa_affinity=True,
        rails_in_order=True,
    )
    assert set(yaml.safe_load(ALL)["links"]) == set(LinksFile.model_fields)
    assert len(LinksFile.model_fields) == len(fields(LinkPolicy))


@pytest.mark.parametrize("text", ["", "links: {}"])
def test_what_is_not_said_is_the_model_s_own(tmp_path: Path, text: str) -> None:
    assert links(tmp_path, text) == LinkPolicy()


@pytest.mark.parametrize(
    ("word", "meant"),
    [("on", "on"), ("off", "off"), ("yes", "on"), ("no", "off"), ("'on'", "on"), ("any", "any")],
)
@pytest.mark.parametrize("key", ["acs", "relaxed_ordering"])
def test_on_and_off_are_words_though_yaml_reads_yes_and_no(
    tmp_path: Path, key: str, word: str, meant: str
) -> None:
    assert getattr(links(tmp_path, f"links: {{{key}: {word}}}"), key) == meant


@pytest.mark.parametrize(
    ("said", "meant"),
    [("unlimited", None), ("64", 64), ("8MiB", 8 << 20), ("1GB", 1_000_000_000), ("0", 0)],
)
def test_locked_memory(tmp_path: Path, said: str, meant: int | None) -> None:
    assert links(tmp_path, f"links: {{memlock: {said}}}").memlock_bytes == meant


@pytest.mark.parametrize("said", ["0", "512"])
def test_a_read_request_of_any_size_or_a_power_of_two(tmp_path: Path, said: str) -> None:
    assert links(tmp_path, f"links: {{max_read_request: {said}}}").max_read_request_bytes == int(said)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("interval: 0", "interval: must be at least 1"),
        ("interval: 2h", "interval: must be at most 3600"),
        ("stable: 4000d", "stable: must be at most 3650d (10 years)"),
        ("errors_per_s: yes", "errors_per_s: must be a number, not yes or no"),
        ("errors_per_s: .nan", "errors_per_s: must be at least 0"),
        ("discards_per_s: -1", "discards_per_s: must be at least 0"),
        ("storms_per_s: .inf", "storms_per_s: must be at most 1e+12"),
        ("pause_percent: 101", "pause_percent: must be at most 100"),
        ("congestion_per_s: lots", "congestion_per_s: must be a number"),
        ("ib_width: 3", "ib_width: must be one of 1, 2, 4, 8, 12"),
        ("ib_width: yes", "ib_width: must be a number, not yes or no"),
        ("subnet_managers: node1", "subnet_managers: must be a list"),
        ("subnet_managers: ['']", "subnet_managers[0]: must not be empty"),
        ("symbol_ber: 0", "symbol_ber: must be more than 0"),
        ("effective_ber: 1", "effective_ber: must be less than 1"),
        (
            "memlock: unlimted",
            (
                "memlock: must be a size in bytes, or with KB, MB, GB (1000s) or KiB, MiB, GiB (1024s): "
                "100KB; or unlimited"
            ),
        ),
        ("open_files: 1.5", "open_files: must be a whole number"),
        ("clock_skew_s: 0", "clock_skew_s: must be more than 0"),
        ("clock_skew_s: 1s", "clock_skew_s: must be a number"),
        ("max_read_request: 500", "max_read_request: must be one of 0, 128, 256, 512, 1024, 2048, 4096"),
        ("max_read_request: off", "max_read_request: must be a number, not yes or no"),
        ("acs: of", "acs: must be one of on, off, any; did you mean off?"),
        ("relaxed_ordering: 1", "relaxed_ordering: must be one of on, off, any"),
        (
            "gpu_direct: peermen",
            "gpu_direct: must be one of peermem, dmabuf, either, none, any; did you mean peermem?",
        ),
        ("numa_affinity: maybe", "numa_affinity: must be yes or no"),
        ("memlok: unlimited", "memlok: unknown key; did you mean memlock?"),
    ],
)
def test_a_mistake_is_named_with_file_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("policy.yml").write_text(f"{SOUND}links:\n  {given}\n")
    with pytest.raises(InventoryFileError) as caught:
        read_policy(Path("policy.yml"))
    assert caught.value.lines == (f"policy.yml:14: links.{says}",)


@pytest.mark.parametrize("given", ["[]", "off", "~"])
def test_it_is_a_mapping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("policy.yml").write_text(f"{SOUND}links: {given}\n")
    with pytest.raises(InventoryFileError) as caught:
        read_policy(Path("policy.yml"))
    assert caught.value.lines == ("policy.yml:13: links: must be a mapping",)


def test_the_starter_shows_every_key_with_its_default(tmp_path: Path) -> None:
    text = (resources.folder("inventories") / "starter" / "policy.yml").read_text(encoding="utf-8")
    shown = [line.removeprefix("# ") for line in text[text.index("# links:") :].splitlines()]
    given: dict[str, Any] = yaml.safe_load("\n".join(shown))["links"]
    assert set(given) == set(LinksFile.model_fields)
    assert links(tmp_path, yaml.safe_dump({"links": given})) == LinkPolicy()


def test_the_manual_names_every_key() -> None:
    manual = (Path(__file__).parents[3] / "docs" / "policy.md").read_text(encoding="utf-8")
    assert [key for key in LinksFile.model_fields if f"`links.{key}`" not in manual] == []
