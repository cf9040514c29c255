"""Ways to reach a device: SSH, this machine itself, or recorded replies."""

from __future__ import annotations

from fabricctl.transport.base import Transport
from fabricctl.transport.choice import ChosenTransport

__all__ = ["connect"]


def connect() -> Transport:
    """Return a transport that takes each device's own way, as its endpoint says."""
    return ChosenTransport()
