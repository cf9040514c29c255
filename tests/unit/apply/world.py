"""A small world for flow tests: devices are folders, their scripts run for real under /bin/sh.

``/run`` and ``/etc`` in a script become folders of the device; ``systemctl`` and ``systemd-run`` are little
programs that note what they are told. So the very text that is pushed is what the tests run.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from fabricctl.apply.compose import PORT_MARK, Job
from fabricctl.apply.rollout import Tools
from fabricctl.model import facts, settings
from fabricctl.model.fabric import Device, Endpoint, Fabric, Link, LinkLayer, Port, Role
from fabricctl.model.intent import PortIntent
from fabricctl.model.names import PortId
from fabricctl.model.plan import Disruption, PushOutcome
from fabricctl.model.policy import GatePolicy, Limits, MtuPolicy, Policy
from fabricctl.model.reading import DeviceReading, Entry, Known, Missing, PortReading, Value
from fabricctl.plugin.protocols import PortGoal

TEMPLATE = """\
set -- ${*:-{{ settings | sort | join(" ") }}}
failed=0
for setting; do
  case $setting in
{% for name, value in settings.items() %}
  {{ name }}) [ "$(cat "$FAKE_ROOT/state/{{ port }}/$setting")" != {{ value | quote }} ] || continue ;;
{% endfor %}
  esac
  if [ -e "$FAKE_ROOT/refuse/$setting" ] || [ -e "$FAKE_ROOT/refuse/{{ port }}.$setting" ]; then
    echo "fabricctl: {{ port }}: $setting: the NIC refuses" >&2; failed=1; continue
  fi
  case $setting in
{% for name, value in settings.items() %}
  {{ name }}) echo {{ value | quote }} >"$FAKE_ROOT/state/"{{ port | quote }}"/$setting" ;;
{% endfor %}
  esac
done
exit $failed
"""

SYSTEMCTL = """\
#!/bin/sh
# is-active UNIT | stop UNIT... | enable UNIT... | disable UNIT...
verb=$1; shift
for unit; do
  case $unit in -*) continue;; esac
  case $verb in
    is-active) [ -e "$FAKE_ROOT/timers/$unit" ] || exit 3 ;;
    stop) rm -f "$FAKE_ROOT/timers/$unit" ;;
    enable) : >"$FAKE_ROOT/enabled/$unit" ;;
    disable) rm -f "$FAKE_ROOT/enabled/$unit" ;;
  esac
