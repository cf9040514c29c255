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
port=benic8p1
rdma=ionic_7
held='cnp_dscp dcqcn dscp_priority global_pause ionic.ai_rate ionic.hai_rate ionic.pause ionic.rate_increase_byte_count ionic.rate_increase_threshold ionic.strict_rate_gbps ionic.token_bucket_size mtu_bytes mtu_kept pfc_priorities roce_mode roce_tos tc_bandwidth_percent tc_scheduler trust'
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

# Runs nicctl to change something; keeps what it says in $told. Whether it did is seen afterwards.
told=
tell() {
    told="$told $(nicctl "$@" 2>&1)" || return 0
}

# Says that $1 is so after all, with what nicctl said to it.
unchanged() {
    echo "nicctl shows $1 still;${told:- it said nothing}"
    return 1
}

# Leaves in $shown what `nicctl show $1` prints: one blank between words, no empty lines, a newline first.
show() {
    raw=$(nicctl show "$1" 2>&1) || {
        echo "$raw"
        return 1
    }
    shown="
"
    while read -r line; do
        # shellcheck disable=SC2086  # several words are meant
        set -- $line
        [ $# -eq 0 ] || shown="$shown$*
"
    done <<SHOWN
$raw
SHOWN
}

# Leaves in $found what the text $1 has after the label $2; nothing if it lacks the label.
label() {
    found=${1#*"
$2 :"}
    [ "$found" != "$1" ] || found=" "
    found=${found%%"
"*}
    found=${found# }
}

# Leaves in $roce the verbs device of the interface, in $card and $bdf the card that has it.
find_card() {
    devices=$(ls "/sys/class/net/$port/device/infiniband" 2>/dev/null)
    [ -n "$devices" ] || [ "$functions" != "$port" ] || devices=$rdma
    roce=${devices:--}
    show dcqcn || return
    card=
    while read -r one two three four _; do
        case "$one $two $three" in
        "NIC : "*)
            here=$three
            address=${four#(}
            ;;
        "ROCE device :")
            [ "$four" != "$roce" ] || [ "$roce" = - ] || {
                card=$here
                bdf=${address%)}
            }
            ;;
        esac
    done <<SHOWN
$shown
SHOWN
    [ -n "$card" ] || {
        echo "nicctl shows no card with the RoCE device $roce: $raw"
        return 1
    }
}

# Leaves in $uuid the only port of the card, in $block what `nicctl show $1` says of it.
show_port() {
    show "$1" || return
    here=
    uuid=
    block="
"
    while read -r line; do
        case $line in
        "NIC : "*)
            here=${line#NIC : }
            here=${here%% *}
            ;;
        "Port : "*)
            [ "$here" = "$card" ] || continue
            [ -z "$uuid" ] || {
                echo "the card $card has several ports: which one carries $port is not known"
                return 1
            }
            uuid=${line#Port : }
            uuid=${uuid%% *}
            ;;
        *)
            [ "$here" != "$card" ] || block="$block$line
"
            ;;
        esac
    done <<SHOWN
$shown
SHOWN
    [ -n "$uuid" ] || {
        echo "nicctl show $1 leaves out the card $card"
        return 1
    }
}

# Leaves in $now kind and directions of pause: "pfc rx tx".
read_pause() {
    show_port port || return
    spec=${block%%"
Status:"*}
    label "$spec" "Pause type"
    now=$(printf '%s' "$found" | tr '[:upper:]' '[:lower:]')
    for way in RX TX; do
        label "$spec" "$way pause"
        case $found$way in enabledRX) now="$now rx" ;; enabledTX) now="$now tx" ;; esac
    done
}

