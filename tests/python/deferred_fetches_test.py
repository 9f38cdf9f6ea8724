"""Fetches that are the same on all learners are computed once, after their tasks."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from programs import session

tf1 = tf.compat.v1

FEATURES, UNITS, ROWS = 256, 1024, 12


class Program:
    """A dense layer of float64 weights trained by gradient descent."""

    def __init__(self, use_resource: bool = True):
        self.graph = tf.Graph()
        rng = np.random.default_rng(3)
        with self.graph.as_default():
            self.x = tf1.placeholder(tf.float64, [None, FEATURES])
            self.y = tf1.placeholder(tf.float64, [None, UNITS])
            self.scale = tf1.placeholder(tf.float64, [])
            self.w = tf1.Variable(rng.normal(size=(FEATURES, UNITS)), use_resource=use_resource)
            self.hidden = tf.matmul(self.x, self.w)
            self.loss = tf.reduce_mean(tf.square(self.hidden - self.y))
            optimizer = tf1.train.GradientDescentOptimizer(0.1)
            self.gradients = optimizer.compute_gradients(self.loss)
            self.weights = self.w.read_value()
            with tf.control_dependencies([self.weights]):  # which stock may read later
                self.train = optimizer.apply_gradients(self.gradients)
            self.init = tf1.global_variables_initializer()
        self.feeds = {
            self.x: rng.normal(size=(ROWS, FEATURES)),
            self.y: rng.normal(size=(ROWS, UNITS)),
            self.scale: 0.5,
        }

    def summaries(self) -> tf.Tensor:
        """Returns the merged summary of loss, weights, gradient and activations."""
        with self.graph.as_default():
            return tf1.summary.merge(
                [
                    tf1.summary.scalar("loss", self.loss),
                    tf1.summary.histogram("weights", self.weights),
                    tf1.summary.histogram("gradient", self.gradients[0][0]),
                    tf1.summary.histogram("activations", self.hidden),
                ]
            )


def results(program, fetch, learners, steps=3):
    """Returns the fetch of each training step; in a stock session if `learners` is 0."""
    if learners:
        made = session(program.graph, learners, synchroniser="auto")
    else:
        made = tf1.Session(graph=program.graph)
    with made as s:
        s.run(program.init)
        return [s.run([program.train, fetch], program.feeds)[1] for _ in range(steps)]


def executed(program, fetch, learners=2):
    """Returns the ops of learner 0's graph, and how often each op is executed in a run."""
    options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE, output_partition_graphs=True)
    metadata = tf1.RunMetadata()
    with session(program.graph, learners, synchroniser="auto") as s:
        s.run(program.init)
        for _ in range(2):
            s.run([program.train, fetch], program.feeds, options=options, run_metadata=metadata)
    counts: dict[str, int] = {}
    for device in metadata.step_stats.dev_stats:
        for node in device.node_stats:
            op = node.timeline_label.split(" = ")[-1].split("(")[0]
            counts[op] = counts.get(op, 0) + 1
    return {node.op for node in metadata.partition_graphs[0].node}, counts


@pytest.mark.parametrize("use_resource", [True, False])
def test_merged_summaries_are_stocks(use_resource):
    program = Program(use_resource)
    merged = program.summaries()
    wanted = results(program, merged, 0)
    for learners in (2, 3):
        for stock, seen in zip(wanted, results(program, merged, learners), strict=True):
            pairs = zip(
                tf1.Summary.FromString(stock).value,
                tf1.Summary.FromString(seen).value,
                strict=True,
            )
            for a, b in pairs:
                assert a.tag == b.tag
                assert a.histo.num == b.histo.num
                for statistic in ("min", "max", "sum_squares"):
                    if use_resource or a.tag != "weights":  # a reference may be read late
                        np.testing.assert_allclose(
                            getattr(b.histo, statistic), getattr(a.histo, statistic), rtol=1e-10
                        )
                np.testing.assert_allclose(b.simple_value, a.simple_value, rtol=1e-6)


