"""Learners of several threads; changes of the number of learners during training."""

import os
import subprocess
import sys
import textwrap
import threading

import numpy as np
import psutil
import pytest
import tensorflow as tf
from programs import linear, rows, session
from runtime_test import own_mib

import tensorbow
from tests.python import own_process

tf1 = tf.compat.v1

SYNCHRONISERS = [
    tensorbow.SMA(),
    tensorbow.SMA(centre="lagging", momentum=0.5),
    tensorbow.SMA(ema_decay=0.9),
    tensorbow.SSGD(),
    tensorbow.SSGD(ema_decay=0.9),
    tensorbow.Independent(),
]


def momentum():
    return tf1.train.MomentumOptimizer(0.05, 0.9)


def train(p, sess, steps, count=12):
    for i in range(steps):
        x, y = rows(count, seed=i)
        sess.run(p.train, {p.x: x, p.y: y})


@pytest.mark.parametrize("synchroniser", SYNCHRONISERS, ids=str)
def test_the_central_model_is_what_it_was_bit_for_bit(synchroniser):
    p = linear(optimiser=momentum, columns=7)
    with session(p.graph, learners=3, synchroniser=synchroniser) as sess:
        sess.run(p.init)
        x, y = rows(12, columns=7)
        for learners in (2, 4, 3, 1, 2):
            for _ in range(3):
                sess.run(p.train, {p.x: x, p.y: y})
            before = sess.central(p.w, averaged=False)
            counts = sess.iterations, sess.learning_tasks, sess.samples_seen
            sess.set_learners(learners)
            assert sess.num_learners == learners
            np.testing.assert_array_equal(sess.central(p.w, averaged=False), before)
            assert (sess.iterations, sess.learning_tasks, sess.samples_seen) == counts
            if not isinstance(synchroniser, tensorbow.Independent):
                for j in range(learners):
                    np.testing.assert_array_equal(sess.learner_value(p.w, j), before)


def test_learners_that_stay_keep_their_slots_and_new_ones_get_learner_0s():
    p = linear(optimiser=momentum)
    with session(p.graph, learners=3) as sess:
        sess.run(p.init)
        train(p, sess, 4)
        slot = "w/Momentum"
        before = [sess.learner_value(slot, j) for j in range(3)]
        assert not np.array_equal(before[0], before[1])
        sess.set_learners(2)
        sess.set_learners(4)
        for j, expected in enumerate([before[0], before[1], before[0], before[0]]):
            np.testing.assert_array_equal(sess.learner_value(slot, j), expected)


def test_a_lone_learner_goes_on_as_a_stock_session_from_there():
    p = linear(optimiser=momentum)
    with session(p.graph, learners=3) as sess, tf1.Session(graph=p.graph) as stock:
        sess.run(p.init)
        train(p, sess, 4)
        sess.set_learners(1)
        values = {v: sess.central(v) for v in p.graph.get_collection("variables")}
        for variable, value in values.items():
            variable.load(value, stock)
        train(p, sess, 3)
        train(p, stock, 3)
        for variable in values:
            np.testing.assert_array_equal(sess.central(variable), stock.run(variable))


def test_a_state_brings_its_number_of_learners(tmp_path):
    p = linear(optimiser=momentum)
    with session(p.graph, learners=3) as sess:
        sess.run(p.init)
        train(p, sess, 3)
        sess.save_state(tmp_path / "state")
        train(p, sess, 2)
        expected = [sess.learner_value(p.w, j) for j in range(3)]
    for learners in (1, 2):
        with session(p.graph, learners=learners) as sess:
            sess.run(p.init)
            train(p, sess, 1)
            sess.load_state(tmp_path / "state")
            assert sess.num_learners == 3
            train(p, sess, 2)
            for j in range(3):
                np.testing.assert_array_equal(sess.learner_value(p.w, j), expected[j])


def test_what_is_not_a_layout_is_refused_and_changes_nothing():
    p = linear()
    lagging = tensorbow.SMA(centre="lagging", alpha=0.6)
    with session(p.graph, synchroniser=lagging) as sess:
        sess.run(p.init)
        train(p, sess, 1)
        for wrong, error in (
            (0, ValueError),
            (1.5, TypeError),
            (True, TypeError),
            (10**6, ValueError),
        ):
            with pytest.raises(error, match="learners_per_device"):
                sess.set_learners(wrong)
            with pytest.raises(error, match="threads"):
                sess.set_learners(2, threads=wrong)
        with pytest.raises(ValueError, match="diverges"):
            sess.set_learners(4)
        assert sess.num_learners == 2
        train(p, sess, 1)
    with pytest.raises(RuntimeError, match="closed"):
        sess.set_learners(2)


