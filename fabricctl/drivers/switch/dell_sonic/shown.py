"""What Enterprise SONiC shows of a port apart from its configuration: link, neighbour, buffers, counters.

Tables differ by release in the columns between the first and the last; what is read is found from the ends,
or by the head of its column.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from fabricctl.drivers.switch.dell_sonic import terms
from fabricctl.model import facts
from fabricctl.model.fabric import Port
from fabricctl.model.reading import Entry, Known
from fabricctl.plugin.answers import Unread, entries, entry, text
from fabricctl.plugin.protocols import Answers

STATUS = "show interface status"
FEC = "show interface fec status"
NEIGHBOURS = "show lldp neighbor"
VERSION = "show version"
REBOOT = "show reboot-cause"
COUNTERS = "show interface counters"
QUEUES = "show queue counters"
MARKED = "show queue wred-ecn counters"
QUEUE_MARKS = "show queue watermark unicast"
GROUP_MARKS = "show priority-group watermark headroom"
PROFILES = "show buffer profile"

_ROW = re.compile(
    r"(?P<name>\S+)\s.*?\s*\b(?P<state>up|down)\s+\S+(?:\s+\S+)?\s+(?P<speed>\d+)(?P<giga>GB?)?\s+(?P<mtu>\d+)(?:\s+\S+)?"
)
_MAC = re.compile(r"(?:[0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}")
_COUNTER = re.compile(r"[0-9][0-9,]*")
_OF_PORT = ("rx_errors", "rx_discards", "rx_oversize", "tx_errors", "tx_discards")


def lines(ports: Sequence[Port]) -> tuple[str, ...]:
    """Return everything to ask besides the configuration."""
    every = f"{terms.family(ports[0].id.port) if ports else 'Eth'} all"
    return (
        STATUS,
        FEC,
        NEIGHBOURS,
        VERSION,
        REBOOT,
        PROFILES,
        groups_line(every),
        COUNTERS,
        pauses_line(every),
        storms_line(every),
        QUEUES,
        MARKED,
        QUEUE_MARKS,
        GROUP_MARKS,
    )


def counting_lines(ports: Sequence[Port]) -> tuple[str, ...]:
    """Return those of all lines whose answers change by themselves: counters, and the state of links."""
    every = f"{terms.family(ports[0].id.port) if ports else 'Eth'} all"
    return (STATUS, COUNTERS, pauses_line(every), storms_line(every), QUEUES, MARKED)


def groups_line(every: str) -> str:
    """Return the line that shows the buffers of all ports' priority groups; `every` as ``Eth all``."""
    return f"show buffer interface {every} priority-group"


def pauses_line(every: str) -> str:
    """Return the line that shows how often all ports paused and were paused."""
    return f"show qos interface {every} priority-flow-control statistics"


def storms_line(every: str) -> str:
    """Return the line that shows what the watchdog did to all queues."""
    return f"show qos interface {every} queue all priority-flow-control watchdog-statistics"


def read_facts(name: str, answers: Answers) -> dict[str, Entry]:
    """Return the facts of a port, without those that follow from its configuration."""
    return {
        facts.LINK_STATE: entry(lambda: _status(name, answers)["state"]),
        facts.SPEED: entry(lambda: _speed(name, answers)),
        facts.FEC: entry(lambda: _fec(name, answers)),
        facts.PARTNER: entry(lambda: _partner(name, answers)),
        facts.FIRMWARE: entry(lambda: version(answers, "Software Version")),
        facts.DRIVER: entry(lambda: f"{version(answers, 'HwSKU')} ({version(answers, 'ASIC')})"),
    }


def boot_mark(answers: Answers) -> str:
    """Return what the last boot came of, with its time: that changes with every boot.

    Raises
    ------
    Unread
        The switch does not know the time.
    """
    said = " ".join(text(answers, REBOOT).split())
    if "ime:" not in said:
        raise Unread(f"the last reboot has no time: {said or 'nothing was said'}")
    return said


def version(answers: Answers, label: str) -> str:
    """Return the value beside `label` in what the switch says of its version."""
    for line in text(answers, VERSION).splitlines():
        found, colon, value = line.partition(":")
        if colon and found.strip() == label and value.strip():
            return value.strip()
    raise Unread(f'"{VERSION}" names no {label}')


