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
port=enp23s0f0np0
rdma=mlx5_0
held='cable_length_m cnp_dscp cnp_priority dscp_priority global_pause mlx5.dcqcn_priority_3 mtu_bytes mtu_kept pfc_priorities priority_tc roce_mode roce_tos tc_bandwidth_percent tc_scheduler trust'
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

# Does MLNX_OFED's driver drive the function? The kernel's own has neither folder.
is_ofed() {
    [ -d "/sys/class/net/$port/qos" ] || [ -d "/sys/class/net/$port/ecn" ]
}

# Leaves in $tool what sets classes here, found anew at every run: mlnx_qos with MLNX_OFED, else dcb; either
# stands in for the other.
find_tool() {
    tools="dcb mlnx_qos"
    ! is_ofed || tools="mlnx_qos dcb"
    for tool in $tools; do
        ! command -v "$tool" >/dev/null || return 0
    done
    echo "neither mlnx_qos nor dcb is installed"
    return 1
}

# Runs mlnx_qos to set something. On an error it fails while making up its message: the kernel's is further up.
qos() {
    shown=$(mlnx_qos -i "$port" "$@" 2>&1) && return
    case $shown in *"[Errno "*) shown="[Errno ${shown#*\[Errno }" ;; esac
    printf '%s\n' "$shown" | head -n 1
    return 1
}

# Leaves in $joined the words $1... with commas between them.
join() {
    joined=${1-}
    [ "$#" = 0 ] || shift
    for word; do
        joined="$joined,$word"
    done
}

# Leaves in $joined the list called $2 in the JSON object $1: true as 1, false as 0, words without quotes.
plain() {
    list "$1" "$2"
    rest=${found:+$found,}
    set --
    while [ -n "$rest" ]; do
        word=${rest%%,*}
        rest=${rest#*,}
        case $word in
        true) word=1 ;;
        false) word=0 ;;
        \"*)
            word=${word#\"}
            word=${word%\"}
            ;;
        esac
        set -- "$@" "$word"
    done
    join "$@"
}

# Leaves in $words the list $1 as dcb takes it: 0:FIRST 1:SECOND ...
numbered() {
    rest=$1,
    words=
    number=0
    while [ -n "$rest" ]; do
        words="$words $number:${rest%%,*}"
        rest=${rest#*,}
        number=$((number + 1))
    done
}

# Leaves in $item the entry $2, counted from 0, of the list $1.
nth() {
    rest=$1,
    number=$2
    while [ "$number" -gt 0 ]; do
        rest=${rest#*,}
        number=$((number - 1))
    done
    item=${rest%%,*}
}

# Fails, with $1 as what could not be read, unless every list after it has eight entries.
read_whole() {
    what=$1
    shift
    for whole; do
        case $whole in
        *,*,*,*,*,*,*,*,*) ;;
        *,*,*,*,*,*,*,*) continue ;;
        esac
        echo "cannot read $what ($tool): $shown"
        return 1
    done
}

# Reads $1 (pfc, ets, buffer or app) with the tool that the host goes by, into $pfc, $metres, $tcs, $tsa, $bw, $p2b,
# $sizes (lists with commas), $trust and $map (" DSCP:PRIORITY DSCP:PRIORITY ").
read_classes() {
    find_tool || return
    pfc='' metres='' tcs='' tsa='' bw='' p2b='' sizes='' trust='' map=''
    if [ "$tool" = mlnx_qos ]; then
        read_mlnx_qos
    else
        shown=$(dcb -j "$1" show dev "$port") || return
        read_dcb "$1"
    fi
}

read_dcb() {
    case $1 in
    pfc)
        plain "$shown" prio_pfc
        pfc=$joined
        metres=${shown#*\"delay\":}
        metres=${metres%%[!0-9]*}
        ;;
    ets)
        plain "$shown" prio_tc
        tcs=$joined
        plain "$shown" tc_tsa
        tsa=$joined
        plain "$shown" tc_bw
        # The driver shows 100 for every class that is not ets.
        all=$joined
        set --
        for number_of_tc in 0 1 2 3 4 5 6 7; do
            nth "$all" "$number_of_tc"
            share=$item
            nth "$tsa" "$number_of_tc"
            [ "$item" = ets ] || share=0
            set -- "$@" "$share"
        done
        join "$@"
        bw=$joined
        ;;
    buffer)
        plain "$shown" prio_buffer
        p2b=$joined
        plain "$shown" buffer_size
        sizes=$joined
        ;;
    app)
        # Trust is implied: one entry or more means dscp, none pcp. From iproute2 6.15 on an entry is [26,3," "].
        trust=pcp
        rest=${shown#*\"dscp_prio\":\[}
        [ "$rest" != "$shown" ] || return 0
        trust=dscp
        while [ "$rest" != "${rest#*\[}" ]; do
            rest=${rest#*\[}
            entry=${rest%%\]*}
            prio=${entry#*,}
            map="${map:- }${entry%%,*}:${prio%%,*} "
        done
        ;;
    esac
}

read_mlnx_qos() {
    shown=$(mlnx_qos -i "$port" -a 2>&1)
    case $shown in
    *"PFC configuration:"*) ;;
    *)
        printf '%s\n' "$shown" | tail -n 1
        return 1
        ;;
    esac
    tc=
    of_priority=
    while IFS= read -r line; do
        # shellcheck disable=SC2086  # several words are meant
        case $line in
        "Priority trust state: "*) trust=${line##*: } ;;
        "Cable len: "*) metres=${line##*: } ;;
        "Receive buffer size"*)
            sizes=${line##*: }
            sizes=${sizes%max_buffer_size*}
            sizes=${sizes%,}
            ;;
        *prio:[0-7]\ dscp:*) add_to_map "${line#*prio:}" ;;
        *enabled\ *)
            join ${line#*enabled}
            pfc=$joined
            ;;
        *buffer\ *)
            join ${line#*buffer}
            p2b=$joined
            ;;
        "tc: "*) add_tc "${line#tc: }" ;;
        *" priority: "*) of_priority="$of_priority ${line##* }:$tc" ;;
        esac
    done <<END_OF_SHOWN
