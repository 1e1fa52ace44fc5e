# Installs paddock-switch and its watchdog. Arguments: the program, the watchdog's service and timer, the folder of its
# state, the folder of the units, whose manager (user or system).
data=$4 units=$5 theirs=--$6
umask 022
put() {
    mkdir -p "$(dirname "$1")"
    printf '%s' "$3" >"$1.new"
    chmod "$2" "$1.new"
    mv -fT "$1.new" "$1"
}
put "$data/bin/paddock-switch" 0755 "$1"
# A link is somebody's mask.
test ! -L "$units/paddock-watchdog.timer" || exit 0
new=yes
test ! -e "$units/paddock-watchdog.timer" || new=no
put "$units/paddock-watchdog.service" 0644 "$2"
put "$units/paddock-watchdog.timer" 0644 "$3"
systemctl "$theirs" daemon-reload
# One that somebody disabled or stopped stays so.
if test $new = yes; then systemctl "$theirs" enable --quiet --now paddock-watchdog.timer; fi
