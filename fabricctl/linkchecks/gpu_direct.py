"""NICs can reach the memory of GPUs in the way that the policy names.

Two ways lead there. ``peermem``: the module nvidia_peermem (formerly nv_peer_mem) must be loaded and be
registered with ib_core, which then lists it below ``/sys/kernel/mm/memory_peers`` (as ``nv_mem``,
``nv_mem_nc`` or ``nvidia-peermem``; NCCL looks at the same place). ``dmabuf``: a kernel from 5.12 on, with
NVIDIA's open kernel module or amdgpu. That a way is open is no proof that a job takes it: only what was seen
is said.

Passes if the way of the policy's ``links.gpu_direct`` is open (``either``: one of them); with ``none`` if no
peer memory is registered or loaded; with ``any`` always, and on a node without a GPU.
Fails if the way is not open: the module is absent, or loaded and not registered where ib_core has a list of
peers; the kernel is older, or NVIDIA's module is not the open one.
Unknown if the module is loaded and ib_core keeps no list, and for dmabuf on a distribution's kernel that
calls itself older than 5.12 and may have it all the same (RHEL's do).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fabricctl.linkparts import pci
from fabricctl.linkparts.hosts import each, whole
from fabricctl.model.fabric import Device, Role
from fabricctl.model.policy import LinkPolicy
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.model.words import count
from fabricctl.plugin.answers import Unread
from fabricctl.plugin.protocols import Answers, Query
from fabricctl.plugin.surveying import Need, Observation, Survey

_NAME = "gpu_direct"
_PEERS = "/sys/kernel/mm/memory_peers"
_MODULES = ("nvidia_peermem", "nv_peer_mem")
_CLIENTS = ("nv_mem", "nv_mem_nc", "nvidia-peermem")
_ASK = f"""\
for one in nvidia {" ".join(_MODULES)} amdgpu; do
    [ ! -d "/sys/module/$one" ] || printf 'module %s\\n' "$one"
