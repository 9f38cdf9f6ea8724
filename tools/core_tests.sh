#!/usr/bin/env bash
# Builds and runs the C++ tests of the folders without TensorFlow: core_tests.sh BUILD_DIR [CMAKE_OPTIONS…]
# They may share the folder and its objects with the library, whose configuration is kept.
# GoogleTest comes from the system or, unpacked beside the build, from Debian's package;
# no root needed. Without either, the tests are skipped with a message.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
shift
deps=build/googletest
mkdir -p "$(dirname "$build")"
config=$(find /usr/lib /usr/local/lib "$deps" -name GTestConfig.cmake 2>/dev/null | head -n 1 || true)
if [ -z "$config" ]; then
  mkdir -p "$deps"
  if command -v apt-get >/dev/null; then
    (
      flock 9
      cd "$deps"
      apt-get download -q libgtest-dev ||
        { [ "$(id -u)" = 0 ] && apt-get update -q && apt-get download -q libgtest-dev; }
      dpkg-deb -x libgtest-dev_*.deb .
    ) >"$deps/log" 2>&1 9>build/apt.lock || true
  fi
  config=$(find "$deps" -name GTestConfig.cmake | head -n 1)
fi
if [ -z "$config" ]; then
  echo "C++ tests SKIPPED: GoogleTest is not installed and Debian's libgtest-dev could not be fetched"
  exit 0
fi
options=(-DTENSORBOW_TESTS=ON -DGTest_DIR="$(realpath "$(dirname "$config")")" "$@")
[ -e "$build/CMakeCache.txt" ] || options+=(-DTENSORBOW_WITH_TENSORFLOW=OFF)
cmake -S . -B "$build" -G Ninja "${options[@]}" >"$build.log" 2>&1 ||
  { cat "$build.log"; exit 1; }
cmake --build "$build" --target tensorbow_core_test
ctest --test-dir "$build" -j "$(nproc)" --output-on-failure --no-tests=error --timeout 300
