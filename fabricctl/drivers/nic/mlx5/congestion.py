"""Read DCQCN of mlx5: from MLNX_OFED's ``ecn`` folders, or from debugfs and the firmware's configuration.

Units and ranges follow NVIDIA's "DCQCN CC Parameters" and mstflint's descriptions of the same values in
firmware; where those give no upper bound it is the width of the field in the kernel's ``mlx5_ifc.h``.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from fabricctl.drivers import files, functions
from fabricctl.drivers.nic.mlx5 import firmware
from fabricctl.drivers.nic.mlx5.planes import is_ofed, pci_address
from fabricctl.model import settings
from fabricctl.model.fabric import Port
from fabricctl.model.reading import Entry
from fabricctl.plugin.answers import Lacking, Unread, entry, text
from fabricctl.plugin.protocols import Answers, Parameter, Query

_PRIORITIES = range(8)
_ANY = 2**32 - 1
_FLAG = (0, 1)

PARAMETERS: Mapping[str, Parameter] = {
    "rp_clamp_tgt_rate": Parameter("1: every CNP lowers the target rate to the current rate", *_FLAG),
    "rp_clamp_tgt_rate_ati": Parameter(
        "1: a CNP lowers the target rate also after increases by the timer, not only by the byte counter",
        *_FLAG,
    ),
    "rp_time_reset": Parameter("microseconds between rate increases without a CNP", 1, _ANY),
    "rp_byte_reset": Parameter(
        "what is sent between rate increases without a CNP, as the firmware counts; 0: no such increases",
        0,
        _ANY,
    ),
    "rp_threshold": Parameter("rate increases before the next, faster stage of increase", 0, 31),
    "rp_ai_rate": Parameter("Mb/s by which the target rate grows in the stage of active increase", 1, _ANY),
    "rp_hai_rate": Parameter("Mb/s by which the target rate grows in the stage of hyper increase", 1, _ANY),
    "rp_max_rate": Parameter("Mb/s from which a flow is limited no more; 0: full port speed", 0, _ANY),
    "rp_min_dec_fac": Parameter("least percentage of its rate that a flow keeps at one decrease", 0, 100),
    "rp_min_rate": Parameter("Mb/s below which no flow is slowed down", 1, _ANY),
    "rp_rate_to_set_on_first_cnp": Parameter("Mb/s after a flow's first CNP; 0: no jump", 0, _ANY),
    "rp_dce_tcp_g": Parameter("weight of the past in alpha, in 1/1024", 0, 1023),
    "rp_dce_tcp_rtt": Parameter("microseconds between updates of alpha", 0, 131071),
    "rp_rate_reduce_monitor_period": Parameter("least microseconds between two decreases of a flow", 0, _ANY),
    "rp_initial_alpha_value": Parameter("alpha at a flow's first CNP, in 1/1024", 0, 1023),
    "rp_gd": Parameter("binary logarithm of the divisor of alpha at a decrease; 11 halves at most", 0, 15),
    "np_min_time_between_cnps": Parameter("least microseconds between two CNPs of the port", 0, _ANY),
    "traffic_class": Parameter(
        "MLNX_OFED only: type of service of all queue pairs, whatever they ask for; -1 unsets it", -1, 255
    ),
}
"""What a policy's ``nic_parameters`` may give under ``mlx5``."""

TRAFFIC_CLASS = "mlx5.traffic_class"
"""int: the override of MLNX_OFED's driver, -1 where it is not set."""

# The same values as cc_params in debugfs (the keys) and below MLNX_OFED's ecn folder.
OFED_FILES: Mapping[str, str] = {
    "rp_clamp_tgt_rate": "roce_rp/clamp_tgt_rate",
    "rp_clamp_tgt_rate_ati": "roce_rp/clamp_tgt_rate_after_time_inc",
    "rp_time_reset": "roce_rp/rpg_time_reset",
    "rp_byte_reset": "roce_rp/rpg_byte_reset",
    "rp_threshold": "roce_rp/rpg_threshold",
    "rp_ai_rate": "roce_rp/rpg_ai_rate",
    "rp_hai_rate": "roce_rp/rpg_hai_rate",
    "rp_max_rate": "roce_rp/rpg_max_rate",
    "rp_min_dec_fac": "roce_rp/rpg_min_dec_fac",
    "rp_min_rate": "roce_rp/rpg_min_rate",
    "rp_rate_to_set_on_first_cnp": "roce_rp/rate_to_set_on_first_cnp",
    "rp_dce_tcp_g": "roce_rp/dce_tcp_g",
    "rp_dce_tcp_rtt": "roce_rp/dce_tcp_rtt",
    "rp_rate_reduce_monitor_period": "roce_rp/rate_reduce_monitor_period",
    "rp_initial_alpha_value": "roce_rp/initial_alpha_value",
    "rp_gd": "roce_rp/rpg_gd",
    "np_min_time_between_cnps": "roce_np/min_time_between_cnps",
    "np_cnp_dscp": "roce_np/cnp_dscp",
    "np_cnp_prio": "roce_np/cnp_802p_prio",
}

