"""S-SGD's learners share one copy of variables that only their updates write.

Expected values: stock sessions that are given the mean gradient, to the last bit.
"""

import contextlib

import numpy as np
import programs
import pytest
import tensorflow as tf
from fused_updates_test import KINDS
from ssgd_updates_test import LEARNERS, assert_replicas, mean_of, normal

import tensorbow
from tests.python.divided_programs import in_turn

tf1 = tf.compat.v1

SIZE = 40_000  # more than a slice


class Trained:
    """A variable under Momentum, and other operations on it."""

    def __init__(self, use_resource, size=SIZE):
        self.size = size
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.gradient = tf1.placeholder(tf.float32, [None, size], name="gradient")
            self.w = tf1.get_variable("w", initializer=normal(9, size), use_resource=use_resource)
            optimiser = tf1.train.MomentumOptimizer(0.1, 0.9)
            self.train = optimiser.apply_gradients([(self.gradient[0], self.w)])
            self.slot = optimiser.get_slot(self.w, "momentum")
            with tf.control_dependencies([self.train]):
                self.train_and_damp = tf.group(tf1.assign(self.slot, 0.5 * self.slot))
            self.old = tf.reshape(self.w, [-1, 1])  # refers to the buffer that it reads
            with tf.control_dependencies([self.train]):
                self.old_afterwards = self.old * 1.0
            self.init = tf1.global_variables_initializer()

    @contextlib.contextmanager
    def sessions(self, config=None, ema_decay=None, **options):
        """Makes a stock session and one with learners; both initialised."""
        synchroniser = tensorbow.SSGD(ema_decay=ema_decay)
        with (
            tf1.Session(graph=self.graph, config=config) as stock,
            programs.session_of_parts(
                self.graph, LEARNERS, synchroniser=synchroniser, **options
            ) as session,
        ):
            stock.run(self.init)
            session.run(self.init)
            yield stock, session

    def run(self, op, iteration, stock, session):
        gradients = normal(iteration, session.num_learners, self.size)
        stock.run(op, {self.gradient: mean_of(gradients)[np.newaxis]})
        session.run(op, {self.gradient: gradients})

    def assert_stocks(self, stock, session):
        for variable in (self.w, self.slot):
            value = stock.run(variable)
            assert_replicas(session, variable, value, learners=session.num_learners)
            np.testing.assert_array_equal(session.run(variable), value)


def shares(session, op, feeds):
    """Returns whether all updates of the task graph are made in one copy."""
    metadata = tf1.RunMetadata()
    options = tf1.RunOptions(output_partition_graphs=True)
    session.run(op, feeds, options=options, run_metadata=metadata)
    nodes = [node for graph in metadata.partition_graphs for node in graph.node]
    updates = [node for node in nodes if node.op.startswith("TensorBow") and "Apply" in node.op]
    assert updates
    return {node.attr["shared"].b for node in updates} == {True}


@KINDS
def test_there_is_one_copy_until_a_program_writes_it_otherwise(use_resource, one_thread):
    """Then each learner has its own, and programs compiled before use these."""
    program = Trained(use_resource)
    zeros = {program.gradient: np.zeros((LEARNERS, SIZE), np.float32)}
    with program.sessions(one_thread) as (stock, session):
        for iteration in range(3):
            program.run(program.train, iteration, stock, session)
            program.assert_stocks(stock, session)
        stock.run(program.train, {program.gradient: zeros[program.gradient][:1]})
        assert shares(session, program.train, zeros)
        for iteration in range(3, 9):
            op = program.train if iteration % 2 else program.train_and_damp
            program.run(op, iteration, stock, session)
            program.assert_stocks(stock, session)
        for op in (program.train, program.train_and_damp):
            assert not shares(session, op, zeros)


