#!/usr/bin/env bash
# Each script explains itself, refuses what it does not understand, and does nothing in either case.
#   scripts_usage.sh SCRIPTS_DIR
set -euo pipefail

fail() {
  printf 'FAILED: %s\n' "$*"
  exit 1
}

for script in setup check check-ptx check-python check-torch demo gpu-check arrows count-lines \
  pictures tidy; do
  help=$("$1/$script" --help) || fail "$script --help ends with $?"
  grep -qi "^usage: scripts/$script\|^usage: $script" <<<"$help" || fail "$script --help: $help"
done

for script in setup check check-ptx check-python check-torch gpu-check arrows count-lines pictures \
  tidy; do
  status=0
  complaint=$("$1/$script" --no-such-option 2>&1 >/dev/null) || status=$?
  [[ $status -eq 2 ]] || fail "$script --no-such-option ends with $status"
  grep -q -- '--no-such-option' <<<"$complaint" || fail "$script does not say what it refuses"
done
