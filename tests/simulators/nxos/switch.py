"""A Nexus 9000 as far as QoS goes: running and saved configuration, checkpoints, and a scheduler that fires.

It takes the lines of ``grammar.py`` and refuses all others in NX-OS's words. What it prints is written after
Cisco's documents and public collectors, not recorded from a switch.
"""

from __future__ import annotations

import copy
import datetime as dt
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from simulators.cli.server import Clock, Faults, Refused
from simulators.nxos.grammar import MODES, PROMPTS, Rule

Tree = dict[str, "Tree"]
MARKER = "                ^\n% Invalid command at '^' marker."
MOST_CHECKPOINTS = 10
_POLICY = re.compile(r"service-policy type (qos|queuing|network-qos)(?: input| output)? (\S+?)(?: no-stats)?")


@dataclass
class Port:
    """What a port is at work.

    Parameters
    ----------
    agreed
        Whether DCBX agreed on PFC, which decides where its mode is ``auto``.
    neighbour
        ``device/port`` by LLDP; empty for none.
    counters
        By the name that a table of NX-OS's calls it.
    """

    up: bool = True
    speed: str = "100 Gb/s"
    agreed: bool = False
    neighbour: str = ""
    counters: dict[str, int] = field(default_factory=dict)


@dataclass
class Switch:
    """One switch; :meth:`session` gives a command line to it."""

    ports: dict[str, Port]
    name: str = "leaf1"
    banner: str = "\nUser Access Verification\n"
    privileged: bool = True
    enable_password: str = ""
    faults: Faults = field(default_factory=Faults)
    log: list[str] = field(default_factory=list)
    clock: Clock = field(default_factory=Clock)
    running: Tree = field(default_factory=dict)
    startup: Tree | None = None
    checkpoints: dict[str, Tree] = field(default_factory=dict)
    executed: dict[str, float] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    """Schedules whose job was refused by the command line."""
    scheduler_works: bool = True
    rounds: Callable[[str], str] = lambda line: line
    """What becomes of a line before it is kept: a switch that rounds."""
    rollback_fails: bool = False
    started: str = "Mon Jan  4 08:15:30 2027"

    def __post_init__(self) -> None:
        self.running = {f"hostname {self.name}": {}, "feature lldp": {}}
        self.running |= {f"interface {port}": {} for port in self.ports}
        self.startup = copy.deepcopy(self.running)

    def session(self) -> Session:
        return Session(self)

    def configure(self, *lines: str) -> None:
        """Do what an administrator types, and fail if the switch refuses it."""
        session = self.session()
        for line in ("configure terminal", *lines, "end"):
            session.answer(line)

    def save(self) -> None:
        self.startup = copy.deepcopy(self.running)

    def reboot(self) -> None:
        self.running = copy.deepcopy(self.startup or {})
        self.started = self.now().strftime("%a %b %e %H:%M:%S %Y")

    def now(self) -> dt.datetime:
        return dt.datetime.fromtimestamp(self.clock(), dt.UTC)

    def tick(self) -> None:
        """Run the jobs whose time has come, once."""
        for line, inner in list(self.running.items()):
            if not self.scheduler_works or not line.startswith("scheduler schedule name "):
                continue
            name = line.split()[-1]
            start = next((each.split()[-1] for each in inner if each.startswith("time start ")), "")
            job = next((each.split()[-1] for each in inner if each.startswith("job name ")), "")
            due = start and dt.datetime.strptime(f"{start}Z", "%Y:%m:%d:%H:%M%z") <= self.now()
            if due and name not in self.executed:
                self.executed[name] = self.clock()
                self.failed.discard(name)
                session = Session(self)
                try:
                    for command in self.running.get(f"scheduler job name {job}", {}):
                        session.answer(command)
                except Refused:
                    self.failed.add(name)

    def rollback(self, name: str) -> str:
        if name not in self.checkpoints:
            raise Refused(f"ERROR: Checkpoint {name} does not exist")
        if self.rollback_fails:
            raise Refused("Executing Rollback Patch\nERROR: Rollback failed, no change was made (atomic)")
        self.running = copy.deepcopy(self.checkpoints[name])
        return (
            "Note: Applying config parallelly may fail Rollback verification\n"
            "Collecting Running-Config\n#Generating Rollback Patch\nExecuting Rollback Patch\n"
            "Generating Running-config for verification\nGenerating Patch for verification\n"
            "Verification is Successful.\n\nRollback completed successfully.\n"
        )

    def bound(self) -> dict[tuple[str, str], list[str]]:
        """Return by kind and name who uses a policy-map."""
        found: dict[tuple[str, str], list[str]] = {}
        for line, inner in self.running.items():
            for each in inner:
                if match := _POLICY.fullmatch(each):
                    found.setdefault((match[1], match[2]), []).append(line)
        return found


