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
cat >"$dir"/order.json <<'END_6e15e74fd34d91ee' || exit 1
{
 "apply": "apply-1",
 "do": "push",
 "goals": [
  {
   "port": "swp1",
   "set": {}
  },
  {
   "port": "swp2",
   "set": {}
  }
 ],
 "slot": 1,
 "within_s": 600
}
END_6e15e74fd34d91ee
python3 -E -s -S -B -c '
import sys
sys.path.insert(0, sys.argv[1])
from fabricctl.drivers.switch.cumulus import run
sys.exit(run.main(sys.argv[2]))' "$dir" "$dir"/order.json </dev/null
