# What a machine with a GPU may lack though its driver and its compiler are there, as in some images: cuBLAS, the linker's
# libcuda.so, a driver's library where the loader looks. Wants: work. Sets PADDOCK_GPU_TOOLKIT and PADDOCK_GPU_DRIVER.
find_toolkit() {
    for root in /usr/local/cuda /usr/local/cuda-* /opt/cuda; do
        if test -x "$root/bin/nvcc"; then break; fi
    done
    nvcc=$(test -x "$root/bin/nvcc" && echo "$root/bin/nvcc" || command -v nvcc) ||
        fail "no CUDA toolkit: nvcc is neither in /usr/local/cuda*, /opt/cuda nor in the PATH"
    nvcc=$(readlink -f "$nvcc")
    root=${nvcc%/bin/nvcc}
}

# The folder of the driver's own library. A service has no LD_LIBRARY_PATH, and neither has the acceptance.
find_driver() {
    driver=$(ldconfig -p 2>/dev/null | sed -n 's/.*libcuda\.so\.1 .*x86-64.* => //p' | head -n 1)
    if test -n "$driver"; then return 0; fi
    for folder in $(echo "${LD_LIBRARY_PATH:-}" | tr : ' ') /usr/local/nvidia/lib64 /usr/local/nvidia/lib; do
        if test -e "$folder/libcuda.so.1"; then
            driver=$folder/libcuda.so.1
            export PADDOCK_GPU_DRIVER="$folder"
            echo "the driver's library is in $folder, where the loader does not look by itself; the build names it"
            return 0
        fi
    done
    fail "the driver's library, libcuda.so.1, is neither known to ldconfig nor in LD_LIBRARY_PATH"
}

has() { for file in "$@"; do if test -e "$file"; then return 0; fi; done; return 1; }

complete_toolkit() {
    find_toolkit
    find_driver
    blas='' stub=''
    has "$root"/include/cublas_v2.h "$root"/targets/*/include/cublas_v2.h /usr/include/cublas_v2.h || blas=cuBLAS
    has "$root"/lib*/stubs/libcuda.so "$root"/targets/*/lib/stubs/libcuda.so /usr/lib/x86_64-linux-gnu/libcuda.so \
        /usr/lib64/libcuda.so /usr/lib/libcuda.so || stub=libcuda.so
    if test -z "$blas$stub"; then return 0; fi
    made=$work/cuda
    export PADDOCK_GPU_TOOLKIT="$made"
    if test -d "$made"; then return 0; fi
    # Copied, not linked: nvcc finds the rest of itself by where it really is.
    cp -RL "$root" "$work/.cuda"
    has "$work/.cuda/lib64" || ln -s lib "$work/.cuda/lib64"
    if test -n "$blas"; then take_blas "$work/.cuda"; fi
    mkdir -p "$work/.cuda/lib64/stubs"
    if test -n "$stub"; then ln -s "$driver" "$work/.cuda/lib64/stubs/libcuda.so"; fi
    mv "$work/.cuda" "$made"
    echo "the CUDA toolkit in $root has no $blas${blas:+ }$stub; a copy was completed"
}

take_blas() {
    wheels=$(python3 -c '
import glob, os, sys
found = [path for folder in sys.path for path in glob.glob(os.path.join(folder, "nvidia", "*", "include", "cublas_v2.h"))]
print(os.path.dirname(os.path.dirname(found[-1])) if found else "")')
    test -n "$wheels" ||
        fail "the CUDA toolkit in $root has no cuBLAS, and Python has no nvidia-cublas to take it from; install all of it"
    cp -Rns "$wheels/include/." "$1/include/"
    cp -ns "$wheels"/lib/libcublas*.so* "$wheels"/lib/libnvrtc*.so* "$1/lib64/"
    for library in "$1"/lib64/libcublas*.so.* "$1"/lib64/libnvrtc*.so.*; do
        ln -sf "${library##*/}" "${library%%.so.*}.so"
    done
}
