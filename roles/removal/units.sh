# Stops and removes the units of ours. Drop-ins beside them are the user's, and stay.
folder=$HOME/.config/systemd/user
ctl() { systemctl --user "$@" 2>/dev/null; }
ours() { test ! -d "$1" && head -n 1 "$1" 2>/dev/null | grep -q '^# Written by Paddock'; }
# First what starts others: a switch that a dead run left here would write its unit again, and start it.
for unit in paddock-watchdog.timer paddock-watchdog.service paddock-switch.service; do
    ctl stop "$unit" || true
done
# Builds and downloads are transient units, of which no file tells; one with a file of the user's is theirs.
for unit in $(ctl list-units --all --plain --no-legend 'paddock-*' | awk '{ print $1 }'); do
    if test -e "$folder/$unit" && ! ours "$folder/$unit"; then continue; fi
    ctl stop "$unit" || true
done
for path in "$folder"/paddock-*; do
    if ours "$path"; then
        ctl disable --quiet "$(basename "$path")" || true
        rm -f "$path"
    fi
done
find "$folder" -path '*.wants/paddock-*' -xtype l -delete 2>/dev/null || true # enabled, and no manager was there to ask
ctl daemon-reload || true
ctl reset-failed 'paddock-*' || true
