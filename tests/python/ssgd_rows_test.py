"""S-SGD with gradients of some rows: one step is stock's with all rows of the batch."""

import numpy as np
import pytest
import tensorflow as tf
from text_programs import WIDTH, WORDS, Program

import tensorbow
from tests.python.divided_programs import in_turn

tf1 = tf.compat.v1

KINDS = pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "reference"])
OPTIMISERS = {
    "sgd": tf1.train.GradientDescentOptimizer,
    "momentum": lambda rate: tf1.train.MomentumOptimizer(rate, 0.9),
    "nesterov": lambda rate: tf1.train.MomentumOptimizer(rate, 0.9, use_nesterov=True),
    "adagrad": tf1.train.AdagradOptimizer,
    "adadelta": tf1.train.AdadeltaOptimizer,
    "rmsprop": tf1.train.RMSPropOptimizer,
    "ftrl": tf1.train.FtrlOptimizer,
    "adam": tf1.train.AdamOptimizer,
}


def session_of(program, learners, **options):
    options = tensorbow.Options(learners_per_device=learners, **options)
    return tensorbow.TensorBowSession(graph=program.graph, options=options)


def train(session, program, steps, rows):
    session.run(program.init)
    losses = [
        session.run([program.loss, program.train], program.feeds(step, rows))[0]
        for step in range(steps)
    ]
    return losses, session.run(program.variables)


@pytest.mark.parametrize(
    "optimiser, learners, rows, use_resource",
    in_turn(OPTIMISERS, [(2, 16, True), (3, 17, False), (2, 17, False), (3, 16, True)]),
)
def test_weights_and_slots_are_stocks(optimiser, learners, rows, use_resource):
    program = Program(use_resource, tf.float64, OPTIMISERS[optimiser], rate=0.05)
    with tf1.Session(graph=program.graph) as stock:
        losses, expected = train(stock, program, 20, rows)
    with session_of(program, learners, synchroniser=tensorbow.SSGD()) as session:
        own_losses, actual = train(session, program, 20, rows)
        assert session.learning_tasks == 20 * learners
        for variable in (program.table, *program.optimiser.variables()):
            first = session.learner_value(variable, 0)
            for j in range(1, learners):
                np.testing.assert_array_equal(session.learner_value(variable, j), first)
    np.testing.assert_allclose(own_losses, losses, rtol=1e-9)
    for a, e in zip(actual, expected):
        np.testing.assert_allclose(a, e, rtol=1e-8, atol=1e-12)


@KINDS
def test_it_is_the_default_under_adam(use_resource):
    program = Program(use_resource, tf.float64, rate=0.05)
    with tf1.Session(graph=program.graph) as stock:
        _, expected = train(stock, program, 20, rows=16)
    with session_of(program, 2) as session:
        _, actual = train(session, program, 20, rows=16)
        assert isinstance(session.synchroniser, tensorbow.SSGD)
    for a, e in zip(actual, expected):
        np.testing.assert_allclose(a, e, rtol=1e-8, atol=1e-12)


@KINDS
@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_it_is_the_default_where_a_table_is_all_that_is_trained(optimiser, use_resource):
    program = Program(use_resource)
    with program.graph.as_default():
        train_table = OPTIMISERS[optimiser](0.05).minimize(program.loss, var_list=[program.table])
        init = tf1.global_variables_initializer()
    with session_of(program, 2) as session:
        session.run(init)
        session.run(train_table, program.feeds(0))
        assert isinstance(session.synchroniser, tensorbow.SSGD)
        assert session.learning_tasks == 2


@KINDS
def test_a_moving_average_takes_in_the_table(use_resource):
    program = Program(use_resource, tf.float64, rate=0.05)
    with tf1.Session(graph=program.graph) as stock:
        stock.run(program.init)
        expected = stock.run(program.table)
        for step in range(6):
            stock.run(program.train, program.feeds(step))
            decay = min(0.5, (1 + step) / (10 + step))
            expected = decay * expected + (1 - decay) * stock.run(program.table)
    options = dict(synchroniser=tensorbow.SSGD(ema_decay=0.5))
    with session_of(program, 2, **options) as session:
        train(session, program, 6, rows=16)
        np.testing.assert_allclose(session.run(program.table), expected, rtol=1e-8, atol=1e-12)


