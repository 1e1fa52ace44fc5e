# Installs packages, upgrades none. Arguments: their names. Runs as root.
dnf -y install "$@"
