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
port=enp6s0np0
rdma=bnxt_re0
held='bnxt.ecn_marking bnxt.priority_vlan bnxt.roce_dscp bnxt.roce_priority bnxt.udp_4791_priority cnp_dscp cnp_priority dcqcn dscp_priority global_pause mtu_bytes mtu_kept pfc_priorities priority_tc roce_mode roce_tos tc_bandwidth_percent tc_scheduler trust'
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

# Which tool sets classes on $port: leaves dcb or niccli in $tool, and what niccli shows now in $shown_qos.
find_tool() {
    if [ "${tool_of-}" != "$port" ]; then
        tool=dcb
        asked_dcb=$(dcb -j pfc show dev "$port" 2>&1) || tool=niccli
        [ "$tool" = dcb ] || command -v niccli >/dev/null || {
            echo "$asked_dcb"
            return 1
        }
        [ "$tool" = dcb ] || find_pci || return
        tool_of=$port
    fi
    [ "$tool" = niccli ] || return 0
    shown_qos=$(niccli --dev "$pci" qos --ets --show 2>&1) || {
        echo "$shown_qos"
        return 1
    }
}

# Runs a command whose exit status proves nothing; what it said is kept for the case that nothing came of it.
run() {
    words=$("$@" 2>&1) || said_by_tool="${said_by_tool:+$said_by_tool; }$words"
}

# Leaves in $map the application entries of selector $1 (dscp or port) as " DSCP:PRIORITY DSCP:PRIORITY ".
# dcb prints an entry as [26,3], from iproute2 6.15 on as [26,3," "].
read_map() {
    map=
    find_tool || return
    if [ "$tool" = niccli ]; then
        read_niccli_map "$1"
        return
    fi
    case $1 in dscp) name=dscp_prio ;; *) name=dgram_port_prio ;; esac
    shown=$(dcb -j app show dev "$port") || return
    rest=${shown#*\""$name"\":\[}
    [ "$rest" != "$shown" ] || return 0
    while :; do
        case $rest in "["* | ",["*) ;; *) return 0 ;; esac
        rest=${rest#*\[}
        entry=${rest%%\]*}
        rest=${rest#*\]}
        prio=${entry#*,}
        map="${map:- }${entry%%,*}:${prio%%,*} "
    done
}

# As read_map, from what niccli shows: Priority, Sel (5 is DSCP, 3 a UDP port) and the value, line by line.
read_niccli_map() {
    prio=
    while read -r label value _; do
        case $label in
        Priority:) prio=$value ;;
        DSCP:) [ "$1" != dscp ] || map="${map:- }$value:$prio " ;;
        UDP) [ "$1" = dscp ] || map="${map:- }$value:$prio " ;;
        esac
    done <<TEXT
$(printf '%s\n' "$shown_qos" | sed 's/UDP or DCCP:/UDP/')
TEXT
}

# Adds or deletes ($1) the entries $3... of selector $2.
write_map() {
    verb=$1
    selector=$2
    shift 2
    [ "$#" -gt 0 ] || return 0
    if [ "$tool" = dcb ]; then
        case $selector in dscp) run dcb app "$verb" dev "$port" dscp-prio "$@" ;;
        *) run dcb app "$verb" dev "$port" dgram-port-prio "$@" ;; esac
        return
    fi
    case $selector in dscp) number=5 ;; *) number=3 ;; esac
    for entry; do
        run niccli --dev "$pci" qos --apptlv "--$verb" --app "${entry#*:},$number,${entry%:*}"
    done
}

# Makes the entries of selector $1 the words $2. Old ones go first: deleting an entry clears what the NIC itself
# holds for that DSCP, whatever else is listed for it. With any change $3, if given, is written again, as the last.
make_map() {
    said_by_tool=
    read_map "$1" || return
    new=
    old=
    for entry in $2; do
        case "$map" in *" $entry "*) ;; *) new="$new $entry" ;; esac
    done
    for entry in $map; do
        case " $2 " in *" $entry "*) ;; *) old="$old $entry" ;; esac
    done
    [ -n "$new$old" ] || return 0
    for entry in $map; do
        case "$old " in
        *" $entry "*) continue ;;
        *" ${entry%:*}:"*) ;;
        *) [ "$entry" = "${3-}" ] || continue ;;
        esac
        old="$old $entry"
        new="$new $entry"
    done
    # shellcheck disable=SC2086  # several words are meant
    write_map del "$1" $old
    # shellcheck disable=SC2086
    write_map add "$1" $new
    check_map "$1" "$2"
}

