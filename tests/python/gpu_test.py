"""libtensorbow_gpu.so: behaviour without a GPU, and tests that need one."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
import tensorflow as tf

import tensorbow
from tensorbow._runtime import loader

LIBRARY = pathlib.Path(tensorbow.__file__).parent / "libtensorbow_gpu.so"
ROOT = pathlib.Path(__file__).parents[2]

built = pytest.mark.skipif(
    not LIBRARY.exists(), reason="not built: it takes TensorFlow's GPU wheel and nvcc"
)
# This process sees no GPU (conftest.py); the ones that it starts do.
needs_gpu = pytest.mark.skipif(
    not loader.gpu_driver(), reason="takes an NVIDIA GPU, and this machine has none"
)


def run_with_gpus(*arguments: str, seconds: float = 300) -> subprocess.CompletedProcess[str]:
    """Runs Python in a process that sees the machine's GPUs."""
    variables = {k: v for k, v in os.environ.items() if k != "CUDA_VISIBLE_DEVICES"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=variables,
        capture_output=True,
        text=True,
        timeout=seconds,
    )


# Loads the library whether or not there is a driver.
PROGRAM = f"""
import ctypes
import numpy as np
import tensorflow as tf
from tensorflow.python.framework import kernels
import tensorbow
from tensorbow import _native

ctypes.CDLL({str(LIBRARY)!r})
print("gpus", _native.num_accelerators())
for op in {{ops}}:
    types = {{{{k.device_type for k in kernels.get_registered_kernels_for_op(op).kernel}}}}
    assert types == {{{{"CPU", "GPU"}}}}, (op, types)
tf1 = tf.compat.v1
with tf.Graph().as_default() as graph:
    w = tf1.get_variable("w", initializer=np.float32(0))
    x = tf1.placeholder(tf.float32, [None])
    train = tf1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean((w - x) ** 2))
    init = tf1.global_variables_initializer()
options = tensorbow.Options(learners_per_device=2)
with tensorbow.TensorBowSession(config=tf1.ConfigProto(), graph=graph, options=options) as session:
    print("devices", session.learner_devices)
    session.run(init)
    for _ in range(200):
        session.run(train, {{{{x: [1, 1, 3, 3]}}}})
    assert abs(session.run(w) - 2) < 1e-3
print("ok")
"""
OPS = [
    f"TensorBow{resource}Apply{optimiser}"
    for resource in ("", "Resource")
    for optimiser in ("GradientDescent", "Momentum", "Adam", "RMSProp", "Adagrad", "AdagradV2")
] + ["TensorBowAssign", "TensorBowAssignSub", "TensorBowAssignSubVariableOp"]


@built
def test_library_loads_and_registers_its_kernels() -> None:
    program = PROGRAM.format(ops=OPS)
    done = run_with_gpus("-c", program)
    assert done.returncode == 0 and done.stdout.endswith("ok\n"), done.stderr[-3000:]
    if not loader.gpu_driver():  # without a driver nothing changes
        assert "gpus 0" in done.stdout and "GPU" not in done.stdout.partition("devices")[2]


def test_gpu_build_of_tensorflow_gets_the_library() -> None:
    nvcc = any(pathlib.Path(p, "nvcc").exists() for p in ("/usr/local/bin", "/usr/local/cuda/bin"))
    if not (tf.sysconfig.get_build_info()["is_cuda_build"] and nvcc):
        pytest.skip("takes TensorFlow's GPU wheel and nvcc")
    assert LIBRARY.exists()


def test_without_a_driver_it_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    assert "not built" in loader.load_gpu_library(tmp_path)
    (tmp_path / "libtensorbow_gpu.so").write_text("no library")
    monkeypatch.setattr(loader, "gpu_driver", lambda: False)
    assert "no NVIDIA driver" in loader.load_gpu_library(tmp_path)
    monkeypatch.setattr(loader, "gpu_driver", lambda: True)
    monkeypatch.setattr(loader, "cuda_build", lambda: False)
    assert "built for the CPU" in loader.load_gpu_library(tmp_path)
    monkeypatch.setattr(loader, "cuda_build", lambda: True)
    assert "does not load" in loader.load_gpu_library(tmp_path)


@needs_gpu
@pytest.mark.parametrize("check", ["same weights: logistic", "same weights: lenet", "handles"])
def test_on_a_gpu(check: str, tmp_path: pathlib.Path) -> None:
    command = ["benchmarks/gpu_checks.py", "--only", check, "--state", str(tmp_path)]
    done = run_with_gpus(*command, seconds=900)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]


HOST_OPS = """
import warnings
import numpy as np
import tensorflow as tf
import tensorbow

tf1 = tf.compat.v1


def trained(wrap, adam, graphs):
    with tf.Graph().as_default() as graph, tf1.variable_scope("net", use_resource=True):
        x = tf1.placeholder(tf.float32, [None, 4])
        w = tf1.get_variable("w", initializer=np.eye(4, dtype=np.float32))
        loss = tf.reduce_mean(wrap(tf.matmul(x, w)) ** 2)
        optimiser = tf1.train.AdamOptimizer if adam else tf1.train.GradientDescentOptimizer
        train = optimiser(0.1).minimize(loss)
        init = tf1.global_variables_initializer()
    options = tensorbow.Options(learners_per_device=2, cuda_graphs=graphs)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with tensorbow.TensorBowSession(graph=graph, options=options) as session:
            session.run(init)
            for k in range(12):
                session.run(train, {x: np.random.default_rng(k).normal(size=(16, 4))})
            return session.run(w), [str(w.message) for w in caught if "cuda_graphs" in str(w)]


def solved(y):
    return tf.linalg.matmul(tf.linalg.inv(tf.eye(4) * 2), y, transpose_b=True)


for wrap, adam in (
    (lambda y: tf.debugging.check_numerics(y, "y"), False),
    (solved, False),
    (lambda y: y, True),
):
    w, texts = trained(wrap, adam, "on")
    expected, _ = trained(wrap, adam, "off")
    np.testing.assert_allclose(w, expected, rtol=1e-5)
    assert texts, "no reason given"
print("ok")
"""


@needs_gpu
def test_tasks_that_cannot_be_captured_are_executed_op_by_op() -> None:
    """Tests CheckNumerics, an asynchronous kernel, Adam's powers of beta on resource variables."""
    done = run_with_gpus("-c", HOST_OPS)
    assert done.returncode == 0 and done.stdout.endswith("ok\n"), done.stderr[-3000:]
