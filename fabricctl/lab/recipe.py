"""What goes into the guests' image, and the content hash that names it in the cache."""

from __future__ import annotations

import hashlib
import io
import tarfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

SUITE = "trixie"
# Raise it when the code that packs the image changes what comes out.
FORMAT = 2
PACKAGES = (
    "busybox-static",
    "ethtool",
    "ibverbs-providers",
    "ibverbs-utils",
    "ifupdown",
    "iproute2",
    "iputils-ping",
    "kmod",
    "linux-image-amd64",
    "lldpd",
    "netplan.io",
    "network-manager",
    "openssh-server",
    "perftest",
    "procps",
    "python3",
    "python3-pyverbs",
    "rdma-core",
    "systemd",
    "systemd-sysv",
)
# Needed to build dcbsim inside the image, and left out of what the guests see.
BUILD_PACKAGES = ("gcc", "linux-headers-amd64", "make")

# Folders of /usr/share that dpkg does not unpack.
UNPACKED_NOT = ("doc", "info", "lintian", "locale", "man")

GUEST_FILES = Path(__file__).resolve().parent / "guest"

# Paths of the built tree that no guest needs.
DROPPED = (
    "boot/",
    "dev/",
    "initrd.img",
    "tmp/",
    "usr/include/",
    "usr/lib/gcc",
    "usr/lib/linux-kbuild",
    # It would start several programs for each NIC at every boot.
    "usr/lib/udev/rules.d/80-ifupdown.rules",
    "usr/lib/x86_64-linux-gnu/perl/",
    "usr/lib/x86_64-linux-gnu/libLLVM",
    "usr/libexec/gcc",
    "usr/share/bug/",
    "usr/share/doc/",
    "usr/share/info/",
    "usr/share/lintian/",
    "usr/share/locale/",
    "usr/share/man/",
    "usr/src/",
    "usr/bin/x86_64-linux-gnu-",
    "var/cache/",
    "var/lib/apt/lists/",
    "vmlinuz",
)
DROPPED_ENDINGS = (".a", ".h")
# Of the kernel's modules, the folders that a guest without hardware can use.
KEPT_MODULES = (
    "arch/",
    "block/",
    "crypto/",
    "drivers/block/virtio_blk",
    "drivers/char/hw_random/",
    "drivers/char/virtio_console",
    "drivers/infiniband/core/",
    "drivers/infiniband/sw/",
    "drivers/net/bonding/",
    "drivers/net/dummy",
    "drivers/net/ifb",
    "drivers/net/net_failover",
    "drivers/net/veth",
    "drivers/net/virtio_net",
    "drivers/net/vxlan/",
    "drivers/virtio/",
    "fs/configfs/",
    "fs/ext4/",
    "fs/jbd2/",
    "fs/mbcache",
    "fs/overlayfs/",
    "fs/squashfs/",
    "lib/",
    "net/",
)
# Units that only cost time in a guest which never sees a keyboard or a package manager, and the network
# managers with the bus that one of them needs: a test that wants one unmasks it.
MASKED_UNITS = (
    "NetworkManager-dispatcher.service",
    "NetworkManager-wait-online.service",
    "NetworkManager.service",
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "dbus.service",
    "dbus.socket",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "getty@tty1.service",
    "motd-news.timer",
    "networking.service",
    "polkit.service",
    "serial-getty@hvc0.service",
    "serial-getty@ttyS0.service",
    "ssh.socket",
    "systemd-journal-flush.service",
    "systemd-logind.service",
    "systemd-networkd-wait-online.service",
    "systemd-random-seed.service",
    "systemd-tmpfiles-clean.timer",
    "systemd-update-utmp.service",
)
ENABLED_UNITS = ("fabriclab-console", "fabriclab-identity", "fabriclab-mgmt")
# Started by the identity script, so that they first see the right name and keys.
NOT_ENABLED_UNITS = ("lldpd.service", "ssh.service", "sshd.service")
WANTS = "etc/systemd/system/multi-user.target.wants/"
# Any valid machine id but "uninitialized" spares a guest systemd's slow first-boot work.
# mmdebstrap copies the host's name and resolver, which are none of the guests' business.
OWN_FILES = {
    "etc/fstab": b"",
    "etc/hostname": b"guest\n",
    "etc/hosts": b"127.0.0.1 localhost\n",
    "etc/machine-id": b"0123456789abcdef0123456789abcdef\n",
    "etc/resolv.conf": b"",
}


