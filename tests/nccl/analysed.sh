#!/usr/bin/env bash
# The log of a program that ends well here shows that its order of calls would have hung elsewhere:
#   analysed.sh TEST_PROCESSES RONDO_SIM
set -euo pipefail

readonly program=$1 sim=$2
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT

NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,COLL NCCL_DEBUG_FILE=$logs/log.%p "$program"
verdict=$("$sim" analyse "$logs"/log.*) || true # its status is the verdict
grep -q 'CIRCULAR WAIT' <<<"$verdict" || { echo "$verdict" && exit 1; }