def test_a_run_makes_each_histogram_once():
    program = Program()
    ops, counts = executed(program, program.summaries())
    assert not ops & {"HistogramSummary", "ScalarSummary", "MergeSummary"}
    assert counts["HistogramSummary"] == 3
    assert counts["MergeSummary"] == 1


def test_what_updates_need_stays_with_the_learners():
    program = Program()
    with program.graph.as_default():
        norm = tf.norm(program.w)
        program.train = tf1.train.GradientDescentOptimizer(0.1 / norm).minimize(program.loss)
    ops, _ = executed(program, norm)
    assert "Sqrt" in ops
    wanted = results(program, norm, 0)
    np.testing.assert_allclose(results(program, norm, 2), wanted, rtol=1e-7)


def test_a_fed_value_reaches_the_deferred_part():
    program = Program()
    with program.graph.as_default():
        norm = program.scale * tf.norm(program.w)
    ops, _ = executed(program, norm)
    assert "Sqrt" not in ops
    wanted = results(program, norm, 0)
    np.testing.assert_allclose(results(program, norm, 2), wanted, rtol=1e-12)


def test_small_values_are_not_worth_another_run():
    program = Program()
    with program.graph.as_default():
        norm = tf.norm(program.w[:16])
    ops, _ = executed(program, norm)
    assert "Sqrt" in ops


def test_a_check_that_fails_leaves_no_trace():
    program = Program()
    with program.graph.as_default():
        checked = tf.debugging.check_numerics(program.weights * program.scale, "no number")
        norm = tf.norm(checked)
    with session(program.graph, 2, synchroniser="auto") as s:
        s.run(program.init)
        s.run([program.train, norm], program.feeds)
        before = s.run(program.w)
        with pytest.raises(tf.errors.InvalidArgumentError, match="no number"):
            s.run([program.train, norm], {**program.feeds, program.scale: np.inf})
        np.testing.assert_array_equal(s.run(program.w), before)


def test_callables_and_repeated_fetches_get_deferred_values():
    program = Program()
    merged = program.summaries()
    with session(program.graph, 2, synchroniser="auto") as s:
        s.run(program.init)
        step = s.make_callable([program.train, merged, merged], list(program.feeds))
        _, first, second = step(*program.feeds.values())
    assert first == second
    assert len(tf1.Summary.FromString(first).value) == 4


def test_a_histogram_of_an_element_is_that_of_all_rows():
    with tf.Graph().as_default() as graph:
        data = tf.data.Dataset.range(64).batch(8).map(lambda x: tf.cast(x, tf.float64))
        x = tf1.data.make_one_shot_iterator(data).get_next()
        w = tf1.get_variable("w", [], tf.float64, initializer=tf1.ones_initializer())
        loss = tf.reduce_mean(tf.square(w * x - x))
        train = tf1.train.GradientDescentOptimizer(0.0001).minimize(loss)
        summary = tf1.summary.histogram("x", 2 * x)
        init = tf1.global_variables_initializer()
    with session(graph, 2, synchroniser="auto") as s:
        s.run(init)
        for k in range(3):
            (value,) = tf1.Summary.FromString(s.run([train, summary])[1]).value
            assert value.histo.num == 8
            assert (value.histo.min, value.histo.max) == (16 * k, 2 * (8 * k + 7))
        assert s.learning_tasks == 6


def test_an_error_of_the_deferred_part_is_stocks():
    program = Program()
    merged = program.summaries()
    with session(program.graph, 2, synchroniser="auto") as s:
        s.run(program.init)
        s.run([program.train, merged], program.feeds)
        s.run(program.w.initializer)
        s.run(program.w.assign(np.full((FEATURES, UNITS), np.nan)))
        with pytest.raises(tf.errors.InvalidArgumentError, match="Nan in summary histogram"):
            s.run([program.train, merged], program.feeds)
        s.run(program.init)
        s.run([program.train, merged], program.feeds)