@pytest.mark.parametrize("synchroniser", ["auto", tensorbow.SSGD()], ids=["auto", "SSGD"])
def test_a_run_that_several_learners_cannot_execute_is_executed_by_one(synchroniser):
    graph = tf.Graph()
    with graph.as_default():
        table = tf1.get_variable("table", initializer=np.ones((5, 2), np.float32))
        slot = tf1.get_variable("slot", initializer=np.ones((5, 2), "f"), trainable=False)
        ids = tf1.placeholder(tf.int32, [None])
        loss = tf.reduce_mean(tf.square(tf.gather(table, ids)))
        gradient = tf.convert_to_tensor(tf.gradients(loss, table)[0])
        squares = 0.9 * slot + gradient**2
        step = tf.cond(  # a loop over the rows decides
            tf.map_fn(lambda row: row, ids)[0] >= 0,
            lambda: tf.group(
                slot.assign(squares), table.assign_sub(0.1 * gradient / tf.sqrt(squares))
            ),
            tf.no_op,
        )
        init = tf1.global_variables_initializer()
    with session(graph, learners=1, synchroniser=synchroniser) as sess:
        sess.run(init)
        sess.run(step, {ids: [0, 1, 2, 3]})
        sess.set_learners(2)
        with pytest.warns(tensorbow.TensorBowWarning, match="one learner only"):
            sess.run(step, {ids: [0, 1, 2, 3]})
        assert sess.learning_tasks == 2


ONE_LEARNER_COMPUTES_WHERE_STOCK_DOES = """
    import numpy as np
    import tensorflow as tf
    import tensorbow

    tf1 = tf.compat.v1
    tf1.disable_eager_execution()
    config = tf1.ConfigProto(intra_op_parallelism_threads=2)
    x = tf1.placeholder(tf.float32, [None, 300])
    first = np.linspace(-1, 1, 90000, dtype=np.float32).reshape(300, 300)
    w = tf1.get_variable("w", initializer=first)
    loss = tf.reduce_mean(tf.square(tf.tanh(x @ w) - 0.1))
    step = tf1.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
    init = tf1.global_variables_initializer()
    data = np.random.default_rng(0).standard_normal((10, 64, 300)).astype(np.float32)

    def trained(sess):
        with sess:
            sess.run(init)
            for batch in data:
                sess.run(step, {x: batch})
            return sess.run(w)

    stock = trained(tf1.Session(config=config))
    alone = tensorbow.Options(learners_per_device=1)
    one = tensorbow.TensorBowSession(config=config, options=alone)
    assert one.threads_per_learner == config.intra_op_parallelism_threads
    np.testing.assert_array_equal(trained(one), stock)
    both = tensorbow.Options(learners_per_device=1, threads_per_learner=2)
    own = tensorbow.TensorBowSession(config=config, options=both)
    assert own.threads_per_learner == 2
    np.testing.assert_array_equal(trained(own), stock)
"""


def test_one_learner_computes_where_a_stock_session_does():
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "2"}
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(ONE_LEARNER_COMPUTES_WHERE_STOCK_DOES)],
        check=True,
        env=environment,
        timeout=300,
    )


def test_learners_come_and_go_beside_a_thread_that_feeds_a_queue():
    graph = tf.Graph()
    with graph.as_default():
        queue = tf1.FIFOQueue(8, [tf.float32], [[4, 2]])
        value = tf1.placeholder(tf.float32, [4, 2])
        put = queue.enqueue([value])
        w = tf1.get_variable("w", initializer=np.ones(2, np.float32))
        loss = tf.reduce_mean(tf.square(tf.linalg.matvec(queue.dequeue(), w)))
        step = tf1.train.GradientDescentOptimizer(0.01).minimize(loss)
        init = tf1.global_variables_initializer()
    changes = [2, 4, 1, 3, 2, 1, 4]
    # One element for every learner of every run.
    needed = sum(changes) * 3
    with session(graph, learners=2, elements="one_each") as sess:
        sess.run(init)
        data = np.ones((4, 2), np.float32)

        def feed():
            for _ in range(needed):
                sess.run(put, {value: data})

        feeder = threading.Thread(target=feed, daemon=True)
        feeder.start()
        for learners in changes:
            sess.set_learners(learners)
            for _ in range(3):
                sess.run(step, options=tf1.RunOptions(timeout_in_ms=60_000))
        feeder.join(60)
        assert not feeder.is_alive()
        assert sess.learning_tasks == needed


