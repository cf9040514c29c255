"""The bit error rates of InfiniBand HCAs' ports are within the policy, as mlxlink or mstlink say.

Both are read on the nodes (MFT, or Debian's mstflint), with the module's maker and temperature. A rate is
counted since the counters were last cleared, which is told: it takes hours to prove a small one.

Passes if the symbol bit error rate (after all correction: what applications see of HDR and NDR) is at most
the policy's ``links.symbol_ber``; where it is not given (EDR and older), if the effective one (after FEC) is
at most ``links.effective_ber``. A node without either program passes with a note.
Fails if it is more.
Unknown if the tool says neither rate, or did not answer.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fabricctl.linkparts.hosts import nodes, unanswered
from fabricctl.model.fabric import Device, LinkLayer, Port
from fabricctl.model.verdict import Finding, Outcome
from fabricctl.plugin.answers import Unread, parsed
from fabricctl.plugin.protocols import Query
from fabricctl.plugin.surveying import Need, Observation, Survey, cable

_NAME = "hca_signal"
_ASK = """\
for tool in mlxlink mstlink; do
    command -v "$tool" >/dev/null || continue
    exec "$tool" -d "$1" -p "$2" -c -m --json
done
echo '{"absent": true}'
"""
_SYMBOL, _EFFECTIVE = "Symbol BER", "Effective Physical BER"


class _Signal:
    name = _NAME
    needs = Need.ANSWERS

    def queries(self, device: Device) -> tuple[Query, ...]:
        """Ask for every port of which the inventory names the verbs device."""
        return tuple(
            Query(_key(port), ("sh", "-c", _ASK, "sh", *_place(port))) for port in _ports(device) if port.rdma
        )

    def judge(self, survey: Survey) -> tuple[Finding, ...]:
        """Judge every port of every node that answered."""
        asked = [device for device in survey.fabric.nodes() if device.name in survey.devices]
        if not any(_ports(device) for device in asked):
            return ()
        found = nodes(survey)
        if not found:
            return unanswered(self.name, survey)
        return tuple(_judge(survey, port, seen) for device, seen in found for port in _ports(device))


def _ports(device: Device) -> tuple[Port, ...]:
    return tuple(port for port in device.ports if port.link_layer is LinkLayer.INFINIBAND)


def _place(port: Port) -> tuple[str, str]:
    return port.verbs_device, str(port.verbs_port)


def _key(port: Port) -> str:
    return f"mlxlink {port.rdma}"


def _judge(survey: Survey, port: Port, seen: Observation) -> Finding:
    subject = cable(survey.fabric, port.id)
    device = _place(port)[0]
    if not port.rdma:
        what = "its signal was not asked for: the inventory names no verbs device (rdma: in fabric_ports)"
        return Finding(_NAME, subject, Outcome.UNKNOWN, what, next_step="name it: rdma: mlx5_0")
    step = f"on {port.id.device}: mlxlink -d {device} -c -m"
    try:
        said = parsed(seen.answers, _key(port))
        if isinstance(said, dict) and said.get("absent"):
            what = "its signal cannot be read: neither mlxlink nor mstlink is installed"
            return Finding(
                _NAME, subject, Outcome.PASS, what, next_step="install mstflint, to have bit error rates"
            )
        output = _output(said)
        return _rates(survey, port, output, step)
    except Unread as exc:
        return Finding(_NAME, subject, Outcome.UNKNOWN, str(exc), next_step=step)


def _output(said: Any) -> Mapping[str, Any]:
    """Return what the tool says of the port; Unread with its message if it says nothing."""
    result = said.get("result") if isinstance(said, dict) else None
    output = result.get("output") if isinstance(result, dict) else None
    if not isinstance(output, dict) or not output:
        status = said.get("status") if isinstance(said, dict) else None
        message = status.get("message") if isinstance(status, dict) else ""
        raise Unread(f"mlxlink: {message or 'it says nothing of the port'}"[:200])
    return output


def _rates(survey: Survey, port: Port, output: Mapping[str, Any], step: str) -> Finding:
    subject = cable(survey.fabric, port.id)
    counters = _section(output, "Physical Counters and BER Info")
    symbol, effective = _number(counters, _SYMBOL), _number(counters, _EFFECTIVE)
    if symbol is not None:
        name, rate, limit = _SYMBOL, symbol, survey.rules.symbol_ber
    elif effective is not None:
        name, rate, limit = _EFFECTIVE, effective, survey.rules.effective_ber
    else:
        raise Unread("mlxlink gives no bit error rate: the link may be down")
    minutes = _word(counters, "Time Since Last Clear [Min]")
    since = f" since it was cleared {minutes} minutes ago" if minutes else ""
    what = f"{name} {rate:.1e}{since}, {limit:.0e} is allowed{_module(output)}"
    measured, allowed = f"{rate:.1e}", f"<= {limit:.0e}"
    if rate <= limit:
        return Finding(_NAME, subject, Outcome.PASS, what, measured, allowed)
    fix = f"clean and reseat the cable or module, then clear and look again ({step} --pc); else replace it"
    return Finding(_NAME, subject, Outcome.FAIL, what, measured, allowed, next_step=fix)


def _module(output: Mapping[str, Any]) -> str:
    """Return the maker and the temperature of the module, as the tail of a sentence."""
    module = _section(output, "Module Info")
    named = [_word(module, name) for name in ("Vendor Name", "Vendor Part Number", "Vendor Serial Number")]
    who = " ".join(word for word in named if word)
    # "46 [-5..75]": what it is, and what it may be.
    warm = _word(module, "Temperature [C]")
    return "".join((f"; {who}" if who else "", f", {warm} C" if warm else ""))


def _section(output: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = output.get(name)
    return found if isinstance(found, dict) else {}


def _word(section: Mapping[str, Any], name: str) -> str:
    """Return a value as text, empty if there is none; versions of MFT wrap some in lists or ``values``."""
    found = section.get(name)
    if isinstance(found, dict):
        found = found.get("values")
    if isinstance(found, list):
        found = found[0] if found else None
    text = str(found).strip() if isinstance(found, str | int | float) else ""
    return "" if text in {"N/A", "-"} or not text.isprintable() else text


def _number(section: Mapping[str, Any], name: str) -> float | None:
    """Return a rate; ``15E-255`` and ``1.5E-254`` are how the tool says that there was no error at all."""
    try:
        value = float(_word(section, name))
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


PLUGIN = _Signal()
