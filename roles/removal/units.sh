# Stops and removes the units of ours. Drop-ins beside them are the user's, and stay.
folder=$HOME/.config/systemd/user
ctl() { systemctl --user "$@" 2>/dev/null; }
# Timers first, or they would start what was stopped; builds and downloads are transient units.
for unit in $(ctl list-units --all --plain --no-legend 'paddock-*.timer' 'paddock-*' | awk '{ print $1 }'); do
    ctl stop "$unit" || true
done
for path in "$folder"/paddock-*; do
    if test ! -d "$path" && head -n 1 "$path" 2>/dev/null | grep -q '^# Written by Paddock'; then
        ctl disable --quiet "$(basename "$path")" || true
        rm -f "$path"
    fi
done
find "$folder" -path '*.wants/paddock-*' -xtype l -delete 2>/dev/null || true # enabled, and no manager was there to ask
ctl daemon-reload || true
ctl reset-failed 'paddock-*' || true
