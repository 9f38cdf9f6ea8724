"""Learners use oneDNN's kernels on processors on which TensorFlow does not by itself.

TensorFlow decides that when a process first uses it: each case is a process.
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest

PROGRAM = """
import json, sys
import numpy as np, tensorflow as tf, tensorbow
from tensorflow.python.util import _pywrap_util_port
tf1 = tf.compat.v1
tf1.disable_eager_execution()
x = tf1.placeholder(tf.float32, [None, 8, 8, 3])
y = tf1.placeholder(tf.int32, [None])
w = tf1.get_variable("w", [3, 3, 3, 8], initializer=tf1.glorot_uniform_initializer(seed=1))
flat = tf.reshape(tf.nn.relu(tf.nn.conv2d(x, w, 1, "SAME")), [-1, 512])
v = tf1.get_variable("v", [512, 10], initializer=tf1.glorot_uniform_initializer(seed=2))
loss = tf.reduce_mean(
    tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=flat @ v))
train = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
random = np.random.default_rng(0)
feeds = [{x: random.standard_normal((8, 8, 8, 3), np.float32), y: random.integers(0, 10, 8)}
         for _ in range(20)]

def trained(session):
    metadata = tf1.RunMetadata()
    options = tf1.RunOptions(output_partition_graphs=True)
    session.run(tf1.global_variables_initializer())
    for feed in feeds:
        session.run(train, feed, options=options, run_metadata=metadata)
    nodes = [n for graph in metadata.partition_graphs for n in graph.node]
    values = session.run([w, v])
    return {"convolutions": sum("Conv2D" in n.op for n in nodes),
            "of oneDNN": sum("Conv2D" in n.op and "Mkl" in n.op for n in nodes),
            "weights": np.concatenate([value.ravel() for value in values]).tolist()}

learners = int(sys.argv[1])
options = tensorbow.Options(learners_per_device=learners, synchroniser=tensorbow.SSGD())
with tf1.Session() as session:
    stock = trained(session)
with tensorbow.TensorBowSession(options=options) as session:
    ours = trained(session)
print(json.dumps({"stock": stock, "ours": ours, "by itself": _pywrap_util_port.IsMklEnabled()}))
"""


def outcome(learners, switch=None):
    environment = dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="")
    del environment["TF_ENABLE_ONEDNN_OPTS"]
    if switch is not None:
        environment["TF_ENABLE_ONEDNN_OPTS"] = switch
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(learners)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=300,
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout.splitlines()[-1])


def assert_close(found):
    assert found["ours"]["weights"] == pytest.approx(found["stock"]["weights"], rel=1e-4, abs=1e-5)


@pytest.mark.skipif(
    " avx2 " not in pathlib.Path("/proc/cpuinfo").read_text(), reason="a processor with AVX2"
)
def test_learners_have_onednns_kernels():
    found = outcome(learners=2)
    assert found["ours"]["of oneDNN"] == found["ours"]["convolutions"] > 0
    assert bool(found["stock"]["of oneDNN"]) == found["by itself"]
    assert_close(found)


def test_the_users_switch_is_kept():
    found = outcome(learners=2, switch="0")
    assert found["ours"]["of oneDNN"] == found["stock"]["of oneDNN"] == 0
    assert found["ours"]["convolutions"] > 0
    assert_close(found)


def test_one_learner_has_the_kernels_of_a_stock_session():
    found = outcome(learners=1)
    assert found["ours"] == found["stock"]
