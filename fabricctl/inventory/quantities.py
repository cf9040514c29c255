"""Sizes and durations as people write them: ``100KB``, ``4MiB``, ``7d``."""

from __future__ import annotations

import re

_BYTES = {
    "": 1,
    "B": 1,
    "KB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
    "KiB": 1024,
    "MiB": 1024**2,
    "GiB": 1024**3,
}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600, "w": 7 * 24 * 3600}
_NUMBER_UNIT = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)\s*([A-Za-z]*)")


def size_bytes(text: object) -> int:
    """Return a size in bytes from a whole number of bytes or a text such as ``100KB`` or ``1.5MiB``.

    ``KB MB GB`` are powers of 1000, ``KiB MiB GiB`` powers of 1024; capitals matter.

    Raises
    ------
    ValueError
        It is no such size, or no whole number of bytes.
    """
    wanted = "a size in bytes, or with KB, MB, GB (1000s) or KiB, MiB, GiB (1024s): 100KB"
    return _whole(text, _BYTES, bare="", wanted=wanted)


def duration_s(text: object) -> int:
    """Return a duration in seconds from a whole number of seconds or a text such as ``90s``, ``12h``, ``7d``.

    Raises
    ------
    ValueError
        It is no such duration, or no whole number of seconds.
    """
    wanted = "a number of seconds, or with s, m, h, d or w: 7d"
    return _whole(text, _SECONDS, bare="s", wanted=wanted)


def _whole(text: object, units: dict[str, int], *, bare: str, wanted: str) -> int:
    if isinstance(text, bool) or not isinstance(text, int | str):
        raise ValueError(f"must be {wanted}")  # noqa: TRY004  pydantic turns only ValueError into an error
    match = _NUMBER_UNIT.fullmatch(str(text).strip())
    if not match or (match[2] or bare) not in units:
        raise ValueError(f"must be {wanted}")
    whole, _, fraction = match[1].partition(".")
    scale = int("1" + "0" * len(fraction))
    amount, rest = divmod(int(whole + fraction) * units[match[2] or bare], scale)
    if rest:
        raise ValueError(f"must be {wanted}; this is no whole number")
    return amount
