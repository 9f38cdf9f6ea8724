#!/usr/bin/env bash
# Installs a wheel as a user does and trains an epoch: wheel_test.sh WHEEL DIRECTORY
# The environment is new and has only pip; programs are found only in it, so that no
# compiler and no CMake takes part. pip finds TensorFlow as usual. Prints the
# seconds from the start of `pip install` to the end of each step.
set -euo pipefail
wheel=$(realpath "$1")
rm -rf "$2"
"${PYTHON:-python3}" -m venv "$2"
cd "$2"
export PATH=$PWD/bin
unset PYTHONPATH

start=$EPOCHREALTIME
took() { python -c "print(f'{$EPOCHREALTIME - $start:6.1f} s  $1')"; }
pip install --quiet "$wheel"
took "pip install"
tensorbow doctor
took "tensorbow doctor"
python - <<'END'
"""Images of ten classes, each a pattern under noise, in MNIST's layout."""
import numpy as np

random = np.random.default_rng(1)
patterns = random.integers(0, 2, [10, 28, 28])
labels = random.integers(0, 10, 5000)
images = 128 * patterns[labels] + random.integers(0, 128, [5000, 28, 28])
parts = {"x_train": images[:4000], "x_test": images[4000:]}
parts = {name: part.astype(np.uint8) for name, part in parts.items()}
np.savez("patterns.npz", y_train=labels[:4000], y_test=labels[4000:], **parts)
END
tensorbow train --model lenet --epochs 1 --data patterns.npz --json epoch.json
took "the first epoch is trained"
python - <<'END'
import json

(epoch,) = json.load(open("epoch.json"))
assert epoch["accuracy"][-1] > 0.9, epoch["accuracy"]
END