def digest(more: Iterable[str]) -> str:
    """Return the content hash of this recipe and of `more` that decides how the image turns out."""
    summary = hashlib.sha256()
    # The licence text decides nothing.
    sources = sorted(p for p in GUEST_FILES.rglob("*") if p.is_file() and p.name != "COPYING")
    for source in sources:
        summary.update(str(source.relative_to(GUEST_FILES)).encode() + b"\0" + source.read_bytes())
    for table in (DROPPED, DROPPED_ENDINGS, KEPT_MODULES, MASKED_UNITS, ENABLED_UNITS, NOT_ENABLED_UNITS):
        summary.update(repr(table).encode())
    summary.update(repr((FORMAT, tuple(more), sorted(OWN_FILES.items()))).encode())
    return summary.hexdigest()[:16]


def keeps(path: str) -> bool:
    """Tell whether the file at `path` (relative, no leading ``./``) goes into the image."""
    if path.startswith(DROPPED) or path.endswith(DROPPED_ENDINGS):
        return path.rstrip("/") in {"boot", "dev", "tmp", "usr/include", "usr/src", "var/cache"}
    if path.startswith(WANTS) and path.removeprefix(WANTS) in NOT_ENABLED_UNITS:
        return False
    _, kernel, rest = path.partition("/kernel/")
    if path.startswith("usr/lib/modules/") and kernel and ".ko" in rest:
        return rest.startswith(KEPT_MODULES)
    return True


@cache
def own_files() -> frozenset[str]:
    """Return the paths of the files that we put in; the tree's own are left out, else they would win."""
    root = GUEST_FILES / "rootfs"
    shipped = (str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    return frozenset((*shipped, *OWN_FILES))


def add_own(archive: tarfile.TarFile) -> None:
    """Append our units, scripts and settings to the image's tar archive."""
    root = GUEST_FILES / "rootfs"
    made: set[Path] = set()
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        if path.is_dir():
            continue
        for parent in reversed(name.parents[:-1]):
            if parent not in made:
                made.add(parent)
                add_folder(archive, f"./{parent}")
        # Git keeps no more of a file's mode than whether it may be executed.
        mode = 0o755 if name.parts[:3] == ("usr", "lib", "fabriclab") else 0o644
        add_file(archive, f"./{name}", path.read_bytes(), mode)
    for unit in ENABLED_UNITS:
        add_link(archive, f"./{WANTS}{unit}.service", f"../{unit}.service")
    for unit in MASKED_UNITS:
        add_link(archive, f"./etc/systemd/system/{unit}", "/dev/null")
    for own, body in OWN_FILES.items():
        add_file(archive, f"./{own}", body, 0o644)


def add_folder(archive: tarfile.TarFile, name: str) -> None:
    """Append a folder owned by root."""
    entry = tarfile.TarInfo(name)
    entry.type = tarfile.DIRTYPE
    entry.mode = 0o755
    archive.addfile(entry)


def add_file(archive: tarfile.TarFile, name: str, body: bytes, mode: int) -> None:
    """Append a file owned by root."""
    entry = tarfile.TarInfo(name)
    entry.size = len(body)
    entry.mode = mode
    archive.addfile(entry, io.BytesIO(body))


def add_link(archive: tarfile.TarFile, name: str, target: str) -> None:
    """Append a symbolic link."""
    entry = tarfile.TarInfo(name)
    entry.type = tarfile.SYMTYPE
    entry.linkname = target
    archive.addfile(entry)
