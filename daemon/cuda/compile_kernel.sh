#!/bin/sh
# Compiles the kernels, or takes what another build folder has compiled of the same sources.
#   compile_kernel.sh OUTPUT CACHE NVCC OPTION ... SOURCE
# Run in the source tree, with relative paths. Writes OUTPUT (a fatbin) and OUTPUT.d (what it depends on).
set -eu
output=$1
cache=$2
shift 2
nvcc=$1
"$@" -M -MT "$output" -MF "$output.d"
files=$(sed -e 's/\\$//' -e 's/^[^:]*://' "$output.d" | tr ' ' '\n' | grep -v '^/' | sort -u)
# shellcheck disable=SC2086 # one word a file
key=$({ cat $files && "$nvcc" --version && printf '%s\n' "$*"; } | sha256sum | cut -c 1-40)
mkdir -p "$cache"
if [ ! -f "$cache/$key.fatbin" ]; then
  "$@" -fatbin -o "$cache/$key.$$"
  mv "$cache/$key.$$" "$cache/$key.fatbin"
fi
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
find "$cache" -name '*.fatbin' -mtime +7 -delete
