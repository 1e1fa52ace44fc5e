# Lets the user's units outlive the login, and waits for their systemd manager. Arguments: user, uid, the folder of the
# record. Runs as root.
if test ! -e "/var/lib/systemd/linger/$1"; then
    test -d /var/lib/systemd/linger || echo /var/lib/systemd/linger >>"$3/paths"
    echo "$1" >"$3/linger"
fi
loginctl enable-linger "$1"
for _ in $(seq 100); do
    test ! -S "/run/user/$2/systemd/private" || exit 0
    sleep 0.1
done
fail "the systemd manager of $1 does not come up; see journalctl -u user@$2.service"
