# What the scripts share. Sourced by them, never run; callers set `program` to their name.
# shellcheck shell=bash

# Says something to a person.
say() { printf '%s: %s\n' "${program:?}" "$*"; }

# Says why nothing more can be done, and ends.
die() {
  say "$*" >&2
  exit 1
}

# Refuses a wrong command line. `usage` prints the help text.
refuse() {
  say "$*" >&2
  usage >&2
  exit 2
}

# Runs a command and shows what it said only if it fails.
quietly() {
  local log status=0
  log=$(mktemp)
  "$@" >"$log" 2>&1 </dev/null || status=$?
  [[ $status -eq 0 ]] || cat "$log" >&2
  rm -f "$log"
  return "$status"
}
