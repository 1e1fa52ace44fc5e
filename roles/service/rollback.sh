# Lets paddock-switch bring the last good service of the system's back, as a unit that outlives this connection. Runs as
# root. Arguments: the program, the reason, seconds, bytes of memory.
# Left by a run whose controller died.
while systemctl -q is-active paddock-switch.service; do sleep 1; done
systemd-run --quiet --collect --wait --pipe --unit=paddock-switch -p "RuntimeMaxSec=$3" -p "MemoryMax=$4" \
    "$1" rollback "$2" </dev/null
