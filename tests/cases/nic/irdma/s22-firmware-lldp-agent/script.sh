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
port=ens1f0np0
rdma=rocep23s0f0
held='dcqcn dscp_priority global_pause irdma.protocol mtu_bytes mtu_kept pfc_priorities priority_tc roce_mode roce_tos tc_bandwidth_percent tc_scheduler trust'
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
    [ "$now" = 9000 ] || ip link set dev "$port" mtu 9000
}

# Runs dcb; its exit status proves nothing, what it said is kept for the case that nothing came of it.
run_dcb() {
    words=$(dcb "$@" 2>&1) || said_by_dcb="${said_by_dcb:+$said_by_dcb; }$words"
}

# Leaves the DSCP map in $map as " DSCP:PRIORITY DSCP:PRIORITY "; empty without entries, which means trust in PCP.
# dcb prints an entry as [26,3], from iproute2 6.15 on as [26,3," "].
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

# Leaves classes, schedulers and shares as "0,0,..." in $prio_tc, $tsa and $bw, and the PFC mask in $mask.
read_classes() {
    shown=$(dcb -j ets show dev "$port") || return
    list "$shown" prio_tc
    prio_tc=$found
    list "$shown" tc_tsa
    tsa=$(printf '%s' "$found" | tr -d '"')
    list "$shown" tc_bw
    bw=$found
    shown=$(dcb -j pfc show dev "$port") || return
    list "$shown" prio_pfc
    mask=$found
}

# Prints the comma list $1 as "0:A 1:B ...", true and false as on and off.
numbered() {
    number=0
    for value in $(printf '%s' "$1" | tr , ' '); do
        case $value in true) value=on ;; false) value=off ;; esac
        printf '%s:%s ' "$number" "$value"
        number=$((number + 1))
    done
}

# Makes classes, schedulers and shares $1, $2, $3 where they differ. With trust in DSCP the first is fixed.
make_ets() {
    read_classes || return
    [ "$prio_tc $tsa $bw" != "$1 $2 $3" ] || return 0
    read_map || return
    [ -z "$map" ] || [ "$1" = "$prio_tc" ] || {
        echo "with trust in DSCP this driver keeps priority N in class N; it stays at $prio_tc"
        return 1
    }
    # shellcheck disable=SC2046  # several words are meant
    run_dcb ets set dev "$port" prio-tc $(numbered "$1") tc-tsa $(numbered "$2") tc-bw $(numbered "$3")
    read_classes || return
    [ "$prio_tc $tsa $bw" = "$1 $2 $3" ] || {
        echo "${said_by_dcb:-nothing was refused}; they stay at $prio_tc, $tsa, $bw"
        return 1
    }
}

# Makes the PFC mask $1 ("false,true,...") where it differs.
make_pfc() {
    read_classes || return
    [ "$mask" != "$1" ] || return 0
    # shellcheck disable=SC2046  # several words are meant
    run_dcb pfc set dev "$port" prio-pfc $(numbered "$1")
    read_classes || return
    [ "$mask" = "$1" ] || {
        echo "${said_by_dcb:-nothing was refused}; PFC stays at $mask"
        return 1
    }
}

# Makes the DSCP map the words $1. The first entry, and the last to go, switch between trust in PCP and in DSCP,
# at which the driver falls back to classes of its own and PFC off: what was there before is put back.
make_map() {
    said_by_dcb=
    read_map || return
    before=$map
    read_classes || return
    old_prio_tc=$prio_tc
    old_tsa=$tsa
    old_bw=$bw
    old_mask=$mask
    old=
    new=
    for entry in $map; do
        case " $1 " in *" $entry "*) ;; *) old="$old $entry" ;; esac
    done
    for entry in $1; do
        case "$map" in *" $entry "*) ;; *) new="$new $entry" ;; esac
    done
    [ -n "$new$old" ] || return 0
    # A DSCP that has an entry takes no other before that is gone: those without one come first, so that there
    # is an entry all the while.
    first=
    second=
    for entry in $new; do
        case " $old" in *" ${entry%:*}:"*) second="$second $entry" ;; *) first="$first $entry" ;; esac
    done
    # shellcheck disable=SC2086  # several words are meant
    [ -z "$first" ] || run_dcb app add dev "$port" dscp-prio $first
    # shellcheck disable=SC2086
    [ -z "$old" ] || run_dcb app del dev "$port" dscp-prio $old
    # shellcheck disable=SC2086
    [ -z "$second" ] || run_dcb app add dev "$port" dscp-prio $second
    read_map || return
    wrong=
    for entry in $1; do
        case "$map" in *" $entry "*) ;; *) wrong=yes ;; esac
    done
    for entry in $map; do
        case " $1 " in *" $entry "*) ;; *) wrong=yes ;; esac
    done
    [ -z "$wrong" ] || echo "${said_by_dcb:-nothing was refused}; the DSCP map stays at:${map:- no entries}"
    if [ -z "$before" ] || [ -z "$map" ]; then
        restore_classes || return
    fi
    [ -z "$wrong" ]
}

