"""What is asked of the switch's databases beside CONFIG_DB: one look into each, whatever the number of ports.

Starting ``sonic-db-cli`` is what costs time, so each database is asked with one small script that only reads,
as SONiC's own service scripts do. Keys are built, not searched for: a database may hold very many routes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fabricctl.model.fabric import Port
from fabricctl.plugin.answers import Unread, parsed
from fabricctl.plugin.protocols import Answers, Query

APPL = "sonic-db-cli APPL_DB"
STATE = "sonic-db-cli STATE_DB"
COUNTERS = "sonic-db-cli COUNTERS_DB"
_COUNTING = frozenset({APPL, COUNTERS})
"""What changes by itself: counters, and in APPL_DB whether a link is up."""

_FIELDS = """\
local function fields(key, names)
    local values, found = redis.call('HMGET', key, unpack(names)), {}
    for at, name in ipairs(names) do
        if values[at] then found[name] = values[at] end
    end
    return found
end
local all = {}
for _, port in ipairs(ARGV) do
"""
_END = """\
end
return cjson.encode(all)
"""
# A profile is referred to by its name, in releases before 202111 by [BUFFER_PROFILE_TABLE:name].
_APPL_EACH = """\
    local groups = {}
    for first = 0, 7 do
        for last = first, 7 do
            local span = first == last and tostring(first) or first .. '-' .. last
            local profile = redis.call('HGET', 'BUFFER_PG_TABLE:' .. port .. ':' .. span, 'profile')
            if profile then
                local name = string.match(profile, '^%[.*:(.*)%]$') or profile
                local held = fields('BUFFER_PROFILE_TABLE:' .. name, {'xoff', 'size', 'static_th'})
                for group = first, last do groups[tostring(group)] = held end
            end
        end
    end
    all[port] = {port = fields('PORT_TABLE:' .. port, {'oper_status', 'speed', 'fec'}), groups = groups}
"""
_STATE_EACH = """\
    all[port] = fields('PORT_TABLE|' .. port, {'speed', 'fec'})
"""
_COUNTERS_EACH = """\
    local function of(map, key, table, names)
        local oid = redis.call('HGET', map, key)
        return oid and fields(table .. ':' .. oid, names) or {}
    end
    local names, queues, groups = {}, {}, {}
    for priority = 0, 7 do
        names[#names + 1] = 'SAI_PORT_STAT_PFC_' .. priority .. '_RX_PKTS'
        names[#names + 1] = 'SAI_PORT_STAT_PFC_' .. priority .. '_TX_PKTS'
    end
    for _, way in ipairs({'IN', 'OUT'}) do
        names[#names + 1] = 'SAI_PORT_STAT_IF_' .. way .. '_ERRORS'
        names[#names + 1] = 'SAI_PORT_STAT_IF_' .. way .. '_DISCARDS'
    end
    for index = 0, 7 do
        local key = port .. ':' .. index
        queues[tostring(index)] = {
            counted = of('COUNTERS_QUEUE_NAME_MAP', key, 'COUNTERS', {
                'SAI_QUEUE_STAT_PACKETS', 'SAI_QUEUE_STAT_DROPPED_PACKETS',
                'SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS',
                'PFC_WD_QUEUE_STATS_DEADLOCK_DETECTED', 'PFC_WD_QUEUE_STATS_DEADLOCK_RESTORED',
                'PFC_WD_STATUS',
            }),
            peak = of('COUNTERS_QUEUE_NAME_MAP', key, 'USER_WATERMARKS',
                {'SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES'}),
        }
        groups[tostring(index)] = {
            counted = of('COUNTERS_PG_NAME_MAP', key, 'COUNTERS',
                {'SAI_INGRESS_PRIORITY_GROUP_STAT_DROPPED_PACKETS'}),
            peak = of('COUNTERS_PG_NAME_MAP', key, 'USER_WATERMARKS',
                {'SAI_INGRESS_PRIORITY_GROUP_STAT_XOFF_ROOM_WATERMARK_BYTES'}),
        }
    end
    local counted = of('COUNTERS_PORT_NAME_MAP', port, 'COUNTERS', names)
    all[port] = {port = counted, queues = queues, groups = groups}
"""


def queries(ports: Sequence[Port]) -> tuple[Query, ...]:
    """Ask for links and computed headroom, for what was negotiated, and for counters."""
    names = [port.id.port for port in ports]
    return tuple(
        Query(key, (*key.split(), "EVAL", f"{_FIELDS}{each}{_END}", "0", *names), counts=key in _COUNTING)
        for key, each in ((APPL, _APPL_EACH), (STATE, _STATE_EACH), (COUNTERS, _COUNTERS_EACH))
    )


def of_port(answers: Answers, key: str, name: str) -> Mapping[str, Any]:
    """Return what a database said of a port; Unread if it said nothing."""
    found = parsed(answers, key)[name]
    if not isinstance(found, dict):
        raise Unread(f"{key}: says nothing of {name}")
    return found
