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
