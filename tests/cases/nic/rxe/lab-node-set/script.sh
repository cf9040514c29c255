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
held='dscp_priority mtu_bytes pfc_priorities priority_tc roce_mode roce_tos tc_bandwidth_percent tc_scheduler trust'
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

# Sets $1 with the function $2, if it is asked for.
try() {
    wants "$1" || return 0
    said=$("$2" 2>&1) || fail "$1" "${said:-failed with exit status $?}"
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

# Prints the list called $2 in the JSON object $1, without its brackets.
list() {
    printf '%s' "$1" | tr -d ' \n' | sed -n "s/.*\"$2\":\[\([^]]*\)\].*/\1/p"
}

set_mtu() {
    now=$(cat "/sys/class/net/$port/mtu") || return
    [ "$now" = 4200 ] || ip link set dev "$port" mtu 4200
}

# Prints the DSCP map as DSCP:PRIORITY words. Trust is implied: one entry or more means dscp, none pcp.
# dcb prints an entry as [26,3], from iproute2 6.15 on as [26,3," "].
dscp_map() {
    shown=$(dcb -j app show dev "$port" dscp-prio) || return
    printf '%s\n' "$shown" | tr -d ' \n' | sed 's/\],\[/\n/g' | tr -d '{}[]' | sed -n 's/^.*"dscp_prio"://
        s/^\([0-9][0-9]*\),\([0-9]\)\(,.*\)\{0,1\}$/\1:\2/p'
}

set_trust() {
    now=$(dscp_map) || return
    [ -n "$now" ] || dcb app add dev "$port" dscp-prio 0:0
}

# Makes all 64 entries right; a DSCP without an entry has priority 0. New entries come before old ones go,
# so that the port trusts DSCP all the while.
set_dscp_priority() {
    want='26:3 48:6'
    now=$(dscp_map) || return
    new=$(missing_from "$now" "$want")
    # shellcheck disable=SC2086  # several words are meant
    [ -z "$new" ] || dcb app add dev "$port" dscp-prio $new
    now=$(dscp_map) || return
    old=$(stale "$now" "$want")
    # shellcheck disable=SC2086  # several words are meant
    [ -z "$old" ] || dcb app del dev "$port" dscp-prio $old
    now=$(dscp_map) || return
    [ -z "$(missing_from "$now" "$want")$(stale "$now" "$want")" ] || {
        echo "the DSCP map stays at:" "${now:-no entries}"
        return 1
    }
}

# Prints the words of $2 that are not in $1.
missing_from() {
    for word in $2; do
        case " $(printf '%s' "$1" | tr '\n' ' ') " in *" $word "*) ;; *) printf '%s ' "$word" ;; esac
    done
}

# Prints the entries of $1 that contradict $2. An entry with priority 0 only says what holds without it.
stale() {
    for entry in $1; do
        case " $2 " in *" $entry "*) continue ;; esac
        case $entry in
            *:0) case " $2 " in *" ${entry%:*}:"*) printf '%s ' "$entry" ;; esac ;;
            *) printf '%s ' "$entry" ;;
        esac
    done
}

# All three in one call: a scheduler without its shares, or shares without their scheduler, may be refused.
set_ets() {
    shown=$(dcb -j ets show dev "$port") || return
    differs=
    set --
    if wants priority_tc; then
        [ "$(list "$shown" prio_tc)" = 0,0,0,3,0,0,6,0 ] || differs=yes
        words='0:0 1:0 2:0 3:3 4:0 5:0 6:6 7:0'
        # shellcheck disable=SC2086  # several words are meant
        set -- "$@" prio-tc $words
    fi
    if wants tc_scheduler; then
        [ "$(list "$shown" tc_tsa | tr -d '"')" = ets,ets,ets,ets,ets,ets,strict,ets ] || differs=yes
        words='0:ets 1:ets 2:ets 3:ets 4:ets 5:ets 6:strict 7:ets'
        # shellcheck disable=SC2086  # several words are meant
        set -- "$@" tc-tsa $words
    fi
    if wants tc_bandwidth_percent; then
        [ "$(list "$shown" tc_bw)" = 50,0,0,50,0,0,0,0 ] || differs=yes
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
    [ "$(list "$shown" prio_pfc)" = "$want" ] ||
        dcb pfc set dev "$port" prio-pfc all:off 3:on
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
try mtu_bytes set_mtu
try trust set_trust
try dscp_priority set_dscp_priority
try priority_tc set_ets
try tc_scheduler set_ets
try tc_bandwidth_percent set_ets
try pfc_priorities set_pfc
if wants roce_mode || wants roce_tos; then
    await "/sys/class/infiniband/$rdma" || fail "$rdma" "there is no such verbs device"
fi
try roce_mode set_roce_mode
try roce_tos set_roce_tos
exit "$failed"
