#!/bin/sh
# Sets one port. Written by fabricctl: edit its policy or inventory instead, and apply.
#
#   sh THIS              set everything below, in safe order
#   sh THIS SETTING...   set only those
#
# May run as often as you like: what is already right is not touched. Exit status 0 says that every tool
# was content, 1 that one was not, 2 that a setting is not in here. What is so is said by reading it back.
set -u -f
LC_ALL=C
PATH=${PATH:-/usr/bin:/bin}:/usr/local/sbin:/usr/sbin:/sbin
export LC_ALL PATH
port=eth1
rdma=rxe0
held='cnp_dscp cnp_priority dcqcn dscp_priority global_pause mtu_bytes mtu_kept pfc_priorities priority_tc roce_mode roce_tos tc_bandwidth_percent tc_scheduler trust'
only=$*
failed=0

# Is the setting $1 asked for?
wants() {
    case " $held " in *" $1 "*) ;; *) return 1 ;; esac
    [ -n "$only" ] || return 0
    case " $only " in *" $1 "*) return 0 ;; esac
    return 1
}

# Reports that the setting $1 failed, with $2 as what was said about it.
fail() {
    printf 'fabricctl: %s: %s: %s\n' "$port" "$1" "$(printf '%s' "$2" | tr '\n' ' ')" >&2
    failed=1
}

# Prints the physical functions that carry the interface $1: a bond's members, a virtual function's parent, else
# itself. Classes, pauses and buffers are theirs. A parent's representors of other functions are none.
functions_of() {
    if [ -r "/sys/class/net/$1/bonding/slaves" ]; then
        # shellcheck disable=SC2046  # several words are meant
        set -- $(cat "/sys/class/net/$1/bonding/slaves")
        for member; do
            functions_of "$member"
        done
        return
    fi
    parent=/sys/class/net/$1/device/physfn/net
    [ -d "$parent" ] || {
        echo "$1"
        return
    }
    for name in $(ls "$parent"); do
        case $(cat "$parent/$name/phys_port_name" 2>/dev/null) in
        *vf* | *sf*) ;;
        *) echo "$name" ;;
        esac
    done
}

# Sets $1 with the function $2, if it is asked for.
try() {
    wants "$1" || return 0
    said=$("$2" 2>&1) || fail "$1" "${said:-failed with exit status $?}"
}

# Runs $1 once for each physical function of the port, with $port as its name.
on_each() {
    status=0
    for port in $functions; do
        "$1" || {
            status=$?
            [ "$functions" = "$port" ] || echo "(on $port)"
        }
    done
    return "$status"
}

# As try, once for each physical function of the port.
try_each() {
    wants "$1" || return 0
    said=$(on_each "$2" 2>&1) || fail "$1" "${said:-failed with exit status $?}"
}

# Sets those of the settings $2... that are asked for with one call of $1 for each physical function.
try_together() {
    function=$1
    shift
    asked=
    for setting; do
        ! wants "$setting" || asked="$asked $setting"
    done
    [ -n "$asked" ] || return 0
    said=$(on_each "$function" 2>&1) && return
    status=$?
    for setting in $asked; do
        fail "$setting" "${said:-failed with exit status $status}"
    done
}

# Waits up to a minute for $1 to exist: at boot the device may still be on its way.
await() {
    seconds=0
    while [ ! -e "$1" ]; do
        [ "$seconds" -lt 60 ] || return 1
        seconds=$((seconds + 1))
        sleep 1
    done
}

# Leaves in $found the list called $2 in the JSON object $1, without its brackets.
list() {
    found=${1#*\""$2"\":\[}
    [ "$found" != "$1" ] || found=
    found=${found%%\]*}
}

set_mtu() {
    now=$(cat "/sys/class/net/$port/mtu") || return
    [ "$now" = 4200 ] || ip link set dev "$port" mtu 4200
}

