"""What can go wrong, sorted by who must act.

::

    FabricctlError
    ├── UsageError           the person at the keyboard: a wrong option or argument
    ├── InventoryError       the author of an inventory or a policy file (file, line)
    ├── UnreachableError     the operator: a device does not answer (also a ConnectionError)
    ├── HostKeyError         the operator: a device shows a host key that is not the recorded one
    ├── RefusedError         the device said no: a command failed or a setting did not take
    ├── DeadlineError        something took longer than it may (also a TimeoutError)
    ├── MissingToolError     a program or package that must be installed is not there
    ├── BusyError            another run holds the lock
    ├── StoreError           the store cannot be read or written
    ├── OutputError          standard output cannot be written (also an OSError)
    ├── LabError             the embedded lab could not do what it was asked
    └── WireError            us: a message or a reply that breaks our own protocol

Each error says what happened, where, and what to do next. Code never parses the text: it reads the fields.
"""

from __future__ import annotations


class FabricctlError(Exception):
    """An error that is shown to the user as one line.

    Parameters
    ----------
    what
        What happened, without a trailing full stop.
    where
        The device, port or ``file:line`` it concerns; empty if there is none.
    next_step
        What the reader can do about it; empty only where nothing can be done.
    """

    def __init__(self, what: str, *, where: str = "", next_step: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.next_step = next_step

    def __str__(self) -> str:
        """Return ``where: what; next step`` on one line."""
        head = f"{self.where}: {self.what}" if self.where else self.what
        line = f"{head}; {self.next_step}" if self.next_step else head
        return " ".join(line.split())

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by state, since the fields are keyword-only."""
        return (_rebuild, (type(self), self.__dict__.copy(), self.args))


def _rebuild(cls: type[FabricctlError], state: dict[str, object], args: tuple[object, ...]) -> FabricctlError:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(state)
    return error


class UsageError(FabricctlError):
    """A command was called with options or arguments that make no sense."""


class InventoryError(FabricctlError):
    """An inventory or policy file is wrong; ``where`` is ``file:line``."""


class DeviceError(FabricctlError):
    """Something is wrong on one device.

    Parameters
    ----------
    device
        The device's name in the inventory; it is also the start of ``where``.
    """

    def __init__(self, what: str, *, device: str, port: str = "", next_step: str = "") -> None:
        where = f"{device}/{port}" if port else device
        super().__init__(what, where=where, next_step=next_step)
        self.device = device
        self.port = port


class UnreachableError(DeviceError, ConnectionError):
    """A device cannot be reached, or its channel broke."""


class HostKeyError(DeviceError):
    """A device's host key is unknown or not the recorded one."""


class RefusedError(DeviceError):
    """A device answered and said no."""


class DeadlineError(DeviceError, TimeoutError):
    """A device did not finish within its deadline.

    Parameters
    ----------
    after_s
        The deadline that passed, in seconds.
    """

    def __init__(
        self, what: str, *, device: str, after_s: float, port: str = "", next_step: str = ""
    ) -> None:
        super().__init__(what, device=device, port=port, next_step=next_step)
        self.after_s = after_s


class MissingToolError(FabricctlError):
    """A program or package is not installed where it is needed."""


class BusyError(FabricctlError):
    """Another run holds the lock; ``next_step`` says which."""


class StoreError(FabricctlError):
    """The store cannot be opened, read or written."""


class OutputError(FabricctlError, OSError):
    """What a command prints cannot be written (a full disk); a reader that has left is none."""


class LabError(FabricctlError):
    """The embedded lab could not be built, started or reached."""


class WireError(FabricctlError):
    """A message or reply breaks our own protocol: a bug of ours or a foreign program."""