set_pause() {
    find_card || return
    read_pause || return
    # Pause of the whole link; priority pause and none are both its absence.
    case $now in
    link*" rx"* | link*" tx"*) want=none ;;
    *) want=$now ;;
    esac
    ! wants ionic.pause || want='pfc rx tx'
    [ "$now" != "$want" ] || return 0
    rx=disable
    tx=disable
    case " $want " in *" rx "*) rx=enable ;; esac
    case " $want " in *" tx "*) tx=enable ;; esac
    tell update port -p "$uuid" --pause-type "${want%% *}" --rx-pause "$rx" --tx-pause "$tx"
    read_pause || return
    [ "$now" = "$want" ] || unchanged "pause $now"
}

# Leaves in $now what the port classifies by.
read_type() {
    show_port qos || return
    label "$block" "Classification type"
    now=$(printf '%s' "$found" | tr '[:upper:]' '[:lower:]')
}

set_trust() {
    find_card || return
    read_type || return
    [ "$now" != dscp ] || return 0
    tell update qos --classification-type dscp -b "$bdf"
    read_type || return
    [ "$now" = dscp ] || unchanged "classification by $now"
}

# Leaves in $drops the no-drop priorities as " 0 3 ".
read_drops() {
    label "$block" "PFC no-drop priorities"
    # shellcheck disable=SC2046  # several words are meant
    set -- $(printf '%s' "$found" | tr ',' ' ')
    drops=" $* "
}

# Makes the priorities in $1 no-drop, and only them.
put_drops() {
    for prio in 0 1 2 3 4 5 6 7; do
        case " $1 " in *" $prio "*) state=enable ;; *) state=disable ;; esac
        case $drops in *" $prio "*) is=enable ;; *) is=disable ;; esac
        [ "$state" = "$is" ] || tell update qos pfc -p "$uuid" --priority "$prio" --no-drop "$state"
    done
}

# Leaves in $rows the scheduling as words PRIORITY:KIND:SHARE:RATE. A share that nobody else takes part in is 100.
read_rows() {
    rows=
    sharing=
    while read -r prio kind share rate rest; do
        kind=$(printf '%s' "$kind" | tr '[:upper:]' '[:lower:]')
        case $prio$rest in [0-7]) ;; *) continue ;; esac
        case $kind in dwrr) sharing="$sharing$prio" ;; strict) ;; *) continue ;; esac
        [ "$share" != N/A ] || share=0
        [ "$rate" != N/A ] || rate=0
        rows="$rows $prio:$kind:$share:$rate"
    done <<SHOWN
$block
SHOWN
    case $sharing in
    ?) rows=$(printf '%s' "$rows" | sed "s/ $sharing:dwrr:0:/ $sharing:dwrr:100:/") ;;
    esac
}

# Makes the scheduling what the words $1 say.
put_rows() {
    prios=
    shares=
    rates=
    for row in $1; do
        rest=${row#*:*:}
        prios="$prios,${row%%:*}"
        shares="$shares,${rest%:*}"
        rates="$rates,${rest#*:}"
    done
    tell update qos scheduling -p "$uuid" --priority "${prios#,}" --dwrr "${shares#,}" --rate-limit "${rates#,}"
}

# Leaves in $map the DSCP map as words DSCP:PRIORITY.
read_map() {
    map=" "
    while read -r name colon rest; do
        [ "$name $colon" = "DSCP :" ] || continue
        for range in $(printf '%s' "${rest%%==>*}" | tr ',' ' '); do
            dscp=${range%-*}
            while [ "$dscp" -le "${range#*-}" ]; do
                map="$map$dscp:${rest##* } "
                dscp=$((dscp + 1))
            done
        done
    done <<SHOWN
$block
SHOWN
}

# Leaves in $differing the words of $want that $map lacks.
compare_map() {
    differing=
    for word in $want; do
        case $map in *" $word "*) ;; *) differing="$differing $word" ;; esac
    done
}

