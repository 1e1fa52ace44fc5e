# Lets the user's units outlive the login, and waits for their systemd manager. Arguments: user, uid. Runs as root.
loginctl enable-linger "$1"
for _ in $(seq 100); do
    test ! -S "/run/user/$2/systemd/private" || exit 0
    sleep 0.1
done
fail "the systemd manager of $1 does not come up; see journalctl -u user@$2.service"
