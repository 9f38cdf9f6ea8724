#!/usr/bin/env bash
# Checks the locks' annotations with clang's -Wthread-safety: thread_safety.sh [SOURCE…]
# Without arguments: every source that locks, or defines functions that a header annotates.
# GCC does not check them. If clang is missing, root installs Debian's package; for other
# users the check is skipped with a message.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! command -v clang++ >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  mkdir -p build
  (
    flock 9
    apt-get install -qy clang || { apt-get update -q && apt-get install -qy clang; }
  ) >/dev/null 2>&1 </dev/null 9>build/apt.lock || true
fi
if ! command -v clang++ >/dev/null; then
  echo "thread safety SKIPPED: clang is not installed (apt-get install clang)"
  exit 0
fi

# A header is checked with the sources that include it: they define its functions and
# instantiate its templates.
locks='_GUARDED_BY|TENSORBOW_REQUIRES|_LOCKS_REQUIRED|_ACQUIRED_|NO_THREAD_SAFETY|\bMutex(Lock)? |\bmutex_lock '
sources=("$@")
if [ $# = 0 ]; then
  mapfile -t headers < <(grep -rlE "$locks" cc tf_ops --include='*.h')
  mapfile -t sources < <(
    {
      grep -rlE "$locks" cc tf_ops --include='*.cc'
      printf '#include "%s"\n' "${headers[@]}" | grep -rlFf - cc tf_ops --include='*.cc'
    } | sort -u)
fi

mapfile -t -d ';' flags < <(TF_CPP_MIN_LOG_LEVEL=3 CUDA_VISIBLE_DEVICES='' \
  python3 tools/tensorflow_flags.py 2>/dev/null | tr -d '\n')
python_include=$(python3 -c 'import sysconfig; print(sysconfig.get_paths()["include"])')
options=(-std=c++17 -DNDEBUG -DEIGEN_USE_THREADS -I. -Wno-everything
  -Wthread-safety -Wthread-safety-beta -Werror=thread-safety -Werror=thread-safety-beta
  -isystem "${flags[0]}" -isystem "${flags[2]}" -isystem "$python_include" "${flags[@]:5}")
cuda=$(nvcc -x cu --dryrun -c /dev/null 2>&1 | sed -n 's/^#$ TOP=//p' || true)
if [ -n "$cuda" ]; then
  options+=(-isystem "$cuda/include")
else
  echo "thread safety: without cc/reducer/nccl_reducer.cc, which takes CUDA's headers"
  mapfile -t sources < <(printf '%s\n' "${sources[@]}" | grep -vx cc/reducer/nccl_reducer.cc)
fi

# Headers are most of the work: TensorFlow's are parsed, and their templates instantiated,
# only once; others once per folder.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo '#include "cc/session/tensorbow_session.h"' >"$work/common.h"
clang++ "${options[@]}" -fpch-instantiate-templates -x c++-header "$work/common.h" -o "$work/common.pch"
for source in "${sources[@]}"; do
  folder=$(dirname "$source")
  echo "#include \"$source\"" >>"$work/${folder//\//_}.cc"
done
printf '%s\0' "$work"/*.cc | xargs -0 -n 1 -P "$(nproc)" \
  clang++ "${options[@]}" -fsyntax-only -include-pch "$work/common.pch"
echo "thread safety: ${#sources[@]} sources are clean"
