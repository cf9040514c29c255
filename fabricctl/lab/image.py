"""Build the guests' image: a Debian root as squashfs, its kernel, and an initramfs."""

from __future__ import annotations

import io
import lzma
import os
import platform
import re
import shutil
import subprocess
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from fabricctl.errors import LabError
from fabricctl.lab import initramfs, programs, recipe
from fabricctl.lab.state import locked

if TYPE_CHECKING:
    from collections.abc import Callable

    Report = Callable[[str], None]

_BUILD_S = 1800
_SQUASH_S = 600
# mmdebstrap's ways to make files of other owners, in the order they are tried.
MODES_ROOT = ("root",)
MODES_USER = ("unshare", "fakechroot")
_MODULE_FOLDER = "/tmp/dcbsim"  # noqa: S108 - inside the image under construction
MIRROR_VARIABLE = "FABRICCTL_LAB_MIRROR"


@dataclass(frozen=True)
class Image:
    """A finished image in the cache."""

    folder: Path

    @property
    def root(self) -> Path:
        """Root file system, read-only and shared by all guests."""
        return self.folder / "root.sqfs"

    @property
    def kernel(self) -> Path:
        """Kernel of the same Debian release."""
        return self.folder / "vmlinuz"

    @property
    def initrd(self) -> Path:
        """File system from which the kernel reaches the root."""
        return self.folder / "initrd"

    @property
    def name(self) -> str:
        """Content hash of the recipe."""
        return self.folder.name.removeprefix("image-")


def ensure(cache: Path, *, mirror: str, report: Report) -> Image:
    """Return the image from the cache, built first if it is not there.

    Raises
    ------
    LabError
        No way to build it worked on this host.
    MissingToolError
        A program that builds it is not installed.
    """
    machine = platform.machine()
    if machine != "x86_64":
        raise LabError(
            f"the lab's guests are x86_64 and this machine is {machine}",
            next_step="run the lab on an x86_64 machine",
        )
    folder = cache / f"image-{digest()}"
    if not folder.is_dir():
        programs.need(("mmdebstrap", "sqfstar"))
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(cache / "image.lock", wait=True):
            if not folder.is_dir():
                _build_beside(cache, folder, mirror, report)
    return Image(folder)


def digest() -> str:
    """Return the content hash of all that decides how the image turns out."""
    # The mode, the mirror and the proxies decide how it is made, not what it becomes.
    argv = [word for word in command("", Path("tree"), "", ()) if not word.startswith("--customize")]
    return recipe.digest((*argv, *initramfs.EARLY_MODULES))


def _build_beside(cache: Path, folder: Path, mirror: str, report: Report) -> None:
    for stale in cache.glob(".building-*"):
        shutil.rmtree(stale, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=".building-", dir=cache))
    try:
        tree = work / "tree.tar"
        report(f"building the guests' image (Debian {recipe.SUITE}, once; a minute or two)")
        bootstrap(tree, mirror or host_mirror(), report)
        report("packing the image")
        out = work / "out"
        out.mkdir()
        with tarfile.open(tree) as archive:
            members = {_relative(member.name): member for member in archive.getmembers()}
            _write_boot_files(archive, members, out)
            _squash(archive, members, out / "root.sqfs")
        out.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def bootstrap(tree: Path, mirror: str, report: Report) -> None:
    """Make the Debian tree as a tar archive, by the first of mmdebstrap's modes that works here."""
    modes = MODES_ROOT if os.geteuid() == 0 else MODES_USER
    reasons: list[str] = []
    for mode in modes:
        reason = _bootstrap_once(tree, mode, mirror)
        if not reason:
            return
        report(f"mmdebstrap --mode={mode} does not work here: {reason}")
        reasons.append(f"{mode}: {reason}")
    advice = "check the network and the mirror (--mirror)"
    if os.geteuid() != 0:
        advice += (
            "; an ordinary user needs either user namespaces with subordinate ids "
            "(apt-get install uidmap; root runs: usermod --add-subuids 100000-165535 "
            "--add-subgids 100000-165535 USER) or fakechroot with a C library as new as the guests'"
        )
    raise LabError("could not build the guests' image: " + "; ".join(reasons), next_step=advice)