def change_often():
    """Returns the MiB of this process and its threads, after every fourth change."""
    tf1.disable_eager_execution()
    p = linear(optimiser=momentum, columns=200_000)
    process = psutil.Process()
    with session(p.graph) as sess:
        sess.run(p.init)
        x, y = rows(12, columns=200_000)
        found = []
        for i in range(100):
            sess.set_learners(1 + i % 4)
            sess.run(p.train, {p.x: x, p.y: y})
            if i % 4 == 3:
                found.append((own_mib(), process.num_threads()))
    return found


def test_a_hundred_changes_leak_nothing():
    """Uses a process of its own: a change takes long in one with many tests' memory."""
    sizes, threads = zip(*own_process.call(change_often))
    early, late = np.median(sizes[5:10]), np.median(sizes[-5:])
    assert late - early < 15, f"{early:.0f} MB became {late:.0f} MB"
    assert threads[-1] <= threads[5]


def of_groups_of_four():
    """Makes a loss of groups of four rows; nothing shows that learners have whole groups."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None, 3])
        w = tf1.get_variable("w", initializer=np.ones(3, np.float32))
        value = tf.tanh(tf.linalg.matvec(x, w))
        spread = tf.math.reduce_variance(tf.reshape(value, [-1, 4]), 1)
        step = tf1.train.GradientDescentOptimizer(0.5).minimize(tf.reduce_mean(spread))
        init = tf1.global_variables_initializer()
    return graph, x, w, step, init


def test_learners_that_come_to_rows_which_are_mixed_share_them():
    graph, x, w, step, init = of_groups_of_four()
    data = np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32)
    averages = tensorbow.SSGD()  # computes what stock does
    sess = session(graph, learners=1, synchroniser=averages)
    with sess, tf1.Session(graph=graph) as stock:
        sess.run(init)
        stock.run(init)
        for _ in range(3):
            sess.run(step, {x: data})
            stock.run(step, {x: data})
        assert sess.learning_tasks == 3
        sess.set_learners(4)
        for _ in range(3):
            sess.run(step, {x: data})
            stock.run(step, {x: data})
        assert sess.learning_tasks == 3 + 3 * 4
        np.testing.assert_allclose(sess.run(w), stock.run(w), rtol=1e-4)


@pytest.mark.parametrize("caller", ["learner", "before the run"])
def test_a_lone_learner_executes_side_by_side_what_a_stock_session_does(caller):
    """Two Python functions wait for each other. The learner calls those of the model.

    A stock session with threads of its own calls others; conftest.py leaves it only one.
    """
    met = threading.Barrier(2, timeout=20)

    def meet(*_):
        met.wait()
        return np.float32(1)

    graph = tf.Graph()
    with graph.as_default():
        w = tf1.get_variable("w", initializer=np.float32(0))
        inputs = [w] if caller == "learner" else []
        both = [tf1.py_func(meet, inputs, tf.float32, name=name) for name in ("one", "other")]
        gradient = both[0] + both[1]
        step = tf1.train.GradientDescentOptimizer(0.5).apply_gradients([(gradient, w)])
        init = tf1.global_variables_initializer()
    own_threads = tf1.ConfigProto(use_per_session_threads=True, inter_op_parallelism_threads=2)
    config = None if caller == "learner" else own_threads
    options = tensorbow.Options(learners_per_device=1, synchroniser=tensorbow.SMA())
    with tensorbow.TensorBowSession(graph=graph, config=config, options=options) as sess:
        sess.run(init)
        for _ in range(5):
            sess.run(step)
        assert sess.learning_tasks == 5
        assert sess.run(w) == -5


def test_pipelines_of_a_lone_learner_do_not_wait_for_each_other():
    """Requests as many elements at once as there are threads, and more. Functions make each of
    them, executed by the threads of the graph."""
    graph = tf.Graph()
    with graph.as_default():
        pipelines = [
            tf1.data.make_one_shot_iterator(
                tf.data.Dataset.range(1000).map(lambda i: tf.cast(i, tf.float32)).repeat()
            ).get_next()
            for _ in range(4 * os.cpu_count())
        ]
        w = tf1.get_variable("w", initializer=np.float32(0))
        step = tf1.train.GradientDescentOptimizer(1.0).apply_gradients([(tf.add_n(pipelines), w)])
        init = tf1.global_variables_initializer()
    with session(graph, learners=1) as sess:
        sess.run(init)
        for _ in range(100):
            sess.run(step)
        assert sess.run(w) == -sum(range(100)) * 4 * os.cpu_count()
