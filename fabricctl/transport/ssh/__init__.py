"""Reach devices over SSH; the only package that imports paramiko."""

from __future__ import annotations

from fabricctl.transport.ssh.transport import SshTransport

__all__ = ["SshTransport"]
