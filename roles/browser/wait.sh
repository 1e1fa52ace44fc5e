# Waits until there is no file any more in what is named, at most so long. Arguments: seconds, paths. Never fails: what is
# there afterwards is looked at by whoever asked. A browser leaves the folders of its models behind.
left=$1
shift
while test "$left" -gt 0; do
    there=
    for path; do
        there=$there$(find "$path" -type f 2>/dev/null | head -n 1)
    done
    test -n "$there" || break
    sleep 1
    left=$((left - 1))
done
