# Whether a new release may serve: its libraries are there, it sees the device that it was built for, and it answers.
# Wants: draft, backend, devices (how many GPUs), type_k, type_v, flash, model (a tiny GGUF: base64, gzip).
ROOM=1024 # MiB free on every card; less, and the device is proved by the restart that was announced

lists_devices() { timeout 60 "$draft/bin/llama-server" "$@" --list-devices 2>&1 | grep -E '^ *[A-Z][A-Za-z]*[0-9]+.*: ' || true; }
knows() { grep -qxe "$1" "$draft/flags.txt"; }

links() {
    lacking=$(ldd "$draft"/bin/* "$draft"/lib/*.so* 2>/dev/null | awk '/not found/ { print $1 }' | sort -u | tr '\n' ' ')
    case $lacking in
    *libcuda.so*) fail "the CUDA build of llama.cpp cannot run here: libcuda.so.1 is missing, which NVIDIA's driver brings" ;;
    ?*) fail "the new release lacks libraries on this host: $lacking" ;;
    esac
}

# A build for a GPU that would run on the CPU alone is a failure, never a fallback. Sets `where`, the options of a run.
finds_devices() {
    where='' split=
    if knows --n-cpu-moe; then split="--n-cpu-moe 1"; fi
    case $backend in
    cuda)
        found=$(lists_devices | grep -E '^ *CUDA' || true)
        count=$(printf '%s' "$found" | grep -c . || true)
        test "$count" -ge "$devices" ||
            fail "the CUDA build of llama.cpp sees $count of $devices GPUs: $(timeout 60 "$draft/bin/llama-server" --list-devices 2>&1 |
                grep -i -m 1 -E 'cuda.*(fail|error)|no CUDA' || echo 'it says no more')"
        least=$(printf '%s\n' "$found" | sed -nE 's/.*, ([0-9]+) MiB free.*/\1/p' | sort -n | head -n 1)
        if test "${least:-0}" -ge $ROOM; then where="-ngl 99 $split"; else where="--device none"; fi
        ;;
    rpc)
        # On a server of its own: the one that serves takes one client at a time.
        port=$(python3 -c 'import socket; one = socket.socket(); one.bind(("127.0.0.1", 0)); print(one.getsockname()[1])')
        "$draft/bin/ggml-rpc-server" -H 127.0.0.1 -p "$port" >"$place/rpc.log" 2>&1 &
        device=$!
        wait_for_port "$port"
        lists_devices --rpc "127.0.0.1:$port" | grep -q '^ *RPC' || fail "the new release sees no device over RPC"
        where="--rpc 127.0.0.1:$port -ngl 99 $split"
        ;;
    esac
}

wait_for_port() {
    python3 -c '
import socket, sys, time
for _ in range(100):
    try:
        sys.exit(socket.create_connection(("127.0.0.1", int(sys.argv[1])), 3).close())
    except OSError:
        time.sleep(0.1)
sys.exit(1)' "$1" || fail "the new ggml-rpc-server does not start: $(tail -n 1 "$place/rpc.log")"
}

# Of quantized experts, partly on the CPU: a plain F16 model would miss what AMX does to K-quants there.
answers() {
    printf '%s' "$model" | base64 -d | gzip -d >"$place/model.gguf"
    fixed="-c 512 -np 1 -ctk $type_k -ctv $type_v -fa $flash"
    if knows -fit; then fixed="$fixed -fit off"; fi
    # Nobody's environment or settings: only the build is on trial.
    env -i PATH="$PATH" HOME="$place" LC_ALL=C "$draft/bin/llama-server" -m "$place/model.gguf" $fixed $where \
        --host "$place/llama.sock" >"$place/log" 2>&1 &
    server=$!
    end=$(($(date +%s) + 120))
    until ask --max-time 5 http://localhost/health >/dev/null 2>&1; do
        # Not kill -0: one that has ended is there until it is waited for.
        case $(cut -d ' ' -f 3 /proc/$server/stat 2>/dev/null) in '' | Z) died "does not start" ;; esac
        test "$(date +%s)" -lt $end || died "did not come up within 120 s"
        sleep 0.2
    done
    said=$(ask --max-time 120 --data '{"prompt": [5, 6, 7, 8], "n_predict": 8, "ignore_eos": true, "temperature": 0}' \
        http://localhost/completion) || died "does not answer"
    case $said in *'"tokens_predicted":8'*) ;; *) fail "the new llama-server answers something else than was asked" ;; esac
    clean_up
    echo "the new release answers (${where:-on the CPU})"
}

ask() { curl --unix-socket "$place/llama.sock" --noproxy '*' --fail --silent --show-error "$@"; }

died() {
    status=0
    kill -KILL $server 2>/dev/null || true
    wait $server || status=$?
    server=
    tail -n 20 "$place/log"
    case $status in
    132) why="an illegal instruction: it was built for another CPU than this one can be (a virtual machine that advertises
AMX?); name the instruction set, as in llama_cmake_args=['GGML_NATIVE=OFF', 'GGML_AVX2=ON', 'GGML_FMA=ON', 'GGML_F16C=ON']" ;;
    *) why=$(grep -iE 'error|fail|unable|invalid|abort|what\(\)' "$place/log" | head -n 1 | cut -c 1-300) ;;
    esac
    clean_up
    fail "the new llama-server $1: $(echo "${why:-exit status $status}" | tr '\n' ' ')"
}

clean_up() {
    for process in $server $device; do
        kill -KILL "$process" 2>/dev/null || true
        wait "$process" || true
    done
    rm -rf "$place"
}

accept() {
    place=${XDG_RUNTIME_DIR:-/tmp}/paddock-acceptance server='' device=''
    rm -rf "$place"
    mkdir -m 0700 "$place"
    links
    timeout 60 "$draft/bin/llama-server" --version || fail "the new llama-server does not start"
    finds_devices
    answers
}
