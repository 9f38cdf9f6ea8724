#!/usr/bin/env bash
# Builds and runs the C++ tests that need TensorFlow: runtime_tests.sh BUILD_DIR [CMAKE_OPTIONS…]
# They are linked with the library that BUILD_DIR has and with the installed TensorFlow's.
# With -DTENSORBOW_SANITIZER=address or undefined, our code is checked, but not TensorFlow's
# wheel. GoogleTest comes from the system, or from the package that core_tests.sh unpacked;
# without it the tests are skipped with a message.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
shift
mkdir -p "$(dirname "$build")"
config=$(find /usr/lib /usr/local/lib build/googletest -name GTestConfig.cmake 2>/dev/null | head -n 1 || true)
if [ -z "$config" ]; then
  echo "C++ runtime tests SKIPPED: GoogleTest is not installed (tools/core_tests.sh fetches it)"
  exit 0
fi
options=(-DTENSORBOW_TESTS=ON -DGTest_DIR="$(realpath "$(dirname "$config")")" "$@")
[ -e "$build/CMakeCache.txt" ] ||
  options+=(-DTENSORBOW_GPU=OFF -DPython_EXECUTABLE="$(command -v python3)")
cmake -S . -B "$build" -G Ninja "${options[@]}" >"$build.log" 2>&1 ||
  { cat "$build.log"; exit 1; }
cmake --build "$build" --target tensorbow_runtime_test
UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 TF_CPP_MIN_LOG_LEVEL=2 \
  timeout 300 "$build/tensorbow_runtime_test" --gtest_brief=1