# Leaves the DSCP map in $map as " DSCP:PRIORITY DSCP:PRIORITY "; empty without entries. Trust is implied: one
# entry or more means dscp, none pcp. dcb prints an entry as [26,3], from iproute2 6.15 on as [26,3," "].
read_map() {
    map=
    shown=$(dcb -j app show dev "$port" dscp-prio) || return
    rest=${shown#*\"dscp_prio\":\[}
    [ "$rest" != "$shown" ] || return 0
    while [ "$rest" != "${rest#*\[}" ]; do
        rest=${rest#*\[}
        entry=${rest%%\]*}
        prio=${entry#*,}
        map="${map:- }${entry%%,*}:${prio%%,*} "
    done
}

set_trust() {
    read_map || return
    [ -n "$map" ] || dcb app add dev "$port" dscp-prio 0:0
}

# Makes all 64 entries right; a DSCP without an entry has priority 0. New entries come before old ones go,
# so that the port trusts DSCP all the while.
set_dscp_priority() {
    want='26:3 48:6'
    read_map || return
    compare_map
    if [ -n "$new" ]; then
        # shellcheck disable=SC2086  # several words are meant
        dcb app add dev "$port" dscp-prio $new
        read_map || return
        compare_map
    fi
    [ -n "$new$old" ] || return 0
    # shellcheck disable=SC2086  # several words are meant
    [ -z "$old" ] || dcb app del dev "$port" dscp-prio $old
    read_map || return
    compare_map
    [ -z "$new$old" ] || {
        echo "the DSCP map stays at:${map:- no entries}"
        return 1
    }
}

# Leaves in $new the words of $want that $map lacks, in $old the entries of $map that contradict $want. An
# entry with priority 0 only says what holds without it.
compare_map() {
    new=
    old=
    for word in $want; do
        case "$map" in *" $word "*) ;; *) new="$new $word" ;; esac
    done
    for entry in $map; do
        case " $want " in *" $entry "*) continue ;; esac
        case $entry in
            *:0) case " $want " in *" ${entry%:*}:"*) old="$old $entry" ;; esac ;;
            *) old="$old $entry" ;;
        esac
    done
}

# All three in one call: a scheduler without its shares, or shares without their scheduler, may be refused.
set_ets() {
    shown=$(dcb -j ets show dev "$port") || return
    differs=
    set --
    if wants priority_tc; then
        list "$shown" prio_tc
        [ "$found" = 0,0,0,3,0,0,6,0 ] || differs=yes
        words='0:0 1:0 2:0 3:3 4:0 5:0 6:6 7:0'
        # shellcheck disable=SC2086  # several words are meant
        set -- "$@" prio-tc $words
    fi
    if wants tc_scheduler; then
        list "$shown" tc_tsa
        [ "$found" = '"ets","ets","ets","ets","ets","ets","strict","ets"' ] || differs=yes
        words='0:ets 1:ets 2:ets 3:ets 4:ets 5:ets 6:strict 7:ets'
        # shellcheck disable=SC2086  # several words are meant
        set -- "$@" tc-tsa $words
    fi
    if wants tc_bandwidth_percent; then
        list "$shown" tc_bw
        [ "$found" = 50,0,0,50,0,0,0,0 ] || differs=yes
        words='0:50 1:0 2:0 3:50 4:0 5:0 6:0 7:0'
        # shellcheck disable=SC2086  # several words are meant
        set -- "$@" tc-bw $words
    fi
    [ -z "$differs" ] || dcb ets set dev "$port" "$@"
}

# Compared first: many NICs take their link down and up for every PFC change, even an empty one.
set_pfc() {
    shown=$(dcb -j pfc show dev "$port") || return
    want=false,false,false,true,false,false,false,false
    list "$shown" prio_pfc
    [ "$found" = "$want" ] ||
        dcb pfc set dev "$port" prio-pfc all:off 3:on
}

# Has the network manager that brings the port up at boot give it the wanted MTU then; "none" is no MTU at all.
set_mtu_kept() {
    kept=4200
    index=$(cat "/sys/class/net/$port/ifindex") || return
    if read_profile; then
        case $profile in
        netplan-NM-*) keep_in_profile ;;
        netplan-*) keep_in_netplan "${profile#netplan-}" ;;
        *) keep_in_profile ;;
        esac
        return
    fi
    state=/run/systemd/netif/links/$index
    network=$(sed -n 's/^NETWORK_FILE=//p' "$state" 2>/dev/null)
    ! grep -qs '^ADMIN_STATE=unmanaged' "$state" || network=
    if [ -n "$network" ] && works_at_boot systemd-networkd; then
        name=${network##*/}
        case $name in
        10-netplan-*.network)
            name=${name#10-netplan-}
            keep_in_netplan "${name%.network}"
            ;;
        *) keep_in_drop_in "$name" ;;
        esac
        return
    fi
    stanzas=$(find_stanzas)
    if [ -n "$stanzas" ] && works_at_boot networking; then
        keep_in_stanzas
        return
    fi
    echo "no network manager brings it up"
    return 1
}

