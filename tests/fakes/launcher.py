"""Runs an agent's archive with the stand-in for pyverbs and a sysfs of its own (``FAKE_SYS``)."""

import os
import sys
from pathlib import Path

archive, *arguments = sys.argv[1:]
sys.path[:0] = [archive, str(Path(__file__).parent)]

from fabricctl.agent import command, native, sysfs, wire  # noqa: E402

assert archive in sysfs.__file__, "the agent must come out of its archive"
sysfs.ROOT = Path(os.environ["FAKE_SYS"])


def refuse() -> None:
    """Refuse to load the library that drives real devices: there are none here."""
    raise wire.Refusal(wire.SETUP, "a stand-in for pyverbs is all there is here")


native.load = refuse  # type: ignore[assignment]  # in place of what loads the library
sys.exit(command.main(arguments))
