# A CUDA toolkit that is a compiler without cuBLAS, as some images have it, completed from the wheels of NVIDIA that this
# machine's Python has. Wants: work. Sets PADDOCK_GPU_TOOLKIT where it made one.
complete_toolkit() {
    nvcc=
    for root in /usr/local/cuda /usr/local/cuda-* /opt/cuda; do
        if test -x "$root/bin/nvcc"; then nvcc=$root/bin/nvcc; break; fi
    done
    test -n "$nvcc" || nvcc=$(command -v nvcc) || fail "no CUDA toolkit: nvcc is neither in /usr/local/cuda*, /opt/cuda nor in the PATH"
    nvcc=$(readlink -f "$nvcc")
    root=${nvcc%/bin/nvcc}
    for header in "$root"/include/cublas_v2.h "$root"/targets/*/include/cublas_v2.h /usr/include/cublas_v2.h; do
        if test -e "$header"; then return 0; fi
    done
    wheels=$(python3 -c '
import glob, os, sys, sysconfig
folders = [*sys.path, sysconfig.get_paths()["purelib"]]
found = [path for folder in folders for path in glob.glob(os.path.join(folder, "nvidia", "*", "include", "cublas_v2.h"))]
print(os.path.dirname(os.path.dirname(sorted(found)[-1])) if found else "")')
    test -n "$wheels" || fail "the CUDA toolkit in $root has no cuBLAS (cublas_v2.h), and Python has no nvidia-cublas either; install the whole toolkit"
    made=$work/cuda
    if test ! -d "$made"; then
        # Copied, not linked: nvcc finds the rest of itself by where it really is.
        cp -RL "$root" "$made"
        cp -Rns "$wheels/include/." "$made/include/"
        test -d "$made/lib64" || ln -s lib "$made/lib64"
        cp -ns "$wheels"/lib/lib*.so* "$made/lib64/"
        for library in "$made"/lib64/libcu*.so.*; do ln -sf "${library##*/}" "${library%%.so.*}.so"; done
    fi
    PADDOCK_GPU_TOOLKIT=$made
    export PADDOCK_GPU_TOOLKIT
    echo "the CUDA toolkit in $root has no cuBLAS; completed with $wheels"
}
