"""Values of all rows in the branches of conditionals are exchanged outside of them.

Each program is trained in float64 beside a stock session, on two and three learners, with the
conditionals of TensorFlow 1 and 2. The flag that decides changes from run to run.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import tensorflow as tf

import tensorbow

tf1 = tf.compat.v1
mean, total, square = tf.reduce_mean, tf.reduce_sum, tf.square
RUNS = 24


class Model:
    """A network of one layer, and a flag."""

    def __init__(self):
        self.x = tf1.placeholder(tf.float64, [None, 3], "x")
        self.y = tf1.placeholder(tf.float64, [None], "y")
        self.flag = tf1.placeholder(tf.bool, [], "flag")
        random = np.random.default_rng(4)
        self.kernel = tf1.get_variable("kernel", initializer=0.5 * random.standard_normal((3, 4)))
        self.last = tf1.get_variable("last", initializer=0.5 * random.standard_normal(4))
        self.h = tf.tanh(tf.matmul(self.x, self.kernel))
        self.out = tf.linalg.matvec(self.h, self.last)

    @property
    def errors(self):
        return square(self.out - self.y)

    def choose(self, one, other):
        return tf1.cond(self.flag, one, other)

    def feeds(self, run):
        random = np.random.default_rng(run)
        x = random.standard_normal((8 - run % 3, 3))
        return {self.x: x, self.y: np.tanh(x.sum(1)), self.flag: run % 3 != 1}


def adam(loss):
    return tf1.train.AdamOptimizer(0.05).minimize(loss)


def root(m):
    loss = m.choose(lambda: tf.sqrt(mean(m.errors)), lambda: mean(m.errors))
    return adam(loss), loss


def sum_or_mean(m):
    loss = m.choose(lambda: 0.1 * total(m.errors), lambda: mean(tf.abs(m.out - m.y)))
    return adam(loss), loss


def masked(m):
    mask = tf.cast(m.y > 0, tf.float64)
    loss = m.choose(lambda: total(m.errors * mask) / (1.0 + total(mask)), lambda: mean(m.errors))
    return adam(loss), loss


def variance(m):
    loss = m.choose(
        lambda: mean(square(m.out - mean(m.out))) + mean(m.errors), lambda: mean(m.errors)
    )
    return adam(loss), loss


def nested(m):
    """A conditional on a mean of the rows, in a conditional."""

    def inner():
        least = mean(m.errors)
        return tf1.cond(least > 0.2, lambda: square(least), lambda: tf.sqrt(mean(tf.abs(m.out))))

    loss = m.choose(inner, lambda: mean(m.errors))
    return adam(loss), loss


def largest(m):
    """The largest error of all rows, kept in a variable."""
    kept = tf1.get_variable("largest", initializer=np.float64(0), trainable=False)
    loss = mean(m.errors)
    with tf.control_dependencies([loss]):
        update = m.choose(
            lambda: tf1.assign(kept, tf.maximum(kept, tf.reduce_max(m.errors))),
            lambda: tf.identity(kept),
        )
    return tf.group(adam(loss), update), update


def whole_step(m):
    """Loss, gradients and update in a branch."""

    def step():
        loss = mean(m.errors)
        optimiser = tf1.train.GradientDescentOptimizer(0.1)
        return optimiser.apply_gradients(optimiser.compute_gradients(loss))

    # The loss reads the weights before the step.
    loss = mean(m.errors)
    with tf.control_dependencies([loss]):
        done = m.choose(lambda: tf.group(step()), lambda: tf.no_op())
    return done, loss


PROGRAMS = [root, sum_or_mean, masked, variance, nested, largest, whole_step]


def checked(m):
    """Fails in a branch if a row is no number."""

    def root_of_numbers():
        return tf.sqrt(mean(tf.debugging.check_numerics(m.errors, "a row")))

    loss = m.choose(root_of_numbers, lambda: mean(m.errors))
    return adam(loss), loss


def trained(build, version, options=None, fails_in=()):
    """Returns all fetches and variables, and the warnings."""
    before = tf1.control_flow_v2_enabled()
    (tf1.enable_control_flow_v2 if version == 2 else tf1.disable_control_flow_v2)()
    try:
        with tf.Graph().as_default() as graph:
            tf1.get_variable_scope().set_use_resource(True)
            model = Model()
            step, value = build(model)
            initialise = tf1.global_variables_initializer()
            variables = tf1.global_variables()
    finally:
        (tf1.enable_control_flow_v2 if before else tf1.disable_control_flow_v2)()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kind = tf1.Session if options is None else tensorbow.TensorBowSession
        with kind(graph=graph, **({} if options is None else {"options": options})) as session:
            session.run(initialise)
            found = []
            for run in range(RUNS):
                feeds = model.feeds(run)
                if run in fails_in:
                    feeds[model.y][-1] = np.nan
                    with pytest.raises(tf.errors.InvalidArgumentError, match="a row"):
                        session.run([step, value], feeds)
                else:
                    found.append(session.run([step, value], feeds)[1])
            found += session.run(variables)
            tasks = getattr(session, "learning_tasks", 0)
    said = [str(w.message) for w in caught if w.category is tensorbow.TensorBowWarning]
    return found, tasks, said


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("build", PROGRAMS)
def test_values_of_all_rows_in_a_branch_are_stocks(build, version, count):
    options = tensorbow.Options(learners_per_device=count)
    stock, _, _ = trained(build, version)
    ours, tasks, said = trained(build, version, options)
    assert (said, tasks) == ([], RUNS * count)
    for a, b in zip(ours, stock):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("version", [1, 2])
def test_what_fails_in_a_branch_of_one_learner_fails_for_all(version, count):
    options = tensorbow.Options(learners_per_device=count)
    stock, _, _ = trained(checked, version, None, (5, 6, 15))
    ours, _, said = trained(checked, version, options, (5, 6, 15))
    assert said == []
    for a, b in zip(ours, stock):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)