done
exit 0
"""

SYSTEMD_RUN = """\
#!/bin/sh
[ ! -e "$FAKE_ROOT/no-timers" ] || exit 1
unit=
for word; do
  case $word in --unit=*) unit=${word#--unit=} ;; esac
done
[ -n "$unit" ] || exit 0
echo "$*" >"$FAKE_ROOT/timers/$unit.timer"
"""


class FakeMethod:
    """Sets a switch in a way of its own: a copy of everything is kept until it is confirmed."""

    def __init__(self, *, whole: bool, shared: str = "") -> None:
        self.whole = whole
        self.shared = shared
        """A setting that all ports of the device have in common."""
        self.calls: list[tuple[str, ...]] = []

    def push(self, apply_id: str, slot: int, goals: Sequence[PortGoal], within_s: int) -> str:
        ports = " ".join(goal.port.id.port for goal in goals)
        self.calls.append(("push", str(slot), ports))
        folder = f"/run/fabricctl/{apply_id}.{slot:04d}"
        lines = [f"mkdir -p {folder}", f'cp -r "$FAKE_ROOT/state" {folder}/state', f"failed=0 # {within_s}"]
        for goal in goals:
            port = goal.port.id.port
            lines.append("rc=0")
            for name in goal.names:
                value = shlex.quote(str(goal.wanted[name]))
                lines.append(f'if [ -e "$FAKE_ROOT/refuse/{port}.{name}" ]; then rc=1; failed=1')
                lines.append(f'echo "fabricctl: {port}: {name}: the switch refuses" >&2')
                lines.append(f'else echo {value} >"$FAKE_ROOT/state/{port}/{name}"; fi')
                if name == self.shared:
                    lines.append(f'for f in "$FAKE_ROOT"/state/*/{name}; do echo {value} >"$f"; done')
            lines.append(f"echo {PORT_MARK} {port} $rc")
        return "\n".join([*lines, "exit $failed\n"])

    def revert(self, apply_id: str, ports: Sequence[str]) -> str:
        self.calls.append(("revert", *ports))
        back = f'for d in /run/fabricctl/{apply_id}.*; do [ -e "$d" ] || continue\n'
        names = "*" if self.whole or not ports else " ".join(ports)
        back += f'(cd "$d/state" && cp -r {names} "$FAKE_ROOT/state")\n'
        return back + ('rm -rf "$d"\n' if names == "*" else "") + "done\n"

    def confirm(self, apply_id: str, slots: Sequence[int]) -> str:
        self.calls.append(("confirm", *map(str, slots)))
        gone = " ".join(f"/run/fabricctl/{apply_id}.{slot:04d}" for slot in slots)
        return f'rm -rf {gone} "$FAKE_ROOT/saved"; cp -r "$FAKE_ROOT/state" "$FAKE_ROOT/saved"\n'


class FakeDriver:
    """Wants an MTU and PFC priorities, and cannot mark."""

    unsupported: Mapping[str, str] = {settings.ECN: "it does not mark"}
    mtu_headers_bytes = 0

    def __init__(self, role: Role, method: FakeMethod | None = None) -> None:
        self.name, self.role, self.method = "fake", role, method

    def queries(self, ports: Sequence[Port]) -> tuple[object, ...]:
        raise NotImplementedError

    def parse(self, ports: Sequence[Port], answers: object) -> object:
        raise NotImplementedError

    def wanted(self, intent: PortIntent) -> Mapping[str, Value]:
        return {
            settings.MTU: intent.mtu_bytes,
            settings.PFC: intent.pfc_priorities,
            settings.ECN: intent.ecn is not None,
        }

    def disruption(self, setting: str, old: Entry, new: Value) -> Disruption:
        del old, new
        return Disruption.MTU_CHANGE if setting == settings.MTU else Disruption.NONE


def policy(mtu: int = 4200, pfc: tuple[int, ...] = (3,)) -> Policy:
    return Policy(
        name="test",
        link_layer=LinkLayer.ETHERNET,
        lossless=None,
        cnp=None,
        mtu=MtuPolicy(mtu, mtu, 1024),
        pfc_priorities=pfc,
        ecn={},
        limits=Limits(latency=(), loss=None),
        gate=GatePolicy(),
    )


def intents(fabric: Fabric, rules: Policy) -> dict[PortId, PortIntent]:
    return {
        port.id: PortIntent(
            port=port.id,
            role=device.role,
            link_layer=LinkLayer.ETHERNET,
            speed_gbps=1,
            mtu_bytes=rules.mtu.nic_bytes,
            rdma_mtu_bytes=1024,
            trust="dscp",
            dscp_priority=(),
            priority_tc=(),
            tc_scheduler=(),
            tc_bandwidth_percent=(),
            pfc_priorities=rules.pfc_priorities,
            ecn=None,
            roce_tos=None,
            cable_length_m=1,
        )
        for device in fabric.devices
        for port in device.ports
    }


def fabric(nodes: int = 2, source: str = "/site/inventory.yml") -> Fabric:
    """Return `nodes` nodes with one port each on one leaf switch."""
    end = Endpoint("127.0.0.1")
    names = [f"node{n}" for n in range(1, nodes + 1)]
    devices = [Device(n, Role.NODE, "fake", end, (Port(PortId(n, "eth1"), rdma="rxe0"),)) for n in names]
    ports = tuple(Port(PortId("leaf1", f"eth{n}")) for n in range(1, nodes + 1))
    links = tuple(
        Link(PortId("leaf1", f"eth{n}"), PortId(name, "eth1"), 2.0) for n, name in enumerate(names, 1)
    )
    return Fabric((*devices, Device("leaf1", Role.SWITCH, "fake", end, ports)), links, source)


@dataclass
class World:
    """The devices of a fabric, and what was asked of them."""

    root: Path
    fabric: Fabric
    silent: set[str] = field(default_factory=set)
    pushes: list[tuple[str, ...]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    time: float = 1_800_000_000.0
    before_push: dict[int, object] = field(default_factory=dict)
    facts: dict[PortId, dict[str, Entry]] = field(default_factory=dict)
    device_facts: dict[str, dict[str, Entry]] = field(default_factory=dict)
    by_itself: set[str] = field(default_factory=set)
    """Devices that save their configuration themselves."""

    def __post_init__(self) -> None:
        binaries = self.root / "bin"
        binaries.mkdir()
        for name, text in (("systemctl", SYSTEMCTL), ("systemd-run", SYSTEMD_RUN)):
            (binaries / name).write_text(text)
            (binaries / name).chmod(0o755)
        for device in self.fabric.devices:
            for folder in ("run", "etc/systemd/system", "timers", "enabled", "refuse"):
                (self.root / device.name / folder).mkdir(parents=True)
            for port in device.ports:
                self.set(port.id, settings.MTU, "1500")
                self.set(port.id, settings.PFC, "()")

    def tools(self) -> Tools:
        return Tools(
            read=self.read,
            push=self.push,
            report=self.said.append,
            now=lambda: self.time,
            boot_scripts=lambda ports: [self.script_of(port).read_text() for port in ports],
        )

    def script_of(self, port: PortId) -> Path:
        return self.root / port.device / f"etc/fabricctl/ports/{port.port}.sh"

    def set(self, port: PortId, setting: str, text: str) -> None:
        file = self.root / port.device / "state" / port.port / setting
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")

    def get(self, name: str, setting: str) -> str:
        port = PortId.parse(name)
        return (self.root / port.device / "state" / port.port / setting).read_text().strip()

    def timers(self) -> list[str]:
        return sorted(f"{p.parent.parent.name}:{p.name}" for p in self.root.glob("*/timers/*"))

    def leftovers(self) -> list[str]:
        return sorted(str(p.relative_to(self.root)) for p in self.root.glob("*/run/fabricctl/*.*"))

    def reboot(self, device: str) -> None:
        """Lose what is in memory, then run what is kept."""
        for name in ("run", "timers"):
            shutil.rmtree(self.root / device / name)
            (self.root / device / name).mkdir()
        for port in self.fabric.device(device).ports:
            self.set(port.id, settings.MTU, "1500")
            self.set(port.id, settings.PFC, "()")
            script = self.script_of(port.id)
            if (self.root / device / f"enabled/fabricctl-port@{port.id.port}.service").exists():
                assert self.run(device, script.read_text()).returncode == 0

    def fire_timers(self, device: str) -> None:
        for timer in sorted((self.root / device / "timers").glob("*.timer"), reverse=True):
            script = timer.read_text().split("/bin/sh ")[1].strip()
            timer.unlink()
            self.run(device, f"/bin/sh {script}\n")

    def run(self, device: str, script: str) -> subprocess.CompletedProcess[str]:
        here = self.root / device
        text = (
            script.replace("/run/fabricctl", f"{here}/run/fabricctl")
            .replace("/etc/", f"{here}/etc/")
            .replace(f"{here}{here}", str(here))
        )
        text = text.replace("mkdir -p -m 0755", f"mkdir -p {here}/etc; mkdir -p -m 0755")
        return subprocess.run(
            ["/bin/sh"],
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
            env={
                "PATH": f"{self.root}/bin:{os.environ['PATH']}",
                "FAKE_ROOT": str(here),
            },
        )

    def push(self, jobs: Sequence[Job]) -> tuple[PushOutcome, ...]:
        self.pushes.append(tuple(job.device.name for job in jobs))
        hook = self.before_push.get(len(self.pushes))
        if callable(hook):
            hook()
        return tuple(self._outcome(job) for job in jobs)

    def _outcome(self, job: Job) -> PushOutcome:
        name = job.device.name
        if name in self.silent:
            return PushOutcome(name, ok=False, tasks=0, message="no route to host")
        reply = self.run(name, job.script)
        failed = re.findall(rf"^{PORT_MARK} (\S+) [1-9]", reply.stdout, re.MULTILINE)
        said = " ".join(reply.stderr.split())
        return PushOutcome(
            name, ok=reply.returncode == 0, tasks=1, message=said, ports=dict.fromkeys(failed, said)
        )

    def read(self, devices: Sequence[Device]) -> dict[str, DeviceReading]:
        return {device.name: self._reading(device) for device in devices}

    def _reading(self, device: Device) -> DeviceReading:
        if device.name in self.silent:
            return DeviceReading(device.name, self.time, {}, error="no route to host")
        ports = {port.id: self._port(port.id) for port in device.ports}
        return DeviceReading(device.name, self.time, ports, self.device_facts.get(device.name, {}))

    def _port(self, port: PortId) -> PortReading:
        held: dict[str, Entry] = {}
        for setting in (settings.MTU, settings.PFC):
            text = self.get(str(port), setting)
            if text == "unreadable":
                held[setting] = Missing("unparsable")
            elif text == "impossible":
                held[setting] = Missing("this firmware has none", impossible=True)
            elif setting == settings.MTU:
                held[setting] = Known(int(text))
            else:
                held[setting] = Known(tuple(int(word) for word in re.findall(r"\d+", text)))
        held[settings.ECN] = Missing("it does not mark")
        held[settings.BOOT] = Known(self._boot(port))
        known: dict[str, Entry] = {facts.RDMA_MTU: Known(1024), facts.SPEED: Known(1000)}
        return PortReading(port, held, {**known, **self.facts.get(port, {})})

    def _boot(self, port: PortId) -> str:
        if port.device in self.by_itself:
            saved, state = (self.root / port.device / name / port.port for name in ("saved", "state"))
            same = saved.is_dir() and all(
                (saved / file.name).read_text() == file.read_text() for file in state.iterdir()
            )
            return "saved" if same else "none"
        script = self.script_of(port)
        if (
            not (self.root / port.device / f"enabled/fabricctl-port@{port.port}.service").exists()
            or not script.exists()
        ):
            return "none"
        return hashlib.sha256(script.read_bytes()).hexdigest()
