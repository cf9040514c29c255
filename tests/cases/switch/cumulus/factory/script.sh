umask 077
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
trap 'exit 143' HUP INT TERM
mkdir -p "$dir"/fabricctl/drivers/switch/cumulus || exit 1
for file in "$dir"/fabricctl/__init__.py "$dir"/fabricctl/drivers/__init__.py "$dir"/fabricctl/drivers/switch/__init__.py "$dir"/fabricctl/drivers/switch/cumulus/__init__.py; do : >"$file" || exit 1; done
cat >"$dir"/fabricctl/drivers/switch/cumulus/tree.py <<...
cat >"$dir"/fabricctl/drivers/switch/cumulus/goal.py <<...
cat >"$dir"/fabricctl/drivers/switch/cumulus/channels.py <<...
cat >"$dir"/fabricctl/drivers/switch/cumulus/run.py <<...
cat >"$dir"/order.json <<'END_e19c8a1cfd2e0ecd' || exit 1
{
 "apply": "apply-1",
 "do": "push",
 "goals": [
  {
   "port": "swp1",
   "set": {
    "cable_length_m": 5,
    "cumulus.ecn_classes": [ 3 ],
    "dscp_priority": [ 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 ],
    "lossless_buffers": [ 3 ],
    "mtu_bytes": 9216,
    "pfc_priorities": [ 3 ],
    "pfc_watchdog": [ 3 ],
    "pfc_watchdog_detect_ms": 400,
    "pfc_watchdog_poll_ms": 200,
    "priority_tc": [ 0, 0, 0, 3, 0, 0, 6, 0 ],
    "tc_bandwidth_percent": [ 50, 0, 0, 50, 0, 0, 0, 0 ],
    "tc_scheduler": [ "ets", "ets", "ets", "ets", "ets", "ets", "strict", "ets" ],
    "trust": "dscp"
   }
  },
  {
   "port": "swp2",
   "set": {
    "cable_length_m": 5,
    "cumulus.ecn_classes": [ 3 ],
    "dscp_priority": [ 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 ],
    "lossless_buffers": [ 3 ],
    "mtu_bytes": 9216,
    "pfc_priorities": [ 3 ],
    "pfc_watchdog": [ 3 ],
    "pfc_watchdog_detect_ms": 400,
    "pfc_watchdog_poll_ms": 200,
    "priority_tc": [ 0, 0, 0, 3, 0, 0, 6, 0 ],
    "tc_bandwidth_percent": [ 50, 0, 0, 50, 0, 0, 0, 0 ],
    "tc_scheduler": [ "ets", "ets", "ets", "ets", "ets", "ets", "strict", "ets" ],
    "trust": "dscp"
   }
  }
 ],
 "slot": 1,
 "within_s": 600
}
END_e19c8a1cfd2e0ecd
python3 -E -s -S -B -c '
import sys
sys.path.insert(0, sys.argv[1])
from fabricctl.drivers.switch.cumulus import run
sys.exit(run.main(sys.argv[2]))' "$dir" "$dir"/order.json </dev/null
