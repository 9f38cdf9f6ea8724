"""A failed iteration is discarded whole, and the session goes on."""

import gc
import os
import signal
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from programs import linear, rows, session
from sma_model import SMAModel, StockGradients

import tensorbow
from tensorbow import models

tf1 = tf.compat.v1


@pytest.fixture
def classifier(digits):
    images, labels = digits
    program = models.build("logistic", images.shape[1:], seed=3)
    with program.graph.as_default():
        variables = tf1.trainable_variables()
    return program, variables, images, labels


def feeds(program, images, labels):
    return {program.images: images, program.labels: labels}


def test_label_out_of_range_in_one_shard_discards_the_iteration(classifier):
    program, variables, images, labels = classifier
    with session(program.graph, synchroniser=tensorbow.SMA()) as s:
        s.run(program.init)
        for _ in range(3):
            s.run(program.train_op, feeds(program, images[:16], labels[:16]))
        z = s.run(variables)
        counters = (s.learning_tasks, s.samples_seen, s.iterations)
        wrong = labels[:16].copy()
        wrong[12] = 10  # in learner 1's shard
        with pytest.raises(tf.errors.InvalidArgumentError, match="10") as error:
            s.run(program.train_op, feeds(program, images[:16], wrong))
        assert error.value.op is not None  # TensorFlow's own exception, with the operation
        assert (s.learning_tasks, s.samples_seen, s.iterations) == counters
        for variable, value in zip(variables, z):
            np.testing.assert_array_equal(s.run(variable), value)
            for j in range(2):  # replicas restart from z
                np.testing.assert_array_equal(s.learner_value(variable, j), value)
        # The next one succeeds, and is exact from there.
        model = SMAModel(z, 2, learning_rate=0.01)
        gradients = StockGradients(program)
        for _ in range(5):
            s.run(program.train_op, feeds(program, images[:16], labels[:16]))
            model.iteration(gradients, [(images[:8], labels[:8]), (images[8:16], labels[8:16])])
        for variable, value in zip(variables, model.z):
            np.testing.assert_allclose(s.run(variable), value, rtol=1e-5, atol=1e-6)


def test_earlier_iterations_of_the_failing_run_stay(classifier):
    program, variables, images, labels = classifier
    wrong = labels[:24].copy()
    wrong[20] = -1  # rows 20…23: task 5, learner 1's in iteration 2
    options = dict(batch_size=4, scheduling="round_robin")
    with session(program.graph, **options) as s, session(program.graph, **options) as t:
        for each in (s, t):
            each.run(program.init)
        for variable in variables:
            variable.load(t.run(variable), s)
        with pytest.raises(tf.errors.InvalidArgumentError):
            s.run(program.train_op, feeds(program, images[:24], wrong))
        t.run(program.train_op, feeds(program, images[:16], labels[:16]))
        assert s.iterations == t.iterations == 2
        assert s.learning_tasks == t.learning_tasks == 4
        for variable in variables:
            np.testing.assert_array_equal(s.run(variable), t.run(variable))


def test_one_learner_fails_as_stock_does(classifier):
    program, variables, images, labels = classifier
    wrong = labels[:8].copy()
    wrong[0] = 11
    with session(program.graph, learners=1) as s, tf1.Session(graph=program.graph) as stock:
        messages = []
        for each in (stock, s):
            each.run(program.init)
            with pytest.raises(tf.errors.InvalidArgumentError) as error:
                each.run(program.train_op, feeds(program, images[:8], wrong))
            messages.append(str(error.value.message).splitlines()[0])
        assert messages[0] == messages[1]


def test_nan_loss_is_seen_and_the_session_goes_on(classifier):
    program, variables, images, labels = classifier
    poisoned = images[:16].copy()
    poisoned[3] = np.nan
    with session(program.graph) as s:
        s.run(program.init)
        initial = s.run(variables)
        _, loss = s.run([program.train_op, program.loss], feeds(program, poisoned, labels[:16]))
        assert np.isnan(loss)  # not hidden by the other learner's finite loss
        s.run(program.train_op, feeds(program, images[:16], labels[:16]))
        assert np.isnan(s.run(variables[0])).any()  # as in stock TensorFlow
        for variable, value in zip(variables, initial):
            variable.load(value, s)
        _, loss = s.run([program.train_op, program.loss], feeds(program, images[:16], labels[:16]))
        assert np.isfinite(loss)


