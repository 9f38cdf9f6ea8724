"""Distinct ids of a batch (tf.unique) are looked up by each learner for its own rows.

Each program is trained in float64 beside a stock session, on two and three learners.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import tensorflow as tf

import tensorbow

tf1 = tf.compat.v1
RUNS, IDS, UNITS = 16, 8, 4

OPTIMISERS = {
    "gd": lambda: tf1.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf1.train.MomentumOptimizer(0.1, 0.9),
    "adagrad": lambda: tf1.train.AdagradOptimizer(0.1),
    "adam": lambda: tf1.train.AdamOptimizer(0.05),
    "rmsprop": lambda: tf1.train.RMSPropOptimizer(0.05),
}


def plain(table, ids):
    distinct, places = tf.unique(tf.reshape(ids, [-1]))
    return tf.reshape(tf.gather(tf.gather(table, distinct), places), [-1, 3, UNITS])


def as_lookups(table, ids):
    distinct, places = tf.unique(tf.reshape(ids, [-1]))
    found = tf.nn.embedding_lookup(table, distinct)
    return tf.nn.embedding_lookup(found, tf.reshape(places, [-1, 3]))


def twice(table, ids):
    """The same distinct ids for two features."""
    distinct, places = tf.unique(tf.reshape(ids, [-1]))
    found, places = tf.gather(table, distinct), tf.reshape(places, [-1, 3])
    return tf.gather(found, places) * tf.sigmoid(tf.gather(found, places))


def changed(table, ids):
    """Distinct rows that are changed before they are looked up."""
    distinct, places = tf.unique(tf.reshape(ids, [-1]))
    found = tf.nn.l2_normalize(tf.gather(table, distinct), 1)
    return tf.reshape(tf.gather(found, places), [-1, 3, UNITS])


def apply(optimiser, loss, clips):
    pairs = optimiser.compute_gradients(loss)
    if clips:
        gradients, _ = tf.clip_by_global_norm([g for g, _ in pairs], 0.2)
        pairs = [(g, v) for g, (_, v) in zip(gradients, pairs)]
    return optimiser.apply_gradients(pairs)


def trained(lookup, optimiser, clips, linear, resource, options=None):
    """Returns all losses and variables, and the number of tasks."""
    random = np.random.default_rng(6)
    with tf.Graph().as_default() as graph:
        tf1.get_variable_scope().set_use_resource(resource)
        ids, y = tf1.placeholder(tf.int32, [None, 3]), tf1.placeholder(tf.float64, [None])
        table = tf1.get_variable("table", initializer=random.standard_normal((IDS, UNITS)))
        last = tf1.get_variable("last", initializer=random.standard_normal(UNITS))
        h = tf.reduce_mean(lookup(table, ids), 1)
        out = tf.reduce_sum(h, 1) if linear else tf.linalg.matvec(tf.tanh(h), last)
        loss = tf.reduce_mean(out * y if linear else tf.square(out - y))
        step = apply(OPTIMISERS[optimiser](), loss, clips)
        initialise, variables = tf1.global_variables_initializer(), tf1.global_variables()
    kind = tf1.Session if options is None else tensorbow.TensorBowSession
    with kind(graph=graph, **({} if options is None else {"options": options})) as session:
        session.run(initialise)
        found = []
        for run in range(RUNS):
            random = np.random.default_rng(run)
            rows = 8 - run % 3
            feeds = {ids: random.integers(0, IDS, (rows, 3)), y: random.standard_normal(rows)}
            found.append(session.run([step, loss], feeds)[1])
        return found + session.run(variables), getattr(session, "learning_tasks", 0)


def check(count, executed_by, *program):
    stock, _ = trained(*program)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = tensorbow.Options(learners_per_device=count)
        ours, tasks = trained(*program, options)
    for a, b in zip(ours, stock):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-12)
    assert executed_by is None or tasks == RUNS * executed_by


COUNTS = pytest.mark.parametrize("count", [2, 3])


@COUNTS
@pytest.mark.parametrize("lookup", [plain, as_lookups])
@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_distinct_ids_are_looked_up_for_own_rows(optimiser, lookup, count):
    check(count, count, lookup, optimiser, False, False, True)


@COUNTS
@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("resource", [False, True])
@pytest.mark.parametrize("optimiser", ["gd", "adam"])
def test_gradients_of_distinct_ids_are_clipped_by_the_norm_of_all(
    optimiser, resource, linear, count
):
    check(count, None, plain, optimiser, True, linear, resource)


@COUNTS
@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("optimiser", ["gd", "adam"])
def test_a_gradient_that_does_not_depend_on_the_lookup(optimiser, linear, count):
    check(count, count, plain, optimiser, False, linear, False)


@COUNTS
@pytest.mark.parametrize("lookup", [twice, changed])
@pytest.mark.parametrize("optimiser", ["gd", "adam"])
def test_other_uses_of_distinct_rows_are_those_of_a_stock_session(optimiser, lookup, count):
    check(count, None, lookup, optimiser, False, False, True)