$shown
END_OF_SHOWN
    set --
    for prio in 0 1 2 3 4 5 6 7; do
        for word in $of_priority; do
            [ "${word%:*}" != "$prio" ] || set -- "$@" "${word#*:}"
        done
    done
    join "$@"
    tcs=$joined
    # Old drivers keep the map, and show it in sysfs, whatever is trusted.
    file=/sys/class/net/$port/qos/dscp2prio
    [ -r "$file" ] || return 0
    map=" "
    while read -r dscp prio rest; do
        case $dscp in '' | *[!0-9]*) ;; *) map="$map$dscp:$prio " ;; esac
    done <"$file"
}

# Adds "3 dscp:31,30,29," to $map.
add_to_map() {
    prio=${1%% *}
    rest=${1#*dscp:}
    while [ "$rest" != "${rest#*,}" ]; do
        dscp=${rest%%,*}
        case $dscp in 0?) dscp=${dscp#0} ;; esac
        map="${map:- }$dscp:$prio "
        rest=${rest#*,}
    done
}

# Adds "3 ratelimit: unlimited, tsa: ets, bw: 10%" to $tsa and $bw, and leaves its number in $tc.
add_tc() {
    tc=${1%% *}
    kind=${1##*tsa: }
    share=0
    case $kind in
    *,\ bw:\ *)
        share=${kind##* }
        share=${share%\%}
        kind=${kind%%,*}
        ;;
    esac
    tsa="${tsa:+$tsa,}$kind"
    bw="${bw:+$bw,}$share"
}

set_trust() {
    read_classes app || return
    [ "$trust" != dscp ] || return 0
    case $trust in
    dscp | pcp) ;;
    *)
        echo "the port has no trust to set"
        return 1
        ;;
    esac
    if [ "$tool" = mlnx_qos ]; then
        qos --trust dscp
        return
    fi
    if wants dscp_priority; then
        # Its first entry switches trust.
        set_dscp_priority
        return
    fi
    # All of what firmware comes with: what it would do with DSCPs that have no entry cannot be seen.
    set --
    dscp=0
    while [ "$dscp" -lt 64 ]; do
        set -- "$@" "$dscp:$((dscp / 8))"
        dscp=$((dscp + 1))
    done
    dcb app add dev "$port" dscp-prio "$@"
}

# Makes an entry for each of the 64 DSCPs: what firmware does with those that have none cannot be seen. The driver
# replaces an entry by another of the same DSCP, and nothing is deleted: trust would go with the last one.
set_dscp_priority() {
    want='0:0 1:0 2:0 3:0 4:0 5:0 6:0 7:0 8:0 9:0 10:0 11:0 12:0 13:0 14:0 15:0 16:0 17:0 18:0 19:0 20:0 21:0 22:0 23:0 24:0 25:0 26:3 27:0 28:0 29:0 30:0 31:0 32:0 33:0 34:0 35:0 36:0 37:0 38:0 39:0 40:0 41:0 42:0 43:0 44:0 45:0 46:0 47:0 48:6 49:0 50:0 51:0 52:0 53:0 54:0 55:0 56:0 57:0 58:0 59:0 60:0 61:0 62:0 63:0'
    read_classes app || return
    missing
    [ -n "$new" ] || return 0
    if [ "$tool" = mlnx_qos ]; then
        set --
        for word in $new; do
            set -- "$@" --dscp2prio "set,${word%:*},${word#*:}"
        done
        qos "$@" || return
    else
        # shellcheck disable=SC2086  # several words are meant
        dcb app add dev "$port" dscp-prio $new
    fi
    read_classes app || return
    missing
    [ -z "$new" ] || {
        echo "the DSCP map stays without$new"
        return 1
    }
}

# Leaves in $new the words of $want that $map lacks.
missing() {
    new=
    for word in $want; do
        case "$map" in *" $word "*) ;; *) new="$new $word" ;; esac
    done
}

