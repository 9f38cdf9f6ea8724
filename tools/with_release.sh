#!/usr/bin/env bash
# Runs a command with another release of TensorFlow: with_release.sh RELEASE COMMAND…
# RELEASE is 2.19, or 2.19.0. TensorFlow is its package for the CPU, in .venv-RELEASE; the
# runtime is built for it in build/tf-RELEASE/release, and the command runs in a copy of the
# working tree beside that, so that nothing here changes.
set -euo pipefail
cd "$(dirname "$0")/.."
release=$1
shift
series=$(cut -d. -f1,2 <<<"$release")
venv=$PWD/.venv-$release
work=$PWD/build/tf-$release
tree=$work/tree
mkdir -p "$tree"

if ! [ "$venv/requirements.stamp" -nt tools/requirements.txt ] ||
  ! [ "$venv/requirements.stamp" -nt tools/build_requirements.txt ]; then
  echo "TensorFlow $release and what the tests use go into $venv (about a minute)"
  "${PYTHON:-python3}" -m venv "$venv"
  pinned=$release
  [ "$release" != "$series" ] || pinned=$release.*
  # tf_keras depends on "tensorflow" by name; tensorflow-cpu does for it, too.
  sed -E "s/^tensorflow[><=].*/tensorflow-cpu==$pinned/; s/^tensorboard[><=].*/tensorboard==$series.*/
    /^(tf_keras|ruff|mypy|clang-format)\b/d" tools/build_requirements.txt tools/requirements.txt \
    >"$work/requirements.txt"
  # TensorFlow 2.20 takes any protobuf, and its tf.io.write_graph fails with version 7.
  echo "protobuf<7" >>"$work/requirements.txt"
  "$venv/bin/pip" install --quiet --upgrade pip
  "$venv/bin/pip" install --quiet -r "$work/requirements.txt"
  "$venv/bin/pip" install --quiet --no-deps "tf_keras==$series.*"
  touch "$venv/requirements.stamp"
fi
export PATH=$venv/bin:$PATH

# Files keep their times: what has not changed is not compiled again.
git ls-files --cached --others --exclude-standard |
  while IFS= read -r file; do [ ! -f "$file" ] || echo "$file"; done | sort >"$work/files"
xargs -d '\n' cp --parents --update --preserve=mode,timestamps -t "$tree" <"$work/files"
(cd "$tree" && find . -type f ! -name '*.so' ! -name '*.pyc' -printf '%P\n' | sort |
  comm -23 - "$work/files" | xargs -r -d '\n' rm)
[ ! -e ../shared ] || ln -sfn "$(realpath ../shared)" "$work/shared"  # data for tests
cd "$tree"
cmake -S . -B "$work/release" -G Ninja -DPython_EXECUTABLE="$venv/bin/python" >"$work/cmake.log" ||
  { cat "$work/cmake.log"; exit 1; }
cmake --build "$work/release"
cmake --install "$work/release" --prefix . >/dev/null
export TENSORBOW_BUILD=$work/release PYTHONPATH=$tree  # for programs that tests start, too
exec "$@"