# Makes all 64 entries right. Classifying by PCP for a moment flushes what the card keeps of the old map. What
# that does to pauses and queues is put right afterwards, for those priorities that still have a DSCP.
set_dscp_priority() {
    want="0:0 1:0 2:0 3:0 4:0 5:0 6:0 7:0 8:0 9:0 10:0 11:0 12:0 13:0 14:0 15:0 16:0 17:0 18:0 19:0 20:0 21:0 22:0 23:0 24:3 25:0 26:0 27:0 28:0 29:0 30:0 31:0 32:0 33:0 34:0 35:0 36:0 37:0 38:0 39:0 40:0 41:0 42:0 43:0 44:0 45:0 46:6 47:0 48:0 49:0 50:0 51:0 52:0 53:0 54:0 55:0 56:0 57:0 58:0 59:0 60:0 61:0 62:0 63:0"
    find_card || return
    read_type || return
    [ "$now" = dscp ] || {
        echo "the port classifies by $now: it has no DSCP map"
        return 1
    }
    read_map
    compare_map
    [ -n "$differing" ] || return 0
    read_drops
    read_rows
    old_drops=$drops
    old_rows=$rows
    tell update qos --classification-type pcp -b "$bdf"
    tell update qos --classification-type dscp -b "$bdf"
    show_port qos || return
    read_map
    compare_map
    for prio in 0 1 2 3 4 5 6 7; do
        several=
        for word in $differing; do
            [ "${word#*:}" != "$prio" ] || several="$several,${word%:*}"
        done
        [ -z "$several" ] || tell update qos dscp-to-priority -p "$uuid" --dscp "${several#,}" --priority "$prio"
    done
    show_port qos || return
    read_map
    compare_map
    [ -z "$differing" ] || {
        unchanged "other priorities than$differing"
        return
    }
    read_drops
    put_drops "$old_drops"
    read_rows
    kept=
    for row in $old_rows; do
        case $rows in *" ${row%%:*}:"*) kept="$kept $row" ;; esac
    done
    # Refused where a queue has gone and the rest no longer sums to 100: that is for the scheduling to put right.
    [ -z "$kept" ] || [ "$kept" = "$rows" ] || put_rows "$kept"
}

# Leaves in $found the word number $1 (from 0) of the words that follow.
word() {
    shift "$1"
    found=${2-}
}

# Leaves in $new the scheduling that is meant, as words like $rows; what is not asked for stays.
mean_rows() {
    new=
    for prio in 0 1 2 3 4 5 6 7; do
        row=
        for row in $rows; do
            [ "${row%%:*}" != "$prio" ] || break
            row=
        done
        was=${row#*:}
        kind=${was%%:*}
        rest=${was#*:}
        share=${rest%%:*}
        rate=${rest#*:}
        word "$prio" ets ets ets ets ets ets strict ets
        kind_meant=$found
        case $kind_meant in
        ets) kind_meant=dwrr ;;
        strict) ;;
        *)
            echo "no such scheduler: $kind_meant"
            return 1
            ;;
        esac
        wants tc_scheduler || kind_meant=${kind:-dwrr}
        share_meant=${share:-0}
        word "$prio" 1 0 0 99 0 0 0 0
        ! wants tc_bandwidth_percent || share_meant=$found
        if [ -z "$row" ]; then
            [ "$kind_meant $share_meant" = "dwrr 0" ] || {
                echo "no DSCP has priority $prio, so it has no queue"
                return 1
            }
            continue
        fi
        if [ "$kind_meant" = strict ]; then
            share_meant=0
            [ "$kind" = strict ] || rate=0
            # A queue that becomes strict needs the limit, whether it was asked for or not.
            ! wants ionic.strict_rate_gbps && [ "$rate" != 0 ] || rate=10
            [ "$rate" != 0 ] || {
                echo "priority $prio cannot be strict without ionic.strict_rate_gbps"
                return 1
            }
        elif [ "$kind" = strict ]; then
            rate=0
        fi
        new="$new $prio:$kind_meant:$share_meant:$rate"
    done
}

