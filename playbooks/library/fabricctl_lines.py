"""Ansible module: give a device's command line one line after the other until one is refused."""  # noqa: INP001  not a package

# ``eos_command`` and its kin send all lines and look at the answers afterwards, by patterns that do not know
# every refusal: what the device did not take would be followed by the commit of the rest.

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from ansible.module_utils import connection as network
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: fabricctl_lines
short_description: Give a device's command line lines until one is refused
description:
  - Sends each line over the device's C(network_cli) connection and ends at the first that is refused.
  - A line that begins with C(!fabricctl) is not sent. It holds a JSON object about the answer to the line
    before it. C(refuse) and C(require) are patterns that the answer must not, or must, match; else the module
    ends with C(rc) and C(why). Without a match for C(unless_end) it ends with success. For each match of
    C(each), C(line) is sent with the match in place of C({}). A refusal that C(allow) matches is none.
author:
  - fabricctl (@fabricctl)
options:
  lines:
    description: The lines.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Save the configuration
  fabricctl_lines:
    lines:
      - write memory
      - '!fabricctl {"require": "Copy completed successfully", "why": "it was not saved", "rc": 1}'
"""

RETURN = r"""
rc:
  description: 0, or the status of what went wrong.
  type: int
  returned: if the device was reached
stdout:
  description: Each line that was sent, with its answer.
  type: str
  returned: always
stderr:
  description: What went wrong, as C(fabricctl) says it.
  type: str
  returned: always
"""

MARK = "!fabricctl "
_REFUSAL = re.compile(r"%|ERROR:", re.IGNORECASE)
_CARET = re.compile(r"\s*\^\s*")
_LOST = (None, "None")  # network_cli's answer when the session has ended
_SHOWN = 300


class Line(NamedTuple):
    """A line to send, and the rules about its answer."""

    text: str
    rules: list[dict[str, Any]]


class Stop(Exception):  # noqa: N818  not always an error
    """The rest is not sent: the module ends with this status, and says why if it is not 0.

    Without a status nothing was done at all: the device was not reached.
    """

    def __init__(self, rc: int | None, why: str = "") -> None:
        super().__init__(why)
        self.rc = rc
        self.why = why


def refusal(said: str) -> str:
    """Return the device's "no" in an answer, empty if it is none; only first and last lines count."""
    lines = [line.strip() for line in said.splitlines() if line.strip() and not _CARET.fullmatch(line)]
    return next((line for line in (*lines[:1], *lines[-1:]) if _REFUSAL.match(line)), "")


class Session:
    """A device's command line, and all that was said."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.said: list[str] = []

    def send(self, line: Line) -> None:
        """Send a line and judge its answer; Stop if that is the end."""
        answer, no = self._ask(line.text)
        allowed = [rule["allow"] for rule in line.rules if "allow" in rule]
        if no and not any(re.search(pattern, no) for pattern in allowed):
            raise Stop(1, f"{line.text}: {no}")
        for rule in line.rules:
            self._judge(answer, rule)

    def _ask(self, line: str) -> tuple[str, str]:
        """Return the answer to a line, and the refusal in it."""
        try:
            answer = self.connection.get(command=line)
        except network.ConnectionError as exc:
            # network_cli raises what it takes for a refusal, and so it does when the connection is gone.
            answer = str(exc)
            found = [text.strip() for text in answer.splitlines() if _REFUSAL.match(text.strip())]
            if not found and not self.said:
                raise Stop(None, " ".join(answer.split())[:_SHOWN]) from exc
            self.said.append(f"{line}\n{answer}")
            if not found:
                raise Stop(1, f"{line}: {' '.join(answer.split())[:_SHOWN]}") from exc
            return answer, found[0]
        self.said.append(f"{line}\n{answer}")
        if answer in _LOST:
            raise Stop(1, f"{line}: the session ended before the device answered")
        return answer, refusal(answer)

    def _judge(self, answer: str, rule: dict[str, Any]) -> None:
        if "refuse" in rule and re.search(rule["refuse"], answer):
            raise Stop(rule["rc"], rule["why"])
        if "require" in rule and not re.search(rule["require"], answer):
            raise Stop(rule["rc"], rule["why"])
        if "unless_end" in rule and not re.search(rule["unless_end"], answer):
            raise Stop(0)
        if "each" in rule:
            for match in dict.fromkeys(re.findall(rule["each"], answer)):
                self.send(Line(rule["line"].replace("{}", match), []))


def grouped(lines: list[str]) -> list[Line]:
    """Return each line to send with the rules that follow it."""
    found: list[Line] = []
    for line in lines:
        if line.startswith(MARK):
            found[-1].rules.append(json.loads(line.removeprefix(MARK)))
        else:
            found.append(Line(line, []))
    return found


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={"lines": {"type": "list", "elements": "str", "required": True}})
    session = Session(network.Connection(module._socket_path))  # noqa: SLF001  as every network module does
    rc: int | None = 0
    why = ""
    try:
        for line in grouped(module.params["lines"]):
            session.send(line)
    except Stop as stop:
        rc, why = stop.rc, stop.why
    if rc is None:
        module.fail_json(msg=why)
    result = {"changed": True, "rc": rc, "stdout": "\n".join(session.said)}
    if rc:
        module.fail_json(msg=why, stderr=f"fabricctl: {why}", **result)
    module.exit_json(stderr="", **result)


if __name__ == "__main__":
    main()
