"""Read RDMA of Intel E800 NICs: the protocol (devlink), and parameters of Intel's own irdma module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fabricctl.drivers import files
from fabricctl.model import facts, settings
from fabricctl.model.reading import Entry, Missing, Value
from fabricctl.plugin.answers import Unread, entry, parsed
from fabricctl.plugin.protocols import Answers, Parameter, Query

PROTOCOL = "irdma.protocol"
"""str: what verbs run over: ``roce``, ``iwarp`` or ``none``."""

PARAMETERS: Mapping[str, Parameter] = {
    "dcqcn_cc_cfg_valid": Parameter("whether the other parameters hold: 1, or 0 for the defaults", 0, 1),
    "dcqcn_min_dec_factor": Parameter("least change of the rate for a notification, in percent", 1, 100),
    "dcqcn_min_rate_MBps": Parameter("lowest rate, in Mb/s for all its name", 0, 255),
    "dcqcn_F": Parameter("how often each stage of recovery is repeated", 0, 255),
    "dcqcn_T": Parameter("time before the rate is raised, in microseconds", 0, 65535),
    "dcqcn_B": Parameter("bytes sent before the rate is raised", 0, 2**32 - 1),
    "dcqcn_rai_factor": Parameter("additive increase, in maximum segments", 0, 65535),
    "dcqcn_hai_factor": Parameter("hyperactive increase, in maximum segments", 0, 65535),
    "dcqcn_rreduce_mperiod": Parameter("least time between two cuts of a flow's rate", 0, 2**32 - 1),
}
"""Ranges are those of the parameters' types where the module names none."""

PER_FUNCTION = ("/sys/class/net/%/device/uevent",)
"""As ``files.query_of_functions`` takes it."""
_LIVE = "/sys/module/irdma/parameters"
_KEPT = "/etc/modprobe.d/fabricctl-irdma.conf"
PATHS = (_LIVE, _KEPT)
"""Files to read once a node."""

_KEY = "devlink param"
_ENABLE = "dcqcn_enable"
_INBOX = "the kernel's own irdma has no such parameter; Intel's driver package has"
_FIXED = "devlink shows no enable_roce here: the driver fixes the protocol when it is loaded"


def query() -> Query:
    """Ask for the parameters of all devices at once."""
    return Query(_KEY, ("devlink", "-j", "dev", "param", "show"))


def read_settings(name: str, answers: Answers) -> dict[str, Entry]:
    """Return the protocol of one function."""
    found = entry(lambda: _protocol(name, answers))
    return {PROTOCOL: Missing(_FIXED, impossible=True) if found == Missing(_FIXED) else found}


def read_module(answers: Answers) -> dict[str, Entry]:
    """Return what the module is to have from its next load on: what the file keeps, else what it has now."""
    names = {settings.DCQCN: _ENABLE, **{f"irdma.{name}": name for name in PARAMETERS}}
    return {setting: _parameter(name, answers) for setting, name in names.items()}


def read_pending(answers: Answers) -> dict[str, Entry]:
    """Return which parameters wait for the module to be loaded again."""

    def read() -> Value:
        kept, live = _kept(answers), _live(answers)
        found = []
        for name, value in sorted(kept.items()):
            if live.get(name) != value:
                setting = settings.DCQCN if name == _ENABLE else f"irdma.{name}"
                found.append(f"{setting}: load the module irdma again, or reboot")
        return tuple(found)

    return {facts.PENDING: entry(read)}


def plane(answers: Answers) -> str:
    """Return whose irdma it is."""
    live = _live(answers)
    if not live and not files.under(answers, "/sys/class/infiniband/"):
        return "no irdma"
    return "Intel's irdma package" if _ENABLE in live else "the kernel's irdma"


def _protocol(name: str, answers: Answers) -> str:
    shown = parsed(answers, _KEY)["param"].get(f"pci/{_pci(name, answers)}", [])
    values = {item["name"]: item["values"] for item in shown}
    if "enable_roce" in values and "enable_iwarp" in values:
        if _runtime(values["enable_roce"]):
            return "roce"
        return "iwarp" if _runtime(values["enable_iwarp"]) else "none"
    # Intel's own driver has this instead, for all ports and for as long as it is loaded.
    if _live(answers).get("roce_ena") == "1":
        return "roce"
    raise Unread(_FIXED)


def _runtime(values: Any) -> bool:
    for value in values:
        if value["cmode"] == "runtime" and isinstance(value["value"], bool):
            return bool(value["value"])
    raise Unread(f"unparsable: devlink values {values!r:.80}")


def _pci(name: str, answers: Answers) -> str:
    for line in files.content(answers, f"/sys/class/net/{name}/device/uevent").splitlines():
        label, _, value = line.partition("=")
        if label == "PCI_SLOT_NAME":
            return value
    raise Unread(f"the kernel names no PCI address of {name}")


def _parameter(name: str, answers: Answers) -> Entry:
    live, kept = _live(answers), _kept(answers)
    if name not in live:
        return Missing(_INBOX, impossible=True)
    return entry(lambda: _value(name, kept.get(name, live[name])))


def _value(name: str, word: str) -> Value:
    if name == _ENABLE:
        return {"Y": True, "N": False}[word]
    # A parameter that is a bool in the module is 0 or 1 here, as all that a policy gives are numbers.
    number = {"Y": 1, "N": 0}[word] if word in {"Y", "N"} else int(word)
    declared = PARAMETERS[name]
    if not declared.lowest <= number <= declared.highest:
        raise Unread(f"unparsable: {number} is not within {declared.lowest}..{declared.highest}")
    return number


def _live(answers: Answers) -> dict[str, str]:
    try:
        found = files.under(answers, f"{_LIVE}/")
    except Unread:
        return {}
    return {path.rpartition("/")[2]: value for path, value in found.items()}


def _kept(answers: Answers) -> dict[str, str]:
    try:
        lines = files.under(answers, _KEPT).get(_KEPT, "").splitlines()
    except Unread:
        return {}
    words = (line.removeprefix("options irdma ") for line in lines if line.startswith("options irdma "))
    return {name: value for name, _, value in (word.partition("=") for word in words)}