@pytest.mark.parametrize(
    "size, average, use_resource",
    in_turn([1, 2047, 2049, 5003, 16_384], [None, 0.5], [True, False]),
)
def test_what_is_not_more_than_a_slice_has_copies(size, average, use_resource, one_thread):
    """Learners make equal parts of its update, in all copies."""
    program = Trained(use_resource, size)
    with program.sessions(one_thread, ema_decay=average) as (stock, session):
        expected, iterations = stock.run(program.w), 0
        for learners in (2, LEARNERS, 4):
            session.set_learners(learners)
            for iteration in range(3):
                program.run(program.train, iteration, stock, session)
                for variable in (program.w, program.slot):
                    value = stock.run(variable)
                    assert_replicas(session, variable, value, learners=learners)
                decay = min(average or 0, (1 + iterations) / (10 + iterations))
                iterations += 1
                expected = decay * expected + (1 - decay) * stock.run(program.w)
                np.testing.assert_allclose(session.run(program.w), expected, rtol=1e-5)
        zeros = np.zeros((learners, size), np.float32)
        assert not shares(session, program.train, {program.gradient: zeros})


@KINDS
def test_what_has_been_read_stays_as_it_was(use_resource):
    """In the same run, and in the arrays of earlier runs."""
    program = Trained(use_resource)
    read, expected = [], []
    with program.sessions() as (_, session):
        for iteration in range(4):
            gradients = normal(iteration, LEARNERS, SIZE)
            before = session.learner_value(program.w, 0).copy()
            old, afterwards, _ = session.run(
                [program.old, program.old_afterwards, program.train],
                {program.gradient: gradients},
            )
            assert shares(session, program.train, {program.gradient: np.zeros_like(gradients)})
            np.testing.assert_array_equal(np.ravel(afterwards)[:SIZE], before)
            read += [old, session.run(program.w)]
            expected += [np.copy(value) for value in read[-2:]]
    for value, copy in zip(read, expected):
        np.testing.assert_array_equal(value, copy)


@KINDS
def test_it_is_kept_through_writes_states_and_other_numbers_of_learners(
    use_resource, one_thread, tmp_path
):
    program = Trained(use_resource)
    with program.sessions(one_thread) as (stock, session):

        def both(op):
            stock.run(op)
            session.run(op)

        with program.graph.as_default():
            write = tf1.assign(program.w, tf.ones([SIZE]))
            damp = tf1.assign(program.slot, 0.25 * program.slot)
        program.run(program.train, 0, stock, session)
        for op in (write, damp):
            both(op)
            program.run(program.train, 1, stock, session)
            program.assert_stocks(stock, session)
        session.save_state(tmp_path / "state")
        saved = [stock.run(variable) for variable in (program.w, program.slot)]
        program.run(program.train, 2, stock, session)
        for learners in (2, 4, 1, LEARNERS):
            session.set_learners(learners)
            program.run(program.train, learners, stock, session)
            program.assert_stocks(stock, session)
        session.load_state(tmp_path / "state")
        for variable, value in zip((program.w, program.slot), saved):
            variable.load(value, stock)
        program.assert_stocks(stock, session)
        program.run(program.train, 3, stock, session)
        program.assert_stocks(stock, session)
        feeds = {program.gradient: np.zeros((LEARNERS, SIZE), np.float32)}
        assert shares(session, program.train, feeds)


@KINDS
def test_programs_have_reductions_of_their_own(use_resource, one_thread):
    """One of the second program has the name of one of the first, and another number."""
    graph = tf.Graph()
    with graph.as_default():
        gradient = tf1.placeholder(tf.float32, [None, 100])
        variables, steps = [], []
        for name in "ab":
            variables.append(
                tf1.get_variable(name, initializer=tf.ones([100]), use_resource=use_resource)
            )
            optimiser = tf1.train.FtrlOptimizer(0.1)
            mine = gradient[0] * (1 + len(steps))
            steps.append(optimiser.apply_gradients([(mine, variables[-1])]))
        together, init = tf.group(steps), tf1.global_variables_initializer()
    with (
        tf1.Session(graph=graph, config=one_thread) as stock,
        programs.session_of_parts(graph, LEARNERS, synchroniser=tensorbow.SSGD()) as session,
    ):
        stock.run(init)
        session.run(init)
        for iteration, op in enumerate([steps[1], together, steps[0], together, steps[1]]):
            gradients = normal(iteration, LEARNERS, 100)
            stock.run(op, {gradient: mean_of(gradients)[np.newaxis]})
            session.run(op, {gradient: gradients})
            for variable in variables:
                value = session.learner_value(variable, 0)
                np.testing.assert_allclose(value, stock.run(variable), rtol=1e-5, atol=1e-6)
                assert_replicas(session, variable, value)
