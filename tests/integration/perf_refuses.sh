#!/usr/bin/env bash
# What rondo-perf refuses before it begins: perf_refuses.sh PROGRAM
set -euo pipefail

# shellcheck source=tests/integration/program.sh
. "$(dirname "${BASH_SOURCE[0]}")/program.sh"

# Expects exit status 2, nothing on standard output, and a line on standard error that matches:
#   PATTERN ARGUMENT ...
# The parser of options adds one line that points to --help.
expect_refusal() {
  local pattern=$1 got=0
  shift
  "$program" "$@" >"$folder/out" 2>"$folder/said" || got=$?
  [[ $got -eq 2 ]] || fail "rondo-perf $*: exit status $got, not 2"
  [[ ! -s $folder/out ]] || fail "rondo-perf $*: printed something on standard output"
  [[ $(head -n 1 "$folder/said") =~ $pattern ]] || fail "rondo-perf $*: does not say: $pattern"
  [[ $(grep -cv '^Try' "$folder/said") -eq 1 ]] || fail "rondo-perf $*: says more than one line"
}

expect_refusal "--in-flight does not take '0'" --in-flight 0
expect_refusal "--in-flight does not take '1001'" --in-flight 1001
expect_refusal "--orders does not take 'any'" --in-flight 2 --orders any
expect_refusal "--blocking does not take '4'" -z 4
expect_refusal "--nthreads does not take '1025'" -t 1025
expect_refusal "--op does not take 'mix'" --op mix
expect_refusal '--agg_iters and --in-flight' -m 2 --in-flight 2
expect_refusal '--op mixed needs --in-flight' --op mixed
expect_refusal "--late-rank does not take '2'" --late-rank 2
expect_refusal "--late-rank does not take '=1'" --late-rank =1
expect_refusal "--late-rank does not take '1=-1'" --late-rank 1=-1
expect_refusal '--late-rank must be a rank' -t 2 --late-rank 2=0.1
expect_refusal '--counters is for the backend host' --counters --serve
expect_refusal '--algo is for one collective' --op mixed --in-flight 2 --algo ring
expect_refusal '--algo is for one collective' --serve --algo ring
expect_refusal '--algo: the collective has no such algorithm' --op reduce --algo doubling
expect_refusal '--algo: the collective has no such algorithm' --algo fastest
expect_refusal "--quantise does not take 'int4'" --quantise int4
expect_refusal '--quantise is for all_reduce of float' --quantise int8 --op all_gather
expect_refusal '--quantise is for all_reduce of float' --quantise int8 -d half
expect_refusal '--quantise is for all_reduce of float' --quantise int8 -o max
expect_refusal '--quantise: the algorithm cannot do that' --quantise int8 --algo direct

readonly figures='are needed \([0-9]+ ranks? x [0-9]+ buffers of .*\), and .* are available'
expect_refusal "^rondo-perf: 3 TiB of memory $figures" -t 1024 -e 1G
expect_refusal "^rondo-perf: .* of memory $figures" -t 2 -e 1024T
expect_refusal "^rondo-perf: .* of memory $figures" -t 1024 -e 64M --in-flight 1000
expect_refusal "^rondo-perf: .* of memory $figures" -t 1024 -e 64M -m 1024
