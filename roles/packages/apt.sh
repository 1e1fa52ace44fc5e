# Installs packages, upgrades none. Runs as root. Arguments: in one word the names that may be missing; all others.
optional=$1
shift
export DEBIAN_FRONTEND=noninteractive
install() { apt-get -q -y -o DPkg::Lock::Timeout=300 --no-upgrade --no-install-recommends install "$@"; }
# Somebody's installation that was interrupted, perhaps ours, would stop every later one.
dpkg --configure -a || true # where somebody holds the lock, apt waits for it below
# Without a fresh list apt may not know a package at all. One broken source of somebody else's must not stop us.
apt-get -q -o DPkg::Lock::Timeout=300 update || echo "apt-get update failed; going on with the lists there are" >&2
test $# = 0 || install "$@"
for name in $optional; do
    install "$name" || echo "paddock-without $name"
done