# Does the service $1 work now, or will it at the next boot?
works_at_boot() {
    systemctl is-active --quiet "$1.service" || systemctl is-enabled --quiet "$1.service"
}

# Puts what it reads in the place of the file $1, which keeps its owner and its mode if it is there.
put() {
    beside=${1%/*}/.${1##*/}.fabricctl
    rm -f "$beside"
    [ ! -e "$1" ] || cp -p "$1" "$beside" || return
    cat >"$beside" && sync "$beside" && mv -f "$beside" "$1" && sync "${1%/*}"
}

# Leaves in $uuid and $profile the profile with which NetworkManager holds the port; fails if it does not.
read_profile() {
    [ -d /run/NetworkManager ] && command -v nmcli >/dev/null || return
    uuid=$(nmcli -g GENERAL.STATE,GENERAL.CON-UUID device show "$port" 2>/dev/null) || return
    # Such a one only mirrors what others have set, and is not kept.
    case $uuid in *externally*) return 1 ;; esac
    uuid=${uuid##*[!0-9a-f-]}
    [ -n "$uuid" ] && profile=$(nmcli -g connection.id connection show uuid "$uuid")
}

keep_in_profile() {
    now=$(nmcli -g 802-3-ethernet.mtu connection show uuid "$uuid") || return
    case $now in 0 | auto) now=none ;; esac
    [ "$now" != "$kept" ] || return 0
    [ "$kept" != none ] || kept=0
    nmcli connection modify uuid "$uuid" 802-3-ethernet.mtu "$kept"
}

# Prints the MTUs that netplan's generator would write at the next boot, as lines FILE:KEY=BYTES; as if the file of
# /etc/netplan called $1 were not there. Its own program writes them to a folder that goes away again.
planned() {
    root=$(mktemp -d) || return
    for folder in lib/netplan usr/lib/netplan etc/netplan run/netplan; do
        [ -d "/$folder" ] || continue
        mkdir -p "$root/$folder"
        find "/$folder/" -maxdepth 1 -name '*.yaml' ! -name "${1:-/}" -exec cp -t "$root/$folder" {} +
    done
    if generate_plans --root-dir "$root" >"$root/said" 2>&1; then
        (cd "$root/run" && grep -rsE '^(MTUBytes|mtu)=' systemd/network NetworkManager/system-connections)
        rm -rf "$root"
    else
        cat "$root/said" >&2
        rm -rf "$root"
        return 1
    fi
}

# Runs the program that writes the managers' files from netplan's; since netplan 1.2 there are two.
generate_plans() {
    for program in /usr/libexec/netplan /usr/lib/netplan /lib/netplan; do
        [ -x "$program/generate" ] || continue
        "$program/generate" "$@" || return
        [ ! -x "$program/configure" ] || "$program/configure" "$@"
        return
    done
    echo "netplan's generator is not where it is looked for"
    return 1
}

# Keeps the MTU of netplan's definition $1 in a file of ours, which is read after all others.
keep_in_netplan() {
    ours=zz-fabricctl-$port.yaml
    now=$(planned_mtu "$1") || return
    [ "$now" != "$kept" ] || return 0
    without=$(planned_mtu "$1" "$ours") || return
    if [ "$without" = "$kept" ]; then
        rm -f "/etc/netplan/$ours" && sync /etc/netplan || return
    elif [ "$kept" = none ]; then
        echo "another file of netplan sets an MTU of $without: take it away there"
        return 1
    else
        (umask 077 && our_plan "$1" | put "/etc/netplan/$ours") || return
    fi
    # A manager that is started anew finds it too. No link is touched.
    generate_plans >/dev/null || return
    udevadm control --reload
    [ -z "${uuid-}" ] || nmcli connection load "/run/NetworkManager/system-connections/$profile.nmconnection"
}

