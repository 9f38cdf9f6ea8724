#!/usr/bin/env bash
# Runs a command with another TensorFlow or Python: with_release.sh RELEASE COMMAND…
# RELEASE is 2.19, 2.19.0 or nightly; the environment variable PYTHON is the interpreter.
# TensorFlow's package for the CPU goes into .venv-NAME, and the runtime is built for it in
# build/tf-NAME/release. The command runs in a copy of the working tree beside that, so that
# nothing here changes. NAME is 2.19, or 2.19-python3.13 if PYTHON is set.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
release=$1
shift
series=$(cut -d. -f1,2 <<<"$release")
name=$series${PYTHON:+-$(basename "$PYTHON")}
venv=$PWD/.venv-$name
work=$PWD/build/tf-$name
tree=$work/tree
mkdir -p "$tree"

# The packages for pip, one a line: TensorFlow, its TensorBoard, and those of the tests.
packages() {
  pinned=$release
  [ "$release" != "$series" ] || pinned=$release.*
  tensorflow="tensorflow-cpu==$pinned" tensorboard="tensorboard==$series.*"
  [ "$series" != nightly ] || tensorflow=tf-nightly tensorboard=tensorboard
  sed -E "s/^tensorflow[><=].*/$tensorflow/; s/^tensorboard[><=].*/$tensorboard/
    /^(tf_keras|ruff|mypy|clang-format|yamllint)\b/d" \
    tools/build_requirements.txt tools/requirements.txt
  # TensorFlow 2.20 accepts any protobuf, but its tf.io.write_graph fails with version 7.
  [ "$series" = nightly ] || echo "protobuf<7"
}

# Installs a nightly again after a week.
old=
[ "$series" != nightly ] || old=$(find "$venv" -maxdepth 1 -name requirements.stamp -mtime +6 2>/dev/null || true)
if ! [ "$venv/requirements.stamp" -nt tools/requirements.txt ] ||
  ! [ "$venv/requirements.stamp" -nt tools/build_requirements.txt ] || [ -n "$old" ]; then
  echo "TensorFlow $release and what the tests use go into $venv (about a minute)"
  "${PYTHON:-python3}" -m venv "$venv"
  packages >"$work/requirements.txt"
  "$venv/bin/pip" install --quiet --upgrade pip
  if [ "$series" = nightly ]; then
    "$venv/bin/pip" install --quiet --upgrade --pre tf-nightly ||
      { echo "The package index has no tf-nightly for this Python: nothing was tested" >&2; exit 1; }
    grep -v '^tf-nightly$' "$work/requirements.txt" >"$work/others.txt"
    "$venv/bin/pip" install --quiet -r "$work/others.txt"
  else
    "$venv/bin/pip" install --quiet -r "$work/requirements.txt"
    # tf_keras depends on "tensorflow" by name; tensorflow-cpu works as well.
    "$venv/bin/pip" install --quiet --no-deps "tf_keras==$series.*"
  fi
  touch "$venv/requirements.stamp"
fi
export PATH=$venv/bin:$PATH

# Files keep their times, so that unchanged ones are not compiled again.
git ls-files --cached --others --exclude-standard |
  while IFS= read -r file; do [ ! -f "$file" ] || echo "$file"; done | sort >"$work/files"
xargs -d '\n' cp --parents --update --preserve=mode,timestamps -t "$tree" <"$work/files"
(cd "$tree" && find . -type f ! -name '*.so' ! -name '*.pyc' -printf '%P\n' | sort |
  comm -23 - "$work/files" | xargs -r -d '\n' rm)
[ ! -e ../shared ] || ln -sfn "$(realpath ../shared)" "$work/shared"  # data for tests
cd "$tree"
if [ "$series" = nightly ]; then  # the copy takes it for a release
  cp "$root/tensorbow/_runtime/releases.py" tensorbow/_runtime/releases.py
  python - <<'END'
import importlib.metadata
import pathlib
import re

version = importlib.metadata.version("tf-nightly")
major, minor = version.split(".")[:2]
print(f"tf-nightly {version}", flush=True)
path = pathlib.Path("tensorbow/_runtime/releases.py")
known = re.sub(r", \(2, 21\): (\(\d+, \d+\))\}", rf", (2, 21): \1, ({major}, {minor}): \1}}",
               path.read_text())
assert f"({major}, {minor})" in known, "the list of releases is written otherwise"
path.write_text(known)
END
fi
cmake -S . -B "$work/release" -G Ninja -DPython_EXECUTABLE="$venv/bin/python" >"$work/cmake.log" ||
  { cat "$work/cmake.log"; exit 1; }
cmake --build "$work/release"
cmake --install "$work/release" --prefix . >/dev/null
export TENSORBOW_BUILD=$work/release PYTHONPATH=$tree  # for programs that tests start, too
exec "$@"
