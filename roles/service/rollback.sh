# Lets paddock-switch bring the last good service of the system's back, as a unit that outlives this connection. Runs as
# root. Arguments: the program, the reason, seconds, bytes of memory; where it is for good, the user who remembers it,
# their home, and the script for that with its arguments.
program=$1 reason=$2 seconds=$3 memory=$4
shift 4
# Left by a run whose controller died.
while systemctl -q is-active paddock-switch.service; do sleep 1; done
systemd-run --quiet --collect --wait --pipe --unit=paddock-switch -p "RuntimeMaxSec=$seconds" -p "MemoryMax=$memory" \
    "$program" rollback "$reason" </dev/null
test $# -gt 0 || exit 0
# Here, and not in a step of its own: whoever is cut off meanwhile would take the slower one again, and not measure it.
user=$1 home=$2 remember=$3
shift 3
runuser -u "$user" -- env "HOME=$home" sh -euc "$remember" sh "$@"
