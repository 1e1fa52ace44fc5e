# Installs packages, upgrades none. Runs as root. Arguments: in one word the names that may be missing; all others.
# Never -y: a fresh database on an old system is a partial upgrade.
optional=$1
shift
upgrade="run 'pacman -Syu' yourself and try again"
lock=$(pacman-conf DBPath 2>/dev/null || echo /var/lib/pacman/)db.lck

# pacman gives up at once where its database is locked. Whoever is at work has the lock file open.
held() { test -n "$(find /proc/[0-9]*/fd -lname '*/db.lck' 2>/dev/null)"; }
wait_for_lock() {
    waited=0
    while test -e "$lock"; do
        test $waited -lt 300 || fail "another pacman has been at work for 5 minutes ($lock); let it end and run again"
        sleep 1
        waited=$((waited + 1))
        held || test ! -e "$lock" || fail "pacman's database is locked, and no process holds the lock: a pacman was" \
            "interrupted. Remove $lock, look with 'pacman -Dk' whether all is well, and run again"
    done
}
install() {
    wait_for_lock
    pacman -S --noconfirm --needed "$@"
}

# --needed upgrades what is there and old; -T leaves out what is there.
wanted=$(test $# = 0 || pacman -T "$@" || true)
if test -n "$wanted"; then
    unknown=$(pacman -Sp $wanted 2>&1 | sed -n 's/^error: target not found: //p' | tr '\n' ' ')
    test -z "$unknown" ||
        fail "pacman knows no package ${unknown% }; if its database is old or was never fetched, $upgrade"
    install $wanted || fail "pacman could not install" $wanted"; if its mirror has moved on, $upgrade"
fi
for name in $optional; do
    install "$name" || echo "paddock-without $name"
done
