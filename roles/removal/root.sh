# Takes back what root made. Runs as root. Arguments: the folder of the record; the user whose lingering is ours (or
# nothing); the package manager whose packages go (or nothing); files to remove.
record=$1 linger=$2 manager=$3
shift 3
rm -f -- "$@"
if test -n "$linger"; then
    loginctl disable-linger "$linger"
    rm -f "$record/linger"
fi
if test -n "$manager" && test -d "$record"; then
    alone
    settle_record
    remove_packages
fi
# Deepest first; what others put something into stays.
sort -r "$record/paths" 2>/dev/null | grep -v '^/home/' | while IFS= read -r path; do
    rmdir "$path" 2>/dev/null || true
done
