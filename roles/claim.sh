# Claims this host for one run. Arguments: the claim, the dead one to replace (or nothing), minutes after which a claim
# without a sign of life is stale. Prints "taken", or the claim of the run that has it.
me=$1 dead=$2 stale=$3
folder=$HOME/.local/share/paddock
file=$folder/run.lock
# Whoever is about to remove this folder holds the lock until it is gone; then there is a new one to lock.
until test "$folder/.claim" -ef /proc/self/fd/9; do
    # What the first run found absent, it or a later one makes, and a removal takes away again where it is empty then.
    absent=$(cd && for path in .local .local/share .cache .cache/ccache .config .config/systemd .config/systemd/user \
        .config/systemd/user/default.target.wants .config/systemd/user/timers.target.wants; do
        test -e "$path" || echo "$PWD/$path"
    done)
    mkdir -p "$folder/created"
    test -w "$folder" || fail "$folder is not writable by $(id -un)"
    exec 9>"$folder/.claim"
    flock -w 30 9 || fail "$folder/.claim is locked by somebody"
done
test -e "$folder/created/paths" || printf '%s\n' "$absent" >"$folder/created/paths"
held=$(cat "$file" 2>/dev/null || true)
if test ! -e "$file" || test "$held" = "$me" || { test -n "$dead" && test "$held" = "$dead"; } ||
    test -n "$(find "$file" -mmin "+$stale" 2>/dev/null)"; then
    printf '%s\n' "$me" >"$folder/.run.lock.new"
    mv -fT "$folder/.run.lock.new" "$file"
    echo taken
else
    printf '%s\n' "$held"
fi
