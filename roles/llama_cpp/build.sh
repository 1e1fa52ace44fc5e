# Builds one release of llama.cpp and puts it in its place, whole. Arguments: repository, commit, key, stamp, targets,
# then cmake's. Runs in a transient unit; killed anywhere and run again, it goes on.
repo=$1 commit=$2 key=$3 stamp=$4 targets=$5
shift 5
data=$HOME/.local/share/paddock source=$HOME/.cache/paddock/llama.cpp build=$HOME/.cache/paddock/build
release=$data/releases/$key
# Another run may have built it while this one waited; a folder that is not whole is nobody's release.
whole() {
    test "$(cat "$release/stamp.json" 2>/dev/null)" = "$stamp" &&
        (cd "$release" && files | cmp -s - sizes && sha256sum --quiet --check manifest) >/dev/null 2>&1
}
files() { find bin lib -type f -printf '%s %m %p\n' | sort; }
if whole; then exit 0; fi
rm -rf "$release"
# git must not walk up from a broken folder into a repository of the user's own.
export CCACHE_BASEDIR="$HOME" GIT_TERMINAL_PROMPT=0 GIT_CEILING_DIRECTORIES="$HOME/.cache/paddock"
mkdir -p "$source"
cd "$source"
git rev-parse --git-dir >/dev/null 2>&1 || { rm -rf .git; git init -q .; }
# Left by a git that was killed; nobody else works here, as the unit's name is the lock.
rm -f .git/*.lock
fetch() {
    echo "fetching $commit from $repo"
    said=$(timeout 1800 git fetch -q --depth 1 "$repo" "$commit" 2>&1) ||
        fail "commit $commit cannot be fetched from $repo: $(echo "$said" | grep -i -m 1 -E 'fatal|error' || echo "$said")"
}
git cat-file -e "$commit^{commit}" 2>/dev/null || fetch
# A power cut leaves objects that are there and empty: once more from nothing then.
git checkout -q -f --detach "$commit" || {
    rm -rf .git
    git init -q .
    fetch
    git checkout -q -f --detach "$commit"
}
git clean -q -ffdx
# Another release's build is worth nothing to this one; the same one's goes on where it was killed.
test "$(cat "$build/.key" 2>/dev/null)" = "$key" || rm -rf "$build"
mkdir -p "$build"
echo "$key" >"$build/.key"
cmake -S "$source" -B "$build" -G Ninja "$@" 2>"$build/errors" || {
    cat "$build/errors"
    fail "cmake refused the configuration: $(grep -v '^$' "$build/errors" | head -n 3 | tr '\n' ' ')"
}
# Two GiB for each compiler: nvcc is the hungry one.
jobs=$(awk '/^MemAvailable/ {print int($2 / 2097152)}' /proc/meminfo)
test "$jobs" -le "$(nproc)" || jobs=$(nproc)
test "$jobs" -ge 1 || jobs=1
began=$(date +%s)
cmake --build "$build" -j "$jobs" --target $targets
draft=$data/releases/.$key
rm -rf "$draft"
mkdir -p "$draft/bin" "$draft/lib"
for target in $targets; do cp "$build/bin/$target" "$draft/bin/"; done
find "$build/bin" -name '*.so*' -exec cp -P {} "$draft/lib/" \;
# The CUDA libraries go along, so that an update of the toolkit does not take them from under a release.
ldd "$draft"/bin/* "$draft"/lib/*.so* 2>/dev/null |
    awk '$3 ~ /\/lib(cudart|cublas|cublasLt|nvrtc|nvJitLink)[.]so/ { print $3 }' | sort -u |
    while IFS= read -r library; do cp -L "$library" "$draft/lib/"; done
"$draft/bin/llama-server" --version || fail "the new llama-server does not start"
(cd "$draft" && find bin lib -type f -exec sha256sum {} + >manifest && files >sizes)
printf '%s\n' "$stamp" >"$draft/stamp.json"
echo "llama.cpp was built in $(($(date +%s) - began)) s"
mv -T "$draft" "$release"
rm -rf "$build"
