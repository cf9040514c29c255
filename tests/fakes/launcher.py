"""Runs an agent's archive with the stand-in for pyverbs and a sysfs of its own (``FAKE_SYS``)."""

import os
import sys
from pathlib import Path

archive, *arguments = sys.argv[1:]
sys.path[:0] = [archive, str(Path(__file__).parent)]

from fabricctl.agent import command, sysfs  # noqa: E402

assert archive in sysfs.__file__, "the agent must come out of its archive"
sysfs.ROOT = Path(os.environ["FAKE_SYS"])
sys.exit(command.main(arguments))
