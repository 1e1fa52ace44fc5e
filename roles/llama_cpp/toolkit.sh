# Puts NVIDIA's CUDA toolkit together from its wheels, in a folder of its own. Wants: folder, compiler, wheels (a line each:
# name, version, sha256, URL). Runs in a transient unit; killed anywhere and run again, it goes on.
if "$folder/bin/nvcc" --version >/dev/null 2>&1; then exit 0; fi
cache=$HOME/.cache/paddock/wheels draft=${folder%/*}/.new
rm -rf "$draft"
mkdir -p "$cache" "$draft"
total=$(printf '%s' "$wheels" | grep -c .) number=0

bring() {
    if echo "$3  $cache/$3.whl" | sha256sum --status --check 2>/dev/null; then return 0; fi
    status=0
    curl --fail --silent --show-error --location --retry 5 --retry-all-errors --connect-timeout 30 --speed-limit 1 \
        --speed-time 60 --continue-at - --output "$cache/$3.part" "$4" || status=$?
    if test $status != 0; then
        rm -f "$cache/$3.part" # it may be whole, or of a server that knows no ranges
        curl --fail --silent --show-error --location --connect-timeout 30 --speed-limit 1 --speed-time 60 \
            --output "$cache/$3.part" "$4" || fail "$1 $2 cannot be had from $4"
    fi
    echo "$3  $cache/$3.part" | sha256sum --status --check || {
        rm -f "$cache/$3.part"
        fail "$1 $2 from $4 is not what was pinned"
    }
    mv -f "$cache/$3.part" "$cache/$3.whl"
}

while read -r name version sha256 url; do
    number=$((number + 1))
    echo "[$number/$total] $name-$version"
    bring "$name" "$version" "$sha256" "$url"
    python3 -m zipfile -e "$cache/$sha256.whl" "$draft" || fail "$name $version cannot be unpacked"
done <<WHEELS
$wheels
WHEELS
root=$(find "$draft/nvidia" -path '*/bin/nvcc')
test -n "$root" || fail "there is no nvcc in the wheels of the CUDA toolkit"
root=${root%/bin/nvcc}
mv "$draft"/*.dist-info "$root/"
# What a wheel cannot hold, and what compilers and cmake look for: modes, links, names without a version.
find "$root/bin" "$root/nvvm/bin" -type f -exec chmod a+x {} +
ln -s lib "$root/lib64"
for library in "$root"/lib/lib*.so.*; do ln -sf "${library##*/}" "${library%%.so.*}.so"; done
# The driver's library is for the linker alone, by name: a host without a driver can build too.
mkdir "$root/lib/stubs"
python3 -c '
import re, sys
text = open(sys.argv[1], encoding="utf-8", errors="replace").read()
names = set(re.findall(r"\bCUDAAPI\s+(cu[A-Z]\w+)\s*\(", text)) | set(re.findall(r"#\s*define\s+cu[A-Z]\w+\s+(cu[A-Z]\w+)", text))
print("\n".join("int " + name + "(void) { return 999; }" for name in sorted(names)))
' "$root/include/cuda.h" >"$draft/stub.c"
"$compiler" -shared -fPIC -Wl,-soname,libcuda.so.1 -o "$root/lib/stubs/libcuda.so" "$draft/stub.c" ||
    fail "the linker's stand-in for libcuda.so cannot be compiled"
"$root/bin/nvcc" --version >/dev/null || fail "the nvcc of the wheels does not start on this host"
rm -rf "$folder"
mv -T "$root" "$folder"
rm -rf "$draft" "$cache"
# The releases carry what they need of an older one.
find "${folder%/*}" -mindepth 1 -maxdepth 1 ! -path "$folder" -exec rm -rf {} +