_MASK = "ROCE_CC_PRIO_MASK"
_KEY = "cc_params"
_DEBUGFS = "/sys/kernel/debug/mlx5"
_ASK = f"""\
for port; do
    shift
    for name in $(functions_of "$port"); do
        pci=$(readlink -f "/sys/class/net/$name/device")
        set -- "$@" "{_DEBUGFS}/${{pci##*/}}/cc_params"
    done
done
exec grep -rH "" "$@"
"""


def query(ports: Sequence[Port]) -> Query:
    """Ask for debugfs' congestion control parameters of all ports' physical functions."""
    return Query(_KEY, ("sh", "-c", f"{functions.SHELL}{_ASK}", "sh", *(port.id.port for port in ports)))


def on_priority(priority: int) -> str:
    """Return the setting (bool) that says whether DCQCN is on for `priority`.

    It stands in for ``settings.DCQCN``, which means "on the lossless priority": a port does not know which
    that is, and what is on for other priorities is to stay as it is.
    """
    return f"mlx5.dcqcn_priority_{priority}"


def read_settings(name: str, port: str, answers: Answers) -> dict[str, Entry]:
    """Return DCQCN by priority, CNP class and parameters of physical function `name` of `port`."""
    found: dict[str, Entry] = {
        settings.CNP_DSCP: entry(lambda: _bounded(_value(name, answers, "np_cnp_dscp"), 63)),
        settings.CNP_PRIORITY: entry(lambda: _bounded(_cnp_priority(name, answers), 7)),
    }
    for parameter in PARAMETERS:
        if parameter in OFED_FILES:
            found[f"mlx5.{parameter}"] = entry(functools.partial(_value, name, answers, parameter))
    for priority in _PRIORITIES:
        found[on_priority(priority)] = entry(functools.partial(_enabled, name, port, answers, priority))
    return found


def pending(name: str, port: str, answers: Answers) -> tuple[str, ...]:
    """Return, as ``facts.PENDING`` holds it, what is stored in firmware and waits for its reset."""
    if is_ofed(name, answers):
        return ()
    mask = firmware.value(name, port, answers, _MASK)
    waiting = [p for p in _PRIORITIES if (mask.current ^ mask.next_boot) >> p & 1]
    return tuple(f"{on_priority(p)}: {firmware.reset_command(name, answers)}" for p in waiting)


def _value(name: str, answers: Answers, parameter: str) -> int:
    if is_ofed(name, answers):
        return int(_ofed(name, answers, OFED_FILES[parameter]))
    return int(_debugfs(name, answers, parameter))


def _ofed(name: str, answers: Answers, file: str) -> str:
    root = f"/sys/class/net/{name}/ecn/"
    if not files.under(answers, root):
        raise Lacking(f"the driver has no congestion control for {name}: there is no {root}")
    return files.content(answers, f"{root}{file}")


def _debugfs(name: str, answers: Answers, parameter: str) -> str:
    root = f"{_DEBUGFS}/{pci_address(name, answers)}/cc_params"
    found = _grepped(answers)
    if not any(path.startswith(f"{root}/") for path in found):
        raise Lacking(
            f"there is no {root}: debugfs is not mounted, or the firmware does not let the driver "
            f"change DCQCN"
        )
    if f"{root}/{parameter}" not in found:
        raise Lacking(f"this kernel's driver has no {root}/{parameter}")
    return found[f"{root}/{parameter}"]


def _grepped(answers: Answers) -> dict[str, str]:
    answer = answers.get(_KEY)
    printed = answer.stdout if answer is not None and answer.stdout else ""
    if not printed and (answer is None or "No such file" not in answer.stderr):
        text(answers, _KEY)
    # A PCI address has colons too, a value has none.
    parts = (line.rpartition(":") for line in printed.splitlines())
    return {path: value.strip() for path, _, value in parts}


def _cnp_priority(name: str, answers: Answers) -> int:
    if not is_ofed(name, answers):
        mode = int(_debugfs(name, answers, "np_cnp_prio_mode"))
        if mode != 0:
            raise Unread(f"notifications carry no priority of their own: np_cnp_prio_mode is {mode}")
    return _value(name, answers, "np_cnp_prio")


def _enabled(name: str, port: str, answers: Answers, priority: int) -> bool:
    if not is_ofed(name, answers):
        return bool(firmware.value(name, port, answers, _MASK).next_boot >> priority & 1)
    notifies, reacts = (
        {"0": False, "1": True}[_ofed(name, answers, f"{role}/enable/{priority}")]
        for role in ("roce_np", "roce_rp")
    )
    if notifies is not reacts:
        raise Unread(f"half on: roce_np {int(notifies)}, roce_rp {int(reacts)}")
    return notifies


def _bounded(value: int, highest: int) -> int:
    if not 0 <= value <= highest:
        raise Unread(f"unparsable: {value} is not within 0..{highest}")
    return value
