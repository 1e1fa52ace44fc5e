# Removes a service of the system's, which gives way to one of the user's. Runs as root. Argument: "stop" or "remove".
folder=/etc/systemd/system
for name in paddock-watchdog.timer paddock-watchdog.service paddock-llama-server.service; do
    head -n 1 "$folder/$name" 2>/dev/null | grep -q '^# Written by Paddock' || continue
    systemctl stop "$name" || true
    test "$1" = remove || continue
    systemctl disable --quiet "$name" || true
    rm -f "$folder/$name"
done
test "$1" = remove || exit 0
systemctl daemon-reload
rm -rf /var/lib/paddock /var/cache/paddock /var/cache/private/paddock