def test_check_numerics_discards_the_iteration():
    p = linear()
    x, y = rows(8)
    with p.graph.as_default():
        checked = tf.debugging.check_numerics(p.loss, "loss is not a number")
        with tf.control_dependencies([checked]):
            train = tf1.train.GradientDescentOptimizer(0.1).minimize(p.loss)
    bad = y.copy()
    bad[0] = np.inf
    with session(p.graph) as s:
        s.run(p.init)
        s.run(train, {p.x: x, p.y: y})
        before = s.run(p.w)
        with pytest.raises(tf.errors.InvalidArgumentError, match="loss is not a number"):
            s.run(train, {p.x: x, p.y: bad})
        np.testing.assert_array_equal(s.run(p.w), before)


@pytest.mark.parametrize("synchroniser", ["auto", tensorbow.SMA()], ids=["auto", "SMA"])
@pytest.mark.parametrize("check", ["check_numerics", "assert", "assert in a conditional"])
def test_an_assertion_that_is_only_fetched_discards_the_iteration(check, synchroniser):
    """It lies beside the gradients, which are computed from numbers."""
    p = linear()
    x, y = rows(8)
    with p.graph.as_default():
        if check == "check_numerics":
            checked = tf.debugging.check_numerics(tf.reduce_sum(tf1.log(100.0 - p.y)), "too large")
        elif check == "assert":
            checked = tf.raw_ops.Assert(
                condition=tf.reduce_all(p.y < 100.0), data=[tf.constant("too large")]
            )
        else:
            checked = tf1.Assert(tf.reduce_all(p.y < 100.0), ["too large"])
        train = tf1.train.GradientDescentOptimizer(0.01).minimize(p.loss)
    bad = y.copy()
    bad[6] = 200.0
    with session(p.graph, synchroniser=synchroniser) as s:
        s.run(p.init)
        s.run([train, checked], {p.x: x, p.y: y})
        before = s.run(p.w)
        with pytest.raises(tf.errors.InvalidArgumentError, match="too large"):
            s.run([train, checked], {p.x: x, p.y: bad})
        np.testing.assert_array_equal(s.run(p.w), before)
        assert s.iterations == 1
        s.run([train, checked], {p.x: x, p.y: y})
        assert not np.array_equal(s.run(p.w), before)


def test_an_assertion_on_what_was_updated_sees_the_update():
    p = linear()
    x, y = rows(8)
    with p.graph.as_default():
        train = tf1.train.GradientDescentOptimizer(0.1).minimize(p.loss)
        with tf.control_dependencies([train]):
            after = p.w.read_value()
        checked = tf.raw_ops.Assert(
            condition=tf.reduce_any(tf.not_equal(after, 0.0)), data=[tf.constant("zero")]
        )
    with session(p.graph) as s:
        s.run(p.init)
        p.w.load(np.zeros_like(s.run(p.w)), s)
        s.run([train, checked], {p.x: x, p.y: y})
        assert s.iterations == 1


@pytest.mark.parametrize("averaged", ["models", "gradients"])
def test_a_new_shape_is_an_error_where_models_are_averaged(averaged):
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [None, 4])
        w = tf.Variable(tf.ones([4, 1]), shape=tf.TensorShape(None))
        train = tf1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(tf.matmul(x, w)))
        init, widen = tf1.global_variables_initializer(), w.assign(tf.ones([4, 2]))
    synchroniser = tensorbow.SMA() if averaged == "models" else tensorbow.SSGD()
    # A product with a tensor of unknown rank has no type.
    with session(graph, synchroniser=synchroniser, proof="off") as s:
        s.run(init)
        s.run(train, {x: np.ones((8, 4))})
        s.run(widen)
        if averaged == "models":
            with pytest.raises(tf.errors.UnimplementedError, match="new shape"):
                s.run(train, {x: np.ones((8, 4))})
        else:
            s.run(train, {x: np.ones((8, 4))})
            np.testing.assert_allclose(s.run(w), np.full((4, 2), 0.95), rtol=1e-6)


def test_python_error_in_a_task_reaches_the_caller():
    p = linear()
    x, y = rows(8)

    def refuse(values):
        if (values > 100).any():
            raise ValueError("too large")
        return values

    with p.graph.as_default():
        passed = tf1.py_func(refuse, [p.y], tf.float32, stateful=False)
        passed.set_shape([None])
        loss = tf.reduce_mean(tf.square(p.prediction - passed))
        train = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
    with session(p.graph, proof="off") as s:
        s.run(p.init)
        with pytest.raises(tf.errors.InvalidArgumentError, match="too large"):
            s.run(train, {p.x: x, p.y: np.where(np.arange(8) == 6, 1000, y)})
        s.run(train, {p.x: x, p.y: y})
        assert s.learning_tasks == 2


