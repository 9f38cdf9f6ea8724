"""Common to all Python tests: TensorFlow kept quiet, v1 graphs, small real data."""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
# Stock sessions and learners have the same kernels, on any processor.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

import tensorbow
from tests.python.warm_python import executable

tf.compat.v1.disable_eager_execution()

# Tests have as many learners as they like, on any machine: the remark on it is given.
tensorbow._runtime.messages.first_time(tensorbow.options.MORE_LEARNERS_THAN_CORES)

# The first session of a process fixes the number of threads inside stock operations for
# all of them. One thread: what is compared bit for bit must not depend on the machine.
ONE_THREAD = tf.compat.v1.ConfigProto(
    intra_op_parallelism_threads=1, inter_op_parallelism_threads=1
)
tf.compat.v1.Session(graph=tf.Graph(), config=ONE_THREAD).close()


@pytest.fixture(scope="session")
def digits():
    """scikit-learn's digits: 1797 real images of 8x8 pixels, scaled to [0, 1]."""
    from sklearn.datasets import load_digits

    data = load_digits()
    images = (data.images / 16).astype(np.float32)[..., None]
    return images, data.target.astype(np.int32)


@pytest.fixture
def warm_python(monkeypatch, request, tmp_path_factory):
    """Programs that are started with `sys.executable` find TensorFlow imported."""
    directory, lives_with = tmp_path_factory.getbasetemp(), os.getpid()
    if hasattr(request.config, "workerinput"):  # one of several: all have one server
        directory, lives_with = directory.parent, os.getppid()
    path = executable(directory / "warm", lives_with)
    monkeypatch.setattr(sys, "executable", path)


@pytest.fixture
def one_thread():
    """The configuration under which a stock session computes on one thread."""
    return ONE_THREAD


@pytest.fixture(autouse=True)
def eager_for_keras(request):
    """Keras and custom loops want eager execution, which everything else here goes without."""
    if request.module.__name__.rpartition(".")[2].startswith(("keras_", "function_")):
        with context.eager_mode():
            yield
    else:
        yield