done
for one in {_PEERS} {_PEERS}/*; do [ ! -d "$one" ] || printf 'peers %s\\n' "$one"; done
[ ! -e /proc/driver/nvidia/version ] || sed -n 's/^NVRM version: */nvrm /p' /proc/driver/nvidia/version
echo done
"""
_KERNEL = "/proc/sys/kernel/osrelease"
_FIRST_DMABUF = (5, 12)
_RELEASE = re.compile(r"(\d+)\.(\d+)")
_PATCHED = re.compile(r"\.el\d|\.fc\d")
_NVIDIA, _AMD = "10de", "1002"


@dataclass(frozen=True, slots=True)
class _Way:
    """Whether a way is open, and what was seen of it; what to do if it is not."""

    outcome: Outcome
    seen: str
    next_step: str = ""


@dataclass(frozen=True, slots=True)
class _Found:
    modules: frozenset[str]
    peers: frozenset[str]
    has_list: bool
    nvidia: str
    kernel: str
    vendors: frozenset[str]
    gpus: int


class _GpuDirect:
    name = _NAME
    needs = Need.ANSWERS

    def queries(self, device: Device) -> tuple[Query, ...]:
        """Ask for GPUs and for what lets NICs reach their memory."""
        if device.role is not Role.NODE:
            return ()
        return (*pci.queries(device), Query("gpu_direct", ("sh", "-c", _ASK)))

    def judge(self, survey: Survey) -> tuple[Finding, ...]:
        """Judge every node."""
        return each(self.name, survey, lambda device, seen: (_judge(survey.rules, device.name, seen),))


def _judge(rules: LinkPolicy, node: str, seen: Observation) -> Finding:
    limit = f"gpu_direct: {rules.gpu_direct}"
    try:
        found = _read(seen.answers)
    except Unread as exc:
        step = f"on {node}: lsmod | grep peermem, and ls {_PEERS}"
        return Finding(_NAME, node, Outcome.UNKNOWN, str(exc), limit=limit, next_step=step)
    if not found.gpus:
        return Finding(_NAME, node, Outcome.PASS, "there is no GPU among its PCI devices", limit=limit)
    ways = {"peermem": _peermem(found), "dmabuf": _dmabuf(found)}
    outcome, step = _wanted(rules.gpu_direct, ways, found)
    what = f"{count(found.gpus, 'GPU')}; {'; '.join(way.seen for way in ways.values())}"
    if rules.gpu_direct != "any":
        what = f"{what}; the policy asks for {rules.gpu_direct}"
    return Finding(
        _NAME,
        node,
        outcome,
        what,
        limit=limit,
        next_step="" if outcome is Outcome.PASS else step,
        culprit=node if outcome is Outcome.FAIL else "",
    )


def _wanted(word: str, ways: Mapping[str, _Way], found: _Found) -> tuple[Outcome, str]:
    """Return how the ways are to be judged, and what to do."""
    if word in ways:
        return ways[word].outcome, ways[word].next_step
    if word == "either":
        order = (Outcome.PASS, Outcome.UNKNOWN, Outcome.FAIL)
        best = min(ways.values(), key=lambda way: order.index(way.outcome))
        return best.outcome, best.next_step
    if word == "none" and (found.modules & set(_MODULES) or found.peers):
        return Outcome.FAIL, "modprobe -r nvidia_peermem, and take it out of /etc/modules-load.d"
    return Outcome.PASS, ""


def _peermem(found: _Found) -> _Way:
    load = "modprobe nvidia_peermem after the RDMA drivers, and at each boot by /etc/modules-load.d"
    loaded = [name for name in _MODULES if name in found.modules]
    clients = [name for name in _CLIENTS if name in found.peers]
    if clients:
        return _Way(Outcome.PASS, f"peer memory is registered with ib_core as {', '.join(clients)}")
    if not loaded:
        return _Way(Outcome.FAIL, "neither nvidia_peermem nor nv_peer_mem is loaded", load)
    if not found.has_list:
        said = (
            f"{loaded[0]} is loaded; ib_core keeps no list of peers, so whether it is registered is not known"
        )
        return _Way(
            Outcome.UNKNOWN, said, "see dmesg for nvidia-peermem, or test with ib_write_bw --use_cuda=0"
        )
    step = f"modprobe -r {loaded[0]}, then {load}; see dmesg for why it does not register"
    return _Way(Outcome.FAIL, f"{loaded[0]} is loaded, but not registered with ib_core", step)


def _dmabuf(found: _Found) -> _Way:
    release = _RELEASE.match(found.kernel)
    if not release:
        return _Way(Outcome.UNKNOWN, "dma-buf: the kernel does not say its release", "uname -r")
    step = "install a kernel from 5.12 on"
    if (int(release[1]), int(release[2])) < _FIRST_DMABUF:
        patched = bool(_PATCHED.search(found.kernel))
        outcome = Outcome.UNKNOWN if patched else Outcome.FAIL
        note = ", unless its distribution added it" if patched else ""
        return _Way(outcome, f"dma-buf: kernel {found.kernel} is older than 5.12{note}", step)
    if _NVIDIA in found.vendors:
        if "nvidia" not in found.modules:
            return _Way(Outcome.FAIL, "dma-buf: the module nvidia is not loaded", "modprobe nvidia")
        if "Open Kernel Module" in found.nvidia:
            return _Way(Outcome.PASS, f"dma-buf is possible: kernel {found.kernel}, NVIDIA's open module")
        if not found.nvidia:
            step = "cat /proc/driver/nvidia/version"
            return _Way(Outcome.UNKNOWN, "dma-buf: NVIDIA's module does not say which one it is", step)
        step = "install NVIDIA's open kernel module (nvidia-open, from 515 on)"
        return _Way(Outcome.FAIL, "dma-buf: NVIDIA's module is not the open one", step)
    if _AMD in found.vendors:
        if "amdgpu" in found.modules:
            return _Way(Outcome.PASS, f"dma-buf is possible: kernel {found.kernel}, amdgpu")
        return _Way(Outcome.FAIL, "dma-buf: the module amdgpu is not loaded", "modprobe amdgpu")
    return _Way(Outcome.UNKNOWN, "dma-buf: this GPU's driver is not known here", "see the GPU's manual")


def _read(answers: Answers) -> _Found:
    tree = pci.read(answers)
    lines = whole(answers, "gpu_direct")

    def after(word: str) -> list[str]:
        return [line.removeprefix(word).strip() for line in lines if line.startswith(word)]

    peers = after("peers ")
    return _Found(
        modules=frozenset(after("module ")),
        peers=frozenset(path.removeprefix(f"{_PEERS}/") for path in peers if path != _PEERS),
        has_list=_PEERS in peers,
        nvidia=" ".join(after("nvrm ")),
        kernel=tree.files.get(_KERNEL, ""),
        vendors=frozenset(tree.functions[path].vendor for path in tree.gpus),
        gpus=len(tree.gpus),
    )


PLUGIN = _GpuDirect()
