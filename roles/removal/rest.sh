# Removes releases, sources and notes, the record and its folders last. Arguments: "models" where those and the record stay.
# What is among the models by now is somebody's own, as are a link and a mount in their place.
kept=$1
data=$HOME/.local/share/paddock
# A controller may be gone while its script still works here: the next run's claim waits for the end of it.
exec 9>"$data/.claim"
flock -w 60 9 || fail "$data/.claim is locked by somebody"
paths=$(sort -r "$data/created/paths" 2>/dev/null || true)
rm -rf "$HOME/.cache/paddock"
cd "$data"
# The claim is the last of it, and a run that is killed before leaves a host that still knows what to remove.
find . -mindepth 1 -maxdepth 1 ! -name models ! -name created ! -name run.lock ! -name .claim -exec rm -rf {} +
if test "$kept" = models && test -d models; then
    rm -f created/linger run.lock .claim
    exit
fi
# A download that was killed at its beginning has left folders without a file.
test -L models || mountpoint -q models || find models -type d -empty -delete 2>/dev/null || true
cd "$HOME"
if test -e "$data/models" || test -L "$data/models"; then
    rm -rf "$data/created" "$data/run.lock" "$data/.claim"
else
    rm -rf "$data"
fi
printf '%s\n' "$paths" | while IFS= read -r path; do
    test -z "$path" || rmdir "$path" 2>/dev/null || true
done
