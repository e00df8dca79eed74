#!/usr/bin/env bash
# Checks that a model holds, or that a broken twin of it fails as expected:
#   check.sh MODEL.pml holds|safe|assertion|cycle|stuck WORK_DIR [SWITCH [reversed]]
# safe: as holds, without a search for cycles; assertion: an assertion is violated; cycle: the model
# goes on for ever without `finished`; stuck: a process waits in the end that should not. reversed:
# the search takes the last choice first, which finds the faults of some twins sooner.
# Exit status: 0 as expected, 1 not, 77 there is no spin or no C compiler.
set -euo pipefail
model=$(realpath "$1")
expected=$2
work=$3
switch=${4:-}
compiler=$(command -v cc || command -v gcc || command -v clang || true)
if ! command -v spin >/dev/null || [[ -z $compiler ]]; then
  echo "skipped: needs spin (Debian: spin) and a C compiler"
  exit 77
fi
mkdir -p "$work"
cd "$work"

# Runs one search with what was compiled last, and sets `found`.
search() {
  local log=$1 status=0
  shift
  ./pan -n -m2000000 "$@" >"$log" 2>&1 || status=$?
  if grep -q '^pan:[0-9]*: assertion violated' "$log"; then
    found=assertion
  elif grep -q '^pan:[0-9]*: acceptance cycle' "$log"; then
    found=cycle
  elif grep -q '^pan:[0-9]*: invalid end state' "$log"; then
    found=stuck
  elif [[ $status -ne 0 ]] || ! grep -q 'errors: 0$' "$log" ||
    grep -qE 'search depth too small|out of memory|Search not completed' "$log"; then
    cat "$log"
    echo "the search was not completed"
    exit 1
  fi
}

cp "$model" model.pml
rm -f ./*.trail ./*.log
spin ${switch:+-D"$switch"} -a model.pml >spin.log 2>&1 || { cat spin.log && exit 1; }
# An optimised compilation takes longer than the search of a twin or of a small model, and less than
# the search of a large model (wake, event_count).
options=(-O0)
[[ -n $switch || $(basename "$model") == reference.pml ]] || options=(-O2)
[[ -z ${5:-} ]] || options+=(-DT_REVERSE)
# End states and assertions first, unless it is a cycle that is looked for; then cycles, which need
# fairness.
found=holds
if [[ $expected != cycle ]]; then
  "$compiler" "${options[@]}" -w -DSAFETY -DNOCLAIM -o pan pan.c
  search safety.log
fi
if [[ $expected == safe ]]; then
  [[ $found != holds ]] || found=safe
elif [[ $found == holds ]]; then
  "$compiler" "${options[@]}" -w -DNFAIR=3 -o pan pan.c
  search liveness.log -a -f
fi
grep -hE 'errors:|states, stored|^pan:[0-9]' ./*.log
if [[ $found != "$expected" ]]; then
  # The way to it, for whoever reads this.
  [[ ! -f model.pml.trail ]] || spin ${switch:+-D"$switch"} -t -p -g model.pml | tail -n 150 || true
  echo "the model ${switch:+with $switch }was expected to end as: $expected; it did as: $found"
  exit 1
fi
echo "as expected: $found"
