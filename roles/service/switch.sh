# Lets paddock-switch put a service of the system's in place, as a unit that outlives this connection. Runs as root.
# Arguments: the program, the record, seconds, bytes of memory, the user and their uid, whose own service gives way.
program=$1 record=$2 seconds=$3 memory=$4 user=$5 uid=$6
unit=paddock-llama-server.service
theirs() { runuser -u "$user" -- env XDG_RUNTIME_DIR="/run/user/$uid" systemctl --user "$@" 2>/dev/null; }
ours() { head -n 1 "$1" 2>/dev/null | grep -q '^# Written by Paddock'; }
home=$(getent passwd "$user" | cut -d: -f6)/.config/systemd/user
# Left by a run whose controller died.
while systemctl -q is-active paddock-switch.service; do sleep 1; done
state=$(dirname "$(dirname "$program")")
(umask 077 && printf '%s' "$record" >"$state/wanted.json")
theirs stop paddock-switch.service || true # or it would write theirs again
was=no
if ours "$home/$unit" && theirs is-active -q "$unit"; then
    was=yes
    theirs stop paddock-watchdog.timer || true
    theirs stop "$unit"
fi
if ! systemd-run --quiet --collect --wait --pipe --unit=paddock-switch -p "RuntimeMaxSec=$seconds" -p "MemoryMax=$memory" \
    "$program" switch "$state/wanted.json" </dev/null; then
    test $was = no || { theirs start "$unit" && theirs start paddock-watchdog.timer; } || true
    exit 1
fi
for path in "$home"/paddock-*; do
    if test -d "$path" || ! ours "$path"; then continue; fi
    theirs disable --quiet --now "$(basename "$path")" || true
    rm -f "$path"
done
theirs daemon-reload || true