@dataclass
class Session:
    """One command line."""

    switch: Switch
    privileged: bool = True
    modes: list[str] = field(default_factory=lambda: ["exec"])
    places: list[list[Tree]] = field(default_factory=list)
    """By mode: what its lines go into; several for a range of ports."""

    def prompt(self) -> str:
        mode = self.modes[-1]
        shown = PROMPTS.get(mode, "(config)" if mode == "config" else f"(config-{mode})")
        if mode == "if" and len(self.places[-1]) > 1:
            shown = "(config-if-range)"
        return f"{self.switch.name}{shown}# "

    def answer(self, line: str) -> str:
        from simulators.nxos.show import show  # noqa: PLC0415  it needs this module

        self.switch.tick()
        words = line.split()
        if words[0] == "show":
            return show(self.switch, line)
        if self.modes[-1] == "job":
            return self._job(line)
        if line == "end":
            self.modes, self.places = ["exec"], []
            return ""
        if line == "exit":
            if len(self.modes) > 1:
                self.modes.pop()
                self.places.pop()
            return ""
        return self._exec(line) if self.modes[-1] == "exec" else self._configure(line)

    def _exec(self, line: str) -> str:
        switch, words = self.switch, line.split()
        if line in {"configure terminal", "configure", "conf t"}:
            self.modes.append("config")
            self.places.append([switch.running])
            return "Enter configuration commands, one per line. End with CNTL/Z.\n"
        if line == "copy running-config startup-config":
            switch.save()
            return "[########################################] 100%\nCopy complete.\n"
        if re.fullmatch(r"checkpoint [A-Za-z0-9-]{1,80}", line):
            return self._checkpoint(words[1])
        if re.fullmatch(r"no checkpoint \S+", line):
            if switch.checkpoints.pop(words[2], None) is None:
                raise Refused(f"ERROR: Checkpoint {words[2]} does not exist")
            return ""
        if found := re.fullmatch(r"rollback running-config checkpoint (\S+) atomic", line):
            return switch.rollback(found[1])
        raise Refused(MARKER)

    def _checkpoint(self, name: str) -> str:
        if name in self.switch.checkpoints:
            raise Refused(f"ERROR: Checkpoint name {name} already exists")
        if len(self.switch.checkpoints) >= MOST_CHECKPOINTS:
            raise Refused("ERROR: Maximum number of checkpoints reached")
        self.switch.checkpoints[name] = copy.deepcopy(self.switch.running)
        return "...Done\n"

    def _job(self, line: str) -> str:
        if line in {"end-job", "exit"}:
            self.modes.pop()
            self.places.pop()
        else:
            self.places[-1][0][line] = {}
        return ""

    def _configure(self, line: str) -> str:
        negated = line.startswith("no ") and not any(r.fits(line) for r in MODES[self.modes[-1]])
        bare = line.removeprefix("no ") if negated else line
        depth, rule = self._rule(bare)
        # A line of an outer mode leads back to it, as on the switch.
        self.modes, self.places = self.modes[: depth + 1], self.places[:depth]
        return self._remove(bare, rule) if negated else self._add(bare, rule)

    def _rule(self, line: str) -> tuple[int, Rule]:
        for depth in reversed(range(1, len(self.modes))):
            for rule in MODES[self.modes[depth]]:
                if rule.fits(line):
                    return depth, rule
        raise Refused(MARKER)

    def _add(self, line: str, rule: Rule) -> str:
        places = self.places[-1]
        if rule.opens == "if":
            self._open([places[0][each] for each in self._interfaces(line)], "if")
            return ""
        for place in places:
            self._check(line, place)
        kept = self.switch.rounds(line)
        if rule.opens:
            self._open([place.setdefault(self._spelled(kept, place), {}) for place in places], rule.opens)
            return ""
        for place in places:
            for other in [each for each in place if rule.slot and self._slot(each) == rule.slot]:
                del place[other]
            if kept != rule.default:
                place[kept] = {}
        return ""

    def _open(self, places: list[Tree], mode: str) -> None:
        self.places.append(places)
        self.modes.append(mode)

    def _interfaces(self, line: str) -> list[str]:
        """Return the ports that ``interface Ethernet1/1-4,Ethernet1/9`` is about."""
        found = []
        for word in line.removeprefix("interface ").split(","):
            stem, slash, numbers = word.rpartition("/")
            first, _, last = numbers.partition("-")
            known = (
                [f"interface {word}"]
                if not slash
                else [f"interface {stem}/{number}" for number in range(int(first), int(last or first) + 1)]
            )
            if any(each not in self.switch.running for each in known):
                raise Refused("ERROR: Invalid interface")
            found += known
        return found

    def _remove(self, line: str, rule: Rule) -> str:
        for place in self.places[-1]:
            self._remove_from(place, line, rule)
        self.switch.executed.pop(line.rsplit(maxsplit=1)[-1], None)
        return ""

    def _remove_from(self, place: Tree, line: str, rule: Rule) -> None:
        kept = [each for each in place if each == line or (rule.slot and self._slot(each) == rule.slot)]
        if not kept or (line.startswith("service-policy") and line not in place):
            raise Refused("ERROR: the entry does not exist")
        self._check_unused(line)
        for each in kept:
            del place[each]
        if line == "feature scheduler":
            for each in [each for each in place if each.startswith("scheduler ")]:
                del place[each]

    def _slot(self, line: str) -> str:
        return next((rule.slot for rule in MODES[self.modes[-1]] if rule.fits(line)), "")

    def _spelled(self, line: str, place: Tree) -> str:
        return next((each for each in place if each.lower() == line.lower()), line)

    def _check(self, line: str, place: Tree) -> None:
        running = self.switch.running
        if line.startswith("scheduler ") and "feature scheduler" not in running:
            raise Refused(MARKER)
        if found := _POLICY.fullmatch(line):
            known = found[2].startswith("default-") or f"policy-map type {found[1]} {found[2]}" in running
            if not known:
                raise Refused(f"ERROR: policy-map {found[2]} does not exist")
            other = [each for each in place if self._slot(each) == found[1] and each != line]
            if other and self.modes[-1] == "if":
                raise Refused("ERROR: a service-policy of this type is attached already")
        if self.modes[-1] == "pmap-qos" and line != "class class-default":
            name = line.rsplit(maxsplit=1)[-1]
            if not any(f"class-map type qos match-{how} {name}" in running for how in ("any", "all")):
                raise Refused(f"ERROR: class-map {name} does not exist")

    def _check_unused(self, line: str) -> None:
        words = line.split()
        if words[0] == "policy-map" and (words[2], words[3]) in self.switch.bound():
            raise Refused(f"ERROR: policy-map {words[3]} is in use")
        if words[0] == "class-map":
            users = [each for each in self.switch.running if each.startswith("policy-map type qos ")]
            if any(f"class {words[-1]}" in self.switch.running[each] for each in users):
                raise Refused(f"ERROR: class-map {words[-1]} is in use")