def command(mode: str, tree: Path, mirror: str, proxies: tuple[str, ...]) -> list[str]:
    """Return the command line of mmdebstrap."""
    packages = ",".join((*recipe.PACKAGES, *recipe.BUILD_PACKAGES))
    chroot = 'chroot "$1" sh -ec '
    build = (
        f"make -s -C /lib/modules/*/build M={_MODULE_FOLDER} modules; "
        f"cd /usr/lib/modules/*; mkdir updates; cp {_MODULE_FOLDER}/dcbsim.ko updates/; "
        'depmod "${PWD##*/}"'
    )
    argv = [
        "mmdebstrap",
        f"--mode={mode}",
        "--variant=essential",
        "--format=tar",
        f"--include={packages}",
        '--aptopt=APT::Install-Recommends "false"',
        *(f"--aptopt={line}" for line in proxies),
    ]
    argv.extend(
        (
            *(f"--dpkgopt=path-exclude=/usr/share/{path}/*" for path in recipe.UNPACKED_NOT),
            f'--customize-hook=mkdir "$1{_MODULE_FOLDER}"',
            *(
                f"--customize-hook=upload {_quoted(recipe.GUEST_FILES / name)} {_MODULE_FOLDER}/{name}"
                for name in ("dcbsim.c", "Kbuild")
            ),
            f"--customize-hook={chroot}'{build}'",
            recipe.SUITE,
            str(tree),
        )
    )
    return [*argv, mirror] if mirror else argv


def _quoted(path: Path) -> str:
    # mmdebstrap splits the words of its own hooks like a shell.
    return "'" + str(path).replace("'", "'\\''") + "'"


def _bootstrap_once(tree: Path, mode: str, mirror: str) -> str:
    """Run mmdebstrap; return an empty text, or why it failed."""
    argv = command(mode, tree, mirror, host_proxies())
    # The kernel package's own initramfs would take long to make and is not used.
    env = {**os.environ, "INITRD": "No", "LC_ALL": "C.UTF-8"}
    env["PATH"] = env.get("PATH", "") + ":/usr/sbin:/sbin"
    log = tree.with_suffix(f".{mode}.log")
    try:
        with log.open("wb") as out:
            done = subprocess.run(
                [programs.find(argv[0]), *argv[1:]],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                timeout=_BUILD_S,
                check=False,
                env=env,
                # The folder must be readable for the subordinate ids of a user namespace.
                cwd="/",
            )
    except subprocess.TimeoutExpired:
        return f"did not end within {_BUILD_S} s"
    if done.returncode == 0:
        return ""
    lines = log.read_text(errors="replace").splitlines()
    said = [line for line in lines if line.startswith(("E:", "Error", "make", "unshare"))]
    return programs.last_lines("\n".join(said or lines), 3)


def host_proxies() -> tuple[str, ...]:
    """Return the host's apt proxy settings, for the apt that fills the image."""
    if shutil.which("apt-config") is None:
        return ()
    settings = programs.run(("apt-config", "dump"), timeout_s=30)
    return tuple(
        line
        for line in settings.splitlines()
        if re.match(r'Acquire::https?::[^"]*Proxy[^"]* "[^"]', line, re.IGNORECASE)
    )


def host_mirror(apt: Path = Path("/etc/apt")) -> str:
    """Return the URI from which the host itself takes Debian; empty if it does not say.

    The guests' release lies on the same mirror, whatever release the host runs.
    """
    if os.environ.get(MIRROR_VARIABLE):
        return os.environ[MIRROR_VARIABLE]
    release = platform.freedesktop_os_release() if Path("/etc/os-release").exists() else {}
    suite = release.get("VERSION_CODENAME", "")
    if release.get("ID") != "debian" or not suite:
        return ""
    files = (apt / "sources.list", *sorted((apt / "sources.list.d").glob("*")))
    texts = [path.read_text(errors="replace") for path in files if path.is_file()]
    return mirror_in("\n\n".join(texts), suite)


