# Downloads one file and gives it its name once its sha256 is right. Arguments: path, URL, size in bytes, sha256.
# Runs in a transient unit; killed anywhere and run again, it goes on where it was.
path=$1 url=$2 size=$3 sha256=$4
part=$path.part secret=$XDG_RUNTIME_DIR/paddock-download.secret
header=$(cat "$secret" 2>/dev/null || true)
rm -f "$secret"
mkdir -p "$(dirname "$path")"
have() { stat -c %s "$part" 2>/dev/null || echo 0; }
# What is known of a file without reading it again: same size and mtime, same bytes.
remember() {
    mtime_ns=$(python3 -c 'import os, sys; print(os.stat(sys.argv[1]).st_mtime_ns)' "$1")
    printf '{"sha256": "%s", "size": %s, "mtime_ns": %s}\n' "$sha256" "$size" "$mtime_ns" >"$path.json.new"
    mv -fT "$path.json.new" "$path.json"
}
# Touched, or its note lost: the file itself may still be right, and is not worth another 12 GB.
if test "$(stat -c %s "$path" 2>/dev/null)" = "$size"; then
    if test "$(sha256sum "$path" | cut -d' ' -f1)" = "$sha256"; then
        remember "$path"
        exit 0
    fi
fi
try=0
while test "$(have)" -lt "$size"; do
    before=$(have)
    # The token goes to curl on standard input, and curl gives it to no other host than the URL's. A server that
    # ignores the range would start the file anew in its middle; curl then fails with 33 or 36: the part is given up.
    status=0
    code=$(printf 'url = "%s"\n%s\n' "$url" "$header" | curl --config - --location --fail --silent --show-error \
        --connect-timeout 30 --speed-limit 1 --speed-time 60 --continue-at - --output "$part" \
        --write-out '%{http_code}') || status=$?
    case $status:$code in
    0:*) ;;
    22:429 | 22:5??) echo "the Hub answered $code" ;;
    22:*) fail "the Hub answered $code for $url" ;;
    33:* | 36:*) rm -f "$part" ;;
    23:*) fail "the disk is full or not writable: $part" ;;
    *) echo "curl ended with $status" ;;
    esac
    if test "$(have)" -gt "$before"; then try=0; fi
    test "$(have)" -lt "$size" || break
    try=$((try + 1))
    test $try -le 8 ||
        fail "the download broke off 8 times and nothing came (curl $status, HTTP $code); what has come is kept"
    sleep $((try * 2))
done
found=$(sha256sum "$part" | cut -d' ' -f1)
if test "$found" != "$sha256"; then
    mv -f "$part" "$path.bad"
    fail "the file that came has sha256 $found and not $sha256; it was moved to $path.bad"
fi
chmod 0644 "$part"
remember "$part"
mv -fT "$part" "$path"
