#!/usr/bin/env bash
# Which library serves a program that has the path of another NCCL built in:
#   loading.sh OUR_FOLDER OTHER_FOLDER RUNPATH_PROGRAM RPATH_PROGRAM DOCTOR
set -euo pipefail

readonly ours=$1 other=$2 runpath=$3 rpath=$4 doctor=$5
readonly our_answer="$ours/libnccl.so.2 22809" other_answer="$other/libnccl.so.2 1"
export RONDO_NCCL_BACKEND=host

# expect ANSWER COMMAND...
expect() {
  local wanted=$1 got
  shift
  got=$(env "$@")
  [[ $got == "$wanted" ]] || { echo "$*: got '$got', wanted '$wanted'" && exit 1; }
}

# doctor_says STATUS TEXT [VARIABLE...]
doctor_says() {
  local wanted=$1 text=$2 said status=0
  shift 2
  said=$(env "$@" "$doctor") || status=$?
  [[ $status -eq $wanted ]] || { echo "$*: doctor ended with $status: $said" && exit 1; }
  grep -qF -- "$text" <<<"$said" || { echo "$*: doctor did not say '$text': $said" && exit 1; }
}

for program in "$runpath" "$rpath"; do
  expect "$other_answer" "$program"
  expect "$our_answer" LD_PRELOAD="$ours/libnccl.so.2" "$program"
  expect "$our_answer" LD_AUDIT="$ours/librondo-nccl-audit.so" "$program"
done
expect "$our_answer" LD_LIBRARY_PATH="$ours" "$runpath"
expect "$other_answer" LD_LIBRARY_PATH="$ours" "$rpath"
# What a program loads by its path is not preloaded, but can be exchanged.
expect "$other_answer" LD_PRELOAD="$ours/libnccl.so.2" "$runpath" "$other/libnccl.so.2"
expect "$our_answer" LD_AUDIT="$ours/librondo-nccl-audit.so" "$runpath" "$other/libnccl.so.2"

doctor_says 0 "served by Rondo" LD_LIBRARY_PATH="$ours"
doctor_says 0 "104 of 104 calls: $ours/libnccl.so.2" LD_PRELOAD="$ours/libnccl.so.2"
doctor_says 0 "served by Rondo" LD_AUDIT="$ours/librondo-nccl-audit.so"
doctor_says 1 "WRONG: the program uses another NCCL than Rondo's" LD_LIBRARY_PATH="$other"
doctor_says 1 "calls are served by nobody" LD_LIBRARY_PATH="$other"
doctor_says 1 "WRONG: NCCL_MAX_CTAS: it takes" LD_LIBRARY_PATH="$ours" NCCL_MAX_CTAS=many
doctor_says 1 "WRONG: NCCL_DEBUGG is not heeded" LD_LIBRARY_PATH="$ours" NCCL_DEBUGG=INFO
# Without a driver the report says so, and nothing but the report speaks.
[[ -z $(env RONDO_NCCL_BACKEND=cuda LD_LIBRARY_PATH="$ours" "$doctor" 2>&1 >/dev/null) ]]
"$doctor" --pid=$$ >/dev/null && exit 1 # this shell has none
[[ $("$doctor" --pid=0 2>&1) == *"cannot be looked at"* ]]
