#!/usr/bin/env bash
# That rondo-perf answers requests as tools/kit/serve.h says: perf_serves.sh PROGRAM
set -euo pipefail

# shellcheck source=tests/integration/program.sh
. "$(dirname "${BASH_SOURCE[0]}")/program.sh"

# Of one answer a line, after the greeting, the pattern that it matches.
readonly patterns=(
  '"ready":"rondo"'
  '"op":"all_reduce","bytes":64,"in_place":0,"in_flight":1,.*"wrong":0}'
  '"op":"all_reduce","bytes":64,"in_place":0,"in_flight":8,.*"wrong":0}'
  '"op":"all_gather","bytes":1024,"in_place":1,"in_flight":8,.*"wrong":0}'
  '"op":"all_reduce","bytes":64,"in_place":0,"in_flight":1,.*"wrong":0}'
  '"op":"all_reduce","bytes":64,"in_place":0,"in_flight":3,.*"wrong":0}'
  '"error":"not a request'
  '"error":"not a request'
  '"error":"not a request'
  '"error":".* of memory are needed .*, and .* are available"'
  '"op":"all_reduce","bytes":8,"in_place":0,"in_flight":1,.*"wrong":0}'
)

"$program" --serve -t 2 >"$folder/said" <<'REQUESTS'
all_reduce 64 0 1
all_reduce 64 0 1 8
all_gather 1024 1 1 8 own
all_reduce 64 0 1 1 one 2
all_reduce 64 0 1 3 common 3
all_reduce 64 0 1 0
all_reduce 64 0 1 2 any
all_reduce 64 0 1 2 own 4
all_reduce 1099511627776 0 1 1000
all_reduce 8 0 1 1 one 0
REQUESTS

mapfile -t answers <"$folder/said"
[[ ${#answers[@]} -eq ${#patterns[@]} ]] || fail "${#answers[@]} answers, not ${#patterns[@]}"
for i in "${!patterns[@]}"; do
  [[ ${answers[i]} =~ ${patterns[i]} ]] || fail "answer $i is not: ${patterns[i]}"
done
