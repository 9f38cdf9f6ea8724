"""Steps that compute gradients from variables which they have already changed.

Each program is trained in float64 beside a stock session, on two and three learners, with
reference and resource variables.
"""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import tensorbow

tf1 = tf.compat.v1
mean, total, square = tf.reduce_mean, tf.reduce_sum, tf.square
RUNS = 20


class Model:
    """An actor of one layer, a critic and a table of embeddings."""

    def __init__(self, units=8):
        self.x = tf1.placeholder(tf.float64, [None, 6], "x")
        self.ids = tf1.placeholder(tf.int32, [None], "ids")
        self.y = self.x[:, :1] * self.x[:, 1:2]
        self.rate = 0.08 / units
        random = np.random.default_rng(4)
        shapes = {"actor": (6, units), "critic": (units, 1), "table": (11, units)}
        for name, shape in shapes.items():
            value = random.standard_normal(shape) / np.sqrt(shape[0])
            setattr(self, name, tf1.get_variable(name, initializer=value))

    def activations(self):
        return tf.tanh(tf.matmul(self.x, self.actor.read_value()))

    def guess(self, h):
        return tf.matmul(h, self.critic.read_value())

    def loss(self, sign=-1.0):
        return mean(square(self.guess(self.activations()) + sign * self.y))

    def feeds(self, run):
        random = np.random.default_rng(run)
        rows = 16 + run % 3
        return {self.x: random.standard_normal((rows, 6)), self.ids: random.integers(0, 11, rows)}


def adam(m, loss, *variables):
    return tf1.train.AdamOptimizer(m.rate).minimize(loss, var_list=variables or None)


def after(step, make):
    with tf.control_dependencies([step]):
        return make()


def actor_then_critic(m):
    first = m.loss()
    second = after(adam(m, first, m.actor), lambda: m.loss(1.0))
    return adam(m, second, m.critic), first, second


def both_twice(m):
    """Every variable is updated twice."""
    second = after(adam(m, m.loss()), lambda: m.loss(1.0))
    return tf1.train.MomentumOptimizer(m.rate, 0.9).minimize(second), second


def three_steps(m):
    second = after(adam(m, m.loss(), m.actor), lambda: m.loss(1.0))
    third = after(adam(m, second, m.critic), lambda: mean(tf.abs(m.activations() - m.y)))
    return tf1.train.GradientDescentOptimizer(m.rate).minimize(third, var_list=[m.actor]), third


def clipped(m):
    optimiser = tf1.train.AdamOptimizer(m.rate)
    second = after(adam(m, m.loss(), m.actor), lambda: m.loss(1.0))
    pairs = optimiser.compute_gradients(second, [m.actor, m.critic])
    gradients, norm = tf.clip_by_global_norm([g for g, _ in pairs], 0.1)
    return optimiser.apply_gradients(zip(gradients, [m.actor, m.critic])), norm


def moments(m):
    """Values of all rows between the updates."""

    def normalised():
        h = m.activations()
        centre, variance = tf.nn.moments(h, 0)
        return mean(square(m.guess((h - centre) / tf.sqrt(variance + 1e-3)) - m.y))

    second = after(adam(m, m.loss(), m.actor), normalised)
    return adam(m, second, m.critic), second


def ratio_of_sums(m):
    def dice():
        h = m.activations()
        return 1.0 - total(h * m.y) / (1.0 + total(tf.abs(h)) + total(square(m.guess(h))))

    second = after(adam(m, m.loss(), m.actor), dice)
    return adam(m, second, m.critic), second


def fetched_after(m):
    """The loss of the new weights, which no gradient needs."""
    step = adam(m, m.loss())
    return step, after(step, lambda: tf.sqrt(m.loss()))


def padding(m):
    """A row of the table is set to zero before each look-up."""
    cleared = tf1.scatter_update(m.table, 10, tf.zeros_like(m.table[0]))
    rows = after(cleared, lambda: tf.nn.embedding_lookup(m.table, m.ids))
    loss = mean(square(m.guess(m.activations() + rows) - m.y))
    return adam(m, loss), loss


def projected(m):
    """Weights are clipped before they are read."""
    clips = [tf1.assign(w, tf.clip_by_value(w, -0.4, 0.4)) for w in (m.actor, m.critic)]
    loss = after(tf.group(*clips), m.loss)
    return adam(m, loss), loss


PROGRAMS = [
    actor_then_critic,
    both_twice,
    three_steps,
    clipped,
    moments,
    ratio_of_sums,
    fetched_after,
    padding,
    projected,
]


