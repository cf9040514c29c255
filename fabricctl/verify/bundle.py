"""The agent as one file: a zip that any Python from 3.9 on runs, the same bytes for the same source."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
"""The folder of fabricctl itself."""
EPOCH = (1980, 1, 1, 0, 0, 0)
"""Every entry's date: the earliest that a zip can hold."""
MAIN = """import sys

from fabricctl.agent.command import main

sys.exit(main(sys.argv[1:]))
"""
NODE_FILES = ("spec.py", "node.py")
"""The parts of a probe that run on a node."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """The agent's archive.

    Parameters
    ----------
    digest
        SHA-256 of the content, 64 hexadecimal digits.
    """

    content: bytes
    digest: str

    @property
    def name(self) -> str:
        """Its file name on a node, which tells its content."""
        return f"agent-{self.digest[:16]}.pyz"


@cache
def build() -> Bundle:
    """Return the archive of this installation's agent and of all probes' node halves."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in sorted(_entries()):
            entry = zipfile.ZipInfo(name, EPOCH)
            entry.external_attr = 0o600 << 16
            entry.compress_type = zipfile.ZIP_STORED  # what a compressor makes differs between versions
            archive.writestr(entry, content)
    content = stream.getvalue()
    return Bundle(content, hashlib.sha256(content).hexdigest())


def _entries() -> Iterator[tuple[str, bytes]]:
    yield "__main__.py", MAIN.encode()
    # A probe's own __init__.py belongs to the controller: on a node it is empty.
    for package in ("fabricctl", "fabricctl/model", "fabricctl/probes"):
        yield f"{package}/__init__.py", b""
    yield "fabricctl/model/histogram.py", (PACKAGE / "model" / "histogram.py").read_bytes()
    for path in (PACKAGE / "agent").glob("*.py"):
        yield f"fabricctl/agent/{path.name}", path.read_bytes()
    # The native engine for every kind of machine that it was built for: some kilobytes each.
    for path in (PACKAGE / "agent" / "native_loop").glob("loop-*.so"):
        yield f"fabricctl/agent/native_loop/{path.name}", path.read_bytes()
    for folder in (PACKAGE / "probes").iterdir():
        files = [folder / name for name in NODE_FILES]
        if all(path.is_file() for path in files):
            yield f"fabricctl/probes/{folder.name}/__init__.py", b""
            for path in files:
                yield f"fabricctl/probes/{folder.name}/{path.name}", path.read_bytes()
