#!/usr/bin/env bash
# Runs all checks and measurements that need a GPU, in order: benchmarks/gpu.sh [STEP…]
#
#   build       the libraries, in place
#   events      how CUDA graphs wait for events                (gpu_events.cu);
#               if it passes, learners of this user capture waits from then on
#   smoke       one learner on the GPU for three iterations: does anything work at all?
#   checks      GPU against CPU, same bits in two runs        (gpu_checks.py)
#   programs    tests/programs, stock and two learners        (gpu_programs.py)
#   throughput  stock, stock + XLA, TensorBow on 1 … 8 learners (gpu_throughput.py)
#   memcheck    4 learners, 2000 iterations, compute-sanitizer  (gpu_checks.py)
#   cpu         this machine's CPU, 1, 2, 4 … learners up to its cores (throughput.py)
#
# Starts nothing after LIMIT seconds (default 540). Completed steps are recorded in STATE
# (default build/gpu) and not repeated, so call it until it says that all is done.
# Writes results to $OUT if that is set, else to benchmarks/results; logs to $OUT, too.
# PYTHON is the interpreter that has TensorFlow.
set -uo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
STATE=${STATE:-build/gpu}
LIMIT=${LIMIT:-540}
RESULTS=${OUT:-benchmarks/results}
end=$(($(date +%s) + LIMIT))
export PYTHONPATH=$PWD${PYTHONPATH:+:$PYTHONPATH} TF_CPP_MIN_LOG_LEVEL=${TF_CPP_MIN_LOG_LEVEL:-2}
mkdir -p "$STATE" "$RESULTS"
steps=("$@")
[ $# -gt 0 ] || steps=(build events smoke checks programs throughput memcheck cpu)

build() {
  if [ -n "${TENSORBOW_PREBUILT:-}" ]; then return 0; fi
  cmake -S . -B build/release -G Ninja -DPython_EXECUTABLE="$(command -v "$PYTHON")" &&
    cmake --build build/release && cmake --install build/release --prefix .
}

# Takes a compiled program from GPU_EVENTS if there is no nvcc. cc/device/gpu/captured_waits.cc
# reads the file that it writes.
events() {
  local binary=${GPU_EVENTS:-$STATE/events}
  local passed=${XDG_CACHE_HOME:-$HOME/.cache}/tensorbow/gpu_events_passed
  [ -x "$binary" ] || nvcc -std=c++17 -arch=native -o "$binary" benchmarks/gpu_events.cu || return 1
  rm -f "$passed"
  timeout 60 "$binary" >"$STATE/events.out"
  local code=$?
  cat "$STATE/events.out"
  [ $code = 0 ] || return 1
  mkdir -p "$(dirname "$passed")" && grep '^driver ' "$STATE/events.out" >"$passed"
}

smoke() { "$PYTHON" benchmarks/gpu_checks.py --state "$STATE" --only "logistic, 1 learners, graphs off"; }

checks() { "$PYTHON" benchmarks/gpu_checks.py --state "$STATE" --only "" --skip memcheck --until "$end"; }

memcheck() { "$PYTHON" benchmarks/gpu_checks.py --state "$STATE" --only memcheck --until "$end"; }

programs() { "$PYTHON" benchmarks/gpu_programs.py --learners 2 --results "$RESULTS"; }

throughput() {
  "$PYTHON" benchmarks/gpu_throughput.py --state "$STATE" --results "$RESULTS" --until "$end"
}

cpu() {
  local learners=(1) n
  for ((n = 2; n <= $(nproc); n *= 2)); do learners+=("$n"); done
  local row
  for row in logistic:16 lenet:4 lenet:16 resnet32:32; do
    local name=gpu_machine_cpu_${row/:/_}
    [ -f "$STATE/$name.done" ] && continue
    [ "$(date +%s)" -lt "$end" ] || return 1
    CUDA_VISIBLE_DEVICES="" "$PYTHON" benchmarks/throughput.py --models "$row" --slices 9 \
      --seconds 0.4 --learners "${learners[@]}" --output "$name" &&
      touch "$STATE/$name.done" &&
      cp benchmarks/results/"$name".* "$STATE/" || return 1
  done
  for row in "$STATE"/gpu_machine_cpu_*.{json,md}; do
    [ ! -f "$row" ] || [ "$RESULTS/$(basename "$row")" -ef "$row" ] || cp "$row" "$RESULTS/"
  done
}

status=0
for step in "${steps[@]}"; do
  if [ -f "$STATE/$step.done" ]; then
    echo "== $step: done before"
    continue
  fi
  if [ "$(date +%s)" -ge "$end" ]; then
    echo "== $step: no time left, run it again"
    status=1
    continue
  fi
  echo "== $step"
  start=$(date +%s)
  timeout --kill-after=10 $((end + 40 - start)) bash -c "$(declare -f "$step"); PYTHON='$PYTHON' STATE='$STATE' RESULTS='$RESULTS' end=$end; $step" \
    > >(tee "$STATE/$step.log") 2>&1
  code=$?
  if [ $code = 0 ]; then
    touch "$STATE/$step.done"
  else
    echo "== $step: failed or unfinished (status $code), see $STATE/$step.log"
    status=1
    # The other steps need these.
    case $step in build | smoke) break ;; esac
  fi
done
if [ -n "${OUT:-}" ]; then
  mkdir -p "$OUT/logs"
  cp "$STATE"/*.log "$STATE"/*.jsonl "$OUT/logs/" 2>/dev/null || true
fi
[ $status = 0 ] && echo "== all is done"
exit $status