# Puts back what was there before trust was switched, but for what is set afterwards anyway.
restore_classes() {
    read_classes || return
    [ -z "$map" ] || old_prio_tc=$prio_tc
    wants priority_tc && wants tc_scheduler && wants tc_bandwidth_percent ||
        make_ets "$old_prio_tc" "$old_tsa" "$old_bw" || return
    wants pfc_priorities || make_pfc "$old_mask"
}

set_trust() {
    read_map || return
    [ -n "$map" ] || make_map 0:0
}

# Gives every DSCP an entry of its own: what this driver makes of one without, nobody can see.
set_dscp_priority() {
    make_map '0:0 1:0 2:0 3:0 4:0 5:0 6:0 7:0 8:0 9:0 10:0 11:0 12:0 13:0 14:0 15:0 16:0 17:0 18:0 19:0 20:0 21:0 22:0 23:0 24:0 25:0 26:3 27:0 28:0 29:0 30:0 31:0 32:0 33:0 34:0 35:0 36:0 37:0 38:0 39:0 40:0 41:0 42:0 43:0 44:0 45:0 46:0 47:0 48:6 49:0 50:0 51:0 52:0 53:0 54:0 55:0 56:0 57:0 58:0 59:0 60:0 61:0 62:0 63:0'
}

# All three in one call: a scheduler without its shares, or shares without their scheduler, may be refused.
set_ets() {
    said_by_dcb=
    read_classes || return
    want_prio_tc=$prio_tc
    want_tsa=$tsa
    want_bw=$bw
    ! wants priority_tc || want_prio_tc=0,1,2,3,4,5,6,7
    ! wants tc_scheduler || want_tsa=ets,ets,ets,ets,ets,ets,strict,ets
    ! wants tc_bandwidth_percent || want_bw=50,0,0,50,0,0,0,0
    make_ets "$want_prio_tc" "$want_tsa" "$want_bw"
}

# Compared first: every change takes the interface down and up.
set_pfc() {
    said_by_dcb=
    make_pfc false,false,false,true,false,false,false,false
}

# Has the network manager that brings the port up at boot give it the wanted MTU then; "none" is no MTU at all.
set_mtu_kept() {
    kept=9000
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

# With PFC on, the driver shows pause as off and refuses to change it.
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

# Leaves the PCI address of $port in $pci.
find_pci() {
    pci=
    while IFS='=' read -r key value; do
        [ "$key" != PCI_SLOT_NAME ] || pci=$value
    done <"/sys/class/net/$port/device/uevent"
    [ -n "$pci" ] || {
        echo "the kernel names no PCI address"
        return 1
    }
}

# Leaves true or false in $on: whether the parameter $1 of the device is set.
read_parameter() {
    shown=$(devlink -j dev param show "pci/$pci" name "$1") || return
    case $shown in
    *'"value":true'*) on=true ;;
    *'"value":false'*) on=false ;;
    *)
        echo "devlink shows no value of $1"
        return 1
        ;;
    esac
}

# Sets the parameter $1 of the device to $2.
make_parameter() {
    read_parameter "$1" || return
    [ "$on" != "$2" ] || return 0
    devlink dev param set "pci/$pci" name "$1" value "$2" cmode runtime || return
    read_parameter "$1" || return
    [ "$on" = "$2" ] || {
        echo "$1 stays $on"
        return 1
    }
}

# RoCE and iWARP exclude each other: the other one is switched off first. Both changes take the verbs device away.
set_protocol() {
    find_pci || return
    make_parameter enable_iwarp false && make_parameter enable_roce true || return
    await "/sys/class/infiniband/$rdma" || {
        echo "the verbs device $rdma does not come back"
        return 1
    }
}

# Parameters of Intel's own irdma, which it takes when it is loaded: they are kept for that in a file. A value that
# the module has already, and no file gives, needs no line.
set_module() {
    file=/etc/modprobe.d/fabricctl-irdma.conf
    live=/sys/module/irdma/parameters
    lines=$(cat "$file" 2>/dev/null)
    ! wants dcqcn || make_line dcqcn_enable N || return
}

# Makes the module parameter $1 have the value $2 from the next load on.
make_line() {
    now=$(cat "$live/$1") || return
    kept=$(printf '%s\n' "$lines" | sed -n "s/^options irdma $1=//p")
    [ "${kept:-$now}" != "$2" ] || return 0
    lines=$(printf '%s\n' "$lines" | grep -v "^options irdma $1=" | grep .)
    [ "$now" = "$2" ] || lines=$(printf '%s\n%s\n' "$lines" "options irdma $1=$2" | grep .)
    if [ -n "$lines" ]; then
        printf '%s\n' "$lines" >"$file.new" && mv "$file.new" "$file"
    else
        rm -f "$file"
    fi
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
try_each irdma.protocol set_protocol
try_together set_module dcqcn
if wants roce_mode || wants roce_tos; then
    await "/sys/class/infiniband/$rdma" || fail "$rdma" "there is no such verbs device"
fi
try roce_mode set_roce_mode
try roce_tos set_roce_tos
# Only where it is named: a boot does not rewrite what the host's own network manager is told.
[ -z "$only" ] || try mtu_kept set_mtu_kept
exit "$failed"
