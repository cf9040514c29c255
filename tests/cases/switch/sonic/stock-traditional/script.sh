umask 077
PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin; export PATH
command -v python3 >/dev/null || { echo 'fabricctl: the switch has no python3' >&2; exit 1; }
mkdir -p /run/fabricctl || exit 1
new=$(mktemp -d /run/fabricctl/new-XXXXXX) || exit 1
trap 'rm -rf "$new"' EXIT
mkdir -p "$new"/fabricctl/drivers/switch/sonic/node && : >"$new"/fabricctl/__init__.py || exit 1
cat >"$new"/fabricctl/drivers/switch/sonic/node/__init__.py <<...
cat >"$new"/fabricctl/drivers/switch/sonic/node/box.py <<...
cat >"$new"/fabricctl/drivers/switch/sonic/node/buffers.py <<...
cat >"$new"/fabricctl/drivers/switch/sonic/node/chain.py <<...
cat >"$new"/fabricctl/drivers/switch/sonic/node/objects.py <<...
cat >"$new"/fabricctl/drivers/switch/sonic/node/patch.py <<...
cat >"$new"/fabricctl/drivers/switch/sonic/node/run.py <<...
cat >"$new"/fabricctl/drivers/switch/sonic/node/tables.py <<...
cat >"$new"/fabricctl/drivers/switch/sonic/node/target.py <<...
cat >"$new"/fabricctl/drivers/switch/sonic/node/tools.py <<...
cat >"$new"/goals.json <<'END_6d97a360fb69ba28' || exit 1
[
 {
  "names": [
   "mtu_bytes",
   "dscp_priority",
   "priority_tc",
   "tc_scheduler",
   "tc_bandwidth_percent",
   "lossless_buffers",
   "pfc_priorities",
   "ecn_kmin_bytes",
   "ecn_kmax_bytes",
   "ecn_pmax_percent",
   "pfc_watchdog",
   "pfc_watchdog_detect_ms",
   "pfc_watchdog_restore_ms",
   "pfc_watchdog_poll_ms",
   "pfc_watchdog_action",
   "sonic.ecn_queues",
   "sonic.lossless_queues",
   "sonic.pfc_group",
   "sonic.pfc_queue",
   "sonic.tc_group"
  ],
  "port": "Ethernet0",
  "wanted": {
   "cable_length_m": 5,
   "dscp_priority": [
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    3,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    6,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0
   ],
   "ecn": true,
   "ecn_kmax_bytes": 1500000,
   "ecn_kmin_bytes": 150000,
   "ecn_pmax_percent": 100,
   "lossless_buffers": [
    3
   ],
   "mtu_bytes": 9216,
   "pfc_priorities": [
    3
   ],
   "pfc_watchdog": [
    3
   ],
   "pfc_watchdog_action": "drop",
   "pfc_watchdog_detect_ms": 400,
   "pfc_watchdog_poll_ms": 200,
   "pfc_watchdog_restore_ms": 400,
   "priority_tc": [
    0,
    0,
    0,
    3,
    0,
    0,
    6,
    0
   ],
   "sonic.ecn_queues": [
    3
   ],
   "sonic.lossless_queues": [
    3
   ],
   "sonic.pfc_asymmetric": false,
   "sonic.pfc_group": [
    3
   ],
   "sonic.pfc_queue": [
    3
   ],
   "sonic.tc_group": [
    0,
    0,
    0,
    3,
    0,
    0,
    0,
    0
   ],
   "tc_bandwidth_percent": [
    50,
    0,
    0,
    50,
    0,
    0,
    0,
    0
   ],
   "tc_scheduler": [
    "ets",
    "ets",
    "ets",
    "ets",
    "ets",
    "ets",
    "strict",
    "ets"
   ],
   "trust": "dscp"
  }
 },
 {
  "names": [
   "mtu_bytes",
   "dscp_priority",
   "priority_tc",
   "tc_scheduler",
   "tc_bandwidth_percent",
   "lossless_buffers",
   "pfc_priorities",
   "ecn_kmin_bytes",
   "ecn_kmax_bytes",
   "ecn_pmax_percent",
   "pfc_watchdog",
   "pfc_watchdog_detect_ms",
   "pfc_watchdog_restore_ms",
   "pfc_watchdog_poll_ms",
   "pfc_watchdog_action",
   "sonic.ecn_queues",
   "sonic.lossless_queues",
   "sonic.pfc_group",
   "sonic.pfc_queue",
   "sonic.tc_group"
  ],
  "port": "Ethernet4",
  "wanted": {
   "cable_length_m": 5,
   "dscp_priority": [
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    3,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    6,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0,
    0
   ],
   "ecn": true,
   "ecn_kmax_bytes": 1500000,
   "ecn_kmin_bytes": 150000,
   "ecn_pmax_percent": 100,
   "lossless_buffers": [
    3
   ],
   "mtu_bytes": 9216,
   "pfc_priorities": [
    3
   ],
   "pfc_watchdog": [
    3
   ],
   "pfc_watchdog_action": "drop",
   "pfc_watchdog_detect_ms": 400,
   "pfc_watchdog_poll_ms": 200,
   "pfc_watchdog_restore_ms": 400,
   "priority_tc": [
    0,
    0,
    0,
    3,
    0,
    0,
    6,
    0
   ],
   "sonic.ecn_queues": [
    3
   ],
   "sonic.lossless_queues": [
    3
   ],
   "sonic.pfc_asymmetric": false,
   "sonic.pfc_group": [
    3
   ],
   "sonic.pfc_queue": [
    3
   ],
   "sonic.tc_group": [
    0,
    0,
    0,
    3,
    0,
    0,
    0,
    0
   ],
   "tc_bandwidth_percent": [
    50,
    0,
    0,
    50,
    0,
    0,
    0,
    0
   ],
   "tc_scheduler": [
    "ets",
    "ets",
    "ets",
    "ets",
    "ets",
    "ets",
    "strict",
    "ets"
   ],
   "trust": "dscp"
  }
 }
]
END_6d97a360fb69ba28
cat >"$new"/revert.sh <<'END_edfcf1e3c3dbf056' || exit 1
PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin; export PATH
cd /run/fabricctl/apply-1.0001 || exit 0
exec python3 -B -m fabricctl.drivers.switch.sonic.node.run revert apply-1
END_edfcf1e3c3dbf056
cd "$new" && python3 -B -m fabricctl.drivers.switch.sonic.node.run push apply-1 0001 "$new" 600 </dev/null