# Prints what netplan gives its definition $1 at boot; as if the file $2 of /etc/netplan were not there.
planned_mtu() {
    plans=$(planned "${2-}") || {
        echo "$plans"
        return 1
    }
    printf '%s\n' "$plans" | awk -v id="$1" '
        BEGIN {
            networkd = "systemd/network/10-netplan-" id ".network:MTUBytes="
            profile = "NetworkManager/system-connections/netplan-" id ".nmconnection:mtu="
        }
        index($0, networkd) == 1 { size = substr($0, length(networkd) + 1) }
        index($0, profile) == 1 { size = substr($0, length(profile) + 1) }
        END { print size == "" ? "none" : size }'
}

our_plan() {
    case $(sed -n 's/^DEVTYPE=//p' "/sys/class/net/$port/uevent") in
    bond) kind=bonds ;;
    vlan) kind=vlans ;;
    *) kind=ethernets ;;
    esac
    printf '# Written by fabricctl. Its rollback takes it away.\nnetwork:\n  version: 2\n'
    printf '  %s:\n    "%s":\n      mtu: %s\n' "$kind" "$1" "$kept"
}

# Keeps the MTU in a drop-in of ours for networkd's file $1.
keep_in_drop_in() {
    folder=/etc/systemd/network/$1.d
    ours=$folder/zz-fabricctl.conf
    link=$(sed -n 's/^E:ID_NET_LINK_FILE=//p' "/run/udev/data/n$index" 2>/dev/null)
    now=$(configured "$1" "$link")
    [ "$now" != "$kept" ] || return 0
    if [ "$(configured "$1" "$link" "$ours")" = "$kept" ]; then
        rm -f "$ours" && { rmdir "$folder" 2>/dev/null || sync "$folder"; }
    elif [ "$kept" = none ]; then
        echo "another file for $1 sets an MTU of $now: take it away there"
        return 1
    else
        mkdir -p -m 0755 "$folder" || return
        printf '# Written by fabricctl. Its rollback takes it away.\n[Link]\nMTUBytes=%s\n' "$kept" |
            put "$ours" && chmod 0644 "$ours"
    fi
}

