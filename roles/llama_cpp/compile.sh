# From source to binaries: a trial of the CUDA toolkit, cmake, the compiler, and what belongs to a release gathered in a
# draft. Wants: targets, web_ui, and for CUDA nvcc, cuda_root, host_compiler, architectures (or nothing).
# Whether toolkit, host compiler and the system's headers go together, before an hour of compiling finds out.
try_cuda() {
    test -n "$nvcc" || return 0
    printf '#include <cmath>\n__global__ void root(float * x) { *x = rsqrtf(*x) + std::sqrt(*x); }\nint main() {}\n' >"$build/try.cu"
    for capability in $(printf '%s' "$architectures" | tr ';' ' '); do
        case $capability in [0-9]*) set -- "$@" -gencode "arch=compute_${capability%%-*},code=sm_${capability%%-*}" ;; esac
    done
    said=$("$nvcc" ${host_compiler:+-ccbin "$host_compiler"} "$@" -c -o "$build/try.o" "$build/try.cu" 2>&1) && return 0
    libc=$(getconf GNU_LIBC_VERSION)
    case $said in
    *"exception specification"*)
        why="the headers of this CUDA toolkit clash with those of $libc (llama.cpp#19100); take a newer toolkit, or cuda_toolkit='wheel:13.2'" ;;
    *"unsupported GNU version"*) why="this CUDA toolkit does not allow the compiler ${host_compiler:-it found}" ;;
    *"Unsupported gpu architecture"*) why="this CUDA toolkit has no code for cuda_architectures=$architectures" ;;
    *) why=$(echo "$said" | grep -i -m 1 -E 'error|fatal' || echo "$said" | head -n 1) ;;
    esac
    echo "$said" | head -n 5
    fail "$nvcc cannot compile three lines: $why"
}

configure() {
    if test "$web_ui" = build && ! command -v npm >/dev/null; then
        fail "web_ui='build' needs npm on the host; install it (Debian, Arch, Fedora: npm), or set web_ui='prebuilt' or 'off'"
    fi
    # Where the server was an example still, as in some forks.
    if test ! -d "$source/tools/server"; then set -- "$@" -DLLAMA_BUILD_EXAMPLES=ON; fi
    cmake -S "$source" -B "$build" -G Ninja "$@" 2>"$build/errors" || {
        cat "$build/errors"
        fail "cmake refused the configuration: $(grep -v '^$' "$build/errors" | head -n 3 | tr '\n' ' ')"
    }
}

compile() {
    there=$(cmake --build "$build" --target help | sed -nE 's/^(\.\.\. )?([a-z][a-z-]*)(:.*)?$/\2/p')
    chosen=
    for target in $targets; do
        if echo "$there" | grep -qx "$target"; then chosen="$chosen $target"; continue; fi
        case $target in
        llama-server | ggml-rpc-server) fail "this commit of llama.cpp has no $target, and it is needed" ;;
        *) echo "this commit has no $target; going on without it" ;;
        esac
    done
    targets=$chosen
    # Two GiB for each compiler: nvcc is the hungry one.
    jobs=$(awk '/^MemAvailable/ {print int($2 / 2097152)}' /proc/meminfo)
    test "$jobs" -le "$(nproc)" || jobs=$(nproc)
    test "$jobs" -ge 1 || jobs=1
    began=$(date +%s)
    cmake --build "$build" -j "$jobs" --target $targets
    # llama.cpp's build goes on without a page when npm fails.
    test "$web_ui" != build || test -s "$build/tools/ui/dist/index.html" ||
        fail "npm could not build the page of llama.cpp's server; set web_ui='prebuilt' or 'off'"
    echo "llama.cpp was compiled in $(($(date +%s) - began)) s"
}

gather() {
    rm -rf "$data"/releases/.[0-9a-f]*
    mkdir -p "$draft/bin" "$draft/lib"
    for target in $targets; do cp "$build/bin/$target" "$draft/bin/"; done
    find "$build/bin" -name '*.so*' -exec cp -P {} "$draft/lib/" \;
    # The CUDA libraries go along, so that an update of the toolkit does not take them from under a release.
    LD_LIBRARY_PATH=${cuda_root:+$cuda_root/lib64:$cuda_root/lib} ldd "$draft"/bin/* "$draft"/lib/*.so* 2>/dev/null |
        awk '$3 ~ /\/lib(cudart|cublas|cublasLt|nvrtc|nvJitLink)[.]so/ { print $3 }' | sort -u |
        while IFS= read -r library; do cp -L "$library" "$draft/lib/"; done
    # Forks and versions differ in their options, and the unit is written in this release's own; in the variables that
    # stand for them too, of which it gets none. An option that can be said with no has a second one (common/arg.cpp).
    timeout 60 "$draft/bin/llama-server" --help >"$build/help" 2>&1 || true
    python3 -c '
import re, sys
known, options = set(), []
for line in sys.stdin:
    if line.startswith("-"):
        options = re.findall(r"(?:^|[\s,])(--?[A-Za-z][\w-]*)", re.split(r"  +(?=[^\s-])", line)[0])
        known.update(options)
    for name in re.findall(r"\(env: (\w+)\)", line):
        known.add(name)
        if any(option.startswith("--no-") for option in options):
            known.add(name.replace("LLAMA_ARG_", "LLAMA_ARG_NO_"))
print("\n".join(sorted(known)))
' <"$build/help" >"$draft/flags.txt"
    (cd "$draft" && find bin lib -type f -exec sha256sum {} + >manifest && files >sizes)
}
