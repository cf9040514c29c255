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