# Prints the MTU in bytes that networkd's file $1 sets with its drop-ins, else that of udev's file $2; as if
# the file $3 were not there.
configured() {
    size=
    for file in "$1" "${2##*/}"; do
        [ -n "$file" ] && [ -z "$size" ] || continue
        size=$(systemd-analyze cat-config "systemd/network/$file" | awk -v without="${3-}" '
            /^# \// { ours = ($2 == without); section = "" }
            ours { next }
            /^[ \t]*\[/ { section = $1 }
            section == "[Link]" && /^[ \t]*MTUBytes[ \t]*=/ { sub(/^[^=]*=[ \t]*/, ""); if ($1 != "") size = $1 }
            END {
                if (size ~ /K$/) size *= 1024
                else if (size ~ /M$/) size *= 1048576
                print size
            }')
    done
    echo "${size:-none}"
}

# Prints the files with stanzas of ifupdown for the port.
find_stanzas() {
    words=$(printf '%s' "$port" | sed 's/\./\\./g')
    grep -rlsE --exclude='.*' "^[[:space:]]*iface[[:space:]]+$words([[:space:]]|\$)" \
        /etc/network/interfaces /etc/network/interfaces.d
}

# Changes the MTU in the port's stanzas, and nothing else in their files.
keep_in_stanzas() {
    there=$(printf '%s\n' "$stanzas" | while read -r file; do edit_stanzas read <"$file"; done)
    [ -n "$there" ] || [ "$kept" = none ] || there=nowhere
    printf '%s\n' "$stanzas" | while read -r file; do
        file=$(readlink -f "$file") || exit
        # A file may end without a newline, which awk would add.
        end=$(tail -c 1 "$file")
        edit_stanzas "$there" <"$file" >"/run/fabricctl-stanzas.$$" || exit
        [ -z "$end" ] || truncate -s -1 "/run/fabricctl-stanzas.$$" || exit
        cmp -s "/run/fabricctl-stanzas.$$" "$file" || put "$file" <"/run/fabricctl-stanzas.$$" || exit
        [ "$there" != nowhere ] || ! edit_stanzas read <"$file" | grep -q . || there=held
    done
    status=$?
    rm -f "/run/fabricctl-stanzas.$$"
    return "$status"
}

# Copies a file with the wanted MTU in the port's stanzas: where one stands it is changed or taken away; if $1
# is "nowhere", one is added to the first stanza that can hold it. With "read" it prints only what stands there.
edit_stanzas() {
    awk -v port="$port" -v kept="$kept" -v how="$1" '
        function indented(line) { match(line, /^[ \t]*/); return substr(line, 1, RLENGTH) }
        function flush(  space) {
            if (!pending) return
            space = indented($0)
            if (NR == last || space == "" || $0 == space) space = "    "
            print space "mtu " kept
            pending = 0
        }
        { last = NR - 1 }
        how == "read" { if (inside && $1 == "mtu") print $2 }
        pending { flush() }
        $1 ~ /^(iface|auto|allow-.*|mapping|source|source-dir.*|no-auto-down|no-scripts|template)$/ {
            inside = ($1 == "iface" && $2 == port)
        }
        how == "read" { next }
        inside && $1 == "mtu" && $2 != kept {
            if (kept == "none") next
            start = match($0, /mtu[ \t]+/) + RLENGTH
            $0 = substr($0, 1, start - 1) kept substr($0, start + length($2))
        }
        { print }
        how == "nowhere" && inside && $1 == "iface" && $4 !~ /^(dhcp|auto)$/ && !added { pending = added = 1 }
        END { if (pending) print "    mtu " kept }
    '
}

# Looked at first: ethtool fails where nothing differs, and on many NICs every change takes the link down.
set_pause() {
    want=off
    shown=$(ethtool -a "$port") || return
    now=
    for state in $(printf '%s\n' "$shown" | sed -n 's/^[RT]X:[[:space:]]*//p'); do
        [ "$now" = on ] || now=$state
    done
    [ "$now" = "$want" ] || ethtool -A "$port" rx "$want" tx "$want"
}

# Writes $2 to the file $1 among rdma_cm's defaults for the verbs device. They live in the kernel, not in the
# folder that shows them.
set_default() {
    top=/sys/kernel/config/rdma_cm
    [ -d "$top" ] || modprobe rdma_cm || return
    [ -d "$top/$rdma" ] || mkdir "$top/$rdma" || return
    file=$top/$rdma/ports/1/$1
    now=$(cat "$file") || return
    [ "$now" = "$2" ] || printf '%s\n' "$2" >"$file"
}

set_roce_mode() {
    set_default default_roce_mode 'RoCE v2'
}

set_roce_tos() {
    set_default default_roce_tos 106
}

for setting in $only; do
    wants "$setting" || {
        fail "$setting" "this script does not hold it"
        exit 2
    }
done
if ! await "/sys/class/net/$port"; then
    fail "${only:-all settings}" "there is no network interface $port"
    exit 1
fi
functions=$(functions_of "$port")
[ -n "$functions" ] || {
    fail "${only:-all settings}" "it has no physical function: a bond without members?"
    exit 1
}
try_each mtu_bytes set_mtu
# A bond hands its MTU to its members, but a virtual function has one of its own.
[ "$functions" = "$port" ] || try mtu_bytes set_mtu
# Before PFC, beside which many NICs refuse it.
try_each global_pause set_pause
try_each trust set_trust
try_each dscp_priority set_dscp_priority
try_together set_ets priority_tc tc_scheduler tc_bandwidth_percent
try_each pfc_priorities set_pfc
if wants roce_mode || wants roce_tos; then
    await "/sys/class/infiniband/$rdma" || fail "$rdma" "there is no such verbs device"
fi
try roce_mode set_roce_mode
try roce_tos set_roce_tos
# Only where it is named: a boot does not rewrite what the host's own network manager is told.
[ -z "$only" ] || try mtu_kept set_mtu_kept
exit "$failed"
