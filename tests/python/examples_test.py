"""Each example, and the README's program, runs by itself and gets the expected result."""

import json
import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tensorbow import models

pytestmark = pytest.mark.usefixtures("warm_python")

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


def example(name, *flags, returncode=0, **environment):
    """Runs an example in a process of its own; returns its output."""
    process = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *map(str, flags)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.returncode == returncode, process.stderr
    return process.stdout if returncode == 0 else process.stderr


def reports(output):
    """Returns step, loss and test accuracy of each evaluation that an example printed."""
    found = re.findall(r"^step +(\d+)  loss (\S+)  test accuracy (\S+)$", output, re.M)
    return [(int(step), float(loss), float(accuracy)) for step, loss, accuracy in found]


def test_swap_session_finds_the_same_law_before_and_after():
    lines = example("swap_session.py").splitlines()
    assert [line.split()[0] for line in lines] == ["stock", "tensorbow"]
    for line in lines:
        loss, *found = (float(n) for n in re.findall(r"\d+\.\d*", line))
        assert loss < 0.05
        np.testing.assert_allclose(found, [1, 2, 3, 4], atol=0.05)


def test_swap_session_runs_the_session_asked_for():
    flags = "--session=tensorbow", "--steps=5"
    (line,) = example("swap_session.py", *flags).splitlines()
    assert line.startswith("tensorbow ")


def test_custom_loop_tells_the_spirals_apart():
    output = example("custom_loop.py", "--steps=300")
    assert float(re.findall(r"^accuracy (.*)$", output, re.M)[0]) > 0.9


def test_lenet_learns_the_digits():
    output = example("lenet_mnist.py", "--learners=2", "--steps=80", "--report_every=50")
    assert output.startswith("LeNet on scikit-learn's digits: 1437 images for training\n")
    (first, _, _), (last, loss, accuracy) = reports(output)
    assert (first, last) == (50, 80)
    assert loss < 1
    assert accuracy > 0.8
    # 45 runs an epoch, the last of them with 1437 − 44·32 rows.
    assert output.endswith(f"2 learners saw {1437 + 35 * 32} samples\n")


def test_resnet_trains_on_a_file(digits, tmp_path):
    images, labels = digits
    images = np.repeat(np.rint(images * 255).astype(np.uint8), 3, axis=3)
    path = tmp_path / "images.npz"
    np.savez(
        path, x_train=images[:40], y_train=labels[:40], x_test=images[40:60], y_test=labels[40:60]
    )
    flags = ("--learners=2", "--batch_size=4", "--steps=6", "--report_every=4")
    output = example("resnet_cifar10.py", "--data", path, *flags)
    assert output.startswith("ResNet-20 on images.npz: 40 images for training\n")
    assert [step for step, _, _ in reports(output)] == [4, 6]
    for _, loss, accuracy in reports(output):
        assert np.isfinite(loss)
        assert round(accuracy * 20) / 20 == accuracy
    assert output.endswith("2 learners saw 48 samples\n")


def test_resnet_without_data_says_where_to_get_it(tmp_path):
    message = example("resnet_cifar10.py", returncode=1, KERAS_HOME=str(tmp_path))
    assert f"No CIFAR-10: Keras has not cached it in {tmp_path / 'datasets'}" in message
    assert "--data FILE.npz" in message


def test_program_of_the_readme_trains(digits, tmp_path):
    text = (EXAMPLES.parent / "README.md").read_text()
    program = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)[0]
    assert len(program.splitlines()) <= 12
    images, labels = digits
    model = models.build(
        "logistic",
        images.shape[1:],
        optimiser=lambda: tf.compat.v1.train.MomentumOptimizer(0.1, 0.9),
        seed=1,
    )
    printed = []
    names = dict(
        x=model.images,
        y=model.labels,
        loss=model.loss,
        train_op=model.train_op,
        accuracy=model.accuracy,
        batches=[(images[k : k + 64], labels[k : k + 64]) for k in range(0, 1280, 64)],
        x_test=images[1280:],
        y_test=labels[1280:],
        path=str(tmp_path / "model"),
        print=printed.append,
    )
    with model.graph.as_default():
        exec(program, names)
    assert printed[0] > 0.7
    # The saved model is the evaluated one.
    with model.graph.as_default(), tf.compat.v1.Session() as stock:
        tf.compat.v1.train.Saver().restore(stock, names["path"])
        feeds = {model.images: names["x_test"], model.labels: names["y_test"]}
        assert stock.run(model.accuracy, feeds) == printed[0]


def test_traces_of_learners_are_recorded_and_drawn(tmp_path):
    trace, picture = tmp_path / "trace.json", tmp_path / "trace.svg"
    output = example("trace_learners.py", "--trace", trace, "--picture", picture)
    assert re.search(r"^learner 1: 40 tasks of \d+\.\d+ ms, waits \d+\.\d+ ms$", output, re.M)
    events = json.loads(trace.read_text())["traceEvents"]
    assert sum(e["name"] == "task 0" for e in events) == 2 * 10
    drawn = picture.read_text()
    assert "learner 1" in drawn and "milliseconds" in drawn


def test_hosts_learn_the_digits_together():
    process = subprocess.run(
        [
            *(sys.executable, "-m", "tensorbow", "launch", "--hosts=2"),
            *(str(EXAMPLES / "hosts_mnist.py"), "--steps=80"),
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert process.returncode == 0, process.stdout
    for host, images in ((0, 719), (1, 718)):
        says = f"[host {host}] LeNet on scikit-learn's digits: {images} images of 1437 are this"
        assert says in process.stdout
    learners = max(1, len(os.sched_getaffinity(0)) // 2) * 2
    (seen, accuracy) = re.findall(r"2 hosts saw (\d+) samples, accuracy (\S+)", process.stdout)[0]
    assert int(seen) == 80 * learners * 16
    assert float(accuracy) > 0.8
