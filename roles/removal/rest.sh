# Removes releases, sources and notes, the record and its folders last. Arguments: "models" where those and the record stay.
kept=$1
data=$HOME/.local/share/paddock
paths=$(sort -r "$data/created/paths" 2>/dev/null || true)
rm -rf "$HOME/.cache/paddock"
cd "$data"
# The claim is the last of it, and a run that is killed before leaves a host that still knows what to remove.
if test "$kept" = models && test -d models; then
    find . -mindepth 1 -maxdepth 1 ! -name models ! -name created ! -name run.lock -exec rm -rf {} +
    rm -f created/linger run.lock
    exit
fi
find . -mindepth 1 -maxdepth 1 ! -name created ! -name run.lock -exec rm -rf {} +
cd "$HOME"
rm -rf "$data"
printf '%s\n' "$paths" | while IFS= read -r path; do
    test -z "$path" || rmdir "$path" 2>/dev/null || true
done
