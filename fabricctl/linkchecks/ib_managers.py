"""Every InfiniBand plane has one subnet manager that is master, and it is one that the policy allows.

Every port that says it has a subnet manager is asked itself, up to 64 of them and for a minute at most: two
that do not trust each other are both master, and each one's list has only itself.

Passes if just one says that it is master and the policy's ``links.subnet_managers`` is empty or has its node
or its GUID; how many stand by is told.
Fails if several are master, or the one is another.
Unknown if none answered: whether there is none or it was not reached cannot be told from outside. Also if the
list of ports that have a subnet manager was not read, or one of them did not answer or was not asked: it may
be master too.
"""

from __future__ import annotations

from collections.abc import Iterator

from fabricctl.linkparts.subnets import each
from fabricctl.model.fabric import Device
from fabricctl.model.subnet import Manager, Subnet
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.model.words import count
from fabricctl.plugin.protocols import Query
from fabricctl.plugin.surveying import Need, Survey

_NAME = "ib_managers"
_MASTER, _STANDBY = "MASTER", "STANDBY"
_LISTED = 4


class _Managers:
    name = _NAME
    needs = Need.SUBNETS

    def queries(self, device: Device) -> tuple[Query, ...]:
        """Nothing: the subnet is looked at from one host."""
        del device
        return ()

    def judge(self, survey: Survey) -> tuple[Finding, ...]:
        """Judge every plane."""
        return each(self.name, "managers", survey, _judge)


def _judge(survey: Survey, subnet: Subnet) -> Iterator[Finding]:
    masters = [one for one in subnet.managers if one.state == _MASTER]
    standby = sum(1 for one in subnet.managers if one.state == _STANDBY)
    names = ", ".join(_named(subnet, one) for one in masters)
    measured = f"{count(len(masters), 'master')}, {standby} standing by"
    if not masters:
        what = f"none of {count(len(subnet.managers), 'subnet manager')} that answered is master"
        step = "look at them: saquery -s, then sminfo LID of each"
        yield Finding(_NAME, subnet.plane, Outcome.UNKNOWN, what, measured, "1 master", next_step=step)
    elif len(masters) > 1:
        what = f"{len(masters)} subnet managers are master: {names}; each undoes what the other sets"
        step = "stop all but one (systemctl stop opensm), and see that they have the same SM key and M_Key"
        yield Finding(_NAME, subnet.plane, Outcome.FAIL, what, measured, "1 master", next_step=step)
    else:
        yield _one(survey, subnet, masters[0], measured)


def _one(survey: Survey, subnet: Subnet, master: Manager, measured: str) -> Finding:
    allowed = survey.rules.subnet_managers
    name = _named(subnet, master)
    limit = " or ".join(allowed) or "1 master, any"
    if allowed and not _is_one_of(subnet, master, allowed):
        what = f"{name} is master; the policy allows {limit}"
        step = f"stop the subnet manager on {name}, or add it to links.subnet_managers in the policy"
        return Finding(_NAME, subnet.plane, Outcome.FAIL, what, measured, limit, next_step=step)
    others = [one for one in subnet.managers if one is not master]
    doubt = _doubt(subnet)
    if doubt:
        what = f"{name} is master; {doubt}: whether it is the only one is not known"
        step = "look for others: saquery -s, then sminfo LID of each"
        if subnet.unasked:
            step = f"stop those that are not needed (systemctl disable --now opensm), or {step}"
        return Finding(_NAME, subnet.plane, Outcome.UNKNOWN, what, measured, limit, next_step=step)
    more = f"; {count(len(others), 'other')}: " if others else "; no other"
    more += ", ".join(f"{_named(subnet, one)} ({one.state.lower()})" for one in others)
    what = f"{name} is the only master (priority {master.priority}){more}"
    return Finding(_NAME, subnet.plane, Outcome.PASS, what, measured, limit)


def _doubt(subnet: Subnet) -> str:
    """Return why there may be a subnet manager that was not heard; empty if there is none."""
    if "offers" in subnet.missing:
        return f"which ports have a subnet manager could not be read ({subnet.missing['offers']})"
    silent = f"{_said_at(subnet.unheard)}, and did not answer" if subnet.unheard else ""
    were = "was" if len(subnet.unasked) == 1 else "were"
    skipped = f"{_said_at(subnet.unasked)}, and {were} not asked" if subnet.unasked else ""
    return "; ".join(text for text in (silent, skipped) if text)


def _said_at(lids: tuple[int, ...]) -> str:
    who = "another is" if len(lids) == 1 else "others are"
    more = f" and {len(lids) - _LISTED} more" if len(lids) > _LISTED else ""
    return f"{who} said to run at {', '.join(f'LID {lid}' for lid in lids[:_LISTED])}{more}"


def _device(subnet: Subnet, manager: Manager) -> str:
    """Return the inventory's device that a manager runs on; what the node calls itself if it is not known."""
    for port in subnet.ports.values():
        if manager.guid in {port.port_guid, port.node_guid}:
            return port.device or port.node
    return ""


def _named(subnet: Subnet, manager: Manager) -> str:
    device = _device(subnet, manager)
    return f"{device} ({manager.guid})" if device else manager.guid


def _is_one_of(subnet: Subnet, manager: Manager, allowed: tuple[str, ...]) -> bool:
    guids = {manager.guid} | {
        port.node_guid for port in subnet.ports.values() if port.port_guid == manager.guid
    }
    wanted = {one.lower() for one in allowed}
    # People copy GUIDs with and without their 0x.
    wanted |= {f"0x{one}" for one in wanted}
    return bool(guids & wanted) or _device(subnet, manager).lower() in wanted


PLUGIN = _Managers()
