import ctypes
import errno
import mmap
import os
import secrets
from pathlib import Path

from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError


class MR:
    def __init__(self, pd: PD, length: int, access: int) -> None:
        if length > int(os.environ.get("FAKE_MEMLOCK", str(1 << 40))):
            raise PyverbsRDMAError("Failed to register a MR", errno.ENOMEM)
        self.rkey = self.lkey = secrets.randbits(31)
        self.access = access
        self.length = length
        self._path = Path(pd.context.folder) / f"mr-{self.rkey}"
        with self._path.open("wb+") as file:
            file.truncate(length)
            self._map = mmap.mmap(file.fileno(), length)
        self.buf = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        (self._path.with_suffix(".base")).write_text(str(self.buf))

    def close(self) -> None:
        self._path.unlink(missing_ok=True)
