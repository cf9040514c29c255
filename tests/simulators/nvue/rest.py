"""NVUE's REST interface of a simulated switch, over TLS on loopback."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from engine import Refused, Switch

_ROOT = "/nvue_v1"


def certificates(folder: Path) -> tuple[Path, Path, Path]:
    """Make a CA and a certificate of 127.0.0.1 that it signed: the CA, the certificate, its key."""
    ca, ca_key, made, key, request = (
        folder / name for name in ("ca.pem", "ca.key", "nvue.pem", "nvue.key", "nvue.csr")
    )
    extension = folder / "san.ext"
    extension.write_text("subjectAltName=IP:127.0.0.1\n")
    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    signed = ("-CA", ca, "-CAkey", ca_key, "-CAcreateserial")
    usage = ("-addext", "keyUsage=critical,keyCertSign")
    for argv in (
        ("req", "-x509", *new, "-keyout", ca_key, "-out", ca, "-subj", "/CN=test CA", "-days", "2", *usage),
        ("req", *new, "-keyout", key, "-out", request, "-subj", "/CN=leaf1"),
        ("x509", "-req", "-in", request, *signed, "-out", made, "-days", "2", "-extfile", extension),
    ):
        subprocess.run(["openssl", *map(str, argv)], check=True, capture_output=True)
    return ca, made, key


class Server:
    """A server at work; a context manager."""

    def __init__(self, folder: Path, *, user: str = "cumulus", password: str = "s3cret!") -> None:  # noqa: S107
        self.switch = Switch(folder)
        self.ca, made, key = certificates(folder)
        self.requests: list[str] = []
        handler = type(
            "Handler", (_Handler,), {"switch": self.switch, "login": (user, password), "seen": self.requests}
        )
        self._server = _Listener(("127.0.0.1", 0), handler)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(made, key)
        self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Listener(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that hang up: some tests are about just that."""


class _Handler(BaseHTTPRequestHandler):
    switch: Switch
    login: tuple[str, str]
    seen: list[str]
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  its name there
        """Print nothing."""

    def do_GET(self) -> None:
        self._answer({})

    def do_DELETE(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        self._answer(self._body())

    def do_PATCH(self) -> None:
        self._answer(self._body())

    def _body(self) -> Any:
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return json.loads(text) if text else {}

    def _answer(self, body: Any) -> None:
        self.seen.append(f"{self.command} {self.path}")
        token = base64.b64encode(":".join(self.login).encode()).decode()
        if self.headers.get("Authorization") != f"Basic {token}":
            self._reply(401, {"title": "Unauthorized"})
            return
        parts = urllib.parse.urlsplit(self.path)
        options = dict(urllib.parse.parse_qsl(parts.query))
        path = [urllib.parse.unquote(word) for word in parts.path.removeprefix(_ROOT).split("/") if word]
        try:
            with self.switch.open() as switch:
                time.sleep(switch.state["faults"].get("slow_s", 0))
                if status := switch.state["faults"].get("other_says"):
                    self._reply(status, {"title": "Forbidden"})
                    return
                found = answer(switch, self.command, path, options, body)
        except Refused as exc:
            self._reply(400, {"title": "Bad Request", "detail": str(exc)})
        except KeyError:
            self._reply(404, {"title": "Not Found"})
        else:
            self._reply(200, found)

    def _reply(self, status: int, body: Any) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


def answer(switch: Switch, verb: str, path: list[str], options: dict[str, str], body: Any) -> Any:  # noqa: PLR0912, C901
    """Return what NVUE replies; Refused and KeyError are its errors."""
    match verb, path:
        case "GET", [] if "diff" in options:
            sections = switch.diff(switch.config(options["rev"]), switch.config(options["diff"]))
            found: dict[str, Any] = {}
            for section in sections:
                for tree in section.values():
                    _merge(found, tree)
            return found
        case "GET", []:
            return switch.config(options["rev"])
        case "GET", ["revision"]:
            return {name: _shown(entry) for name, entry in switch.state["revisions"].items()}
        case "GET", ["revision", name]:
            return _shown(switch.state["revisions"][name])
        case "POST", ["revision"]:
            name = switch.revise()
            return {name: _shown(switch.state["revisions"][name])}
        case "DELETE", ["revision", name]:
            del switch.state["revisions"][name]
            return {}
        case "PATCH", []:
            switch.patch(options["rev"], body)
            return body
        case "PATCH", ["revision", name]:
            _change(switch, name, body)
            return {"state": body["state"], "transition": {"issue": {}, "progress": ""}}
        case "GET", ["system"]:
            return switch.system()
        case "GET", ["system", "reboot"] if switch.release >= (5, 6):
            return {"reason": {"gentime": "2026-11-01T10:00:00", "reason": "reboot", "user": "cumulus"}}
        case "GET", ["platform"]:
            return {"asic-model": "Spectrum-3", "asic-vendor": "NVIDIA"}
        case "GET", ["interface"]:
            return switch.interfaces()
        case "GET", ["interface", port, "qos"] if switch.release >= (5, 3):
            return switch.port_qos(port)
        case "GET", ["interface", port, "counters", "qos"] if switch.release >= (5, 4):
            return switch.port_counters(port)
        case _:
            raise KeyError(path)


def _shown(entry: dict[str, Any]) -> dict[str, Any]:
    issue = {"code": "config_invalid", "data": {}, "message": entry.get("issue"), "severity": "error"}
    issues = {"00000": issue} if "issue" in entry else {}
    return {"state": entry["state"], "transition": {"issue": issues, "progress": ""}}


def _change(switch: Switch, name: str, body: dict[str, Any]) -> None:
    if body.get("auto-prompt") != {"ays": "ays_yes"}:
        switch.state["revisions"][name]["state"] = "ays_fail"
        return
    match body["state"]:
        case "apply":
            try:
                switch.apply(name, body.get("state-controls", {}).get("confirm"))
            except Refused as exc:
                if switch.state["revisions"][name]["state"] != "invalid":
                    raise
                switch.state["revisions"][name]["issue"] = str(exc)
        case "confirm_yes" | "confirm_no":
            switch.answer(name, keep=body["state"] == "confirm_yes")
        case "save":
            switch.save()
        case other:
            raise Refused(f"{other!r} is not a state that can be asked for")


def _merge(into: dict[str, Any], tree: dict[str, Any]) -> None:
    for key, value in tree.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value
