# What the tests of installed programs share. Sourced after `set -euo pipefail`; PROGRAM is "$1".
# shellcheck shell=bash

# shellcheck disable=SC2034  # the tests use it
readonly program=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Ends the test with a reason and what the program printed last.
fail() {
  echo "$*" >&2
  cat "$folder/said" >&2
  exit 1
}
