#!/usr/bin/env bash
# Starts three ranks of a program, or LAUNCHED_RANKS, as launchers do:
# launched.sh HOW PROGRAM [ARGUMENT ...]
#
#   by-hand      RONDO_RANK and what goes with it
#   environment  what torchrun sets
#   mpirun       mpirun itself
#   pmix         as mpirun; the ranks find each other by PMIx
#   hydra        as MPICH's: each rank in a process group of its own, below a process of that name
#   failing      as environment, a program that fails: all end with status 1
#   interrupt    as environment; rank 1 gets SIGINT when rank 0 has begun: all end with status 130
#   kill         the same with rank 2 and SIGKILL, at once or within a second, which may be before
#                its job has begun or in a run: the others end with status 1 and name rank 2
#
# Exit status: 0 all did as they should; 77 that launcher is not here.
set -euo pipefail

readonly how=$1 ranks=${LAUNCHED_RANKS:-3}
shift
pids=()
folder=$(mktemp -d)

# shellcheck disable=SC2317  # called by the trap
end_all() {
  [[ ${#pids[@]} -eq 0 ]] || kill -KILL "${pids[@]}" 2>/dev/null || true
  rm -rf "$folder"
}
trap end_all EXIT

set_secret() {
  RONDO_SECRET=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  export RONDO_SECRET
}

# Waits for the rank of that number and checks its exit status: RANK STATUS
expect() {
  local status=0
  wait "${pids[$1]}" || status=$?
  [[ $status -eq $2 ]] && return
  echo "rank $1 ended with status $status, not $2" >&2
  cat "$folder"/* >&2 2>/dev/null || true
  exit 1
}

# All ranks end with this status.
expect_all() {
  for ((rank = 0; rank < ranks; rank++)); do
    expect "$rank" "$1"
  done
  pids=()
}

by_hand() {
  export RONDO_ROOT=localhost RONDO_RANK_COUNT=$ranks RONDO_JOB=test-$$
  set_secret
  for ((rank = 0; rank < ranks; rank++)); do
    RONDO_RANK=$rank "$@" &
    pids+=($!)
  done
  expect_all 0
}

# Starts all with what they say kept in $folder.
start_kept() {
  export WORLD_SIZE=$ranks LOCAL_WORLD_SIZE=$ranks MASTER_ADDR=localhost MASTER_PORT=$$
  set_secret
  for ((rank = 0; rank < ranks; rank++)); do
    RANK=$rank "$@" >"$folder/$rank.out" 2>"$folder/$rank.err" &
    pids+=($!)
  done
}

by_environment() {
  start_kept "$@"
  expect_all 0
  cat "$folder"/0.out "$folder"/*.err
  # Only rank 0 prints.
  [[ ! -s $folder/1.out && ! -s $folder/2.out ]] || {
    echo "others than rank 0 have printed" && exit 1
  }
}

failing() {
  start_kept "$@"
  expect_all 1
}

# Bounded by the test's own limit.
await_begin() {
  until grep -q 'Program 1' "$folder/0.out"; do
    kill -0 "${pids[0]}" 2>/dev/null || { cat "$folder"/* >&2 && exit 1; }
    sleep 0.05
  done
}

interrupt() {
  start_kept "$@"
  await_begin
  kill -INT "${pids[1]}"
  for ((rank = 0; rank < ranks; rank++)); do
    expect "$rank" 130
  done
  pids=()
  grep 'interrupted after' "$folder/0.out"
}

lose_one() {
  start_kept "$@"
  await_begin
  ((RANDOM % 2 == 0)) || sleep "0.$((RANDOM % 10))"
  kill -KILL "${pids[2]}"
  expect 0 1
  expect 1 1
  expect 2 137
  pids=()
  grep 'FAILED' "$folder/0.out" || { cat "$folder"/* && exit 1; }
  grep 'rank 2 is lost' "$folder/0.err"
  grep 'rank 2 is lost' "$folder/1.err"
}

by_mpirun() {
  command -v mpirun >/dev/null || { echo "skipped: no mpirun" && exit 77; }
  local options=(-n "$ranks")
  if mpirun --version | grep -q 'Open MPI'; then
    # No other machine is asked for, so no ssh is needed to reach one.
    options+=(--oversubscribe --bind-to none --mca plm isolated)
    [[ $EUID -ne 0 ]] || options+=(--allow-run-as-root)
  fi
  mpirun "${options[@]}" "$@"
}

by_pmix() {
  export RONDO_PMIX=1 RONDO_LOG=info
  by_mpirun "$@" >"$folder/all" 2>&1 || { cat "$folder/all" >&2 && exit 1; }
  [[ $(grep -c 'has found the root by PMIx' "$folder/all") -eq $((ranks - 1)) ]] || {
    cat "$folder/all" >&2 && exit 1
  }
}

by_hydra() {
  export PMI_SIZE=$ranks MPI_LOCALNRANKS=$ranks
  printf hydra_pmi_proxy >"/proc/$$/comm"
  for ((rank = 0; rank < ranks; rank++)); do
    PMI_RANK=$rank setsid --wait "$@" &
    pids+=($!)
  done
  expect_all 0
}

case $how in
  by-hand) by_hand "$@" ;;
  environment) by_environment "$@" ;;
  failing) failing "$@" ;;
  mpirun) by_mpirun "$@" ;;
  pmix) by_pmix "$@" ;;
  hydra) by_hydra "$@" ;;
  interrupt) interrupt "$@" ;;
  kill) lose_one "$@" ;;
  *) echo "not understood: $how" >&2 && exit 2 ;;
esac