def mirror_in(sources: str, suite: str) -> str:
    """Return the URI of the first apt source that carries `suite` itself with component main."""
    for line in sources.splitlines():
        match = re.match(r"deb\s+(?:\[[^]]*\]\s+)?(\S+)\s+(\S+)\s+(.*)", line)
        if match and match[2] == suite and "main" in match[3].split():
            return match[1]
    for stanza in re.split(r"\n\s*\n", sources):
        fields = dict(re.findall(r"^([A-Za-z-]+):[ \t]*(.+)$", stanza, re.MULTILINE))
        if (
            "deb" in fields.get("Types", "").split()
            and suite in fields.get("Suites", "").split()
            and "main" in fields.get("Components", "").split()
            and fields.get("URIs")
        ):
            return str(fields["URIs"]).split()[0]
    return ""


def _relative(name: str) -> str:
    return name.removeprefix("./")


Members = dict[str, tarfile.TarInfo]


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    body = archive.extractfile(member)
    if body is None:
        raise LabError(f"{member.name} in the image is no file", next_step="report this bug")
    with body:
        return body.read()


def _write_boot_files(archive: tarfile.TarFile, members: Members, out: Path) -> None:
    kernel = next((name for name in members if name.startswith("boot/vmlinuz-")), "")
    if not kernel:
        raise LabError("the image has no kernel", next_step="try another mirror (--mirror)")
    (out / "vmlinuz").write_bytes(_content(archive, members[kernel]))
    modules = f"usr/lib/modules/{kernel.removeprefix('boot/vmlinuz-')}"
    dependencies = _content(archive, members[f"{modules}/modules.dep"]).decode()
    bodies: dict[str, bytes] = {}
    for path in initramfs.load_order(dependencies, initramfs.EARLY_MODULES):
        body = _content(archive, members[f"{modules}/{path}"])
        bodies[f"{initramfs.module_name(path)}.ko"] = lzma.decompress(body) if path.endswith(".xz") else body
    busybox = _content(archive, members["usr/bin/busybox"])
    init = (recipe.GUEST_FILES / "init").read_bytes()
    (out / "initrd").write_bytes(initramfs.build(busybox, init, bodies))


def _squash(archive: tarfile.TarFile, members: Members, target: Path) -> None:
    # Not compressed: under emulation unpacking costs far more than reading from the page cache.
    argv = [programs.find("sqfstar"), "-quiet", "-no-progress", "-no-xattrs"]
    argv += ["-noI", "-noD", "-noF", "-noX", str(target)]
    with (target.with_suffix(".log")).open("w+b") as log:
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=log, stderr=log)
        try:
            if process.stdin is None:
                raise LabError("sqfstar has no input", next_step="report this bug")
            with process.stdin as sink:
                _copy_kept(archive, members, sink)
            status = process.wait(timeout=_SQUASH_S)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            status = -1
        finally:
            process.kill()
            process.wait()
        log.seek(0)
        if status != 0:
            said = programs.last_lines(log.read().decode(errors="replace"))
            raise LabError(f"sqfstar failed: {said}", next_step="is the disk full?")
    target.with_suffix(".log").unlink()


def _copy_kept(archive: tarfile.TarFile, members: Members, sink: IO[bytes]) -> None:
    with tarfile.open(fileobj=sink, mode="w|", format=tarfile.GNU_FORMAT) as out:
        for path, member in members.items():
            if not keeps_entry(path, members):
                continue
            member.pax_headers = {}
            body = io.BytesIO(_content(archive, member)) if member.isreg() else None
            out.addfile(member, body)
        recipe.add_own(out)


def keeps_entry(path: str, members: Members) -> bool:
    """Tell whether an entry goes into the image; one that we replace does not."""
    return path in members and path not in recipe.own_files() and recipe.keeps(path)
