#!/usr/bin/env bash
# The dynamic symbols of our libnccl.so.2 are those of NCCL, weak where its are weak, and no others:
#   nccl_symbols.sh OURS LIST|NCCL'S LIBRARY
# 77: there is no such library.
set -euo pipefail

readonly ours=$1 theirs=$2

# Of NCCL's own library what is not its interface (C++ templates) is left out.
symbols() { nm -D --defined-only "$1" | awk '{ print $2, $3 }' | LC_ALL=C sort -k2; }

[[ -e $theirs ]] || { echo "skipped: no $theirs" && exit 77; }
case $theirs in
  *.txt) expected=$(<"$theirs") ;;
  *) expected=$(symbols "$theirs" | grep -E ' p?nccl') ;;
esac
diff <(symbols "$ours") - <<<"$expected" || {
  echo "exported (<) and expected (>) differ" && exit 1
}
readelf -d "$ours" | grep -q 'SONAME.*\[libnccl\.so\.2\]' || {
  echo "the SONAME is another" && exit 1
}
