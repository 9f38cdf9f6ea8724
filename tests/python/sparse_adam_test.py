"""Adam's update with a gradient of some rows: one op, with the results of stock's ten."""

import numpy as np
import pytest
import tensorflow as tf
from text_programs import WIDTH, WORDS, Program

import tensorbow

tf1 = tf.compat.v1

FUSED = {True: "TensorBowResourceSparseApplyAdam", False: "TensorBowSparseApplyAdam"}
KINDS = pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "reference"])


def session_of(program, learners=1, **options):
    options = tensorbow.Options(learners_per_device=learners, **options)
    return tensorbow.TensorBowSession(graph=program.graph, options=options)


def ops_of(session, fetches, feeds):
    """Returns the ops that the learners execute for the run."""
    metadata = tf1.RunMetadata()
    options = tf1.RunOptions(output_partition_graphs=True)
    session.run(fetches, feeds, options=options, run_metadata=metadata)
    return [node.op for graph in metadata.partition_graphs for node in graph.node]


def train(session, program, steps, fetches=None):
    session.run(program.init)
    for step in range(steps):
        session.run(fetches or program.train, program.feeds(step))
    return session.run(program.variables)


def assert_equal(actual, expected):
    assert len(actual) == len(expected) > 0
    for a, e in zip(actual, expected):
        np.testing.assert_array_equal(a, e)


@KINDS
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.float16])
def test_one_learner_has_stocks_bits(use_resource, dtype):
    # 1e-8, the default, is zero in half precision.
    program = Program(use_resource, dtype, lambda rate: tf1.train.AdamOptimizer(rate, epsilon=1e-3))
    with tf1.Session(graph=program.graph) as stock:
        expected = train(stock, program, 40)
    with session_of(program) as session:
        assert_equal(train(session, program, 40), expected)
        ops = ops_of(session, program.train, program.feeds(40))
    assert ops.count(FUSED[use_resource]) == 1
    assert not {"AssignSub", "AssignSubVariableOp", "ScatterAdd", "ResourceScatterAdd"} & set(ops)


@KINDS
def test_a_rate_that_is_fed_is_used(use_resource):
    program = Program(use_resource)

    def trained(session):
        session.run(program.init)
        for step in range(6):
            rate = {program.rate: 0.1 / (step + 1)}
            session.run(program.train, program.feeds(step) | rate)
        return session.run(program.variables)

    with tf1.Session(graph=program.graph) as stock:
        expected = trained(stock)
    with session_of(program) as session:
        assert_equal(trained(session), expected)
        assert FUSED[use_resource] in ops_of(session, program.train, program.feeds(0))


@KINDS
def test_a_slot_that_is_read_before_or_after_the_update_is_as_in_stock(use_resource):
    program = Program(use_resource)
    with program.graph.as_default():
        m = program.optimiser.get_slot(program.table, "m")
        with tf.control_dependencies([program.train]):
            after = tf.reduce_sum(tf.abs(m.read_value() if use_resource else m + 0))
        norm = tf.reduce_sum(tf.abs(m.read_value()))
    with tf1.Session(graph=program.graph) as stock, session_of(program) as session:
        results = []
        for s in (stock, session):
            s.run(program.init)
            results.append([])
            for step in range(5):
                _, value = s.run([program.train, after], program.feeds(step))
                results[-1] += [value, s.run(norm)]
        np.testing.assert_allclose(results[1], results[0], rtol=1e-6)
        assert FUSED[use_resource] in ops_of(session, [program.train, after], program.feeds(0))


class AdamThatLooksBetween(tf1.train.AdamOptimizer):
    """An optimiser that scales by the slot between its decay and the addition to it."""

    def _apply_sparse(self, gradient, variable):
        return self._of(gradient.values, variable, gradient.indices)

    def _resource_apply_sparse(self, gradient, variable, indices):
        return self._of(gradient, variable, indices)

    def _of(self, values, variable, indices):
        m, v = self.get_slot(variable, "m"), self.get_slot(variable, "v")
        decayed = m.assign(m * 0.9)
        with tf.control_dependencies([decayed]):
            between = tf.reduce_sum(m.read_value())
        with tf.control_dependencies([decayed, between]):
            m_added = m.scatter_add(tf.IndexedSlices(values * 0.1, indices))
        with tf.control_dependencies([v.assign(v * 0.99)]):
            v_added = v.scatter_add(tf.IndexedSlices(values * (values * 0.01), indices))
        rate = self._lr_t + 0 * between
        return variable.assign_sub(rate * m_added / (tf.sqrt(v_added) + self._epsilon_t))


@KINDS
def test_ops_with_something_between_them_are_left_as_they_are(use_resource):
    program = Program(use_resource, optimiser=AdamThatLooksBetween)
    with tf1.Session(graph=program.graph) as stock:
        expected = train(stock, program, 10)
    with session_of(program) as session:
        for a, e in zip(train(session, program, 10), expected):
            np.testing.assert_allclose(a, e, rtol=1e-6, atol=1e-9)
        ops = ops_of(session, program.train, program.feeds(10))
    assert FUSED[use_resource] not in ops


@KINDS
@pytest.mark.parametrize("learners", [1, 2])
def test_an_index_outside_of_the_table_is_an_error_and_changes_nothing(use_resource, learners):
    program = Program(use_resource)
    with program.graph.as_default():
        indices = tf1.placeholder(tf.int32, [None])
        values = tf.fill([tf.shape(indices)[0], WIDTH], tf.reduce_mean(program.targets))
        update = program.optimiser.apply_gradients(
            [(tf.IndexedSlices(values, indices), program.table)]
        )
    with session_of(program, learners, synchroniser=tensorbow.SMA(), proof="off") as session:
        session.run(program.init)
        good = {indices: [1, 2, 3, 4], program.targets: [1.0, 2.0, 3.0, 4.0]}
        for _ in range(3):
            session.run(update, good)
        before = session.run(program.table)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"= 5000 is not in \[0, 5000\)"):
            session.run(update, good | {indices: [1, 2, WORDS, 4]})
        np.testing.assert_array_equal(session.run(program.table), before)
        session.run(update, good)
        assert np.any(session.run(program.table) != before)


@KINDS
def test_a_value_read_before_the_update_is_not_changed_by_it(use_resource):
    program = Program(use_resource)
    with program.graph.as_default():
        old = tf.identity(program.table.read_value(), name="old")
        with tf.control_dependencies([old]):
            gradients = program.optimiser.compute_gradients(program.loss)
        with tf.control_dependencies([old] + [g.values for g, _ in gradients[:1]]):
            update = program.optimiser.apply_gradients(gradients)
    with session_of(program) as session:
        session.run(program.init)
        for step in range(3):
            before = session.run(program.table)
            value, _ = session.run([old, update], program.feeds(step))
            if use_resource:  # a reference's value is the variable's own memory, in stock too
                np.testing.assert_array_equal(value, before)
            assert np.any(session.run(program.table) != before)
