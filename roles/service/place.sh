# Moves releases, models and notes to where the service's manager may use them. Runs as root. Arguments: the user, their
# own folder, the other one, "out" or "home". Their own is a link while it is out; killed anywhere, it goes on.
user=$1 home=$2 away=$3 way=$4
umask 022
# A script whose controller is gone goes on, and another disk takes time.
exec 9<"$(dirname "$home")"
flock 9
# The other folder, once a move of this user's has begun: what is moved says so itself.
theirs() { test "$(stat -c %U "$away")" = "$user" && grep -qxF "$away" "$away/created/paths" 2>/dev/null; }
replaced() {
    test ! -L "$2" || rm -f "$2"
    mv -T "$1" "$2"
}
# A copy is whole before it takes its place.
moved() {
    test "$(stat -c %d "$1")" = "$(stat -c %d "$(dirname "$2")")" || {
        ! mountpoint -q "$1/models" || fail "$1/models is a mount, which cannot move to another disk with the rest; mount it" \
            "elsewhere, and make $1/models a link to that"
        rm -rf "$2.new"
        cp -a "$1" "$2.new"
        replaced "$2.new" "$2"
        left_behind "$1"
        return
    }
    replaced "$1" "$2"
}
# A home with a record of the move is whole, so that goes first there, and last in the other folder.
left_behind() {
    case $way in
    out) rm -rf "$1/created" ;;
    home) find "$1" -mindepth 1 -maxdepth 1 ! -name created -exec rm -rf {} + ;;
    esac
    rm -rf "$1"
}
# A claim has made a new folder in the place of the link. It is still this run's.
claimed() {
    cp -a "$home/run.lock" "$away/" 2>/dev/null || true
    rm -rf "$home"
}
case $way in
out)
    if test -L "$home"; then
        test "$(readlink "$home")" != "$away" || exit 0
        fail "$home is a link of your own to $(readlink "$home"), and service_scope='system' needs it at $away"
    fi
    if test -d "$away" && theirs; then # it is all there
        claimed
    else
        test ! -e "$away" || fail "$away is there and not Paddock's, or another user's; service_scope='system' needs it"
        test -d "$(dirname "$away")" || fail "$(dirname "$away") is not there"
        echo "$away" >>"$home/created/paths"
        moved "$home" "$away"
    fi
    chmod 0755 "$away"
    ln -s "$away" "$home"
    chown -h "$user:" "$home"
    ;;
home)
    if test ! -L "$home"; then # killed in the middle
        if test ! -d "$away" || ! theirs; then exit 0; fi
        if grep -qxF "$away" "$home/created/paths" 2>/dev/null; then
            left_behind "$away"
            exit 0
        fi
        claimed
    fi
    moved "$away" "$home"
    ;;
esac
