#!/usr/bin/env bash
# Runs an example and checks what it prints: examples.sh PROGRAM [LAUNCHER ...]
#
# The name of PROGRAM begins with the number of the example. LAUNCHER, if any, is put before it.
#
# Exit status: 0 all as it should be; 77 what the example needs is not here.
set -euo pipefail

readonly program=$1
shift
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
name=${program##*/}

# Runs the example; its lines come sorted where the order is free.
run() {
  local status=0
  output=$("$@" 2>&1) || status=$?
  echo "$output"
  [[ $status -ne 77 ]] || exit 77
  [[ $status -eq 0 ]] || { echo "$name ended with status $status" && exit 1; }
}

# Expects exactly these lines, as patterns: PATTERN ...
expect() {
  local lines
  mapfile -t lines <<<"$output"
  [[ ${#lines[@]} -eq $# ]] || { echo "$name: ${#lines[@]} lines, not $#" && exit 1; }
  for line in "${lines[@]}"; do
    [[ $line =~ ^$1$ ]] || { echo "$name: '$line' is not '$1'" && exit 1; }
    shift
  done
}

sort_output() { output=$(sort <<<"$output"); }

case $name in
  01_*)
    run "$@" "$program"
    sort_output
    expect 'rank 0: the last sum is 4002' 'rank 1: the last sum is 4002' \
      'rank 2: the last sum is 4002' 'rank 3: the last sum is 4002'
    ;;
  02_*)
    run "$@" "$program"
    sort_output
    expect 'a rank of a group with the sum 2' 'a rank of a group with the sum 2' \
      'a rank of a group with the sum 4' 'a rank of a group with the sum 4'
    ;;
  03_*)
    run "$@" "$program"
    sort_output
    expect 'rank 0: the processes are [0-9]+ and [0-9]+' \
      'rank 1: the processes are [0-9]+ and [0-9]+'
    [[ $(cut -d: -f2 <<<"$output" | uniq | wc -l) -eq 1 ]] || { echo 'the ranks differ' && exit 1; }
    ;;
  04_*)
    run "$here/launched.sh" environment "$@" "$program"
    expect '3 ranks: the mean of their numbers is 1'
    ;;
  05_*)
    run "$@" "$program"
    expect 'rank 0: the sum is 3' 'rank 1: the sum is 3'
    ;;
  06_*)
    run "$@" "$program"
    output=$(grep '^rank' <<<"$output") # the log line comes before
    readonly reason='mismatch of id 1 in its count: rank 0: .*of 100 .*; rank 1: .*of 200 .*'
    expect "rank 0: RONDO_ERR_MISMATCH $reason" "rank 1: RONDO_ERR_MISMATCH $reason" \
      'rank 0: RONDO_SUCCESS ' 'rank 1: RONDO_SUCCESS '
    ;;
  07_*)
    run "$@" "$program"
    sort_output
    expect 'rank 0 of 2: the sum is 2' 'rank 0 of 2: the sum is 2' 'rank 0 of 3: the sum is 3' \
      'rank 1 of 2: the sum is 2' 'rank 1 of 2: the sum is 2' 'rank 1 of 3: the sum is 3' \
      'rank 2 of 3: the sum is 3'
    ;;
  08_*)
    run "$@" "$program"
    sort_output
    expect 'member: revision 1, the last weight is 0.5, 0 KiB received' \
      'member: revision 2, the last weight is 1, 0 KiB received' \
      'member: revision 3, the last weight is 1.5, 0 KiB received' \
      'member: revision 3, the last weight is 1.5, 0 KiB received' \
      'member: revision 3, the last weight is 1.5, 0 KiB received' \
      'newcomer: revision 3, the last weight is 1.5, 1024 KiB received' \
      'newcomer: revision 3, the last weight is 1.5, 8192 KiB received'
    ;;
  *)
    echo "there is no example $name"
    exit 2
    ;;
esac
