#!/bin/sh
# Compiles the kernels, or takes what another build folder has compiled of the same sources.
#   compile_kernel.sh OUTPUT CACHE NVCC OPTION ... SOURCE
# Run in the source tree, with relative paths. Writes OUTPUT (a fatbin), OUTPUT.d (what it depends
# on), OUTPUT.log (what ptxas says of it) and OUTPUT.ptx, which tests look at.
set -eu
output=$1
cache=$2
shift 2
nvcc=$1
"$@" -M -MT "$output" -MF "$output.d"
files=$(sed -e 's/\\$//' -e 's/^[^:]*://' "$output.d" | tr ' ' '\n' | grep -v '^/' | sort -u)
# shellcheck disable=SC2086 # one word a file
key=$({ cat "$0" $files && "$nvcc" --version && printf '%s\n' "$*"; } | sha256sum | cut -c 1-40)
mkdir -p "$cache"
if [ ! -f "$cache/$key.fatbin" ]; then
  # Keep the PTX as well: to make it again would take a third of the time of this compilation.
  kept=$(mktemp -d "$cache/kept.XXXXXX")
  "$@" -Xptxas=-v -keep -keep-dir "$kept" -fatbin -o "$cache/$key.$$" >"$cache/$key.log" 2>&1 || {
    cat "$cache/$key.log" >&2
    rm -rf "$kept"
    exit 1
  }
  mv "$kept"/*compute_90*.ptx "$cache/$key.ptx"
  rm -rf "$kept"
  mv "$cache/$key.$$" "$cache/$key.fatbin"
fi
for kind in log ptx; do
  cp "$cache/$key.$kind" "$output.$kind"
done
cp "$cache/$key.fatbin" "$output"
# Ninja runs in the build folder: say where the files are.
here=$(pwd)
{
  printf '%s:' "$output"
  for file in $files; do
    printf ' %s/%s' "$here" "$file"
  done
  printf '\n'
} >"$output.d"
# Only the newest are kept.
find "$cache" -type f -mtime +7 -delete
