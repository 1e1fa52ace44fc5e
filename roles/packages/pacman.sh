# Installs packages, upgrades none. Arguments: their names. Runs as root.
# Never -y: a fresh database on an old system is a partial upgrade.
pacman -S --noconfirm --needed "$@" ||
    fail "pacman could not install $*; if its mirror has moved on, run 'pacman -Syu' yourself and try again"
