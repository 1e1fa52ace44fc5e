# Installs paddock-switch and its watchdog. Arguments: the program, the watchdog's service and timer, the folder of its
# state, the folder of the units, whose manager (user or system).
data=$4 units=$5 theirs=--$6
program=$data/bin/paddock-switch timer=$units/paddock-watchdog.timer
umask 022
put() {
    mkdir -p "$(dirname "$1")"
    printf '%s' "$3" >"$1.new"
    chmod "$2" "$1.new"
    mv -fT "$1.new" "$1"
}
# A link is somebody's mask, and a timer that somebody disabled or stopped stays so.
if test ! -L "$timer"; then
    new=yes
    test ! -e "$program" || test ! -e "$timer" || new=no
    put "$units/paddock-watchdog.service" 0644 "$2"
    put "$timer" 0644 "$3"
    systemctl "$theirs" daemon-reload
    if test $new = yes; then systemctl "$theirs" enable --quiet --now paddock-watchdog.timer; fi
fi
# The last: without it all of this is done again, where it was killed before the timer was enabled.
put "$program" 0755 "$1"