def test_use_after_close():
    p = linear()
    x, y = rows(4)
    s = session(p.graph)
    s.run(p.init)
    s.run(p.train, {p.x: x, p.y: y})
    s.close()
    s.close()
    with pytest.raises(RuntimeError, match="closed"):
        s.run(p.train, {p.x: x, p.y: y})
    with pytest.raises(RuntimeError, match="closed"):
        s.run(p.w)


def test_close_ends_a_blocked_learning_run():
    graph = tf.Graph()
    with graph.as_default():
        queue = tf1.FIFOQueue(10, [tf.float32], [[]])
        w = tf1.get_variable("w", initializer=np.float32(0))
        train = tf1.train.GradientDescentOptimizer(0.1).minimize(tf.square(w - queue.dequeue()))
        init = tf1.global_variables_initializer()
    s = session(graph)
    s.run(init)
    closer = threading.Timer(0.3, s.close)
    closer.start()
    with pytest.raises(tf.errors.CancelledError):
        s.run(train)
    closer.join()


def test_run_timeout():
    graph = tf.Graph()
    with graph.as_default():
        queue = tf1.FIFOQueue(10, [tf.float32], [[]])
        w = tf1.get_variable("w", initializer=np.float32(0))
        train = tf1.train.GradientDescentOptimizer(0.1).minimize(tf.square(w - queue.dequeue()))
        fill = queue.enqueue_many([[1.0, 1.0]])
        init = tf1.global_variables_initializer()
    with session(graph, elements="one_each") as s:
        s.run(init)
        for _ in range(2):
            with pytest.raises(tf.errors.DeadlineExceededError):
                s.run(train, options=tf1.RunOptions(timeout_in_ms=100))
        s.run(fill)
        s.run(train, options=tf1.RunOptions(timeout_in_ms=60_000))
        assert s.learning_tasks == 2
    config = tf1.ConfigProto(operation_timeout_in_ms=100)
    with tensorbow.TensorBowSession(
        graph=graph, config=config, options=tensorbow.Options(learners_per_device=2)
    ) as s:
        s.run(init)
        with pytest.raises(tf.errors.DeadlineExceededError):
            s.run(train)


def test_exception_in_a_restart_callable_reaches_the_caller():
    def broken(iterations):
        raise KeyError("no schedule")

    p = linear()
    x, y = rows(4)
    with session(p.graph, synchroniser=tensorbow.SMA(restart=broken)) as s:
        s.run(p.init)
        with pytest.raises(tf.errors.UnknownError, match="no schedule"):
            s.run(p.train, {p.x: x, p.y: y})


@pytest.fixture
def interruptible():
    """A process that was started in the background ignores SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_keyboard_interrupt_ends_the_loop_and_leaves_the_session_whole():
    p = linear()
    x, y = rows(64)
    with session(p.graph) as s:
        s.run(p.init)
        s.run(p.train, {p.x: x, p.y: y})
        killer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        killer.start()
        runs = 0
        with pytest.raises(KeyboardInterrupt):
            deadline = time.monotonic() + 30
            while time.monotonic() < deadline:
                s.run(p.train, {p.x: x, p.y: y})
                runs += 1
        assert runs > 0
        assert s.learning_tasks in (2 * runs + 2, 2 * runs + 4)
        s.run(p.train, {p.x: x, p.y: y})
        assert np.isfinite(s.run(p.w)).all()


def test_values_outlive_the_session():
    """Fetched arrays and py_func arguments may live in a learner's memory."""
    p = linear(columns=4096)
    x, y = rows(4, columns=4096)
    kept = []
    with p.graph.as_default():
        passed = tf1.py_func(lambda v: (kept.append(v), v)[1], [p.prediction * p.w[0]], tf.float32)
        big = p.x + 1.0
        train = tf.group(p.train, passed)
    with session(p.graph) as s:
        s.run(p.init)
        fetched = s.run([train, big], {p.x: x, p.y: y})[1]
    del s
    gc.collect()
    np.testing.assert_array_equal(fetched, x + 1)
    assert sum(map(len, kept)) == 4
    for part in kept:
        assert np.isfinite(part).all()
