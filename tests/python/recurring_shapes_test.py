"""Tasks whose feeds have had the same shapes in some hundred runs compute nothing from shapes."""

import types

import numpy as np
import pytest
import tensorflow as tf

import tensorbow
from tensorbow import models

tf1 = tf.compat.v1

RUNS = 300  # of the same shapes, after which a task gets a graph for them
COLUMNS = 3


def regression():
    """Makes a program with dropout whose divisors are numbers of rows."""
    p = types.SimpleNamespace(graph=tf.Graph())
    with p.graph.as_default():
        p.x = tf1.placeholder(tf.float64, [None, COLUMNS])
        p.y = tf1.placeholder(tf.float64, [None])
        w = tf1.get_variable("w", initializer=np.array([0.1, 0.5, -0.3]), use_resource=True)
        kept = tf.nn.dropout(p.x, rate=0.25, seed=11)
        error = tf.linalg.matvec(kept, w) - p.y
        centred = p.y - tf.reduce_mean(p.y)
        p.loss = tf.reduce_mean(error**2) / (1.0 + tf.reduce_mean(centred**2))
        p.train = tf1.train.MomentumOptimizer(0.05, 0.9).minimize(p.loss)
        p.init = tf1.global_variables_initializer()
        p.variables = tf1.global_variables()
    return p


def feeds(program, run, rows):
    random = np.random.default_rng(run)
    x = random.normal(size=(rows, COLUMNS))
    return {program.x: x, program.y: x @ [1.0, -2.0, 0.5] + random.normal(size=rows)}


def histories(program, numbers_of_rows, config, **options):
    """Returns losses and final variables of a stock session, and of learners."""
    made = []
    for new in (tf1.Session, tensorbow.TensorBowSession):
        extra = {} if new is tf1.Session else {"options": tensorbow.Options(**options)}
        with new(graph=program.graph, config=config, **extra) as session:
            session.run(program.init)
            losses = [
                session.run([program.loss, program.train], feeds(program, run, rows))[0]
                for run, rows in enumerate(numbers_of_rows)
            ]
            made.append([np.array(losses), *session.run(program.variables)])
    return made


def executed(session, program, run, rows):
    """Returns the types of the program's ops that a run executes."""
    metadata = tf1.RunMetadata()
    options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE, output_partition_graphs=True)
    session.run(program.train, feeds(program, run, rows), options, metadata)
    types_of = {node.name: node.type for node in program.graph.get_operations()}
    names = {
        stats.node_name.split(":")[0]
        for device in metadata.step_stats.dev_stats
        for stats in device.node_stats
    }
    types = {types_of[name] for name in names if name in types_of}
    shown = {node.op for graph in metadata.partition_graphs for node in graph.node}
    assert ("Shape" in shown) == ("Shape" in types), "the graph is not that of the run"
    return types


# No number of rows is a power of two: a reciprocal is not a division.
@pytest.mark.parametrize("rows", [[7], [7, 5, 11]], ids=["one length", "three lengths"])
def test_one_learner_computes_stocks_bits_before_and_after(rows, one_thread):
    numbers = rows * (RUNS + 100)
    stock, learner = histories(regression(), numbers, one_thread, learners_per_device=1)
    for ours, stocks in zip(learner, stock):
        np.testing.assert_array_equal(ours, stocks)


@pytest.mark.parametrize("learners", [2, 3])
def test_learners_compute_stocks_numbers_before_and_after(learners):
    program = models.build("logistic", (4, 4, 1), seed=7)
    random = np.random.default_rng(0)
    images = random.normal(size=(17, 4, 4, 1)).astype(np.float32)
    labels = random.integers(10, size=17)
    values = []
    for new in (tf1.Session, tensorbow.TensorBowSession):
        options = tensorbow.Options(learners_per_device=learners)
        extra = {} if new is tf1.Session else {"options": options}
        with new(graph=program.graph, **extra) as session:
            session.run(program.init)
            losses = []
            for run in range(RUNS + 150):
                rows = slice(0, 17 if run % 10 else 9)
                batch = {program.images: images[rows], program.labels: labels[rows]}
                losses.append(session.run([program.train_op, program.loss], batch)[1])
            with program.graph.as_default():
                values.append([np.array(losses), *session.run(tf1.trainable_variables())])
            if new is not tf1.Session:
                assert session.learning_tasks == learners * (RUNS + 150)
    for ours, stocks in zip(values[1], values[0]):
        np.testing.assert_allclose(ours, stocks, rtol=2e-5, atol=1e-7)


@pytest.mark.parametrize("learners", [1, 2])
def test_shapes_are_computed_until_they_have_come_often(learners):
    program = regression()
    options = tensorbow.Options(learners_per_device=learners)
    with tensorbow.TensorBowSession(graph=program.graph, options=options) as session:
        session.run(program.init)
        for run in range(RUNS - 1):
            session.run(program.train, feeds(program, run, 9))
        assert "Shape" in executed(session, program, RUNS, 6)
        session.run(program.train, feeds(program, RUNS, 9))
        assert "Shape" not in executed(session, program, RUNS, 9)
        assert "Shape" in executed(session, program, RUNS, 6)


def test_learners_that_come_later_get_graphs_of_their_own():
    program = regression()
    options = tensorbow.Options(learners_per_device=2)
    with tensorbow.TensorBowSession(graph=program.graph, options=options) as session:
        session.run(program.init)
        for run in range(RUNS + 1):
            session.run(program.train, feeds(program, run, 9))
        assert "Shape" not in executed(session, program, RUNS, 9)
        session.set_learners(1)
        assert "Shape" in executed(session, program, RUNS, 9)


def test_a_program_with_large_constants_keeps_one_copy_of_them():
    program = types.SimpleNamespace(graph=tf.Graph())
    with program.graph.as_default():
        program.x = tf1.placeholder(tf.float64, [None, COLUMNS])
        program.y = tf1.placeholder(tf.float64, [None])
        table = tf.constant(np.random.default_rng(0).normal(size=(100_000, COLUMNS)))
        w = tf1.get_variable("w", initializer=np.zeros(COLUMNS), use_resource=True)
        rows = tf.gather(table, tf.cast(tf.abs(program.y), tf.int32))
        loss = tf.reduce_mean((tf.linalg.matvec(rows + program.x, w) - program.y) ** 2)
        program.train = tf1.train.GradientDescentOptimizer(0.01).minimize(loss)
        program.init = tf1.global_variables_initializer()
    options = tensorbow.Options(learners_per_device=2)
    with tensorbow.TensorBowSession(graph=program.graph, options=options) as session:
        session.run(program.init)
        for run in range(RUNS + 1):
            session.run(program.train, feeds(program, run, 9))
        assert "Shape" in executed(session, program, RUNS, 9)
