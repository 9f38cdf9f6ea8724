"""The steps of five users, from an empty folder: install, first run, first error, with times.

Slow, and needs a package index: `make users` builds a wheel and executes it.
TENSORBOW_USERS is the wheel, or the folder of the sources. Without it all tests are skipped.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import venv

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = os.environ.get("TENSORBOW_USERS", "")
MINUTES_TO_TRAIN = 5 if PACKAGE.endswith(".whl") else 9  # the sources: 4 of the minutes compile

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PACKAGE, reason="TENSORBOW_USERS names no wheel: see make users"),
]

README = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S)

SESSION = f"""
import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_eager_execution()
x = tf.placeholder(tf.float32, [None, 4])
y = tf.placeholder(tf.int64, [None])
logits = tf.matmul(x, tf.get_variable("w", [4, 3]))
loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), y), tf.float32))
train_op = tf.train.AdamOptimizer(0.05).minimize(loss)
rows = np.random.default_rng(0).standard_normal((3200, 4)).astype(np.float32)
labels = (rows @ np.random.default_rng(1).standard_normal((4, 3))).argmax(1)
batches = [(rows[k : k + 64], labels[k : k + 64]) for k in range(0, 3200, 64)]
x_test, y_test, path = rows, labels, "./model"
{README[0]}
"""

KERAS = f"""
import keras
import numpy as np

import tensorbow

rows = np.random.default_rng(0).standard_normal((3200, 4)).astype(np.float32)
labels = (rows @ np.random.default_rng(1).standard_normal((4, 3))).argmax(1)
keras.utils.set_random_seed(1)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="softmax")])
{README[1]}
model.compile(keras.optimizers.Adam(0.05), "sparse_categorical_crossentropy", metrics=["accuracy"])
history = model.fit(rows, labels, batch_size=32, epochs=5, verbose=0).history
print(history["accuracy"][-1])
"""

LOOP = f"""
import keras
import numpy as np
import tensorflow as tf

import tensorbow

rows = np.random.default_rng(0).standard_normal((3200, 4)).astype(np.float32)
labels = (rows @ np.random.default_rng(1).standard_normal((4, 3))).argmax(1)
keras.utils.set_random_seed(1)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = keras.optimizers.Adam(0.05)
{README[2]}
for k in range(0, 3200, 64):
    step(rows[k : k + 64], labels[k : k + 64])
assert tensorbow.session_of(step).num_learners > 1
print(np.mean(model.predict(rows, verbose=0).argmax(1) == labels))
"""


def environment():
    """Returns the environment without variables by which Python, or pip, finds the checkout."""
    return {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}


@pytest.fixture(scope="module")
def user(tmp_path_factory):
    """Makes an empty folder, and a Python with TensorBow and its dependencies."""
    folder = tmp_path_factory.mktemp("user")
    start = time.monotonic()
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    command = [python, "-m", "pip", "install", "--quiet", f"{PACKAGE}[demo]"]
    subprocess.run(command, check=True, cwd=folder, env=environment(), timeout=1200)
    print(f"\n{time.monotonic() - start:6.1f} s  pip install {pathlib.Path(PACKAGE).name}")
    return folder, start


def execute(user, *arguments, returncode=0, seconds=300):
    """Executes the user's Python in the folder; returns its output and its errors."""
    folder, _ = user
    start = time.monotonic()
    process = subprocess.run(
        [folder / "venv" / "bin" / "python", *map(str, arguments)],
        cwd=folder,
        env={**environment(), "TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    shown = " ".join(str(a) for a in arguments if "\n" not in str(a))
    print(f"{time.monotonic() - start:6.1f} s  python {shown}")
    assert process.returncode == returncode, process.stdout + process.stderr
    return process.stdout, process.stderr


def test_the_engineer_installs_and_trains_in_time(user):
    folder, start = user
    said, _ = execute(user, "-m", "tensorbow", "doctor")
    assert re.search(r"^training +works", said, re.M)
    flags = ("--model", "lenet", "--epochs", "1", "--json", "lenet.json")
    execute(user, "-m", "tensorbow", "train", *flags, seconds=600)
    assert json.loads((folder / "lenet.json").read_text())
    assert time.monotonic() - start < 60 * MINUTES_TO_TRAIN


def test_the_engineer_in_a_checkout_uses_what_is_installed(user):
    folder, _ = user
    checkout = folder / "checkout" / "tensorbow"
    shutil.copytree(
        ROOT / "tensorbow", checkout, ignore=shutil.ignore_patterns("*.so", "__pycache__")
    )
    (checkout.parent / "setup.py").touch()
    code = f"import os; os.chdir({str(checkout.parent)!r}); import tensorbow"
    said, _ = execute(user, "-c", f"{code}; print(tensorbow.__file__)")
    assert "site-packages" in said


def test_the_user_of_sessions_changes_one_line(user):
    said, _ = execute(user, "-c", SESSION)
    assert float(said) > 0.8
    wrong = SESSION.replace("feed_dict={x: xs, y: ys}", "feed_dict={x: xs[:, :3], y: ys}")
    _, error = execute(user, "-c", wrong, returncode=1)
    assert "Cannot feed value of shape (64, 3)" in error


def test_the_user_of_keras_adds_one_line(user):
    said, _ = execute(user, "-c", KERAS)
    assert float(said) > 0.8
    wrong = KERAS.replace("replicate(model)", 'replicate("model")')
    _, error = execute(user, "-c", wrong, returncode=1)
    assert "TypeError: replicate: model must be a keras.Model, got 'model'" in error


def test_the_user_of_a_custom_loop_changes_a_decorator(user):
    said, _ = execute(user, "-c", LOOP)
    assert float(said) > 0.8
    wrong = LOOP.replace("@tensorbow.function", "@tensorbow.function(learners_per_device=2)")
    _, error = execute(user, "-c", wrong, returncode=1)
    assert "learners_per_device is an option; wanted options=tensorbow.Options(" in error


def test_the_user_with_a_training_step_of_her_own_trains_it(user):
    program = ROOT / "examples" / "keras_custom_train_step.py"
    said, _ = execute(user, program, "--learners", "2", "--epochs", "1")
    assert "2 learners" in said


def test_the_data_scientist_executes_the_notebook(user):
    folder, _ = user
    notebook = folder / "quickstart.ipynb"
    notebook.write_text((ROOT / "examples" / "quickstart.ipynb").read_text())
    execute(user, ROOT / "tools" / "execute_notebook.py", notebook)
    assert "executed by 2 learners" in notebook.read_text()


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-s"]))
