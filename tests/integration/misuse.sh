#!/usr/bin/env bash
# What a program does with an output that cannot be written, and whether it knows its version:
# misuse.sh PROGRAM STATUS WRITES [PREFIX]
#
#   PROGRAM  the path of the program
#   STATUS   its exit status when not all of its output could be written
#   WRITES   arguments, split at blanks, with which it prints a result
#   PREFIX   arguments, split at blanks, that end in "FILE=", if a file can be written, too; a
#            file that cannot be is refused before anything is done
set -euo pipefail

# shellcheck source=tests/integration/program.sh
. "$(dirname "${BASH_SOURCE[0]}")/program.sh"
readonly status=$2 prefix=${4:-}
read -ra writes <<<"$3"

# Expects one line on standard error, nothing else, and that exit status: STATUS ARGUMENT ...
expect_line() {
  local wanted=$1 got=0
  shift
  "$program" "$@" >"${out:-$folder/out}" 2>"$folder/said" || got=$?
  [[ $got -eq $wanted ]] || fail "$program $*: exit status $got, not $wanted"
  [[ $(wc -l <"$folder/said") -eq 1 ]] || fail "$program $*: not one line on standard error"
}

: >"$folder/said"
[[ $("$program" --version) =~ ^rondo-[a-z]+\ [0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "no version"

out=/dev/full expect_line "$status" --version
out=/dev/full expect_line "$status" "${writes[@]}"

if [[ -n $prefix ]]; then
  read -ra files <<<"$prefix"
  last=${files[-1]}
  unset 'files[-1]'
  for path in "$folder/nowhere/result" "$folder"; do
    refused=0
    "$program" "${files[@]}" "$last$path" >"$folder/out" 2>"$folder/said" || refused=$?
    [[ $refused -ne 0 ]] || fail "$path was written"
    [[ $(<"$folder/said") == *"$path: "* ]] || fail "$path is not named"
    [[ ! -s $folder/out ]] || fail "what could not be kept was begun"
  done
  # A file system that is full, as far as this process is concerned.
  : >"$folder/said"
  (
    trap '' XFSZ
    ulimit -f 0
    "$program" "${files[@]}" "$last$folder/result" 2>&1 | cat >/dev/null
    exit "${PIPESTATUS[0]}"
  ) && fail "a file was written that could not be"
  [[ ! -e $folder/result ]] || fail "half of a file was left"
fi
