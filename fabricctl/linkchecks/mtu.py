"""Both ends of every Ethernet link let packets of the policy's size pass.

Passes: a node's port has the MTU that the policy gives, a switch's has it or more, and the active RDMA MTU of
a node's verbs port is not below the policy's.

Fails: another MTU at a node, a smaller one at a switch (small messages pass there, large ones vanish), or a
smaller active RDMA MTU.

Unknown: an MTU could not be read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fabricctl.linkparts.ends import Cable, End, cables, unseen
from fabricctl.model import facts, settings
from fabricctl.model.fabric import Device, Role
from fabricctl.model.reading import DeviceReading
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.holding import Held, look
from fabricctl.plugin.protocols import Query
from fabricctl.plugin.surveying import Need, Survey


@dataclass(frozen=True)
class _Mtu:
    name: str = "mtu"
    needs: Need = Need.READINGS

    def queries(self, device: Device) -> tuple[Query, ...]:
        """Ask nothing: the drivers read it."""
        del device
        return ()

    def judge(self, survey: Survey) -> tuple[Finding, ...]:
        """Return a finding for each link, or one for each thing that is wrong with it."""
        readings = {name: seen.last for name, seen in survey.devices.items()}
        found = [finding for link in cables(survey) for finding in self._of(link, survey, readings)]
        return tuple(found) or unseen(self.name, survey, "MTUs")

    def _of(self, link: Cable, survey: Survey, readings: dict[str, DeviceReading]) -> tuple[Finding, ...]:
        bad: list[Finding] = []
        good: list[str] = []
        for end in link.read:
            held = look(survey.fabric, end.port.id, survey.intents, readings)
            if isinstance(held, str):
                bad.append(self._unknown(link, end, held))
                continue
            found, more = list(self._netdev(link, end, held)), list(self._rdma(link, end, held))
            # An interface that is not there has neither MTU; that is told once.
            nothing = any(finding.outcome is Outcome.UNKNOWN for finding in found)
            found += [each for each in more if not nothing or each.outcome is not Outcome.UNKNOWN]
            bad += found
            if not found:
                good.append(f"{end} {held.known[settings.MTU]}")
        if bad:
            return tuple(bad)
        return (Finding(self.name, link.subject, Outcome.PASS, f"{', '.join(good)} bytes{link.unread}"),)

    def _netdev(self, link: Cable, end: End, held: Held) -> Iterator[Finding]:
        wanted, mtu = held.wanted.get(settings.MTU), held.known.get(settings.MTU)
        if not isinstance(wanted, int):
            yield self._unknown(link, end, "its driver does not say which MTU the policy means there")
        elif not isinstance(mtu, int):
            yield self._unknown(link, end, held.gaps.get(settings.MTU, "the driver did not report the MTU"))
        elif mtu < wanted or (mtu > wanted and end.role is Role.NODE):
            hole = "smaller" if mtu < wanted else "larger"
            effect = (
                "larger packets vanish there" if mtu < wanted else "what it sends may be too large for others"
            )
            yield Finding(
                self.name,
                link.subject,
                Outcome.FAIL,
                f"the MTU of {end} is {mtu} bytes, {hole} than the policy's {wanted}: {effect}",
                measured=f"{mtu} bytes",
                limit=f"{wanted} bytes",
                next_step=f"set it to {wanted} on {end}: fabricctl apply --limit {end.port.id.device}",
                culprit=str(end),
            )

    def _rdma(self, link: Cable, end: End, held: Held) -> Iterator[Finding]:
        if end.role is not Role.NODE or not end.port.rdma:
            return
        wanted, active = held.intent.rdma_mtu_bytes, end.number(facts.RDMA_MTU)
        if active is None:
            yield self._unknown(link, end, f"active RDMA MTU: {end.why_not(facts.RDMA_MTU)}")
        elif active < wanted:
            yield Finding(
                self.name,
                link.subject,
                Outcome.FAIL,
                f"the active RDMA MTU of {end.port.rdma} on {end} is {active} bytes, the policy's {wanted}",
                measured=f"{active} bytes",
                limit=f"{wanted} bytes",
                next_step=(
                    f"raise the MTU of {end} (headers take nearly 100 bytes more), then see "
                    f"`ibv_devinfo -d {end.port.rdma}`: a device keeps its MTU while its link is down"
                ),
                culprit=str(end),
            )

    def _unknown(self, link: Cable, end: End, why: str) -> Finding:
        return Finding(
            self.name,
            link.subject,
            Outcome.UNKNOWN,
            f"the MTU of {end} is not known: {why}",
            next_step=f"see what {end.port.id.device} itself says of {end.port.id.port}",
        )


PLUGIN = _Mtu()
