"""Central values that nobody reads while learners train take no memory, and exist again when they
are read.

Expected values: a stock session on the same program and feeds.
"""

import os
import subprocess
import sys
import threading

import numpy as np
import programs
import pytest
import tensorflow as tf

import tensorbow

tf1 = tf.compat.v1

RUNS = 12  # more than the release of a central value takes
SYNCHRONISERS = [tensorbow.SMA, tensorbow.SSGD]


@pytest.fixture(params=[True, False], ids=["resource", "reference"])
def linear(request):
    return programs.linear(
        use_resource=request.param, optimiser=lambda: tf1.train.MomentumOptimizer(0.05, 0.9)
    )


def train(p, session, runs=RUNS):
    x, y = programs.rows(8)
    for _ in range(runs):
        session.run(p.train, {p.x: x, p.y: y})


def stock_value(p, runs):
    with tf1.Session(graph=p.graph) as stock:
        stock.run(p.init)
        train(p, stock, runs)
        return stock.run(p.w)


@pytest.mark.parametrize("synchroniser", SYNCHRONISERS)
def test_values_are_there_whenever_they_are_read(linear, synchroniser, tmp_path):
    with linear.graph.as_default():
        saver = tf1.train.Saver()
        double = linear.w.assign(2 * linear.w)
        unset = tf1.report_uninitialized_variables()
    averaging_gradients = synchroniser is tensorbow.SSGD
    with programs.session(linear.graph, synchroniser=synchroniser()) as s:
        s.run(linear.init)
        train(linear, s)
        assert s.run(linear.step) == RUNS
        assert len(s.run(unset)) == 0
        value = s.run(linear.w)
        if averaging_gradients:
            np.testing.assert_allclose(value, stock_value(linear, RUNS), rtol=1e-5)
        train(linear, s)
        path = saver.save(s, str(tmp_path / "model"))
        value = s.run(linear.w)
        if averaging_gradients:
            np.testing.assert_allclose(value, stock_value(linear, 2 * RUNS), rtol=1e-5)
        train(linear, s)
        later = s.run(linear.w)
        s.run(double)
        np.testing.assert_array_equal(s.run(linear.w), 2 * later)
        train(linear, s)
        saver.restore(s, path)
        np.testing.assert_array_equal(s.run(linear.w), value)


def test_state_saved_long_after_the_last_read_goes_on_bit_for_bit(linear, tmp_path):
    path = str(tmp_path / "state")
    with programs.session(linear.graph) as s:
        s.run(linear.init)
        train(linear, s)
        s.save_state(path)
        train(linear, s)
        expected = s.run(linear.w)
        train(linear, s)
        s.load_state(path)  # while central values are released
        train(linear, s)
        np.testing.assert_array_equal(s.run(linear.w), expected)


def test_learners_come_and_go_long_after_the_last_read(linear):
    with programs.session(linear.graph, synchroniser=tensorbow.SSGD()) as s:
        s.run(linear.init)
        for learners in (3, 1, 2):
            train(linear, s)
            s.set_learners(learners)
        value = s.run(linear.w)
    np.testing.assert_allclose(value, stock_value(linear, 3 * RUNS), rtol=1e-5)


def test_threads_that_read_while_others_train_always_find_values(linear):
    errors, read = [], []
    done = threading.Event()

    def reader():
        try:
            while not done.is_set():
                read.append(s.run(linear.w))
                done.wait(0.002)
        except Exception as error:
            errors.append(error)

    with programs.session(linear.graph) as s:
        s.run(linear.init)
        readers = [threading.Thread(target=reader) for _ in range(3)]
        for thread in readers:
            thread.start()
        try:
            train(linear, s, 500)
        finally:
            done.set()
            for thread in readers:
                thread.join()
    assert not errors
    assert len(read) > 10


def test_pipeline_that_refers_to_a_variable_reads_it_long_afterwards():
    with tf.Graph().as_default() as graph:
        w = tf1.get_variable("w", initializer=np.float32(3), use_resource=True)
        scale = tf1.get_variable("scale", initializer=np.float32(2), use_resource=True)
        x = tf1.placeholder(tf.float32, [None])
        loss = tf.reduce_mean(tf.square(scale * w - x))
        train = tf1.train.GradientDescentOptimizer(0.01).minimize(loss, var_list=[w, scale])
        elements = tf1.data.Dataset.range(1000).map(lambda i: tf.cast(i, tf.float32) * scale)
        iterator = tf1.data.make_initializable_iterator(elements)
        element = iterator.get_next()
        init = tf1.global_variables_initializer()
    with programs.session(graph) as s:
        s.run(init)
        s.run(iterator.initializer)
        assert s.run(element) == 0
        for _ in range(RUNS):
            s.run(train, {x: np.ones(8, np.float32)})
        assert np.isfinite(s.run(element))


PROGRAM = """
import numpy as np, psutil, tensorflow as tf, tensorbow
tf1 = tf.compat.v1
tf1.disable_eager_execution()

def resident():
    memory = psutil.Process().memory_full_info()
    return memory.rss - memory.shared + memory.swap  # without the pages of files

x = tf1.placeholder(tf.float32, [None, 3000])
w = tf1.get_variable("w", [3000, 5000])
train = tf1.train.GradientDescentOptimizer(1e-3).minimize(tf.reduce_mean(tf.square(x @ w)))
options = tensorbow.Options(learners_per_device=2, synchroniser=tensorbow.SSGD())
with tensorbow.TensorBowSession(options=options) as s:
    s.run(tf1.global_variables_initializer())
    s.run(train, {x: np.ones((4, 3000), np.float32)})
    with_central = resident()
    for _ in range(12):
        s.run(train, {x: np.ones((4, 3000), np.float32)})
    print((with_central - resident()) / (4 * 3000 * 5000))
    assert s.run(w).shape == (3000, 5000)
"""


def test_released_values_leave_the_process():
    """In a process of its own: with oneDNN on, TensorFlow's allocator keeps what is freed."""
    process = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        env=dict(os.environ, TF_ENABLE_ONEDNN_OPTS="0"),
        timeout=300,
    )
    assert process.returncode == 0, process.stderr
    assert 0.8 < float(process.stdout.splitlines()[-1]) < 2
