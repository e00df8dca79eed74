#!/bin/sh
# Compiles kernels to PTX that names the source lines of its instructions, for the PTX machine, or
# takes what another build folder has compiled of the same sources. The shipped PTX has no lines;
# its instructions are the same.
#   compile_lines.sh OUTPUT CACHE NVCC OPTION ... SOURCE
# Run in the source tree, with relative paths. Writes OUTPUT (PTX) and OUTPUT.d (what it depends
# on).
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
if [ ! -f "$cache/$key.lines" ]; then
  "$@" -lineinfo -ptx -o "$cache/$key.$$"
  # Files of the source tree by their paths there: another tree may take the result.
  sed -i -e "s|\"$(pwd)/\./|\"|" -e "s|\"$(pwd)/|\"|" "$cache/$key.$$"
  mv "$cache/$key.$$" "$cache/$key.lines"
fi
cp "$cache/$key.lines" "$output"
here=$(pwd)
{
  printf '%s:' "$output"
  for file in $files; do
    printf ' %s/%s' "$here" "$file"
  done
  printf '\n'
} >"$output.d"
