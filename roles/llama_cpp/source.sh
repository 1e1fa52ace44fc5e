# The source of one commit in its fixed place, patched, with its page. Wants: repository, commit, patches (a line each:
# name and text in base64), page_url and page_sha256 (or nothing).
cache=$HOME/.cache/paddock
source=$cache/llama.cpp
# git must not walk up from a broken folder into a repository of the user's own.
export GIT_TERMINAL_PROMPT=0 GIT_CEILING_DIRECTORIES="$cache"

fetch_commit() {
    echo "fetching $(echo "$commit" | cut -c 1-9) from $repository"
    said=$(timeout 1800 git fetch -q --depth 1 "$repository" "$commit" 2>&1) ||
        fail "commit $commit cannot be fetched from $repository: $(echo "$said" | grep -i -m 1 -E 'fatal|error' || echo "$said"); if it is gone there, make update-pins"
}

check_out() {
    mkdir -p "$source"
    cd "$source"
    git rev-parse --git-dir >/dev/null 2>&1 || { rm -rf .git; git init -q .; }
    # Left by a git that was killed; nobody else works here, as the unit's name is the lock.
    rm -f .git/*.lock
    git cat-file -e "$commit^{commit}" 2>/dev/null || fetch_commit
    # A power cut leaves objects that are there and empty: once more from nothing then.
    git checkout -q -f --detach "$commit" || {
        rm -rf .git
        git init -q .
        fetch_commit
        git checkout -q -f --detach "$commit"
    }
    git clean -q -ffdx
}

apply_patches() {
    printf '%s' "$patches" | while read -r name text; do
        echo "applying $name"
        said=$(printf '%s' "$text" | base64 -d | git apply --whitespace=nowarn - 2>&1) ||
            fail "llama_patches: $name does not apply to commit $commit: $(echo "$said" | grep -m 1 error: || echo "$said")"
    done
}

# llama.cpp's build takes ready-made assets from this folder, and asks no network then.
bring_page() {
    test -n "$page_url" || return 0
    archive=$cache/page-$page_sha256.tar.gz
    if ! echo "$page_sha256  $archive" | sha256sum --status --check 2>/dev/null; then
        curl --fail --silent --show-error --location --retry 3 --max-time 300 --output "$archive.part" "$page_url" ||
            fail "the page of llama.cpp's server cannot be had from $page_url; try again, or set web_ui='off'"
        echo "$page_sha256  $archive.part" | sha256sum --status --check ||
            fail "the page of llama.cpp's server is not what was pinned: $page_url; try again, or set web_ui='off'"
        rm -f "$cache"/page-*.tar.gz
        mv -f "$archive.part" "$archive"
    fi
    mkdir -p tools/ui/dist
    tar -xzf "$archive" -C tools/ui/dist
}
