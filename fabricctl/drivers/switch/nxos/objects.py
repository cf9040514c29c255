"""Which policy-maps a change makes, binds and removes.

What a policy-map of ours holds is in its name, in short, so a change makes a new one, binds it, and takes the
old one away if nothing uses it any more: none is edited in place, and two policies on one switch share what
is equal. A policy-map of others is bound again where it holds just what is wanted, and never touched.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fabricctl.drivers.switch.nxos import policies, terms
from fabricctl.drivers.switch.nxos.config import DEFAULTS, NETWORK, QOS, QUEUING
from fabricctl.drivers.switch.nxos.policies import Classifier, NetworkQos, Policy, Queuing
from fabricctl.model import settings
from fabricctl.model.reading import Value

SYSTEM = "system"
_SHORT = {QOS: "in", QUEUING: "out", NETWORK: "nq"}
_CLASS_MAP = "class-map"
_NOBODY = "-"


@dataclass
class Objects:
    """The policy-maps of a device while a change is composed.

    Parameters
    ----------
    digests
        By kind and name: what it holds; ``-`` if that is more than can be said.
    users
        By kind and name: ports and ``system``; of class-maps the policy-maps.
    made
        By kind and name: the lines that make a new one.
    """

    digests: dict[tuple[str, str], str]
    users: dict[tuple[str, str], set[str]]
    made: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    @classmethod
    def read(cls, told: Value) -> Objects:
        """Return what the setting ``nxos.objects`` tells."""
        digests, users = {}, {}
        for row in told if isinstance(told, tuple) else ():
            kind, name, digest, listed = str(row).split()
            digests[kind, name] = digest
            users[kind, name] = set(listed.split(",")) - {_NOBODY}
        return cls(digests, users)

    def bound(self, kind: str, user: str) -> str:
        """Return the name of what is bound to a port or to the system; empty if nothing."""
        found = (name for (other, name), users in self.users.items() if other == kind and user in users)
        return next(found, "")

    def bind(self, kind: str, user: str, policy: Policy, named: str) -> tuple[str, str]:
        """Have `user` use a policy, and return what is to be unbound and what to be bound; empty for neither.

        Parameters
        ----------
        named
            ``plain``, or the policy-map to use whatever it holds.
        """
        old = self.bound(kind, user)
        new = self._plain(kind, user, policy, old) if named == terms.PLAIN else named
        if user != SYSTEM and new and new == self.bound(kind, SYSTEM):
            new = ""
        if new == old:
            return "", ""
        for name in (old, new):
            if name:
                terms.checked_name(name)
        if old:
            self.users[kind, old].discard(user)
        if new:
            self.users.setdefault((kind, new), set()).add(user)
        return old, new

    def definitions(self) -> Iterator[str]:
        """Walk the lines that make what is new."""
        for lines in self.made.values():
            yield from lines

    def removals(self) -> Iterator[str]:
        """Walk the lines that take away what is ours and nobody uses, in the reverse order of making it."""
        for kind in (QUEUING, NETWORK, QOS):
            for name in self._unused(kind):
                yield f"no policy-map type {kind} {name}"
                for (other, _), users in self.users.items():
                    if kind == QOS and other == _CLASS_MAP:
                        users.discard(name)
        for name in self._unused(_CLASS_MAP):
            yield f"no class-map type qos match-any {name}"

    def _plain(self, kind: str, user: str, policy: Policy, old: str) -> str:
        """Return the name of a policy-map that holds just `policy`; empty if that is so with none bound."""
        if policy.digest == self._without(kind, user):
            return ""
        equal = [n for (other, n), found in self.digests.items() if other == kind and found == policy.digest]
        if equal:
            ours = [name for name in equal if name.startswith(terms.OURS)]
            return old if old in equal else (ours or equal)[0]
        name = self._free(kind, f"{terms.OURS}{_SHORT[kind]}-{policy.digest}")
        lines = self._lines(name, policy)
        self.digests[kind, name], self.made[kind, name] = policy.digest, lines
        return name

    def _lines(self, name: str, policy: Policy) -> list[str]:
        match policy:
            case Classifier():
                names = {p: self._class_map(name, p, dscps) for p, dscps in policies.members(policy).items()}
                return policies.classifier_lines(name, policy, names)
            case Queuing():
                return policies.queuing_lines(name, policy)
            case NetworkQos():
                return policies.network_lines(name, policy)

    def _class_map(self, user: str, priority: int, dscps: Sequence[int]) -> str:
        """Return the name of our class-map of a priority's DSCPs, a new one if there is none."""
        digest = terms.digest(tuple(dscps))
        stem = f"{terms.OURS}p{priority}-{digest}"
        found = (
            name
            for (kind, name), known in self.digests.items()
            if kind == _CLASS_MAP and name.startswith(stem) and known == digest
        )
        name = next(found, "") or self._free(_CLASS_MAP, stem)
        if (_CLASS_MAP, name) not in self.digests:
            self.made[_CLASS_MAP, name] = policies.class_map_lines(name, dscps)
            self.digests[_CLASS_MAP, name] = digest
        self.users.setdefault((_CLASS_MAP, name), set()).add(user)
        return name

    def _free(self, kind: str, stem: str) -> str:
        """Return a name that nothing has: one of ours that somebody changed is not what its name says."""
        names = (f"{stem}{letter}" for letter in ("", *string.ascii_lowercase))
        return next(name for name in names if (kind, name) not in self.digests)

    def _without(self, kind: str, user: str) -> str:
        """Return what a user has with nothing bound to it."""
        name = "" if user == SYSTEM else self.bound(kind, SYSTEM)
        return self.digests.get((kind, name), DEFAULTS[kind].digest)

    def _unused(self, kind: str) -> list[str]:
        found = [name for (other, name), users in self.users.items() if other == kind and not users]
        return [name for name in found if name.startswith(terms.OURS)]


