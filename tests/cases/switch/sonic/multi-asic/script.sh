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
cat >"$new"/goals.json <<'END_e70269ef25462f6d' || exit 1
[
 {
  "names": [],
  "port": "Ethernet0",
  "wanted": {}
 },
 {
  "names": [],
  "port": "Ethernet4",
  "wanted": {}
 }
]
END_e70269ef25462f6d
cat >"$new"/revert.sh <<'END_edfcf1e3c3dbf056' || exit 1
PATH=$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/sbin; export PATH
cd /run/fabricctl/apply-1.0001 || exit 0
exec python3 -B -m fabricctl.drivers.switch.sonic.node.run revert apply-1
END_edfcf1e3c3dbf056
cd "$new" && python3 -B -m fabricctl.drivers.switch.sonic.node.run push apply-1 0001 "$new" 600 </dev/null
