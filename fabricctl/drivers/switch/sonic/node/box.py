"""What is so of the whole switch and stands in files of its image, not in CONFIG_DB."""

from __future__ import annotations

import re

from fabricctl.drivers.switch.sonic.node.chain import Box, metadata
from fabricctl.drivers.switch.sonic.node.tables import Config

VERSION_FILE = "/etc/sonic/sonic_version.yml"
DEVICE_FOLDER = "/usr/share/sonic/device"
_PART = re.compile(r"[A-Za-z0-9_.+-]{1,80}")
_SCALAR = re.compile(r"^(\w+):\s*['\"]?([^'\"]*?)['\"]?\s*$", re.MULTILINE)
_ASICS = re.compile(r"^NUM_ASIC=(\d+)", re.MULTILINE)


def version_of(text: str) -> dict[str, str]:
    """Return what ``sonic_version.yml`` says: ``build_version``, ``asic_type``, ..."""
    return {key: value.strip() for key, value in _SCALAR.findall(text)}


def lookup_rows(text: str) -> dict[str, list[str]]:
    """Return by speed in Mb/s the cable lengths that ``pg_profile_lookup.ini`` has."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) > 1 and words[0].isdigit() and re.fullmatch(r"\d+m", words[1]):
            found.setdefault(words[0], []).append(words[1])
    return found


def box_of(config: Config, version: str, asics: str, lookup: str) -> Box:
    """Return what the texts of ``sonic_version.yml``, ``asic.conf`` and ``pg_profile_lookup.ini`` say."""
    several = [int(each) for each in _ASICS.findall(asics)]
    kind = metadata(config).get("switch_type", "")
    refusal = ""
    if several and several[0] > 1:
        refusal = f"the switch has {several[0]} ASICs, each with a configuration of its own: not supported"
    elif kind in {"voq", "chassis-packet", "fabric"}:
        refusal = f"the switch is part of a chassis (switch_type {kind}): not supported"
    rows = {speed: tuple(lengths) for speed, lengths in lookup_rows(lookup).items()}
    return Box(version_of(version).get("asic_type", ""), rows, refusal)


def folders(config: Config) -> list[str]:
    """Return the folders of this platform and of its hardware SKU; empty if their names are none."""
    said = metadata(config)
    platform, sku = said.get("platform", ""), said.get("hwsku", "")
    if not _PART.fullmatch(platform) or not _PART.fullmatch(sku) or {".", ".."} & {platform, sku}:
        return []
    return [f"{DEVICE_FOLDER}/{platform}", f"{DEVICE_FOLDER}/{platform}/{sku}"]