# All in one call, what is not asked for as it is: a scheduler without its shares is refused, and dcb adds up the
# shares that it is not told as well, of which the driver shows 100 for every class that is not ets.
set_ets() {
    read_classes ets || return
    read_whole "traffic classes" "$tcs" "$tsa" "$bw" || return
    differs=
    set --
    want=$tcs
    ! wants priority_tc || want=0,0,0,3,0,0,6,0
    [ "$tcs" = "$want" ] || differs=yes
    if [ "$tool" = mlnx_qos ]; then
        set -- "$@" -p "$want"
    else
        numbered "$want"
        # shellcheck disable=SC2086  # several words are meant
        set -- "$@" prio-tc $words
    fi
    want=$tsa
    ! wants tc_scheduler || want=ets,ets,ets,ets,ets,ets,strict,ets
    [ "$tsa" = "$want" ] || differs=yes
    if [ "$tool" = mlnx_qos ]; then
        set -- "$@" -s "$want"
    else
        numbered "$want"
        # shellcheck disable=SC2086  # several words are meant
        set -- "$@" tc-tsa $words
    fi
    want=$bw
    ! wants tc_bandwidth_percent || want=50,0,0,50,0,0,0,0
    [ "$bw" = "$want" ] || differs=yes
    if [ "$tool" = mlnx_qos ]; then
        set -- "$@" -t "$want"
    else
        numbered "$want"
        # shellcheck disable=SC2086  # several words are meant
        set -- "$@" tc-bw $words
    fi
    [ -n "$differs" ] || return 0
    if [ "$tool" = mlnx_qos ]; then
        qos "$@"
    else
        dcb ets set dev "$port" "$@"
    fi
}

# In metres here, whatever dcb(8) says of its delay. Of other lengths the driver takes no notice.
set_cable_length() {
    want=2
    read_classes pfc || return
    [ "$metres" != "$want" ] || return 0
    if [ "${metres:-0}" = 0 ]; then
        echo "the NIC does not let its receive buffers be sized: its cable length reads ${metres:-nothing}"
        return 1
    fi
    if [ "$want" -lt 1 ] || [ "$want" -gt 999 ]; then
        echo "the driver takes 1 to 999 metres"
        return 1
    fi
    if [ "$tool" = mlnx_qos ]; then
        qos --cable_len "$want"
    else
        dcb pfc set dev "$port" delay "$want"
    fi
}

# Compared first: the driver takes the link down and up for every change.
set_pfc() {
    want=0,0,0,1,0,0,0,0
    read_classes pfc || return
    read_whole "PFC" "$pfc" || return
    [ "$pfc" != "$want" ] || return 0
    carrier=$(cat "/sys/class/net/$port/carrier" 2>/dev/null)
    gids=$(count_gids)
    if [ "$tool" = mlnx_qos ]; then
        qos -f "$want" || return
    else
        dcb pfc set dev "$port" prio-pfc all:off 3:on || return
    fi
    await_link
}

# Prints how many GIDs the verbs device has.
count_gids() {
    grep -rhv '^0000:0000:0000:0000:0000:0000:0000:0000$' "/sys/class/infiniband/$rdma/ports/1/gids" \
        2>/dev/null | wc -l
}