def mtu(name: str, answers: Answers) -> int:
    """Return the MTU of a port, in bytes."""
    return int(_status(name, answers)["mtu"])


def headrooms(name: str, answers: Answers) -> dict[int, int]:
    """Return by priority group of a port its headroom in bytes, 0 for those without.

    Raises
    ------
    Unread
        The groups of the port are not shown, or a lossless profile shows no pause threshold.
    """
    profiles = _profiles(text(answers, PROFILES))
    found: dict[int, int] = {}
    for words in _table(answers, groups_line(f"{terms.family(name)} all")):
        if words[0] == name and len(words) == 3:  # noqa: PLR2004  port, groups, profile
            for group in terms.numbers(words[1], 7):
                found[group] = _headroom(words[2], profiles)
    if not found:
        raise Unread("the switch shows no priority groups of the port")
    return found


def read_counters(name: str, answers: Answers) -> dict[str, Entry]:
    """Return the counters of a port."""
    every = f"{terms.family(name)} all"
    return {
        **entries(lambda: _port_counters(name, answers)),
        **entries(lambda: _pauses(name, text(answers, pauses_line(every)))),
        **entries(lambda: _storms(name, answers, storms_line(every))),
        **entries(lambda: _queued(name, answers)),
        **entries(lambda: _marked(name, answers)),
        **entries(lambda: _watermarks(name, answers, QUEUE_MARKS, "queue{}.watermark_bytes")),
        **entries(lambda: _watermarks(name, answers, GROUP_MARKS, "group{}.headroom_watermark_bytes")),
    }


def _status(name: str, answers: Answers) -> Mapping[str, str]:
    for line in text(answers, STATUS).splitlines():
        if line.split(maxsplit=1)[:1] == [name]:
            # A description may hold any words, "up" too: the row is read from its end.
            found = [match for match in map(_ROW.fullmatch, _endings(line.strip())) if match]
            if found:
                return {key: value or "" for key, value in found[-1].groupdict().items()}
            raise Unread(f"unparsable: {line.strip()!r:.100}")
    raise Unread(f"the switch shows no port {name}")


def _endings(line: str) -> Iterator[str]:
    """Walk a row with ever less of its description."""
    words = line.split()
    for at in range(1, len(words)):
        yield " ".join([words[0], *words[at:]])


def _speed(name: str, answers: Answers) -> int:
    found = _status(name, answers)
    return int(found["speed"]) * (1000 if found["giga"] else 1)


def _fec(name: str, answers: Answers) -> str:
    for words in _table(answers, FEC):
        # What the module is stands between, in words of its own number.
        if words[0] == name and len(words) >= 4:  # noqa: PLR2004  port, in use, set, state
            return words[-3].lower()
    raise Unread("the switch shows no FEC of the port")


def _partner(name: str, answers: Answers) -> str:
    blocks = [
        block for block in re.split(r"\n-{5,}\n", text(answers, NEIGHBOURS)) if _interface(block) == name
    ]
    if not blocks:
        raise Unread("no LLDP neighbour is heard on the port")
    if len(blocks) > 1:
        raise Unread("several LLDP neighbours are heard on the port")
    device, port = _label(blocks[0], "SysName"), _label(blocks[0], "PortID")
    if _MAC.fullmatch(port):
        port = _label(blocks[0], "PortDescr") or port
    if not device or not port:
        raise Unread("the LLDP neighbour names neither itself nor its port")
    return f"{device}/{port}"


def _interface(block: str) -> str:
    return _label(block, "Interface").partition(",")[0].strip()


def _label(block: str, label: str) -> str:
    match = re.search(rf"^\s*{label}:[ \t]*(.*)$", block, re.MULTILINE)
    return match[1].strip() if match else ""


def _profiles(said: str) -> dict[str, dict[str, str]]:
    """Return by name what is shown of each buffer profile."""
    found: dict[str, dict[str, str]] = {}
    here: dict[str, str] = {}
    for line in said.splitlines():
        head = re.fullmatch(r"\s*Profile\s*:?\s*(\S+?)\s*:?\s*", line)
        if head:
            here = found.setdefault(head[1], {})
        elif ":" in line:
            key, _, value = line.partition(":")
            here[re.sub(r"[\s_-]+", " ", key.strip().lower())] = value.strip()
    return found


