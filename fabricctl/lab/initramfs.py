"""The guests' first file system: a busybox, our init, and the modules that reach the root image."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# What must be loaded before systemd runs. Module names, not file names.
EARLY_MODULES = (
    "virtio_pci",
    "virtio_blk",
    "virtio_net",
    "virtio_console",
    "squashfs",
    "overlay",
    "crc32c_generic",
    "ext4",
)
_FOLDERS = ("bin", "dev", "disk", "lower", "modules", "new", "proc", "sys")
_MAGIC = "070701"
_TRAILER = "TRAILER!!!"
_MODE_FOLDER = 0o040755
_MODE_FILE = 0o100755


def module_name(path: str) -> str:
    """Return the name under which the kernel knows the module file at `path`."""
    return path.rsplit("/", 1)[-1].split(".ko", 1)[0].replace("-", "_")


def load_order(dependencies: str, wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the module files to load, in order, for the modules wanted.

    Parameters
    ----------
    dependencies
        Text of ``modules.dep``.
    wanted
        Module names; those without a file are built in and are left out.
    """
    needs: dict[str, tuple[str, ...]] = {}
    files: dict[str, str] = {}
    for line in dependencies.splitlines():
        path, _, rest = line.partition(":")
        needs[path] = tuple(rest.split())
        files[module_name(path)] = path
    order: list[str] = []
    for name in wanted:
        if name not in files:
            continue
        # modules.dep lists what a module needs nearest first, so the reverse loads.
        for path in (*reversed(needs[files[name]]), files[name]):
            if path not in order:
                order.append(path)
    return tuple(order)


def build(busybox: bytes, init: bytes, modules: Mapping[str, bytes]) -> bytes:
    """Return the initramfs as a cpio archive.

    Parameters
    ----------
    busybox
        A static busybox.
    init
        The script that runs first.
    modules
        Uncompressed modules by file name, in the order to load them.
    """
    entries: list[tuple[str, int, bytes]] = [(name, _MODE_FOLDER, b"") for name in _FOLDERS]
    entries.append(("init", _MODE_FILE, init))
    entries.append(("bin/busybox", _MODE_FILE, busybox))
    entries.append(("modules/order", _MODE_FILE, "".join(f"{m}\n" for m in modules).encode()))
    entries.extend((f"modules/{name}", _MODE_FILE, body) for name, body in modules.items())
    return cpio(entries)


def cpio(entries: Iterable[tuple[str, int, bytes]]) -> bytes:
    """Pack (name, mode, content) entries in the format the kernel unpacks (``newc``)."""
    parts: list[bytes] = []
    for number, (name, mode, body) in enumerate([*entries, (_TRAILER, 0, b"")], start=1):
        # inode, mode, uid, gid, links, mtime, size, device and special device numbers, name, check
        fields = (number, mode, 0, 0, 1, 0, len(body), 0, 0, 0, 0, len(name) + 1, 0)
        head = (_MAGIC + "".join(f"{field:08X}" for field in fields) + name + "\0").encode()
        parts.extend((_padded(head), _padded(body)))
    return b"".join(parts)


def _padded(body: bytes) -> bytes:
    return body + b"\0" * (-len(body) % 4)
