#!/usr/bin/env bash
# Installs the build into a folder of its own and uses it as others would: through pkg-config and
# through find_package, shared and static, from C17 and from C++17.
#   install.sh BUILD_DIR WORK_DIR CC CXX
set -euo pipefail

build=$1 work=$2 cc=$3 cxx=$4
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
warnings=(-Wall -Wextra -pedantic -Werror)

step() { printf '== %s\n' "$*"; }
fail() {
  printf 'FAILED: %s\n' "$*"
  exit 1
}

rm -rf "$work"
mkdir -p "$work"

step "install"
cmake --install "$build" --prefix "$work/first" >"$work/install.log"
# A package that is moved must go on working: nothing may remember the first place.
mv "$work/first" "$work/prefix"
prefix=$work/prefix
pc=$(find "$prefix" -name rondo.pc)
libdir=$(dirname "$(dirname "$pc")")
export PKG_CONFIG_PATH=${pc%/*}
grep -rIl "$build" "$prefix" && fail "an installed file names the build folder"

step "the shared library: its name, no search path, nothing exported but the public calls"
dynamic=$(readelf -d "$libdir/librondo.so")
grep -q 'SONAME.*\[librondo\.so\.0\]' <<<"$dynamic" || fail "SONAME is not librondo.so.0"
grep -Eq 'RPATH|RUNPATH' <<<"$dynamic" && fail "librondo.so has a search path"
for header in "$prefix"/include/rondo/*.h; do
  "$cc" -E -P -I"$prefix/include" "$header"
done | grep -o '\brondo_[a-z0-9_]*(' | tr -d '(' | sort -u >"$work/declared"
nm -D --defined-only "$libdir/librondo.so" | awk '{ print $3 }' | sort -u >"$work/exported"
diff "$work/declared" "$work/exported" || fail "declared (<) and exported (>) calls differ"

step "pkg-config, C17, shared"
read -ra flags <<<"$(pkg-config --cflags --libs rondo)"
"$cc" -std=c17 "${warnings[@]}" "$here/consumer.c" "${flags[@]}" -o "$work/c_shared"
LD_LIBRARY_PATH=$libdir "$work/c_shared"

step "pkg-config, C17, static"
read -ra cflags <<<"$(pkg-config --cflags rondo)"
read -ra libs <<<"$(pkg-config --libs --static rondo)"
"$cc" -std=c17 "${warnings[@]}" "${cflags[@]}" "$here/consumer.c" \
  "${libs[@]/#-lrondo/-l:librondo.a}" -o "$work/c_static"
readelf -d "$work/c_static" | grep -q librondo && fail "the static program needs librondo.so"
"$work/c_static"

step "the examples, pkg-config"
cached() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
cudart=$(cached RONDO_CUDART)
has_processes=$(pkg-config --libs --static rondo | grep -c event_core || true)
mkdir -p "$work/examples"
for source in "$here"/../../examples/[0-9]*.c; do
  name=${source##*/}
  name=${name%.c}
  extra=()
  case $name in
    *cuda*)
      [[ -f $cudart ]] || continue # no toolkit
      extra=(-isystem "$(cached RONDO_CUDA_INCLUDE_DIR)" "$cudart" "-Wl,-rpath,${cudart%/*}")
      ;;
    *processes | *job) [[ $has_processes -gt 0 ]] || continue ;;
  esac
  echo "$name"
  "$cc" "${warnings[@]}" "$source" "${flags[@]}" "${extra[@]}" -o "$work/examples/$name"
  status=0
  LD_LIBRARY_PATH=$libdir "$here/../integration/examples.sh" "$work/examples/$name" \
    >"$work/example.log" 2>&1 || status=$?
  [[ $status -eq 0 || $status -eq 77 ]] || { cat "$work/example.log" && fail "$name"; }
done

step "the paper's listing: its example as installed, pkg-config, C and C++"
example=$(find "$prefix" -path '*dfccl/example.c')
read -ra flags <<<"$(pkg-config --cflags --libs rondo-dfccl)"
"$cc" -std=c17 "${warnings[@]}" "$example" "${flags[@]}" -o "$work/dfccl_c"
LD_LIBRARY_PATH=$libdir "$work/dfccl_c"
if [[ $cxx != none ]]; then
  "$cxx" -std=c++17 "${warnings[@]}" -x c++ "$example" -x none "${flags[@]}" -o "$work/dfccl_cxx"
  LD_LIBRARY_PATH=$libdir "$work/dfccl_cxx"
fi

step "the drop-in for NCCL: out of the way, and served where it is asked for"
[[ -z $(find "$libdir" -maxdepth 1 -name 'libnccl*') ]] || fail "libnccl lies where all look"
RONDO_NCCL_BACKEND=host LD_LIBRARY_PATH=$libdir/rondo/nccl "$prefix/bin/rondo-doctor" \
  >"$work/doctor.log" || { cat "$work/doctor.log" && fail "rondo-doctor"; }
grep -qF "$libdir/rondo/nccl/libnccl.so.2" "$work/doctor.log" || fail "another serves the calls"

step "find_package, C17 and C++17, shared and static"
options=(-DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" -Ddfccl_example="$example")
[[ $cxx == none ]] || options+=(-DCMAKE_CXX_COMPILER="$cxx")
cmake -S "$here/package" -B "$work/package" -G Ninja "${options[@]}" >"$work/package.log" ||
  { cat "$work/package.log" && fail "find_package"; }
cmake --build "$work/package" >"$work/package.log" ||
  { cat "$work/package.log" && fail "building with Rondo::rondo"; }
ran=0
for program in "$work"/package/consumer_*; do
  echo "${program##*/}"
  "$program"
  ran=$((ran + 1))
done
[[ $ran -ge 2 ]] || fail "find_package built $ran programs"
