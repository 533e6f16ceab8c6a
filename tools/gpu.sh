#!/usr/bin/env bash
# Implements `./run gpu`: builds the CUDA kernels, checks them on the GPU of this machine, then measures them. Needs
# only nvcc and CMake. Without a GPU it builds, runs the parts that need none, prints a note and exits 0.
#   --json FILE   output file of the ratios (build-gpu/gpu.json)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

json=build-gpu/gpu.json
while [ $# -gt 0 ]; do
  case "$1" in
    --json) json=$2 && shift 2 ;;
    *) echo "gpu: unknown option '$1'; --json FILE is the only one" >&2 && exit 2 ;;
  esac
done

export PATH="$PATH:/usr/local/cuda/bin"
for tool in nvcc cmake; do
  command -v "$tool" >/dev/null || { echo "gpu: $tool is not in PATH; nothing was built or measured"; exit 0; }
done

generator=()
command -v ninja >/dev/null && generator=(-G Ninja)
cmake -S bench/gpu -B build-gpu "${generator[@]}" >build-gpu.log 2>&1 || { cat build-gpu.log; rm -f build-gpu.log; exit 1; }
rm -f build-gpu.log
cmake --build build-gpu -j "$(nproc)"
if [ -d build-gpu/cuda/ptxas ]; then python3 tools/check_ptxas.py check build-gpu/cuda/ptxas; fi

build-gpu/bin/gpu_check
if ! nvidia-smi -L >/dev/null 2>&1; then
  echo "gpu: no GPU here; the kernels were built and their ptxas report checked, nothing ran on a device"
  exit 0
fi
if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck; do
    compute-sanitizer --tool "$tool" --error-exitcode 1 build-gpu/bin/gpu_check --small
  done
else
  echo "gpu: compute-sanitizer is not here; memcheck and racecheck were left out"
fi
build-gpu/bin/gpu_bench --json "$json"
if command -v python3 >/dev/null; then python3 bench/gpu/six_torch_ops.py "$json"; fi
echo "gpu: ratios in $json"