def test_clipped_gradients_of_rows_are_averaged_after_clipping():
    program = Program(use_resource=True, rate=0.5)
    with program.graph.as_default():
        optimiser = tf1.train.GradientDescentOptimizer(0.5)
        gradients, variables = zip(*optimiser.compute_gradients(program.loss))
        clipped, norm = tf.clip_by_global_norm(gradients, 0.05)
        update = optimiser.apply_gradients(zip(clipped, variables))
    whole = program.feeds(0, rows=8)
    halves = [{k: v[:4] for k, v in whole.items()}, {k: v[4:] for k, v in whole.items()}]
    with tf1.Session(graph=program.graph) as stock:
        stock.run(program.init)
        start = stock.run(program.table)
        moved = np.zeros_like(start)
        for half in halves:
            program.table.load(start, stock)
            assert stock.run(norm, half) > 0.05
            layer = [v for v in variables if v is not program.table][0]
            kept = stock.run(layer)
            stock.run(update, half)
            moved += (stock.run(program.table) - start) / 2
            layer.load(kept, stock)
    options = dict(synchroniser=tensorbow.SSGD(), proof="off")
    with session_of(program, 2, **options) as session:
        session.run(program.init)
        session.run(update, whole)
        np.testing.assert_allclose(session.run(program.table) - start, moved, rtol=1e-4, atol=1e-7)


def test_rows_of_all_learners_that_fall_together_or_apart():
    graph = tf.Graph()
    with graph.as_default():
        rows = tf1.placeholder(tf.int64, [None])
        values = tf1.placeholder(tf.float32, [None])
        table = tf1.get_variable(
            "table", initializer=np.ones((6, 2), np.float32), use_resource=True
        )
        gradient = tf.IndexedSlices(
            tf.tile(values[:, tf.newaxis], [1, 2]), rows, dense_shape=[6, 2]
        )
        optimiser = tf1.train.AdagradOptimizer(1.0, initial_accumulator_value=1.0)
        update = optimiser.apply_gradients([(gradient, table)])
        init = tf1.global_variables_initializer()
    options = tensorbow.Options(learners_per_device=2, synchroniser=tensorbow.SSGD(), proof="off")
    with tensorbow.TensorBowSession(graph=graph, options=options) as session:
        session.run(init)
        # Learner 0 has rows 1 and 5 (twice), learner 1 rows 5 and 0.
        session.run(update, {rows: [1, 5, 5, 5, 5, 0], values: [2, 1, 1, 4, 2, -6]})
        mean = np.array([-3, 1, 0, 0, 0, 4])
        expected = 1 - mean / np.sqrt(1 + mean**2)
        for j in range(2):
            np.testing.assert_allclose(
                session.learner_value(table, j), np.stack([expected] * 2, 1), rtol=1e-5
            )


@KINDS
def test_an_index_outside_of_the_table_is_an_error_and_changes_nothing(use_resource):
    program = Program(use_resource)
    with program.graph.as_default():
        indices = tf1.placeholder(tf.int32, [None])
        values = tf.fill([tf.shape(indices)[0], WIDTH], tf.reduce_mean(program.targets))
        update = program.optimiser.apply_gradients(
            [(tf.IndexedSlices(values, indices), program.table)]
        )
    options = dict(synchroniser=tensorbow.SSGD(), proof="off")
    with session_of(program, 2, **options) as session:
        session.run(program.init)
        good = {indices: [1, 2, 3, 4], program.targets: [1.0, 2.0, 3.0, 4.0]}
        session.run(update, good)
        before = session.run(program.table)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"5000 is not in \[0, 5000\)"):
            session.run(update, good | {indices: [1, 2, WORDS, 4]})
        np.testing.assert_array_equal(session.run(program.table), before)
        session.run(update, good)
        assert np.any(session.run(program.table) != before)