# Fails unless the entries of selector $1 are the words $2.
check_map() {
    read_map "$1" || return
    wrong=
    for entry in $2; do
        case "$map" in *" $entry "*) ;; *) wrong=yes ;; esac
    done
    for entry in $map; do
        case " $2 " in *" $entry "*) ;; *) wrong=yes ;; esac
    done
    [ -z "$wrong" ] || {
        echo "${said_by_tool:-nothing was refused}; the entries stay at:${map:- none}"
        return 1
    }
}

# Trust is implied by the map: one DSCP entry or more means dscp, none pcp.
set_trust() {
    read_map dscp || return
    [ -n "$map" ] || make_map dscp 0:0
}

# Makes all 64 entries right; a DSCP without an entry has priority 0. The DSCP of CNPs comes last: the firmware
# takes the last one that was given for their class.
set_dscp_priority() {
    want='26:3 48:6'
    last=48:6
    read_map dscp || return
    # An entry with priority 0 only says what holds without it.
    for entry in $map; do
        case $entry in
        *:0) case " $want " in *" ${entry%:*}:"*) ;; *) want="$entry $want" ;; esac ;;
        esac
    done
    make_map dscp "$want" "$last"
}

set_udp_4791_priority() {
    want=4791:3
    read_map port || return
    # Entries for other UDP ports are nothing of ours.
    for entry in $map; do
        case $entry in 4791:*) ;; *) want="$want $entry" ;; esac
    done
    make_map port "$want"
}

