# Builds one release of llama.cpp, proves it, and puts it in its place, whole. Runs in a transient unit, after source.sh,
# compile.sh and accept.sh; killed anywhere and run again, it goes on. Wants: key, stamp. Arguments: cmake's.
data=$HOME/.local/share/paddock build=$cache/build
release=$data/releases/$key draft=$data/releases/.$key
# By content: a toolkit or compiler that was installed anew compiles the same.
export CCACHE_BASEDIR="$HOME" CCACHE_COMPILERCHECK=content
# Another run may have built it while this one waited; a folder that is not whole is nobody's release.
whole() {
    test "$(cat "$release/stamp.json" 2>/dev/null)" = "$stamp" && test -s "$release/flags.txt" &&
        ! ldd "$release/bin/llama-server" | grep -q 'not found' &&
        (cd "$release" && files | cmp -s - sizes && sha256sum --quiet --check manifest) >/dev/null 2>&1
}
files() { find bin lib -type f -printf '%s %m %p\n' | sort; }

if whole; then exit 0; fi
check_out
apply_patches
bring_page
# Another release's build is worth nothing to this one; the same one's goes on where it was killed.
test "$(cat "$build/.key" 2>/dev/null)" = "$key" || rm -rf "$build"
mkdir -p "$build"
echo "$key" >"$build/.key"
try_cuda
configure "$@"
compile
gather
accept
printf '%s\n' "$stamp" >"$draft/stamp.json"
# Only now: what is damaged may still serve.
rm -rf "$release"
mv -T "$draft" "$release"
rm -rf "$build"
