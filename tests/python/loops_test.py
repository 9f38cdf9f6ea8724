"""Programs whose losses contain loops, beside a stock session, on one and three learners.

Loops with a constant number of iterations are replaced by the iterations; the others are not.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import tensorbow
from tests.python.programs import control_flow

tf1 = tf.compat.v1
TIME, SIZE, RUNS = 5, 3, 4


def times(n, body, *first):
    """Executes `body` of the values so far `n` times; returns the last values."""
    body_and_count = lambda i, *values: (i + 1, *_tuple(body(i, *values)))  # noqa: E731
    return tf.while_loop(lambda i, *values: i < n, body_and_count, (0, *first))[1:]


def _tuple(values):
    return values if isinstance(values, tuple) else (values,)


def time_major(x):
    return tf.transpose(x, [1, 0, 2])


def scan(x, w):
    return tf.scan(lambda h, row: tf.tanh(h @ w + row), time_major(x), tf.zeros_like(x[:, 0]))[-1]


def map_fn(x, w):
    return tf.reduce_sum(tf.map_fn(lambda row: tf.tanh(row @ w), time_major(x)), 0)


def foldl(x, w):
    return tf.foldl(lambda h, row: tf.tanh(h @ w + row), time_major(x))


def zero_state(x, w):
    state = tf.zeros([tf.shape(x)[0], SIZE], x.dtype)
    return times(TIME, lambda t, h: tf.tanh(tf.concat([h, x[:, t]], 1)[:, 1:4] @ w), state)[0]


def array(x, w):
    steps = tf.TensorArray(x.dtype, 0, dynamic_size=True, clear_after_read=False)

    def body(i, steps, h):
        h = tf.tanh(h @ w + x[:, i])
        return steps.write(i, h), h

    steps, h = times(4, body, steps, x[:, 0])
    return tf.reduce_sum(steps.stack(), 0) + h


def backwards(x, w):
    rows = tf.TensorArray(x.dtype, TIME, clear_after_read=False).unstack(time_major(x))
    last = times(TIME, lambda i, h: tf.tanh(h @ w + rows.read(TIME - 1 - i)), x[:, 0])[0]
    return last + rows.gather([0, 2])[1]


def written_in_part(x, w):
    steps = tf.TensorArray(x.dtype, 4, element_shape=[None, SIZE])
    write = lambda i, steps: steps.write(2 * i, tf.tanh(x[:, i] @ w))  # noqa: E731
    return tf.reduce_sum(times(2, write, steps)[0].stack(), 0)


def read_twice(x, w):
    rows = tf.TensorArray(x.dtype, TIME, clear_after_read=False)
    rows = rows.unstack(time_major(x * w[0]))

    def body(i, h):
        return tf.tanh(h @ w + rows.read(i) * rows.read(TIME - 1 - i) + rows.read(i))

    return times(TIME, body, x[:, 0])[0] + rows.read(1) + rows.read(1)


def one_of_the_outputs(x, w):
    def body(i, steps, h):
        h = tf.tanh(h @ w + x[:, i])
        return steps.write(i, h), h

    steps = tf.TensorArray(x.dtype, TIME, clear_after_read=False)
    steps, h = times(TIME, body, steps, x[:, 0])
    return steps.read(2) + times(2, lambda i, total: total * steps.read(i + 1), h)[0]


def at_most(x, w):
    forever = lambda h: True  # noqa: E731
    return tf.while_loop(forever, lambda h: (tf.tanh(h @ w),), (x[:, 0],), maximum_iterations=3)[0]


def no_iteration(x, w):
    return times(0, lambda i, h: h @ w, x[:, 0])[0] @ w


def constant_in_loop(x, w):
    return times(3, lambda i, h, c: (tf.tanh(h @ w + c), c), x[:, 0], x[:, 1])[0]


def reads_variable(x, w):
    bias = tf1.get_variable("bias", initializer=np.full(SIZE, 0.1), use_resource=True)
    return times(3, lambda i, h: tf.tanh(h @ w + bias.read_value()), x[:, 0])[0]


def in_function(x, w):
    call = tf.function(lambda x: times(4, lambda i, h: tf.tanh(h @ w), x)[0])
    return call(x[:, 0])


def second_gradient(x, w):
    h = times(3, lambda i, h: tf.tanh(h @ w), x[:, 0])[0]
    return h + tf.reduce_mean(tf.square(tf.gradients(tf.reduce_mean(h), w)[0]))


def broadcast(x, w):
    return times(3, lambda i, h: tf.tanh(h * w[0] + x[:1, i] * x[:, i] + w[:1]), x[:, 0])[0]


UNROLLED = (
    *(scan, map_fn, foldl, zero_state, array, backwards, written_in_part, read_twice),
    *(one_of_the_outputs, at_most, no_iteration, constant_in_loop, reads_variable),
    *(in_function, second_gradient, broadcast),
)


def nested(x, w):
    inner = lambda h: times(2, lambda j, h: tf.tanh(h @ w), h)[0]  # noqa: E731
    return times(3, lambda i, h: inner(h) + x[:, i], x[:, 0])[0]


def condition_reads_variable(x, w):
    goes_on = lambda h: tf.reduce_max(tf.stop_gradient(w)) > 1e9  # noqa: E731
    return tf.while_loop(goes_on, lambda h: (h @ w,), (x[:, 0],))[0] @ w


def fed_length(x, w):
    return times(tf.shape(x)[1], lambda t, h: tf.tanh(h @ w + x[:, t]), x[:, 0])[0]


def conditional(x, w):
    def body(i, h):
        return tf.cond(tf.equal(i % 2, 0), lambda: tf.tanh(h @ w), lambda: h / 2)

    return times(4, body, x[:, 0])[0]


def in_conditional(x, w):
    loop = lambda: times(4, lambda i, h: tf.tanh(h @ w), x[:, 0])[0]  # noqa: E731
    return tf.cond(tf.reduce_sum(w) > 0, loop, lambda: x[:, 0] @ w)


def random(x, w):
    drop = lambda h: h * tf.cast(tf.random.uniform([], seed=3) > -1, h.dtype)  # noqa: E731
    return times(3, lambda i, h: drop(tf.tanh(h @ w)), x[:, 0])[0]


def assertion(x, w):
    def body(i, h):
        with tf.control_dependencies([tf.debugging.assert_less(i, 10)]):
            return tf.tanh(h @ w)

    return times(3, body, x[:, 0])[0]


def beside_an_unrolled_loop(x, w):
    kept = times(tf.shape(x)[1], lambda t, h: tf.tanh(h * w[0] + x[:1, t]), x[:, 0])[0]
    return kept + times(3, lambda i, h: tf.tanh(h @ w + kept), x[:, 0])[0]


KEPT = (
    *(nested, condition_reads_variable, fed_length, conditional, in_conditional, random),
    *(assertion, beside_an_unrolled_loop),
)


def train(network, learners, time=TIME):
    """Returns the losses and the last weights; on stock TensorFlow for 0 learners."""
    with tf.Graph().as_default() as graph:
        tf1.set_random_seed(0)
        x = tf1.placeholder(tf.float64, [None, time, SIZE])
        first = np.random.default_rng(1).normal(size=(SIZE, SIZE)) / 2
        w = tf1.get_variable("w", initializer=first, use_resource=True)
        loss = tf.reduce_mean(tf.square(network(x, w)))
        optimiser = tf1.train.MomentumOptimizer(0.05, 0.5)
        gradients, variables = zip(*optimiser.compute_gradients(loss), strict=True)
        norm = tf.linalg.global_norm(gradients)
        step = optimiser.apply_gradients(zip(gradients, variables, strict=True))
        initialise, trained = tf1.global_variables_initializer(), tf1.trainable_variables()
        options = tensorbow.Options(learners_per_device=learners or 1)
        session = (
            tensorbow.TensorBowSession(graph=graph, options=options)
            if learners
            else tf1.Session(graph=graph)
        )
    with session:
        session.run(initialise)
        random = np.random.default_rng(2)
        values = []
        for run in range(RUNS):
            rows = random.normal(size=(6 + run % 3, TIME, SIZE))
            values += session.run([loss, norm, step], {x: rows})[:2]
        return values + session.run(trained)


def expect_stocks(network, on=(1, 3), **arguments):
    expected = train(network, 0, **arguments)
    for learners in on:
        for value, wanted in zip(train(network, learners, **arguments), expected, strict=True):
            np.testing.assert_allclose(value, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("network", UNROLLED + KEPT, ids=lambda network: network.__name__)
def test_loops_are_those_of_a_stock_session(network):
    with control_flow(2):
        expect_stocks(network)


@pytest.mark.parametrize("network", UNROLLED + KEPT, ids=lambda network: network.__name__)
def test_loops_of_tensorflow_1_are_those_of_a_stock_session(network):
    with control_flow(1):
        expect_stocks(network, on=(3,))


def test_a_loop_over_a_fed_number_of_steps_is_that_of_a_stock_session():
    with control_flow(2):
        expect_stocks(fed_length, time=None)


def test_a_loop_that_is_fetched_by_name_has_its_values():
    with control_flow(2), tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float64, [None, TIME, SIZE])
        w = tf1.get_variable("w", initializer=np.eye(SIZE), use_resource=True)
        h = times(3, lambda i, h: tf.tanh(h @ w), x[:, 0])[0]
        step = tf1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(h))
        name = next(op.name for op in graph.get_operations() if "While" in op.type)
        options = tensorbow.Options(learners_per_device=2)
        with tensorbow.TensorBowSession(graph=graph, options=options) as session:
            session.run(tf1.global_variables_initializer())
            rows = np.random.default_rng(0).normal(size=(4, TIME, SIZE))
            count, last, _ = session.run([f"{name}:0", h, step], {x: rows})
    assert count == 3
    np.testing.assert_allclose(last, np.tanh(np.tanh(np.tanh(rows[:, 0]))), rtol=1e-12)
