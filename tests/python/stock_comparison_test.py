"""A program's own steps on learners, compared with a stock session's."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import tensorbow

tf1 = tf.compat.v1


class Program:
    """A dense layer under Adam, with a loss of the given outputs and targets."""

    def __init__(self, loss_of=lambda out, y: tf.reduce_mean(tf.square(out - y)), dtype="float32"):
        random = np.random.default_rng(0)
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.x = tf1.placeholder(dtype, [None, 5], "x")
            self.y = tf1.placeholder(dtype, [None], "y")
            self.w = tf1.get_variable("w", [5], dtype)
            self.loss = loss_of(tf.linalg.matvec(self.x, self.w), self.y)
            self.train = tf1.train.AdamOptimizer(0.01).minimize(self.loss)
            self.init = tf1.global_variables_initializer()
        self.feeds = {self.x: random.normal(size=(9, 5)), self.y: random.normal(size=9)}

    def compare(self, steps=3, warm=2, **options):
        with tensorbow.TensorBowSession(
            graph=self.graph, options=tensorbow.Options(**options)
        ) as session:
            session.run(self.init)
            for _ in range(warm):
                session.run(self.train, self.feeds)
            before = session.run(self.w)
            found = session.compare_with_stock([self.train, self.loss], self.feeds, steps)
            np.testing.assert_array_equal(session.run(self.w), before)
            assert session.iterations == warm
        return found


@pytest.mark.parametrize("dtype, bound", [("float32", 1e-5), ("float64", 1e-13)])
def test_steps_of_a_common_program_are_stocks(dtype, bound):
    found = Program(dtype=dtype).compare(learners_per_device=2)
    assert found.is_equal and not found.is_erratic
    assert (found.learners, found.steps, found.why) == (2, 3, "")
    assert set(found.variables) == {"w", "w/Adam", "w/Adam_1", "beta1_power", "beta2_power"}
    assert list(found.fetches) == ["Mean:0"]
    assert max(each.relative for each in {**found.fetches, **found.variables}.values()) < bound
    assert str(found).startswith("Results of 3 steps on 2 learners equal stock's, to rounding.")


def test_a_wrong_division_is_found():
    """Untyped rows are averaged whatever the loss: here a product of means."""
    program = Program(lambda out, y: tf.reduce_mean(out) * tf.reduce_mean(y) + out[0] ** 2)
    found = program.compare(learners_per_device=2, proof="off")
    assert not found.is_equal and not found.is_erratic
    assert found.variables["w/Adam"].relative > 0.01
    assert "differ from stock's. Please report this program" in str(found)
    assert "<--" in str(found)


def test_one_learner_is_stock():
    program = Program(lambda out, y: tf.reduce_mean(tf.nn.top_k(out - y, 3).values[:2] ** 2))
    found = program.compare(steps=1)
    assert found.is_equal


def test_random_numbers_cannot_be_compared():
    program = Program(lambda out, y: tf.reduce_mean(tf.nn.dropout(tf.square(out - y), 0.5)))
    found = program.compare(learners_per_device=2)
    assert found.is_erratic and not found.is_equal
    assert "cannot be compared" in str(found)


def test_values_that_are_not_finite_differ_only_from_finite_ones():
    def loss_of(out, y):
        return tf.reduce_mean(tf.square(out - y)) + 0 * tf.math.log(tf.reduce_min(y) * 0)

    found = Program(loss_of).compare(steps=1, warm=0, learners_per_device=2)
    assert found.fetches[list(found.fetches)[0]].relative == 0


@pytest.mark.parametrize(
    "steps, options, text",
    [
        (0, {}, "steps must be an int of at least 1, got 0"),
        (1, {"synchroniser": tensorbow.SMA()}, "averaged models are not stock's"),
    ],
)
def test_comparisons_that_make_no_sense(steps, options, text):
    program = Program()
    with tensorbow.TensorBowSession(
        graph=program.graph, options=tensorbow.Options(**options)
    ) as session:
        session.run(program.init)
        with pytest.raises(ValueError, match=text):
            session.compare_with_stock(program.train, program.feeds, steps)


def test_runs_that_do_not_train_are_refused():
    program = Program()
    with tensorbow.TensorBowSession(graph=program.graph) as session:
        session.run(program.init)
        with pytest.raises(ValueError, match="got a read run"):
            session.compare_with_stock(program.loss, program.feeds)


def test_data_of_the_graph_is_refused():
    with tf.Graph().as_default():
        data = tf.data.Dataset.from_tensor_slices(np.ones((8, 5), np.float32)).batch(4).repeat()
        x = tf1.data.make_one_shot_iterator(data).get_next()
        w = tf1.get_variable("w", [5])
        train = tf1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean((x * w) ** 2))
        with tensorbow.TensorBowSession() as session:
            session.run(tf1.global_variables_initializer())
            with pytest.raises(ValueError, match="takes data from the graph"):
                session.compare_with_stock(train)