def _headroom(profile: str, profiles: Mapping[str, Mapping[str, str]]) -> int:
    if profile not in profiles:
        raise Unread(f"the switch shows no buffer profile {profile}")
    for key, value in profiles[profile].items():
        if key in {"pause threshold", "xoff"}:
            return int(value.split()[0])
    if "lossless" in profile:
        raise Unread(f"the buffer profile {profile} shows no pause threshold")
    return 0


def _table(answers: Answers, line: str) -> Iterator[list[str]]:
    for row in text(answers, line).splitlines():
        words = row.split()
        if words and not row.lstrip().startswith("-"):
            yield words


def _number(word: str) -> int:
    if not _COUNTER.fullmatch(word):
        raise Unread(f"unparsable: {word!r:.40} is no number")
    return int(word.replace(",", ""))


def _count(word: str) -> Entry:
    """Return a counter; ``N/A`` is none."""
    return entry(lambda: _number(word))


def _port_counters(name: str, answers: Answers) -> Mapping[str, Entry]:
    for words in _table(answers, COUNTERS):
        if words[0] != name:
            continue
        whole = [word for word in words[2:] if _COUNTER.fullmatch(word)]
        if len(whole) != 8:  # noqa: PLR2004  packets, errors, drops and oversize, either way
            raise Unread("unparsable: other columns than are known")
        picked = (whole[1], whole[2], whole[3], whole[5], whole[6])
        return {label: _count(word) for label, word in zip(_OF_PORT, picked, strict=True)}
    raise Unread("the port is not shown")


def _pauses(name: str, said: str) -> Mapping[str, Entry]:
    found: dict[str, Entry] = {}
    way = ""
    for line in said.splitlines():
        if "ontrol frames" in line:
            way = "rx" if "received" in line.lower() else "tx"
        words = line.split()
        if way and words[:1] == [name] and len(words) == 1 + terms.CLASSES:
            found |= {f"pfc{at}.{way}_frames": _count(word) for at, word in enumerate(words[1:])}
    return found


def _storms(name: str, answers: Answers, line: str) -> Mapping[str, Entry]:
    found: dict[str, Entry] = {}
    for words in _table(answers, line):
        if words[0] == name and len(words) == 13 and words[1] in set("01234567"):  # noqa: PLR2004  columns
            start = f"watchdog.queue{words[1]}"
            found[f"{start}.storms_detected"] = _count(words[3])
            found[f"{start}.storms_restored"] = _count(words[4])
    return found


def _queued(name: str, answers: Answers) -> Mapping[str, Entry]:
    found: dict[str, Entry] = {}
    for words in _table(answers, QUEUES):
        if words[0] == name and re.fullmatch(r"UC[0-7]", words[1]):
            found[f"queue{words[1][2]}.tx_packets"] = _count(words[2])
            found[f"queue{words[1][2]}.dropped_packets"] = _count(words[-2])
    return found


def _marked(name: str, answers: Answers) -> Mapping[str, Entry]:
    column: int | None = None
    found: dict[str, Entry] = {}
    for words in _table(answers, MARKED):
        heads = [word.lower() for word in words]
        picked = [
            at for at, head in enumerate(heads) if "ecn" in head and ("pkt" in head or "packet" in head)
        ]
        if picked:
            column = picked[0]
        elif column is not None and words[0] == name and re.fullmatch(r"UC[0-7]", words[1]):
            found[f"queue{words[1][2]}.ecn_marked_packets"] = _count(words[column])
    known = [item.value for item in found.values() if isinstance(item, Known)]
    if known and len(known) == len(found):
        found["ecn.marked_packets"] = Known(sum(int(str(value)) for value in known))
    return found


def _watermarks(name: str, answers: Answers, line: str, label: str) -> Mapping[str, Entry]:
    for words in _table(answers, line):
        if words[0] == name and len(words) == 1 + terms.CLASSES:
            return {label.format(at): _count(word) for at, word in enumerate(words[1:])}
    raise Unread("the port is not shown")
