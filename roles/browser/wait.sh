# Waits until nothing of what is named is there any more, at most so long. Arguments: seconds, paths. Never fails: what
# is there afterwards is looked at by whoever asked.
left=$1
shift
while test "$left" -gt 0; do
    there=no
    for path; do
        if test -e "$path"; then there=yes; fi
    done
    test "$there" = yes || break
    sleep 1
    left=$((left - 1))
done
