"""How a switch's NVUE is spoken to: its own ``nv`` on the switch itself, or its REST interface from afar.

Runs on the switch (Python 3.7 or later) for ``nv``, and on the controller for REST.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
import subprocess
import tempfile
import urllib.parse
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from fabricctl.drivers.switch.cumulus import tree as nvue

if TYPE_CHECKING:  # Python 3.7 cannot evaluate dict[str, Any]
    from collections.abc import Mapping
    from typing import Any

    from fabricctl.drivers.switch.cumulus.tree import Tree

_ROOT = "/nvue_v1"
_YES = {"auto-prompt": {"ays": "ays_yes"}}
_MINUTE_S = 60
_REPLY_BYTES = 64 * 1024 * 1024
_OK = 300
_SLOW_S = 180.0
"""Longest time for one command or request; an apply of a large configuration takes minutes."""


class Failed(Exception):  # noqa: N818  it is said to the user as it is
    """NVUE said no, or nothing; the message is what it said."""


class Cli:
    """``nv`` on the switch. What it stages belongs to the user who runs it, here root."""

    def __init__(self, program: str = "nv") -> None:
        self._program = program

    def applied(self) -> Tree:
        """Return the applied configuration, ranges expanded."""
        words = ("config", "show")
        said = self._run(*words, "-o", "json")
        if not said.strip():
            raise Failed(f"nv {' '.join(words)}: it printed nothing")  # not even a factory's is empty
        return nvue.merged(_parsed(said, words))

    def revisions(self) -> dict[str, str] | None:
        """Return the state of every revision; None where ``nv`` cannot list them (5.4 and earlier)."""
        try:
            return _states(self._json("config", "revision"))
        except Failed:
            return None

    def staged(self) -> list[Mapping[str, Any]]:
        """Return what is staged and not applied, as NVUE's sections of what is set and unset."""
        return _sections(self._json("config", "diff"))

    def unsaved(self) -> list[Mapping[str, Any]]:
        """Return in what the applied configuration differs from that of the next boot."""
        return _sections(self._json("config", "diff", "startup", "applied"))

    def stage(self, removed: Tree, added: Tree) -> str:
        """Stage a change; return its revision, empty if NVUE does not name it.

        One patch must not both set and unset, and the order within a patch is not promised.
        """
        before = self.revisions()
        try:
            for verb, part in (("unset", removed), ("set", added)):
                if part:
                    self._patch([{verb: part}])
        except Failed:
            self.unstage(self._new(before))
            raise
        return self._new(before)

    def _new(self, before: dict[str, str] | None) -> str:
        """Return the revision that was not there before; empty if that is not one."""
        after = self.revisions()
        new = [] if before is None or after is None else [rev for rev in after if rev not in before]
        return new[0] if len(new) == 1 else ""

    def unstage(self, revision: str) -> None:
        """Drop what is staged; never fails over what cannot be deleted."""
        self._run("config", "detach")
        if revision:
            with suppress(Failed):  # releases that cannot delete a revision keep it, detached
                self._run("config", "delete", revision)

    def apply(self, revision: str, within_s: int, note: str) -> None:
        """Apply what is staged; NVUE takes it back after `within_s` seconds unless it is confirmed."""
        del revision, note  # what is staged is what is applied
        minutes, seconds = divmod(within_s, _MINUTE_S)
        self._run("config", "apply", "--confirm", f"{minutes}m" if not seconds else f"{within_s}s", "-y")

    def why(self, revision: str) -> str:
        """Return nothing: what ``nv`` does not apply, it says why at once."""
        del revision
        return ""

    def answer(self, revision: str, *, keep: bool) -> None:
        """Confirm the apply that waits, or have it taken back."""
        words = [revision] if revision else []
        self._run("config", "apply", *words, "--confirm-yes" if keep else "--confirm-no")

    def save(self) -> None:
        """Make the applied configuration that of the next boot."""
        self._run("config", "save")

    def _patch(self, sections: list[Tree]) -> None:
        # JSON is YAML; nv wants a file with its full path.
        handle, path = tempfile.mkstemp(prefix="fabricctl-", suffix=".yaml")
        try:
            with os.fdopen(handle, "w") as file:
                json.dump(sections, file)
            self._run("config", "patch", path)
        finally:
            Path(path).unlink()

    def _json(self, *words: str) -> Any:
        return _parsed(self._run(*words, "-o", "json").strip() or "[]", words)

    def _run(self, *words: str) -> str:
        try:
            done = subprocess.run(
                [self._program, *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_SLOW_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"nv {' '.join(words[:2])}: no answer in {_SLOW_S:.0f} s") from None
        except OSError as exc:
            raise Failed(f"nv cannot be run: {exc.strerror}") from None
        out, err = (text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
        # Errors of nv's own have come with exit status 0.
        if done.returncode or err.startswith("Error") or out.startswith("Error"):
            raise Failed(f"nv {' '.join(words[:2])}: {_line(err or out) or f'exit status {done.returncode}'}")
        return out


class Rest:
    """NVUE's REST interface over HTTPS; the certificate is always checked."""

    def __init__(self, host: str, port: int, user: str, password: str, ca_file: str) -> None:
        self._where = (host, port)
        self._tls = ssl.create_default_context(cafile=ca_file or None)
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        self._headers = {"Authorization": f"Basic {token}", "Content-Type": "application/json"}

    def __repr__(self) -> str:
        return f"Rest({self._where!r})"

    def applied(self) -> Tree:
        """Return the applied configuration without what it has by default."""
        return nvue.merged(self._call("GET", "/?rev=applied&filled=false"))

    def revisions(self) -> dict[str, str] | None:
        """Return the state of every revision."""
        return _states(self._call("GET", "/revision"))

    def staged(self) -> list[Mapping[str, Any]]:
        """Return nothing: a change over REST has a revision of its own, in which nobody else stages."""
        return []

    def unsaved(self) -> list[Mapping[str, Any]]:
        """Return in what the applied configuration differs from that of the next boot."""
        return _sections(self._call("GET", "/?rev=startup&diff=applied"))

    def stage(self, removed: Tree, added: Tree) -> str:
        """Make a revision with the change in it, and return its name."""
        made = self._call("POST", "/revision")
        if not isinstance(made, dict) or len(made) != 1:
            raise Failed("POST /revision: it names no revision")
        revision = str(next(iter(made)))
        try:
            for part in (removed, added):
                if part:
                    self._call("PATCH", f"/?rev={_quoted(revision)}", part)
        except Failed:
            self.unstage(revision)
            raise
        return revision

    def unstage(self, revision: str) -> None:
        """Drop the revision."""
        if revision:
            with suppress(Failed):  # as above
                self._call("DELETE", f"/revision/{_quoted(revision)}")

    def apply(self, revision: str, within_s: int, note: str) -> None:
        """Apply the revision; NVUE takes it back after `within_s` seconds unless it is confirmed."""
        self._state(revision, {"state": "apply", "message": note, "state-controls": {"confirm": within_s}})

    def why(self, revision: str) -> str:
        """Return what NVUE has against a revision that it does not apply; empty if it does not say."""
        with suppress(Failed):
            issues = nvue.at(self._call("GET", f"/revision/{_quoted(revision)}"), "transition", "issue")
            said = [nvue.at(issue, "message") for issue in dict(issues).values()]
            return _line("; ".join(str(text) for text in said if text))
        return ""

    def answer(self, revision: str, *, keep: bool) -> None:
        """Confirm the apply that waits, or have it taken back."""
        self._state(revision, {"state": "confirm_yes" if keep else "confirm_no"})

    def save(self) -> None:
        """Make the applied configuration that of the next boot."""
        self._state("applied", {"state": "save"})

    def get(self, path: str) -> Any:
        """Return what is at `path`, which begins with ``/nvue_v1/``."""
        return self._call("GET", path[len(_ROOT) :])

    def _state(self, revision: str, body: Tree) -> None:
        self._call("PATCH", f"/revision/{_quoted(revision)}", {**body, **_YES})

    def _call(self, verb: str, path: str, body: Any = None) -> Any:
        host, port = self._where
        what = f"{verb} {path.partition('?')[0]}"
        connection = http.client.HTTPSConnection(host, port, timeout=_SLOW_S, context=self._tls)
        try:
            payload = None if body is None else json.dumps(body)
            connection.request(verb, f"{_ROOT}{path}", payload, self._headers)
            reply = connection.getresponse()
            said = reply.read(_REPLY_BYTES).decode("utf-8", "replace")
        except (OSError, http.client.HTTPException) as exc:
            raise Failed(f"{what}: {_line(str(exc)) or type(exc).__name__}") from None
        finally:
            connection.close()
        if reply.status >= _OK:
            raise Failed(f"{what}: HTTP {reply.status}: {_line(said)}")
        if verb == "GET" and reply.status == http.HTTPStatus.OK and not said.strip():
            raise Failed(f"{what}: it said nothing")
        try:
            return json.loads(said) if said.strip() else {}
        except ValueError:
            raise Failed(f"{what}: it is no JSON: {_line(said)}") from None


def _parsed(said: str, words: tuple[str, ...]) -> Any:
    try:
        return json.loads(said)
    except ValueError:
        raise Failed(f"nv {' '.join(words)}: it printed no JSON: {_line(said)}") from None


def _states(shown: Any) -> dict[str, str]:
    """Return the revisions' states of a mapping by revision, or of a list of them."""
    if isinstance(shown, list):
        shown = {str(nvue.at(entry, "rev-id") or number): entry for number, entry in enumerate(shown)}
    return {str(rev): str(nvue.at(entry, "state") or "") for rev, entry in dict(shown).items()}


def _sections(shown: Any) -> list[Mapping[str, Any]]:
    """Return a difference as sections; REST shows one tree in which None is what is unset."""
    if isinstance(shown, list):
        return [section for section in shown if isinstance(section, dict)]
    return [{"set": shown}] if shown else []


def _quoted(revision: str) -> str:
    return urllib.parse.quote(revision, safe="")


def _line(said: str) -> str:
    words = "".join(char if char.isprintable() else " " for char in said)
    return " ".join(words.split())[:300]
