"""What runs in the switch's Linux shell around a change: the timer that takes it back, and the undo itself.

Each change lies in ``/run/fabricctl/<apply>.<slot>/`` until it is kept: for each port the lines for
``sonic-cli`` that take it back, and ``revert.sh``, which a systemd timer runs unless the change is kept in
time. The folder is in memory and nothing is saved before: a reboot in between goes back by itself.

Before a timer is armed, systemd runs ``sonic-cli`` once as the timer will. Where that does not work, nothing
is changed.
"""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Iterator, Mapping, Sequence

from fabricctl.drivers import lines
from fabricctl.drivers.switch.dell_sonic import terms
from fabricctl.errors import UsageError

FOLDER = "/run/fabricctl"
RESULT = "fabricctl-result"
"""First word of the line that ends every script; a number follows."""

RC_NO_CLI = 76
"""systemd cannot run ``sonic-cli``: no timer could take the change back."""
RC_UNARMED = 77
"""The timer could not be started."""

COMMON = "ALL"
"""Name of the undo of what all ports share; no port is called so."""
_LONGEST = 60_000
"""Characters of one line for the shell; a terminal takes more, but nobody has tried."""

# A switch runs sonic-cli for the user who is logged in, root is not known to its management framework.
_USER = "user=${SUDO_USER:-admin}"
_CLI = """\
cli() { runuser -u "$user" -- sonic-cli "$@" </dev/null 2>&1; }
"""
_UNDO = """\
undo() {
  file=$1; set -- -c 'configure terminal'
  while IFS= read -r line; do set -- "$@" -c "$line"; done <"$file"
  said=$(cli "$@") || return 1
  case $said in *%*rror*|*"yntax error"*|*"nvalid input"*)
    # Not to the terminal, where ansible would take it for the end of the session.
    echo "$said" | logger -t fabricctl 2>/dev/null; return 1;;
  esac
}
"""
_CLEAN = f"""\
clean() {{
  for left in {FOLDER}/*.[0-9][0-9][0-9][0-9]/; do [ -d "$left" ] && return; done
  set -- -c 'configure terminal'
  for word in $(cli -c 'show running-configuration | no-more' | awk '
    $1 == "qos" && $2 == "map" && $4 ~ /^{terms.OURS}/ {{ have["map_" $3 "_" $4] = 1 }}
    $1 == "qos" && $2 ~ /-policy$/ && $3 ~ /^{terms.OURS}/ {{ have[$2 "_" $3] = 1 }}
    $1 == "qos-map" {{ used["map_" $2 "_" $3] = 1 }}
    $1 == "scheduler-policy" {{ used[$1 "_" $2] = 1 }}
    $1 == "queue" && $3 == "wred-policy" {{ used[$3 "_" $4] = 1 }}
    END {{ for (key in have) if (!(key in used)) print key }}' | sort); do
    name={terms.OURS}${{word##*_}}; kind=${{word%_{terms.OURS}*}}
    set -- "$@" -c "no qos $(echo "$kind" | tr _ ' ') $name"
  done
  [ $# = 2 ] || cli "$@" >/dev/null
}}
"""


def arm(
    name: str, undo: Mapping[str, Sequence[str]], common: Sequence[str], within_s: int, refused: Sequence[str]
) -> str:
    """Return the script that arms the timer.

    Parameters
    ----------
    name
        Of the push: ``<apply>.<slot>``.
    undo
        By port: lines in interface mode.
    common
        Lines in configuration mode for what all ports share.
    refused
        Ports that are not set; the script says so.
    """
    apply_id = name.rpartition(".")[0]
    folder = _q(f"{FOLDER}/{name}")
    parts = [
        _prologue(),
        _USER,
        f"""\
for other in {FOLDER}/*.[0-9][0-9][0-9][0-9]/; do
  [ -d "$other" ] || continue
  other=${{other%/}}; other=${{other##*/}}
  case $other in {_q(apply_id)}.*) continue;; esac
  systemctl is-active --quiet "fabricctl-revert-$other.timer" </dev/null && end {lines.RC_BUSY}
  rm -rf {FOLDER}/"$other"
done
systemd-run --quiet --wait --pipe --collect runuser -u "$user" -- \\
  sonic-cli -c 'show version' </dev/null 2>/dev/null 9>&- | grep -q '^Software Version' || end {RC_NO_CLI}
mkdir -p {folder} || end 1
cd {folder} || end 1""",
        *_undo_files(undo),
        *([_file(f"{COMMON}.undo", common)] if common else []),
        _file("revert.sh", revert_body(name).splitlines()),
        f"""\
if ! systemd-run --quiet --collect --unit={_q(_unit(name))} --on-active={int(within_s)}s \\
  --timer-property=AccuracySec=1s --setenv=SUDO_USER="$user" /bin/sh {folder}/revert.sh </dev/null 9>&-; then
  cd / && rm -rf {folder}; end {RC_UNARMED}
fi""",
        *(f"echo fabricctl-port {_q(port)} 1" for port in refused),
        "end 0",
    ]
    return "\n".join(parts) + "\n"


