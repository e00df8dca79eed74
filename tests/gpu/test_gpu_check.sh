#!/bin/sh
# scripts/gpu-check says if there is no GPU. With a stand-in for nvidia-smi its steps end in time.
#   test_gpu_check.sh SOURCE_FOLDER
set -u
cd "$1" || exit 1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

fail() {
  echo "test_gpu_check: $*"
  cat "$folder/said"
  exit 1
}

# Stands in for PROGRAM: SHELL_TEXT
stand_in() {
  printf '#!/bin/sh\n%s\n' "$2" >"$folder/$1"
  chmod +x "$folder/$1"
}

stand_in nvidia-smi 'exit 9'
PATH="$folder:$PATH" scripts/gpu-check >"$folder/said" 2>&1
[ $? -eq 77 ] || fail 'no GPU: wanted 77'

# A build that hangs is ended, and the results say so.
stand_in nvidia-smi 'echo "A GPU, 1.0"'
stand_in cmake 'sleep 30'
PATH="$folder:$PATH" RONDO_TEST_STEP_SECONDS=1 timeout 25 scripts/gpu-check \
  --build "$folder/build" --results "$folder/results" >"$folder/said" 2>&1
[ $? -eq 1 ] || fail 'a step that hangs: wanted 1'
grep -q 'out of time' "$folder/results/gpu-check.txt" || fail 'the summary does not say it'
grep -q '"result": "out of time"' "$folder/results/gpu-check.json" ||
  fail 'the JSON does not say it'

# Everything passes, and the figures come through.
mkdir -p "$folder/build/bin"
stand_in cmake 'exit 0'
# shellcheck disable=SC2016 # expanded by the stand-in
printf '#!/bin/sh\n[ "$1" != --list ] || echo "bits 5"\n' >"$folder/build/bin/gpu_tests"
cat >"$folder/build/bin/gpu_bench" <<'TEXT'
#!/bin/sh
case $* in
  --list) printf 'constants\nlatency\n' && exit ;;
  constants)
    echo '{"name": "c", "value": 1.3, "unit": "us", "modelled": 1}'
    echo 'left out: d (modelled: 2 us): there is no d' >&2
    exit
    ;;
  latency) ;;
  *) exit 7 ;;
esac
echo '{"name": "a", "value": 1.5, "unit": "us"}'
echo '{"name": "b, c", "value": 2, "unit": "us", "target": "at most 1", "met": false}'
TEXT
chmod +x "$folder/build/bin/gpu_tests" "$folder/build/bin/gpu_bench"
PATH="$folder:$PATH" timeout 25 scripts/gpu-check --build "$folder/build" \
  --results "$folder/results" >"$folder/said" 2>&1 || fail 'all pass: wanted 0'
grep -q '^a: 1.5 us$' "$folder/results/gpu-check.txt" || fail 'no figure in the summary'
grep -q '^b, c: 2 us  (at most 1: MISSED)$' "$folder/results/gpu-check.txt" ||
  fail 'the summary does not say that a target was missed'
measured='{"name": "c", "value": 1.3, "unit": "us", "modelled": 1},{"name": "a", "value": 1.5,'
grep -Fq "\"figures\": [$measured" "$folder/results/gpu-check.json" || fail 'no figure in the JSON'

# The constants come before the cases, and are said at once, modelled beside measured.
grep -A 1 '^constants  *passed' "$folder/results/gpu-check.txt" | grep -q '^bits ' ||
  fail 'the constants are not first'
for expected in 'c: 1.3 us  (modelled: 1)' 'left out: d (modelled: 2 us): there is no d'; do
  for where in said results/gpu-check.txt; do
    grep -Fqx "$expected" "$folder/$where" || fail "no '$expected' in $where"
  done
done

# Programs that were built elsewhere: nothing is built.
stand_in cmake 'exit 1'
PATH="$folder:$PATH" timeout 25 scripts/gpu-check --built "$folder/build/bin" \
  --build "$folder/logs" --results "$folder/results" >"$folder/said" 2>&1 ||
  fail 'built elsewhere: wanted 0'
grep -q '^bits  *passed' "$folder/results/gpu-check.txt" || fail 'built elsewhere: no case was run'
PATH="$folder:$PATH" scripts/gpu-check --built "$folder" >"$folder/said" 2>&1
[ $? -eq 2 ] || fail 'built elsewhere, nothing there: wanted 2'
stand_in cmake 'exit 0'

# NVIDIA's nccl-tests: one that passes with our library before all others, one that hangs, and one
# that fails.
mkdir -p "$folder/tests/build"
stand_in nvidia-smi 'echo "A GPU, 1.0"'
# shellcheck disable=SC2016 # expanded by the stand-ins
stand_in tests/build/all_reduce_perf 'case $LD_LIBRARY_PATH in */build/nccl:*) ;; *) exit 5 ;; esac
[ "$*" = "-b 8 -e 64M -f 8 -g 1 -n 10 -w 2 -c 1" ] || exit 6
echo "# Avg bus bandwidth    : 12.5"'
stand_in tests/build/hangs_perf 'exec sleep 60'
stand_in tests/build/wrong_perf 'echo "# Avg bus bandwidth    : 1.25e-05"; exit 1'
for how in option environment; do
  if [ $how = option ]; then
    set -- --nccl-tests "$folder/tests"
    hangs='nccl-hangs +out of time'
  else
    set --
    hangs=nccl- # once is enough: it takes its time
    rm "$folder/tests/build/hangs_perf"
    export RONDO_NCCL_TESTS="$folder/tests"
  fi
  PATH="$folder:$PATH" RONDO_TEST_STEP_SECONDS=1 timeout 60 scripts/gpu-check \
    --build "$folder/build" --results "$folder/results" "$@" >"$folder/said" 2>&1
  [ $? -eq 1 ] || fail "nccl-tests by $how: wanted 1"
  for expected in 'nccl-all_reduce +passed' "$hangs" 'nccl-wrong +failed with 1'; do
    grep -Eq "^$expected" "$folder/results/gpu-check.txt" ||
      fail "nccl-tests by $how: no '$expected'"
  done
  grep -q '^nccl-tests, all_reduce, average bus bandwidth on 1 GPUs: 12.5 GB/s$' \
    "$folder/results/gpu-check.txt" || fail "nccl-tests by $how: no figure in the summary"
  grep -q '"value": 12.5, "unit": "GB/s"}' "$folder/results/gpu-check.json" ||
    fail "nccl-tests by $how: no figure in the JSON"
done
unset RONDO_NCCL_TESTS
PATH="$folder:$PATH" scripts/gpu-check --nccl-tests "$folder/results" >"$folder/said" 2>&1
[ $? -eq 2 ] || fail 'a folder without nccl-tests: wanted 2'

# All of it ends in time: a step that takes too long is stopped, and later steps are left out.
# shellcheck disable=SC2016 # expanded by the stand-in
printf '#!/bin/sh\n[ "$1" != --list ] && exec sleep 60\necho "bits 60"\necho "soak 600"\n' \
  >"$folder/build/bin/gpu_tests"
PATH="$folder:$PATH" RONDO_TEST_TOTAL_SECONDS=18 timeout 100 scripts/gpu-check \
  --build "$folder/build" --results "$folder/results" >"$folder/said" 2>&1
[ $? -eq 1 ] || fail 'too little time: wanted 1'
grep -Eq '^bits +(out of time|left out)' "$folder/results/gpu-check.txt" ||
  fail 'the first case was not cut'
grep -q '^soak  *left out' "$folder/results/gpu-check.txt" || fail 'the last case was not left out'
