"""Setup of all Python tests: TensorFlow kept quiet, v1 graphs, small real data."""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
# Makes stock sessions and learners use the same kernels, on any processor.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

import tensorbow
from tests.python.warm_python import executable

tf.compat.v1.disable_eager_execution()

# Tests use more learners than cores on purpose: the remark counts as given.
tensorbow._runtime.messages.first_time(tensorbow.options.MORE_LEARNERS_THAN_CORES)

# The first session of a process fixes the number of threads inside stock operations for all of
# them. One thread makes bitwise comparisons independent of the machine.
ONE_THREAD = tf.compat.v1.ConfigProto(
    intra_op_parallelism_threads=1, inter_op_parallelism_threads=1
)
tf.compat.v1.Session(graph=tf.Graph(), config=ONE_THREAD).close()


@pytest.fixture(scope="session")
def digits():
    """Returns scikit-learn's digits: 1797 real images of 8x8 pixels, scaled to [0, 1]."""
    from sklearn.datasets import load_digits

    data = load_digits()
    images = (data.images / 16).astype(np.float32)[..., None]
    return images, data.target.astype(np.int32)


@pytest.fixture
def warm_python(monkeypatch, request, tmp_path_factory):
    """Makes programs started with `sys.executable` find TensorFlow imported."""
    directory, lives_with = tmp_path_factory.getbasetemp(), os.getpid()
    if hasattr(request.config, "workerinput"):  # one of several workers, which share a server
        directory, lives_with = directory.parent, os.getppid()
    path = executable(directory / "warm", lives_with)
    monkeypatch.setattr(sys, "executable", path)


@pytest.fixture
def one_thread():
    """Returns the configuration under which a stock session computes on one thread."""
    return ONE_THREAD


@pytest.fixture(autouse=True)
def no_global_seed():
    """Takes back the seed that a test sets: sessions that follow would keep their learners."""
    yield
    if context.global_seed() is not None:
        context.set_global_seed(None)


@pytest.fixture(autouse=True)
def eager_for_keras(request):
    """Turns on eager execution, which Keras and custom loops need and all other tests do
    without."""
    if request.module.__name__.rpartition(".")[2].startswith(("keras_", "function_")):
        with context.eager_mode():
            yield
    else:
        yield
