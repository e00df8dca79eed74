#!/usr/bin/env bash
# Compiles every public header alone, twice in a row, as C17 and as C++17.
#   headers.sh INCLUDE_DIR CC CXX
set -euo pipefail

include_dir=$1 cc=$2 cxx=$3
[[ $cxx != none ]] || echo "no C++ compiler: the headers are compiled as C only"

# Compiles standard input, which includes one header, with the given command.
compile() {
  "$@" -Wall -Wextra -pedantic -Werror -I"$include_dir" -fsyntax-only -
}

count=0
for path in "$include_dir"/rondo/*.h; do
  name=rondo/${path##*/}
  source=$(printf '#include <%s>\n#include <%s>\n' "$name" "$name")
  echo "$name"
  compile "$cc" -x c -std=c17 <<<"$source"
  [[ $cxx == none ]] || compile "$cxx" -x c++ -std=c++17 <<<"$source"
  count=$((count + 1))
done
[[ $count -gt 0 ]] || { echo "no headers below $include_dir" && exit 1; }
[[ $cxx != none ]] || exit 77
