#!/usr/bin/env bash
# Starts ranks as launchers do: launched.sh PROGRAM by-hand|mpirun. 77: that launcher is not here.
set -euo pipefail

readonly program=$1 how=$2 ranks=3
pids=()

# shellcheck disable=SC2317  # called by the trap
end_all() { [[ ${#pids[@]} -eq 0 ]] || kill "${pids[@]}" 2>/dev/null || true; }

by_hand() {
  export RONDO_ROOT=localhost RONDO_RANK_COUNT=$ranks RONDO_JOB=test-$$
  RONDO_SECRET=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  export RONDO_SECRET
  trap end_all EXIT
  for ((rank = 0; rank < ranks; rank++)); do
    RONDO_RANK=$rank "$program" &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do
    wait "$pid"
  done
  pids=()
}

by_mpirun() {
  command -v mpirun >/dev/null || { echo "skipped: no mpirun"; exit 77; }
  local options=(-n "$ranks" --oversubscribe)
  mpirun --version | grep -q 'Open MPI' || options=(-n "$ranks")
  [[ $EUID -ne 0 || ${#options[@]} -eq 2 ]] || options+=(--allow-run-as-root)
  mpirun "${options[@]}" "$program"
}

case $how in
  by-hand) by_hand ;;
  mpirun) by_mpirun ;;
  *) echo "not understood: $how" >&2 && exit 2 ;;
esac