def revert(apply_id: str, ports: Sequence[str]) -> str:
    """Return the script that takes back what of an apply is not kept, the latest first."""
    named = " ".join(_q(_stem(port)) for port in ports)
    return f"""\
{_prologue()}
exec 9>&-
{_USER}
failed=0; set --
for dir in {FOLDER}/{_q(apply_id)}.*; do set -- "$dir" "$@"; done
for dir; do
  [ -e "$dir/revert.sh" ] || continue
  SUDO_USER=$user /bin/sh "$dir/revert.sh" {named} </dev/null || failed=1
done
end $failed
"""


def confirm(apply_id: str, slots: Sequence[int]) -> str:
    """Return the script that stops the timers, and takes away what nobody uses any more.

    It fails if the timer of anything else runs: what that may yet revert is not to be saved.
    """
    names = [slot_name(apply_id, slot) for slot in slots]
    mine = f"case $other in {'|'.join(map(_q, names))}) continue;; esac\n  " if names else ""
    others = f"""\
for other in {FOLDER}/*.[0-9][0-9][0-9][0-9]/; do
  [ -d "$other" ] || continue
  other=${{other%/}}; other=${{other##*/}}
  {mine}systemctl is-active --quiet "fabricctl-revert-$other.timer" </dev/null && end {lines.RC_BUSY}
done"""
    parts = [_prologue(), others]
    if names:
        parts.append(f"{_USER}\n{_CLI}{_CLEAN}late=0")
    for name in names:
        unit, folder = _q(_unit(name)), f"{FOLDER}/{name}"
        parts.append(f"systemctl stop {unit}.timer {unit}.service </dev/null 2>/dev/null")
        parts.append(f"if ! [ -d {_q(folder)} ] || [ -e {_q(folder + '/reverting')} ]; then late=1; fi")
    if names:
        parts.append(f"[ $late = 0 ] || end {lines.RC_TOO_LATE}")
        parts += [f"rm -rf {_q(f'{FOLDER}/{name}')}" for name in names]
        parts.append("clean")
    parts.append("end 0")
    return "\n".join(parts) + "\n"


def slot_name(apply_id: str, slot: int) -> str:
    """Return the name of one push of an apply; names sort in the order of the pushes."""
    return f"{apply_id}.{slot:04d}"


def command(script: str) -> str:
    """Return a script as one line for a shell; it starts with a blank, so that no history has it.

    Raises
    ------
    UsageError
        It is longer than a line should be.
    """
    packed = base64.b64encode(script.encode()).decode()
    if len(packed) > _LONGEST:
        raise UsageError(
            f"its script has {len(packed)} characters, one line takes {_LONGEST}",
            next_step="apply to fewer ports at once, with a smaller --batch",
        )
    return f" echo {packed} | base64 -d | sudo -n /bin/sh"


def revert_body(name: str) -> str:
    """Return what the timer runs, or whoever is earlier; its words are the ports to take back."""
    unit = _q(_unit(name))
    return f"""\
# Take back a change that is not kept: all of it, or only the ports that are named.
{_USER}
{_CLI}{_UNDO}{_CLEAN}\
dir={_q(f"{FOLDER}/{name}")}
exec 9>{FOLDER}/lock
flock -w 300 9 || exit {lines.RC_BUSY}
cd "$dir" 2>/dev/null || exit 0
if [ $# = 0 ]; then : >reverting; set -- *.undo; fi
failed=0
for port; do
  port=${{port%.undo}}
  [ -e "$port.undo" ] && [ "$port" != {COMMON} ] || continue
  if undo "./$port.undo"; then rm -f "./$port.undo"; rc=0; else failed=1; rc=1; fi
  echo fabricctl-port "$(echo "$port" | tr _ /)" $rc
done
set -- *.undo
if [ "$*" = {COMMON}.undo ]; then
  if undo ./{COMMON}.undo; then rm -f ./{COMMON}.undo; else failed=1; fi
  set -- *.undo
fi
if ! [ -e "$1" ]; then
  systemctl stop {unit}.timer </dev/null 2>/dev/null
  cd / && rm -rf "$dir"
  clean
fi
exit $failed
"""


def _prologue() -> str:
    return f"""\
umask 077
end() {{ echo {RESULT} "$1"; exit 0; }}
mkdir -p {FOLDER} || end 1
exec 9>{FOLDER}/lock || end 1
flock -w 60 9 || end {lines.RC_BUSY}"""


def _unit(name: str) -> str:
    return f"fabricctl-revert-{name}"


def _stem(port: str) -> str:
    return port.replace("/", "_")


def _undo_files(undo: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Walk what writes the ports' undo; ports that go back to the same have it once."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for port, held in undo.items():
        if held:
            alike.setdefault(tuple(held), []).append(port)
    for held, ports in alike.items():
        yield _file("body", held)
        yield f"""\
for port in {" ".join(map(_q, ports))}; do
  {{ echo "interface $port"; cat body; echo exit; }} >"$(echo "$port" | tr / _).undo" || end 1
done"""


def _file(target: str, content: Sequence[str]) -> str:
    # The delimiter holds the text's digest, so that no line of the text can equal it.
    text = "".join(f"{line}\n" for line in content)
    mark = f"END_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    return f"cat >{_q(target)} <<'{mark}' || end 1\n{text}{mark}"


def _q(text: str) -> str:
    return shlex.quote(text)
