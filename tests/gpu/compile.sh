#!/bin/sh
# Runs a compiler that prints what ptxas says of each kernel; fails if one needs a stack or spills.
set -u
output=$("$@" 2>&1)
status=$?
printf '%s\n' "$output"
[ "$status" -eq 0 ] || exit "$status"
printf '%s\n' "$output" | grep -q 'bytes stack frame' || {
  echo "compile.sh: ptxas said nothing of the stack"
  exit 1
}
if printf '%s\n' "$output" | grep 'bytes stack frame' |
  grep -qv ' 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads'; then
  echo "compile.sh: a kernel needs a stack or spills registers"
  exit 1
fi
