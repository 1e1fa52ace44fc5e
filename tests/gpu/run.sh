#!/bin/sh
# Builds llama.cpp for the GPU of this machine with Paddock's own roles, proves it, serves with it, measures it, and
# compares llama.cpp's memory plan with the card: in ten minutes on 16 cores, without network. docs/gpu.md says more.
#
#     sh tests/gpu/run.sh
#
# Environment: OUT, the folder for figures and logs; PADDOCK_GPU_BACKEND=rpc, for a machine without a GPU;
# PADDOCK_GPU_WORK, a folder that is kept, so that a second run goes on; PADDOCK_GPU_TOUCH_GIB, for a virtual machine
# whose memory grows as it is used: the build takes as many compilers as 2 GiB each of free memory allow.
set -eu
export LC_ALL=C
fail() { printf 'paddock: %s\n' "$*" >&2; exit 1; }

here=$(cd "$(dirname "$0")" && pwd)
code=$(cd "$here/../.." && pwd)
pack=$code
test -f "$pack/pack.json" || pack=$code/build/gpu
test -f "$pack/pack.json" || fail "$pack is not there; make it where there is a network, with: python -m tests.gpu.pack"
backend=${PADDOCK_GPU_BACKEND:-cuda}
case $backend in cuda | rpc) ;; *) fail "PADDOCK_GPU_BACKEND=$backend: it is cuda, or rpc for a machine without a GPU" ;; esac
out=${OUT:-$pack/out}
mkdir -p "$out"
out=$(cd "$out" && pwd)
rm -f "$out/result.json" "$out"/*.log
work=${PADDOCK_GPU_WORK:-}
kept=$work
if test -z "$kept"; then work=$(mktemp -d "${TMPDIR:-/tmp}/gpu.XXXXXX"); fi
mkdir -p "$work"
work=$(cd "$work" && pwd)
cd "$code" # Python's -m looks there first
child='' number=0 slack=1 started=$(date +%s)
# Without a GPU two programs compute on these cores, and threads that spin while they wait take them from each other.
if test "$backend" = rpc; then slack=4; export GOMP_SPINCOUNT=0; fi

stop() {
    test -n "$child" || return 0
    # timeout hands it to the whole group that it leads: compilers, servers, devices.
    kill -TERM "$child" 2>/dev/null || true
    wait "$child" 2>/dev/null || true
    child=
}
leave() {
    stop
    test -n "$kept" || rm -rf "$work"
}
trap leave EXIT
trap 'exit 130' INT TERM HUP

# Seconds, name, file on standard input, then the command: it prints its result, and is killed as a group when it is late.
step() {
    seconds=$(($1 * slack)) name=$2 input=$3
    shift 3
    number=$((number + 1)) began=$(date +%s) status=0
    timeout -k 10 "$seconds" "$@" <"$input" >"$work/said" 2>"$work/complaint" &
    child=$!
    wait "$child" || status=$?
    child=
    took=$(($(date +%s) - began))
    if test $status != 0; then
        cat "$work/said" "$work/complaint" >>"$out/failed.log"
        case $status in 124 | 137) why="it took longer than $seconds s" ;; *) why= ;; esac
        told=$(cat "$work/said" "$work/complaint" | sed -n 's/^paddock: //p' | tail -n 1)
        why=${why:-${told:-$(tail -n 1 "$work/complaint")}}
        python3 -m tests.gpu.results failed step="$name" seconds="$took" why="$why"
        fail "step $number, $name, failed after $took s: $why (see $out/failed.log)"
    fi
}
result() {
    python3 -m tests.gpu.results "$name" seconds="$took"
    echo "$number $name ($took s): ${1:-$(cat "$work/said")}"
}

prepare() {
    lacking=
    for tool in git cmake g++ curl python3 timeout gzip tar awk ldd sha256sum; do
        command -v $tool >/dev/null || lacking="$lacking $tool"
    done
    test -z "$lacking" || fail "this machine lacks:$lacking"
    wanted=$(sed -nE 's/.*"python": "([0-9.]+)".*/\1/p' "$pack/pack.json")
    found=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    test "$found" = "$wanted" || fail "python3 is $found here, and this was packed for $wanted; pack again, with --python $found"
    rm -rf "$work/site"
    mkdir -p "$work/site" "$work/home" "$work/run"
    chmod 0700 "$work/run"
    for wheel in "$pack"/wheels/*.whl; do python3 -m zipfile -e "$wheel" "$work/site"; done
    if ! command -v ninja >/dev/null; then
        ninja=$(echo "$work"/site/ninja-*.data/scripts)
        chmod +x "$ninja/ninja"
        PATH=$ninja:$PATH
    fi
    for file in model twin; do gzip -dc "$pack/$file.gguf.gz" >"$work/$file.gguf"; done
    export HOME="$work/home" XDG_RUNTIME_DIR="$work/run" PYTHONPATH="$work/site:$code${PYTHONPATH:+:$PYTHONPATH}" PYTHONDONTWRITEBYTECODE=1
    export PADDOCK_GPU_WORK="$work" PADDOCK_GPU_OUT="$out" PADDOCK_GPU_PACK="$pack" PADDOCK_GPU_BACKEND="$backend"
    make_repository
    # shellcheck source=tests/gpu/toolkit.sh
    if test "$backend" = cuda; then . "$here/toolkit.sh" && complete_toolkit; fi
}

# The role fetches a commit from a repository: the trimmed source becomes one, with the same commit everywhere.
make_repository() {
    rm -rf "$work/upstream" "$work/llama.cpp"
    tar -xzf "$pack/source.tar.gz" -C "$work"
    mv "$work/llama.cpp" "$work/upstream"
    export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null
    export GIT_AUTHOR_NAME=paddock GIT_AUTHOR_EMAIL=paddock@localhost GIT_AUTHOR_DATE='1767225600 +0000'
    export GIT_COMMITTER_NAME=paddock GIT_COMMITTER_EMAIL=paddock@localhost GIT_COMMITTER_DATE='1767225600 +0000'
    git -C "$work/upstream" init -q
    git -C "$work/upstream" add --all --force .
    git -C "$work/upstream" commit -q -m "llama.cpp, trimmed"
    git -C "$work/upstream" config uploadpack.allowAnySHA1InWant true
    git -C "$work/upstream" rev-parse HEAD >"$work/commit"
}

free_ports() {
    python3 -c '
import socket
held = [socket.socket() for _ in range(2)]
for one in held: one.bind(("127.0.0.1", 0))
print(*(one.getsockname()[1] for one in held))'
}

prepare
ports=$(free_ports)
export PADDOCK_GPU_PORT="${ports% *}" PADDOCK_GPU_RPC_PORT="${ports#* }"
if test -n "${PADDOCK_GPU_TOUCH_GIB:-}"; then python3 -c "bytearray(b'1') * ($PADDOCK_GPU_TOUCH_GIB << 30)"; fi
cores=$(nproc) free=$(awk '/^MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo)
echo "$backend on $cores cores, $free GiB of memory free: $((free / 2 < cores ? free / 2 : cores)) compilers at a time"

step 30 wishes /dev/null python3 -m tests.gpu.wanted probe
cp "$work/said" "$work/probe.py"
step 60 probe "$work/probe.py" python3 -ISB -
cp "$work/said" "$work/probe.json"
step 30 decision /dev/null python3 -m tests.gpu.wanted decide "$work/probe.json"
result

echo "building; $work/said tells how far it is"
step $((480 * (cores < 16 ? 16 : cores) / cores)) build "$work/build.sh" sh -s
cp "$work/said" "$out/build.log"
said=$(grep -E 'was compiled|answers' "$work/said" | tr '\n' ';' || true)
case $said in *'answers (on the CPU)'* | *'answers (--device none'*) fail "the acceptance left the device alone: $said" ;; esac
result "${said:-a run before this one has built it}"

step 120 serve /dev/null python3 -m tests.gpu.gate
result
step 240 plan /dev/null python3 -m tests.gpu.planned
result
step 120 tight /dev/null python3 -m tests.gpu.tight
result
echo "all of it in $(($(date +%s) - started)) s; figures: $out/result.json"
