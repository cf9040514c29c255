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
rdma=''
held='dscp_priority ecn ecn_kmax_bytes ecn_kmin_bytes ecn_pmax_percent mtu_bytes pfc_priorities priority_tc tc_bandwidth_percent tc_scheduler trust'
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

# Leaves in $options what tc shows of the port's root RED qdisc; nothing if it has none.
read_red() {
    options=
    shown=$(tc -j -d qdisc show dev "$port") || return
    rest=${shown#*\"kind\":\"red\"}
    [ "$rest" != "$shown" ] || return 0
    case ${rest%%\"options\"*} in *\"root\":true*) options=${rest#*\"options\":\{} ;; esac
    options=${options%%\}*}
}

# Leaves in $found the option $1; nothing if there is none.
option() {
    found=${options#*\""$1"\":}
    [ "$found" != "$options" ] || found=
    found=${found%%,*}
    found=${found% }
}

# ECN marking is one RED qdisc at the root of the port; all ECN-capable packets on the port share it.
set_marking() {
    read_red || return
    option ecn
    ecn=$found
    option min
    kmin=$found
    option max
    kmax=$found
    option probability
    probability=$found
    pmax=
    [ -z "$probability" ] || pmax=$(printf '%.0f' "${probability}e2")
    now="$ecn $kmin $kmax $pmax"
    ! wants ecn || ecn=true
    ! wants ecn_kmin_bytes || kmin=30000
    ! wants ecn_kmax_bytes || kmax=90000
    if wants ecn_pmax_percent; then
        pmax=100
        # tc makes 2^32 of 1, which the kernel takes for "not given".
        probability=0.9999
    fi
    [ "$now" != "$ecn $kmin $kmax $pmax" ] || return 0
    if [ -z "$ecn" ] || [ -z "$kmin" ] || [ -z "$kmax" ] || [ -z "$pmax" ]; then
        echo "ecn and its thresholds can only be set together: the port has no RED qdisc yet"
        return 1
    fi
    set_red
}

# tc wants more than the thresholds (tc-red(8)):
#   avpkt      unit of the moving average; grows with kmax so that the kernel's fixed-point average holds it
#   burst      (2 kmin + kmax) / (3 avpkt), and one packet more so that it is never too small
#   limit      where packets are dropped: several times kmax, with room for a burst of large packets
#   bandwidth  how fast the average decays while the port is idle
set_red() {
    avpkt=1000
    [ $((kmax / 64)) -le "$avpkt" ] || avpkt=$((kmax / 64))
    [ "$kmin" -eq 0 ] || [ "$avpkt" -le "$kmin" ] || avpkt=$kmin
    burst=$(((2 * kmin + kmax) / (3 * avpkt) + 1))
    limit=$((4 * kmax + 1000000))
    speed=$(cat "/sys/class/net/$port/speed" 2>/dev/null)
    case $speed in '' | *[!0-9]* | 0) speed=1000 ;; esac
    mark=
    [ "$ecn" != true ] || mark=ecn
    # shellcheck disable=SC2086  # no word is meant where nothing is marked
    tc qdisc replace dev "$port" root red limit "$limit" min "$kmin" max "$kmax" avpkt "$avpkt" \
        burst "$burst" bandwidth "${speed}mbit" probability "$probability" $mark
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
try_each trust set_trust
try_each dscp_priority set_dscp_priority
try_together set_ets priority_tc tc_scheduler tc_bandwidth_percent
try_each pfc_priorities set_pfc
try_together set_marking ecn ecn_kmin_bytes ecn_kmax_bytes ecn_pmax_percent
exit "$failed"