# All of it in one call: the shares of those that share sum to 100.
set_ets() {
    find_card || return
    show_port qos || return
    read_rows
    [ -n "$rows" ] || {
        echo "nicctl shows no scheduling"
        return 1
    }
    mean_rows || return
    [ "$new" != "$rows" ] || return 0
    put_rows "$new"
    show_port qos || return
    read_rows
    [ "$new" = "$rows" ] || unchanged "scheduling$rows"
}

set_pfc() {
    want=3
    find_card || return
    show_port qos || return
    read_drops
    [ "$drops" != " $want " ] || return 0
    put_drops "$want"
    show_port qos || return
    read_drops
    [ "$drops" = " $want " ] || unchanged "no-drop priorities$drops"
}

# Leaves in $block what nicctl shows of the verbs device: its DCQCN profiles.
read_profiles() {
    block=${shown#*"
ROCE device : $roce
"}
    block="
${block%%"
Lif id :"*}"
    block="${block%%"
NIC :"*}
"
}

# Adds to $args the option $3 with $4, if $1 is asked for and the profile $profile does not show it after $2.
need() {
    wants "$1" || return 0
    label "$profile" "$2"
    [ "$found" = "$4" ] || args="$args $3 $4"
}

# Leaves in $args what is to be said of the profile: nothing, if it is as meant.
compare_profile() {
    args=
    label "$profile" Status
    power=$found
    need cnp_dscp 'DSCP value used for CNP' --cnp-dscp 46
    need ionic.token_bucket_size 'Token bucket size' --token-bucket-size 800000
    need ionic.ai_rate 'Rate increase in AI phase' --ai-rate 160
    need ionic.hai_rate 'Rate increase in HAI phase' --hai-rate 300
    need ionic.rate_increase_byte_count 'Rate increase byte count' --rate-increase-byte-count 431068
    need ionic.rate_increase_threshold 'Rate increase threshold' --rate-increase-threshold 1
    wants dcqcn || {
        [ "$power" = Enabled ] || [ -z "$args" ] || {
            echo "DCQCN is off: a value of it would switch it on"
            return 1
        }
        return 0
    }
    [ "$power" = Enabled ] || args="${args:- }"
}

# Goes through the profiles; with $1 "put" it sets them, else it says what is not as meant.
each_profile() {
    rest=$block
    while [ "$rest" != "${rest#*"
DCQCN profile id : "}" ]; do
        rest=${rest#*"
DCQCN profile id : "}
        id=${rest%%"
"*}
        rest="
${rest#*"
"}"
        profile="${rest%%"
DCQCN profile id :"*}
"
        compare_profile || return
        [ -n "$args" ] || continue
        if [ "$1" = put ]; then
            # shellcheck disable=SC2086  # several words are meant
            tell update dcqcn -r "$roce" -i "$id" $args
        else
            unchanged "profile $id with status $power, without$args"
            return
        fi
    done
}

set_dcqcn() {
    find_card || return
    read_profiles
    case $block in
    *"DCQCN profile id : "*) ;;
    *)
        echo "nicctl shows no DCQCN profile of $roce"
        return 1
        ;;
    esac
    each_profile put || return
    show dcqcn || return
    read_profiles
    each_profile prove
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
    set_default default_roce_tos 98
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
try_together set_pause global_pause ionic.pause
try_each trust set_trust
try_each dscp_priority set_dscp_priority
try_together set_ets tc_scheduler tc_bandwidth_percent
try_each pfc_priorities set_pfc
try_together set_ets ionic.strict_rate_gbps
try_together set_dcqcn dcqcn cnp_dscp ionic.token_bucket_size ionic.ai_rate ionic.hai_rate ionic.rate_increase_byte_count ionic.rate_increase_threshold
if wants roce_mode || wants roce_tos; then
    await "/sys/class/infiniband/$rdma" || fail "$rdma" "there is no such verbs device"
fi
try roce_mode set_roce_mode
try roce_tos set_roce_tos
# Only where it is named: a boot does not rewrite what the host's own network manager is told.
[ -z "$only" ] || try mtu_kept set_mtu_kept
exit "$failed"