def classifier_of(values: Mapping[str, Value], strict: int) -> Classifier:
    """Return the classifier that realises a map of priorities and their classes."""
    priorities = _numbers(values, settings.DSCP_PRIORITY, policies.NOTHING.priorities)
    classes = _numbers(values, settings.PRIORITY_TC, range(terms.QUEUES))
    return Classifier(priorities, tuple(terms.swapped(classes[number], strict) for number in priorities))


def queuing_of(values: Mapping[str, Value], strict: int) -> Queuing:
    """Return the queues that realise schedulers, bandwidths and marking."""
    default = policies.DEFAULT_QUEUING
    schedulers = _given(values, settings.TC_SCHEDULER, terms.by_class(default.schedulers, strict))
    percents = _given(values, settings.TC_BANDWIDTH, terms.by_class(default.percents, strict))
    marking = _numbers(values, terms.ECN_CLASSES, ())
    mark = _mark(values)
    return Queuing(
        tuple(str(kind) for kind in terms.by_class(schedulers, strict)),
        tuple(int(str(percent)) for percent in terms.by_class(percents, strict)),
        tuple(mark if terms.swapped(queue, strict) in marking else None for queue in range(terms.QUEUES)),
    )


def network_of(values: Mapping[str, Value], strict: int) -> NetworkQos:
    """Return the network-qos that realises lossless classes, PFC priorities and MTUs."""
    lossless = _numbers(values, settings.LOSSLESS_BUFFERS, ())
    pfc = _numbers(values, settings.PFC, lossless)
    # A class is paused by the priority of its own number; another is told only where something else was set.
    paused = dict(zip(lossless, pfc if len(pfc) == len(lossless) else lossless, strict=True))
    mtus = _numbers(values, terms.CLASS_MTU, policies.DEFAULT_NETWORK.mtus)
    classes = [terms.swapped(queue, strict) for queue in range(terms.QUEUES)]
    return NetworkQos(
        tuple(mtus[number] for number in classes),
        tuple((paused[number],) if number in paused else () for number in classes),
    )


def _mark(values: Mapping[str, Value]) -> policies.Mark | None:
    names = (settings.ECN_KMIN, settings.ECN_KMAX, settings.ECN_PMAX)
    numbers = [found for name in names if isinstance(found := values.get(name), int)]
    return (
        policies.Mark(*numbers) if values.get(settings.ECN) is True and len(numbers) == len(names) else None
    )


def _given(values: Mapping[str, Value], name: str, otherwise: Sequence[object]) -> Sequence[object]:
    found = values.get(name)
    return found if isinstance(found, tuple) else tuple(otherwise)


def _numbers(values: Mapping[str, Value], name: str, otherwise: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(str(number)) for number in _given(values, name, otherwise))
