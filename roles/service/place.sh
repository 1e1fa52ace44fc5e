# Moves releases, models and notes to where the service's manager may use them. Runs as root. Arguments: the user, their
# own folder, the other one, "out" or "home". Their own is a link while it is out; killed anywhere, it goes on.
user=$1 home=$2 away=$3 way=$4
umask 022
moved() {
    test "$(stat -c %d "$1")" = "$(stat -c %d "$(dirname "$2")")" || {
        rm -rf "$2.new"
        cp -a "$1" "$2.new"
        mv -T "$2.new" "$2"
        rm -rf "$1"
        return
    }
    mv -T "$1" "$2"
}
case $way in
out)
    if test -L "$home"; then
        test "$(readlink "$home")" != "$away" || exit 0
        fail "$home is a link of your own to $(readlink "$home"), and service_scope='system' needs it at $away"
    fi
    if test -d "$away"; then # it is all there, and a claim has made a new folder in the place of the link
        cp -a "$home/run.lock" "$away/" 2>/dev/null || true
        rm -rf "$home"
    else
        test -d "$(dirname "$away")" || fail "$(dirname "$away") is not there"
        echo "$away" >>"$home/created/paths"
        moved "$home" "$away"
    fi
    chmod 0755 "$away"
    ln -s "$away" "$home"
    chown -h "$user:" "$home"
    ;;
home)
    test -L "$home" || exit 0
    rm -f "$home"
    moved "$away" "$home"
    ;;
esac
