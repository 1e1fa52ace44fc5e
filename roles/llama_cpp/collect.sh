# Removes old releases. Arguments: their keys. One that a unit, the last good service or a process has come to use stays.
cd "$HOME/.local/share/paddock/releases"
rm -rf .gone-* # of a run that was killed here
for key in "$@"; do
    test -f "$key/stamp.json" || continue
    if grep -qs "/releases/$key/" "$HOME"/.config/systemd/user/*.service "$HOME"/.config/systemd/user/*.d/*.conf \
        /etc/systemd/system/*.service /etc/systemd/system/*.d/*.conf ../last-good.json /var/lib/paddock/last-good.json ||
        readlink /proc/[0-9]*/exe 2>/dev/null | grep -q "/releases/$key/"; then
        continue
    fi
    # First out of sight, as a half-removed release must not look like one.
    mv -T "$key" ".gone-$key"
    rm -rf ".gone-$key"
done
