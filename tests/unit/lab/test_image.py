"""Pure parts of the image: sources, what is kept, the initramfs."""

from __future__ import annotations

import subprocess

import pytest

from fabricctl.lab import image, initramfs, recipe

DEB822 = """\
Types: deb
# a comment
URIs: http://one.example/debian-security
Suites: bookworm-security
Components: main

Types: deb
URIs: http://two.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""


@pytest.mark.parametrize(
    ("sources", "uri"),
    [
        (DEB822, "http://two.example/debian"),
        ("deb [arch=amd64] http://a.example/debian bookworm main contrib\n", "http://a.example/debian"),
        ("deb http://a.example/x bookworm-security main\n", ""),
        ("# deb http://a.example/debian bookworm main\n", ""),
        ("deb http://other.example/repo bookworm nonmain\n", ""),
        ("", ""),
    ],
)
def test_the_mirror_is_the_hosts_own_source_of_its_release(sources: str, uri: str) -> None:
    assert image.mirror_in(sources, "bookworm") == uri


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("usr/bin/python3.13", True),
        ("usr/src/linux-headers-6.12/Makefile", False),
        ("usr/lib/gcc/x86_64-linux-gnu/14/cc1", False),
        ("boot", True),
        ("boot/vmlinuz-6.12", False),
        ("usr/lib/modules/6.12/kernel/drivers/gpu/drm/drm.ko.xz", False),
        ("usr/lib/modules/6.12/kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko.xz", True),
        ("usr/lib/modules/6.12/updates/dcbsim.ko", True),
        ("usr/lib/modules/6.12/modules.dep", True),
        ("etc/systemd/system/multi-user.target.wants/ssh.service", False),
        ("usr/lib/x86_64-linux-gnu/libc.so.6", True),
        ("usr/lib/x86_64-linux-gnu/libc.a", False),
    ],
)
def test_what_a_guest_can_use_is_kept(path: str, *, kept: bool) -> None:
    assert recipe.keeps(path) is kept


def test_modules_are_loaded_after_what_they_need_and_built_in_ones_are_left_out() -> None:
    dependencies = (
        "kernel/a/virtio-net.ko.xz: kernel/b/mid.ko.xz kernel/b/base.ko.xz\n"
        "kernel/b/mid.ko.xz: kernel/b/base.ko.xz\n"
        "kernel/b/base.ko.xz:\n"
    )
    order = initramfs.load_order(dependencies, ("virtio_net", "virtio_pci"))
    assert order == ("kernel/b/base.ko.xz", "kernel/b/mid.ko.xz", "kernel/a/virtio-net.ko.xz")


def test_the_archive_is_one_that_cpio_reads() -> None:
    archive = initramfs.build(b"busybox", b"#!/bin/busybox sh\n", {"a.ko": b"x" * 5})
    done = subprocess.run(
        ["cpio", "-it", "--quiet"], input=archive, capture_output=True, check=True, timeout=10
    )
    names = done.stdout.decode().split()
    assert {"init", "bin/busybox", "modules/order", "modules/a.ko", "proc"} <= set(names)


def test_the_hash_is_stable_within_a_process() -> None:
    assert image.digest() == image.digest()
    assert len(image.digest()) == 16
