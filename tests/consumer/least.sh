#!/usr/bin/env bash
# Builds the library with none of the libraries that may be missing, and uses it.
#   least.sh SOURCE_DIR WORK_DIR CC
set -euo pipefail

source=$1 work=$2 cc=$3
without=()
for name in NUMA CUDA MESH NCCL PMIX UCX XXHASH; do
  without+=("-DRONDO_USE_$name=OFF")
done
for name in TESTS BENCHMARKS SIM TOOLS ADAPTERS; do
  without+=("-DRONDO_BUILD_$name=OFF")
done

fail() {
  printf 'FAILED: %s\n' "$*"
  exit 1
}

rm -rf "$work"
cmake -S "$source" -B "$work" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_COMPILER="$cc" \
  -DRONDO_WERROR=ON "${without[@]}" >/dev/null
cmake --build "$work" --parallel 2 | tail -n 30
readelf -d "$work/bin/01_one_process" | grep -Eq 'libnuma|libevent|libsodium|libuc' &&
  fail "01_one_process needs a library that was switched off"
"$work/bin/01_one_process"
status=0
said=$("$work/bin/03_two_processes" 2>&1) || status=$?
[[ $status -ne 0 ]] || fail "two processes work without libevent: $said"
[[ $said == *"built without libevent"* ]] || fail "what is missing is not named: $said"