def fails_late(m):
    """Fails after the first update if a row is no number."""

    def checked():
        return mean(square(tf.debugging.check_numerics(m.activations() - m.y, "a row")))

    second = after(adam(m, mean(square(m.guess(tf.tanh(m.actor)))), m.actor), checked)
    return adam(m, second, m.actor, m.critic), second


def train(program, resource, options=None, units=8, fails_in=()):
    """Returns what each run fetches, the variables, and the number of learning tasks."""
    with tf.Graph().as_default():
        with tf1.variable_scope("model", use_resource=resource):
            m = Model(units)
            fetches = program(m)
        session = tf1.Session() if options is None else tensorbow.TensorBowSession(options=options)
        with session as s:
            s.run(tf1.global_variables_initializer())
            found = []
            for run in range(RUNS):
                feeds = m.feeds(run)
                if run in fails_in:
                    feeds[m.x][-1] = np.nan  # the last learner's
                    with pytest.raises(tf.errors.InvalidArgumentError, match="a row"):
                        s.run(fetches, feeds)
                else:
                    found.append(s.run(fetches, feeds)[1:])
            return found, s.run(tf1.global_variables()), getattr(s, "learning_tasks", 0)


def assert_as_stock(program, resource, learners, units=8):
    options = tensorbow.Options(learners_per_device=learners)
    stock, values, _ = train(program, resource, None, units)
    found, ours, tasks = train(program, resource, options, units)
    np.testing.assert_allclose(found, stock, rtol=1e-9)
    for a, b in zip(ours, values):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    assert tasks == learners * RUNS


@pytest.mark.parametrize("resource", [True, False], ids=["resource", "reference"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_gradients_of_changed_variables_are_averaged(program, resource):
    assert_as_stock(program, resource, learners=2)


@pytest.mark.parametrize("program", [three_steps, moments, both_twice])
def test_three_learners(program):
    assert_as_stock(program, resource=True, learners=3)


@pytest.mark.parametrize("resource", [True, False], ids=["resource", "reference"])
@pytest.mark.parametrize("program", [actor_then_critic, three_steps, both_twice])
def test_variables_of_which_learners_share_one_copy(program, resource):
    assert_as_stock(program, resource, learners=2, units=3000)


@pytest.mark.parametrize("resource", [True, False], ids=["resource", "reference"])
def test_a_step_that_fails_after_its_first_update_leaves_that_update_as_in_stock(resource):
    failing = {"resource": resource, "fails_in": (4, 11)}
    stock, values, _ = train(fails_late, **failing)
    options = tensorbow.Options(learners_per_device=2)
    found, ours, _ = train(fails_late, options=options, **failing)
    np.testing.assert_allclose(found, stock, rtol=1e-9)
    for a, b in zip(ours, values):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_a_write_that_waits_for_a_check_is_not_made_if_the_check_fails():
    """The learner whose rows fail counts, also if the other one has passed its check."""
    options = tensorbow.Options(learners_per_device=2)
    with tf.Graph().as_default():
        m = Model()
        counter = tf1.get_variable("counter", initializer=0, trainable=False)
        checked = tf.debugging.check_numerics(m.x, "a row")
        count = after(checked, lambda: tf1.assign_add(counter, 1))
        step = tf.group(adam(m, m.loss()), count)
        with tensorbow.TensorBowSession(options=options) as s:
            s.run(tf1.global_variables_initializer())
            for run in range(10):
                feeds = m.feeds(run)
                s.run(step, feeds)
                feeds[m.x][-1] = np.nan
                with pytest.raises(tf.errors.InvalidArgumentError, match="a row"):
                    s.run(step, feeds)
                assert s.run(counter) == run + 1
            assert s.learning_tasks == 2 * 10


@pytest.mark.parametrize("resource", [True, False], ids=["resource", "reference"])
def test_one_learner_executes_a_step_that_reads_beside_a_write(resource):
    """Weight decay reads the table before or after its row is cleared, by chance."""

    def decayed(m):
        cleared = tf1.scatter_update(m.table, 10, tf.zeros_like(m.table[0]))
        decay = tf.reduce_sum(square(m.table))
        rows = after(cleared, lambda: tf.nn.embedding_lookup(m.table, m.ids))
        loss = mean(square(m.guess(m.activations() + rows) - m.y)) + 0.01 * decay
        return adam(m, loss), loss

    options = tensorbow.Options(learners_per_device=2)
    with pytest.warns(tensorbow.TensorBowWarning, match="in no order with"):
        _, _, tasks = train(decayed, resource, options)
    assert tasks == RUNS