# Waits up to a minute until carrier and GIDs are back as they were: probes would fail before.
await_link() {
    seconds=0
    while :; do
        sleep 1
        seconds=$((seconds + 1))
        now=$(cat "/sys/class/net/$port/carrier" 2>/dev/null)
        have=$(count_gids)
        if [ "$carrier" != 1 ] || [ "$now" = 1 ]; then
            [ "$have" -lt "$gids" ] || return 0
        fi
        [ "$seconds" -lt 60 ] || break
    done
    echo "PFC is set, but after a minute carrier is ${now:-off}, and $((have)) of $((gids)) GIDs are there"
    return 1
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

# Leaves in $pci the function's PCI address.
find_pci() {
    pci=$(readlink -f "/sys/class/net/$port/device") || return
    pci=${pci##*/}
}

# Writes $2 to the file $1 if it does not hold it: some refuse what they hold already.
write_value() {
    now=$(cat "$1") || return
    [ "$now" = "$2" ] || printf '%s\n' "$2" >"$1"
}

# Sets a value of congestion control: $1 is its name in debugfs, $2 below MLNX_OFED's ecn folder.
set_parameter() {
    if is_ofed; then
        file=/sys/class/net/$port/ecn/$2
    else
        find_pci || return
        file=/sys/kernel/debug/mlx5/$pci/cc_params/$1
    fi
    write_value "$file" "$3"
}

set_cnp_dscp() {
    set_parameter np_cnp_dscp roce_np/cnp_dscp 48
}

# Writing a priority also sets np_cnp_prio_mode to 0: to send notifications with it.
set_cnp_priority() {
    if ! is_ofed; then
        find_pci || return
        folder=/sys/kernel/debug/mlx5/$pci/cc_params
        mode=$(cat "$folder/np_cnp_prio_mode") || return
        if [ "$mode" != 0 ]; then
            echo 6 >"$folder/np_cnp_prio"
            return
        fi
    fi
    set_parameter np_cnp_prio roce_np/cnp_802p_prio 6
}

# Turns DCQCN on (1) or off (0), $2, for priority $1. Without MLNX_OFED only the firmware's configuration has it,
# and what is stored there holds after a reset of the firmware.
set_dcqcn() {
    if is_ofed; then
        write_value "/sys/class/net/$port/ecn/roce_np/enable/$1" "$2" &&
            write_value "/sys/class/net/$port/ecn/roce_rp/enable/$1" "$2"
        return
    fi
    find_firmware_tool && find_pci && find_port_number || return
    name=ROCE_CC_PRIO_MASK_P$number
    shown=$("$tool" -d "$pci" -e q 2>&1) || {
        printf '%s\n' "$shown" | tail -n 1
        return 1
    }
    mask=$(printf '%s\n' "$shown" | sed -n "s/^[ *]*$name .*[^0-9a-fx]\([0-9a-fx][0-9a-fx]*\) *\$/\1/p")
    [ -n "$mask" ] || {
        echo "the firmware has no $name"
        return 1
    }
    want=$((mask & ~(1 << $1) | $2 << $1))
    [ "$want" != "$((mask))" ] || return 0
    "$tool" -d "$pci" -y set "$name=$want"
}

find_firmware_tool() {
    for tool in mstconfig mlxconfig; do
        ! command -v "$tool" >/dev/null || return 0
    done
    echo "it is in the firmware's configuration, and neither mstconfig nor mlxconfig is installed"
    return 1
}

# Leaves in $number which port of its card the function is: each is a PCI function of its own, or counted within.
find_port_number() {
    number=${pci##*.}
    within=$(cat "/sys/class/net/$port/dev_port") || return
    [ "$within" -le "$number" ] || number=$within
    number=$((number + 1))
    [ "$number" -le 2 ] || {
        echo "cannot tell which port of its card this is (function ${pci##*.}, port $within)"
        return 1
    }
}

set_dcqcn_3() {
    set_dcqcn 3 1
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

# Leaves in $override the type of service that MLNX_OFED's driver gives all queue pairs, -1 if it leaves them
# theirs, and in $file where it is set. Fails where there is no such thing.
read_override() {
    file=/sys/class/infiniband/$rdma/tc/1/traffic_class
    [ -e "$file" ] || return
    override=$(sed -n 's/^Global tclass=//p' "$file")
    override=${override:--1}
}

# An override goes before rdma_cm's default: where there is one, that is what must be right.
set_type_of_service() {
    if read_override && [ "$override" != -1 ]; then
        [ "$override" = 106 ] || echo 106 >"$file"
    else
        set_roce_tos
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
try_each cable_length_m set_cable_length
try_each trust set_trust
try_each dscp_priority set_dscp_priority
try_together set_ets priority_tc tc_scheduler tc_bandwidth_percent
try_each pfc_priorities set_pfc
# At boot the verbs device comes after the interface, and debugfs' cc_params with it.
for setting in cnp_dscp cnp_priority roce_mode roce_tos; do
    wants "$setting" || continue
    await "/sys/class/infiniband/$rdma" || fail "$rdma" "there is no such verbs device"
    break
done
try_each cnp_dscp set_cnp_dscp
try_each cnp_priority set_cnp_priority
try_each mlx5.dcqcn_priority_3 set_dcqcn_3
try roce_mode set_roce_mode
try roce_tos set_type_of_service
# Only where it is named: a boot does not rewrite what the host's own network manager is told.
[ -z "$only" ] || try mtu_kept set_mtu_kept
exit "$failed"
