"""Runs wait here if they wait in a stock session; one learner executes runs that a division would
make wait.

Sessions have a time limit, so that an endless wait is an error and not a hanging test.
"""

import threading
import warnings

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.ops import data_flow_ops

import tensorbow

tf1 = tf.compat.v1

LIMIT = tf1.ConfigProto(operation_timeout_in_ms=20_000)
X = np.float32([1, 1, 3, 3])


def opened(learners, **options):
    """Opens a stock session, or one with learners."""
    if learners == 0:
        return tf1.Session(config=LIMIT)
    return tensorbow.TensorBowSession(
        config=LIMIT, options=tensorbow.Options(learners_per_device=learners, **options)
    )


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default():
        yield


def variable(name):
    return tf1.get_variable(name, initializer=1.0, use_resource=True)


def gathered_gradients():
    """Gathers the gradients of one run; another run without rows applies them."""
    x, w = tf1.placeholder(tf.float32, [None]), variable("w")
    optimiser = tf1.train.GradientDescentOptimizer(0.1)
    ((gradient, _),) = optimiser.compute_gradients(tf.reduce_mean(w * x), [w])
    gathered = tf1.ConditionalAccumulator(tf.float32, shape=[])
    push = gathered.apply_grad(gradient, local_step=100)
    return x, w, push, optimiser.apply_gradients([(gathered.take_grad(1), w)])


@pytest.mark.parametrize("options", [{}, {"elements": "one_each"}, {"proof": "off"}])
@pytest.mark.parametrize("synchroniser", ["auto", tensorbow.SMA(), tensorbow.Independent()])
def test_gradients_that_are_gathered_once_are_taken_once(options, synchroniser):
    x, w, push, train = gathered_gradients()
    with opened(2, synchroniser=synchroniser, **options) as s:
        s.run(tf1.global_variables_initializer())
        with pytest.warns(tensorbow.TensorBowWarning, match="gathered once for all") as said:
            for _ in range(3):
                s.run(push, {x: X})
                s.run(train)
        assert len(said) == 1
        assert "AccumulatorTakeGradient' (waits_test.py:" in str(said[0].message)
        np.testing.assert_allclose(s.run(w), 1 - 3 * 0.1 * X.mean(), rtol=1e-6)


@pytest.mark.filterwarnings("ignore::tensorbow.TensorBowWarning")
@pytest.mark.parametrize("options", [{}, {"synchroniser": tensorbow.SMA()}, {"proof": "off"}])
def test_replicas_are_synchronised_as_in_stock(options):
    x, w = tf1.placeholder(tf.float32, [None]), variable("w")
    step = tf1.train.create_global_step()
    optimiser = tf1.train.SyncReplicasOptimizer(tf1.train.GradientDescentOptimizer(0.1), 1, 1)
    train = optimiser.minimize(tf.reduce_mean(w * x), global_step=step)
    init = tf1.global_variables_initializer()
    coordinator = tf1.train.Coordinator()
    with opened(2, **options) as s:
        s.run(init)
        s.run(optimiser.local_step_init_op)
        runner = optimiser.get_chief_queue_runner()
        threads = runner.create_threads(s, coordinator, daemon=True, start=True)
        for _ in range(3):
            s.run(train, {x: X})
        np.testing.assert_allclose(s.run(w), 1 - 3 * 0.1 * X.mean(), rtol=1e-6)
        coordinator.request_stop()
        s.close()
        for thread in threads:
            thread.join(20)


def updated_in_a_critical_section():
    x, w = tf1.placeholder(tf.float32, [None], name="x"), variable("w")
    optimiser = tf1.train.GradientDescentOptimizer(0.1)
    gradients = optimiser.compute_gradients(tf.reduce_mean(w * x), [w])
    section = tf.CriticalSection(name="section")
    return x, w, section.execute(lambda: optimiser.apply_gradients(gradients))


@pytest.mark.parametrize("options", [{"proof": "off"}, {"shard": ["x:0"]}])
def test_an_update_in_a_critical_section_is_one_learners(options):
    x, w, train = updated_in_a_critical_section()
    with opened(2, **options) as s:
        s.run(tf1.global_variables_initializer())
        with pytest.warns(tensorbow.TensorBowWarning, match="in the critical section of") as said:
            for _ in range(3):
                s.run(train, {x: X})
        assert len(said) == 1
        assert "(waits_test.py:" in str(said[0].message)
        np.testing.assert_allclose(s.run(w), 1 - 3 * 0.1 * X.mean(), rtol=1e-6)


def test_an_update_beside_a_critical_section_is_divided_if_asked_for():
    x, w = tf1.placeholder(tf.float32, [None], name="x"), variable("w")
    section = tf.CriticalSection(name="section")
    loss = section.execute(lambda: tf.reduce_mean(w * x))
    train = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
    with opened(2, shard=["x:0"]) as s, warnings.catch_warnings():
        warnings.simplefilter("error")
        s.run(tf1.global_variables_initializer())
        for _ in range(3):
            s.run(train, {x: X})
        assert s.learning_tasks == 6
        np.testing.assert_allclose(s.run(w), 1 - 3 * 0.1 * X.mean(), rtol=1e-6)


# ---------------------------------------------------------------- where stock waits, too


def queue():
    made = tf1.FIFOQueue(10, [tf.float32], [[4]])
    return made.enqueue([X]), made.dequeue()


def barrier():
    made = data_flow_ops.Barrier((tf.float32,), shapes=((4,),))
    _, _, (taken,) = made.take_many(1)
    return made.insert_many(0, ["a"], X[None]), taken[0]


def accumulator():
    made = tf1.ConditionalAccumulator(tf.float32, shape=[4])
    return made.apply_grad(tf.constant(X), local_step=100), made.take_grad(1)


SOURCES = [queue, barrier, accumulator]  # a staging area's wait cannot be ended, in stock either


@pytest.mark.filterwarnings("ignore::tensorbow.TensorBowWarning")
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("learners", [0, 2])
def test_an_empty_source_is_waited_for_until_the_time_is_up(source, learners):
    put, taken = source()
    w = variable("w")
    train = tf1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(w * taken))
    with opened(learners) as s:
        s.run(tf1.global_variables_initializer())
        with pytest.raises(tf.errors.DeadlineExceededError):
            s.run(train, options=tf1.RunOptions(timeout_in_ms=300))
        s.run(put)
        s.run(train)
        np.testing.assert_allclose(s.run(w), 1 - 0.1 * X.mean(), rtol=1e-6)


@pytest.mark.filterwarnings("ignore::tensorbow.TensorBowWarning")
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("options", [{}, {"elements": "one_each"}])
def test_closing_the_session_ends_a_wait(source, options):
    _, taken = source()
    w = variable("w")
    train = tf1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(w * taken))
    s = opened(2, **options)
    s.run(tf1.global_variables_initializer())
    ended = []

    def wait():
        try:
            s.run(train)
        except tf.errors.CancelledError as error:
            ended.append(error)

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    thread.join(0.3)
    assert thread.is_alive()
    s.close()
    thread.join(15)
    assert len(ended) == 1
