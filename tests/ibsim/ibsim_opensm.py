"""A subnet manager of a simulated fabric: the real opensm."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from ibsim_programs import UMAD2SIM, real, until

RESTARTS = 2
"""opensm crashes now and then under ibsim (libc, about one start in twelve): it is started again so often."""

_UP, _BEGUN, _ENDED = "SUBNET UP", "INITIATING HEAVY SWEEP", ("SUBNET UP (", "rrors during initialization")
_VERBOSE = "0x07"
_LOOKS = 5


class Manager:
    """A real opensm on a node, which believes that it is alone.

    Parameters
    ----------
    folder
        Its own; it need not be there.
    attach
        The environment that attaches it to the node.
    """

    def __init__(self, folder: Path, attach: Mapping[str, str], priority: int = 1) -> None:
        self._folder, self._attach, self._priority = folder, attach, priority
        self.crashes = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def told(self) -> int:
        """How often switches have told it of changes."""
        return self._log().count("Generic Notice")

    def start(self) -> Self:
        """Start it and wait until the subnet is up; one that crashes is started again, so often."""
        for _ in range(RESTARTS + 1):
            self._launch()
            with contextlib.suppress(_CrashedError):
                until(f"opensm: {_UP}", self._up, 30.0)
                return self
            self.crashes += 1
        message = f"opensm crashed {RESTARTS + 1} times: {self._log()[-2000:]}"
        raise AssertionError(message)

    def sweep(self) -> None:
        """Have it look at the whole fabric again, and wait until it has."""
        if self._process is None or self._process.poll() is not None:
            self.crashes += self._process is not None
            self.start()
            return
        before = self._log().count(_BEGUN)
        self._process.send_signal(signal.SIGHUP)
        try:
            until("opensm swept", lambda: self._alive() and self._log().count(_BEGUN) > before)
            self._rest()
        except _CrashedError:
            self.crashes += 1
            self.start()

    def _rest(self) -> None:
        """Wait until it sweeps no more; one sweep may follow another at once, so it is looked at again."""
        idle = 0

        def still() -> bool:
            nonlocal idle
            self._alive()
            log = self._log()
            idle = idle + 1 if log.rfind(_BEGUN) < max(map(log.rfind, _ENDED)) else 0
            return idle >= _LOOKS

        until("opensm rests", still)

    def stop(self) -> None:
        """Kill it: when asked to end, it often hangs under ibsim."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def crash(self) -> None:
        """Let it end as if by itself."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def _launch(self) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        (self._folder / "conf").write_text("ignore_other_sm TRUE\n")
        place = f"{self._folder}/"
        own = {"OSM_TMP_DIR": place, "OSM_CACHE_DIR": place, "LD_PRELOAD": str(UMAD2SIM)}
        argv = [real("opensm"), "-s", "0", "-d2", "-D", _VERBOSE, "-p", str(self._priority)]
        argv += ["-F", f"{place}conf", "-f", f"{place}log"]
        with (self._folder / "said").open("wb") as said:
            self._process = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                cwd=self._folder,
                env={**os.environ, **own, **self._attach},
            )

    def _log(self) -> str:
        path = self._folder / "log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _alive(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            raise _CrashedError
        return True

    def _up(self) -> bool:
        return self._alive() and _UP in self._log()


class _CrashedError(Exception):
    """Opensm ended by itself."""
