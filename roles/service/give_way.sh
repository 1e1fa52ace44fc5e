# Removes a service of the system's, which gives way to one of the user's. Runs as root. Argument: "stop" or "remove".
folder=/etc/systemd/system
# What a dead run left at work would write its unit again, and start it.
systemctl stop paddock-switch.service 2>/dev/null || true
for name in paddock-watchdog.timer paddock-watchdog.service paddock-llama-server.service; do
    head -n 1 "$folder/$name" 2>/dev/null | grep -q '^# Written by Paddock' || continue
    systemctl stop "$name" || true
    test "$1" = remove || continue
    systemctl disable --quiet "$name" || true
    rm -f "$folder/$name"
done
test "$1" = remove || exit 0
systemctl daemon-reload
rm -rf /var/cache/paddock /var/cache/private/paddock
rm -rf /var/lib/paddock # the last, as a removal goes by it