# Leaves classes, schedulers and shares as "0,0,..." in $prio_tc, $tsa, $bw and the number of classes in $classes.
read_ets() {
    find_tool || return
    if [ "$tool" = dcb ]; then
        shown=$(dcb -j ets show dev "$port") || return
        list "$shown" prio_tc
        prio_tc=$found
        list "$shown" tc_tsa
        tsa=$(printf '%s' "$found" | tr -d '"')
        list "$shown" tc_bw
        bw=$found
        found=${shown#*\"ets_cap\":}
        classes=${found%%[!0-9]*}
        return
    fi
    prio_tc=$(niccli_words PRIO_MAP)
    tsa=$(niccli_words TSA_MAP)
    bw=$(printf '%s\n' "$shown_qos" | sed -n 's/^[[:space:]]*TC Bandwidth:[[:space:]]*//p' | tr -d % | tr -s ' ' ,)
    classes=$(printf '%s\n' "$tsa" | tr , '\n' | grep -c .)
    # A class that niccli does not show is one that the NIC does not have.
    more=$classes
    while [ "$more" -lt 8 ]; do
        tsa=$tsa,strict
        bw=$bw,0
        more=$((more + 1))
    done
}

# Prints the values of niccli's line $1 ("TSA_MAP: 0:ets 1:strict") as "ets,strict".
niccli_words() {
    printf '%s\n' "$shown_qos" | sed -n "s/^[[:space:]]*$1:[[:space:]]*//p" | tr -s ' ' '\n' |
        sed -n 's/^[0-9]*://p' | paste -s -d , -
}

# All three in one call: a scheduler without its shares, or shares without their scheduler, may be refused.
set_ets() {
    said_by_tool=
    read_ets || return
    want_prio_tc=$prio_tc
    want_tsa=$tsa
    want_bw=$bw
    ! wants priority_tc || want_prio_tc=0,0,0,1,0,0,2,0
    ! wants tc_scheduler || want_tsa=ets,ets,strict,strict,strict,strict,strict,strict
    ! wants tc_bandwidth_percent || want_bw=50,50,0,0,0,0,0,0
    [ "$want_prio_tc $want_tsa $want_bw" != "$prio_tc $tsa $bw" ] || return 0
    highest=$(printf '%s\n' "$want_prio_tc" | tr , '\n' | sort -n | tail -n 1)
    [ "$highest" -lt "${classes:-8}" ] || {
        echo "this NIC has $classes traffic classes, and class $highest is meant (an NVM option of the NIC)"
        return 1
    }
    write_ets
    read_ets || return
    [ "$want_prio_tc $want_tsa $want_bw" = "$prio_tc $tsa $bw" ] || {
        echo "${said_by_tool:-nothing was refused}; they stay at $prio_tc, $tsa, $bw"
        return 1
    }
}

# Prints the comma list $1 as "0:A 1:B ..." with $2 in between; no more than $3 of it.
numbered() {
    comma=
    number=0
    for value in $(printf '%s' "$1" | tr , ' '); do
        [ "$number" -lt "$3" ] || break
        printf '%s%s:%s' "$comma" "$number" "$value"
        comma=$2
        number=$((number + 1))
    done
}

write_ets() {
    if [ "$tool" = dcb ]; then
        # shellcheck disable=SC2046  # several words are meant
        run dcb ets set dev "$port" prio-tc $(numbered "$want_prio_tc" ' ' 8) \
            tc-tsa $(numbered "$want_tsa" ' ' 8) tc-bw $(numbered "$want_bw" ' ' 8)
        return
    fi
    # niccli takes shares of the ets classes only, in their order; 100 where there is none.
    shares=
    number=1
    for value in $(printf '%s' "$want_tsa" | tr , ' '); do
        [ "$value" != ets ] || shares="${shares:+$shares,}$(printf '%s' "$want_bw" | cut -d , -f "$number")"
        number=$((number + 1))
    done
    run niccli --dev "$pci" qos --ets --tsa "$(numbered "$want_tsa" , "$classes")" \
        --up2tc "$(numbered "$want_prio_tc" , 8)" --tcbw "${shares:-100}"
}

# Leaves the priorities with PFC as "3 4" in $pfc.
read_pfc() {
    find_tool || return
    if [ "$tool" = niccli ]; then
        pfc=$(printf '%s\n' "$shown_qos" | sed -n 's/^[[:space:]]*PFC enabled:[[:space:]]*//p' |
            tr -c '0-7' '\n' | grep . | sort | paste -s -d ' ' -)
        return
    fi
    shown=$(dcb -j pfc show dev "$port") || return
    list "$shown" prio_pfc
    pfc=
    number=0
    for state in $(printf '%s' "$found" | tr , ' '); do
        [ "$state" != true ] || pfc="${pfc:+$pfc }$number"
        number=$((number + 1))
    done
}

# Compared first: a change that needs other queues stops and starts all of them.
set_pfc() {
    said_by_tool=
    read_pfc || return
    want=3
    [ "$pfc" != "$want" ] || return 0
    if [ "$tool" = dcb ]; then
        run dcb pfc set dev "$port" prio-pfc all:off 3:on
    else
        run niccli --dev "$pci" qos --pfc --enable 3
    fi
    read_pfc || return
    [ "$pfc" = "$want" ] || {
        echo "${said_by_tool:-nothing was refused}; PFC stays on for: ${pfc:-none}"
        return 1
    }
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

# Whether the firmware decides itself which class and DSCP CNPs and RoCE have: 1, 0, or nothing if unknown.
service_type() {
    sed -n 's/^[[:space:]]*fw_service_prof_type_sup[[:space:]]*:[[:space:]]*//p' \
        "/sys/kernel/debug/bnxt_re/$rdma/info" 2>/dev/null
}

# Calls $1 with file in configfs, file in debugfs and value of each setting that is asked for.
each_control() {
    bad=
    ! wants dcqcn || "$1" ecn_enable 'enable_cc' 1 || bad=yes
    ! wants bnxt.ecn_marking || "$1" ecn_marking 'tos_ecn' 1 || bad=yes
    ! wants bnxt.priority_vlan || "$1" disable_prio_vlan_tx '' 1 || bad=yes
    ! wants bnxt.roce_priority || "$1" roce_prio '' 3 || bad=yes
    ! wants bnxt.roce_dscp || "$1" roce_dscp 'tos_dscp' 26 || bad=yes
    ! wants cnp_priority || "$1" cnp_prio 'alt_vlan_pcp' 6 || bad=yes
    ! wants cnp_dscp || "$1" cnp_dscp 'alt_vlan_dscp' 48 || bad=yes
    [ -z "$bad" ]
}

# Leaves in $now the number for which the listing $listing has a word, under the name of the file $1.
find_shown() {
    case $1 in disable_prio_vlan_tx) found=${listing#*"(VLAN 0)"} ;; *) found=${listing#*"($1)"} ;; esac
    now=
    [ "$found" != "$listing" ] || return 0
    found=${found#*: }
    found=${found%%"
"*}
    found=${found%% *}
    case $found in
    Enabled | "ECT(1)" | DCQCN-P | TCP) now=1 ;;
    Disabled | Not-ECT | DCQCN-D) now=0 ;;
    "ECT(0)") now=2 ;;
    0x* | [0-9]*) now=$((found)) ;;
    esac
    [ "$1" != disable_prio_vlan_tx ] || [ -z "$now" ] || now=$((1 - now))
}

