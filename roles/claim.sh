# Claims this host for one run. Arguments: the claim, the dead one to replace (or nothing), minutes after which a claim
# without a sign of life is stale. Prints "taken", or the claim of the run that has it.
me=$1 dead=$2 stale=$3
folder=$HOME/.local/share/paddock
file=$folder/run.lock
mkdir -p "$folder"
if test -n "$dead" && test "$(cat "$file" 2>/dev/null)" = "$dead"; then rm -f "$file"; fi
if test -n "$(find "$file" -mmin "+$stale" 2>/dev/null)"; then rm -f "$file"; fi
# noclobber: of two that come at once, one makes the file.
if (set -C && printf '%s\n' "$me" >"$file") 2>/dev/null || test "$(cat "$file" 2>/dev/null)" = "$me"; then
    echo taken
else
    test -w "$folder" || fail "$folder is not writable by $(id -un)"
    cat "$file"
fi