# Stages $3 for file $1 if the NIC does not show it already.
stage() {
    find_shown "$1"
    [ "$now" != "$3" ] || return 0
    case $owner$1 in 1roce_* | 1cnp_*) return 0 ;; esac
    printf '0x%x' "$3" >"$cc/$1" || {
        echo "the driver does not take $3 as $1"
        return 1
    }
    staged=yes
}

# Fails unless the NIC shows $3 under the name of file $1.
confirm() {
    find_shown "$1"
    [ "$now" != "$3" ] || return 0
    echo "$1 is ${now:-not shown} where $3 is meant;"
    case $owner$1 in
    1roce_* | 1cnp_*) echo "the firmware takes it from DSCP map and classes (fw_service_prof_type_sup is 1)" ;;
    esac
    return 1
}

# Writes all DSCP entries again: where the firmware does not decide, "apply" clears the NIC's whole table for
# the entries of RoCE and CNPs, and dcb goes on to show what it was once given.
write_maps_again() {
    this=$port
    for port in $functions; do
        read_map dscp >/dev/null || continue
        [ -n "$map" ] || continue
        # shellcheck disable=SC2086  # several words are meant
        write_map del dscp $map
        # shellcheck disable=SC2086
        write_map add dscp $map
    done
    port=$this
}

# Values are staged in hexadecimal, written to the NIC by one write to "apply", which then shows what it has.
set_staged() {
    listing=$(cat "$cc/apply") || return
    owner=$(service_type)
    staged=
    refused=
    each_control stage || refused=yes
    if [ -n "$staged" ]; then
        printf 0x1 >"$cc/apply"
        listing=$(cat "$cc/apply") || return
        [ "$owner" = 1 ] || write_maps_again
    fi
    each_control confirm && [ -z "$refused" ]
}

# Writes $3 to file $2 of debugfs; the driver's answer to a write is always that it succeeded.
write_single() {
    [ -n "$2" ] || {
        echo "$1 cannot be set through debugfs"
        return 1
    }
    now=$(cat "$cc/$2") || return
    [ "$now" != "$3" ] || return 0
    printf '%s\n' "$3" >"$cc/$2"
    now=$(cat "$cc/$2") || return
    [ "$now" = "$3" ] || {
        echo "$2 stays at $now"
        return 1
    }
}

# Congestion control: in configfs (Broadcom's own driver) by the verbs device, or else in debugfs by the PCI
# address.
set_control() {
    await "/sys/class/infiniband/$rdma" || {
        echo "there is no verbs device $rdma"
        return 1
    }
    if [ ! -d /sys/kernel/config/bnxt_re ]; then
        find_pci || return
        cc=/sys/kernel/debug/bnxt_re/$pci/cc_config
        each_control write_single
        return
    fi
    folder=/sys/kernel/config/bnxt_re/$rdma
    made=
    [ -d "$folder" ] || {
        mkdir "$folder" || return
        made=yes
    }
    cc=$folder/ports/1/cc
    set_staged
    result=$?
    # The driver cannot be unloaded while the folder is there.
    [ -z "$made" ] || rmdir "$folder"
    return "$result"
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
try_each bnxt.udp_4791_priority set_udp_4791_priority
try_together set_control dcqcn bnxt.ecn_marking bnxt.priority_vlan bnxt.roce_priority bnxt.roce_dscp cnp_priority cnp_dscp
if wants roce_mode || wants roce_tos; then
    await "/sys/class/infiniband/$rdma" || fail "$rdma" "there is no such verbs device"
fi
try roce_mode set_roce_mode
try roce_tos set_roce_tos
# Only where it is named: a boot does not rewrite what the host's own network manager is told.
[ -z "$only" ] || try mtu_kept set_mtu_kept
exit "$failed"
