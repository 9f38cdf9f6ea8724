"""A warning names the operation and the line that made it, at the line that started the run."""

import pathlib
import re
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

import tensorbow

tf1 = tf.compat.v1

HERE = pathlib.Path(__file__)


def line_of(mark):
    """Returns the line of this file that ends with a comment of that mark."""
    (line,) = [
        number
        for number, line in enumerate(HERE.read_text().splitlines(), 1)
        if line.endswith(f"# {mark}")
    ]
    return line


def made_at(mark):
    return f"({HERE.name}:{line_of(mark)})"


def said(caught):
    """Returns our warnings."""
    return [w for w in caught if w.category is tensorbow.TensorBowWarning]


def two_learners(graph, **options):
    return tensorbow.TensorBowSession(
        graph=graph, options=tensorbow.Options(learners_per_device=2, **options)
    )


def minimise(loss):
    return tf1.train.GradientDescentOptimizer(0.1).minimize(loss)


def warnings_of(graph, train, init, row_counts=(8,), **options):
    with two_learners(graph, **options) as s, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        s.run(init)
        for rows in row_counts:
            s.run(train, {"x:0": np.ones((rows, 2), np.float32)})  # the run
    return said(caught)


def mixing_rows():
    """Makes a program of TensorFlow 1 whose loss mixes rows that are not exchanged."""
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [None, 2], name="x")
        w = tf1.get_variable("w", [2, 1])
        mixed = tf.random.shuffle(x, name="mixed")  # a shuffle
        loss = tf.reduce_mean((mixed @ w) ** 2 * (x @ w))
        return graph, minimise(loss), tf1.global_variables_initializer()


def test_an_operation_is_named_with_the_line_that_made_it():
    (warning,) = warnings_of(*mixing_rows())
    assert f"RandomShuffle 'mixed' {made_at('a shuffle')} reorders the rows" in str(warning.message)
    assert (warning.filename, warning.lineno) == (str(HERE), line_of("the run"))


def test_a_cause_is_warned_of_once_whatever_is_fed_and_fetched():
    assert len(warnings_of(*mixing_rows(), row_counts=[8] * 20 + list(range(4, 20)))) == 1
    graph, train, init = mixing_rows()
    with two_learners(graph) as s, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        s.run(init)
        for fetches in (train, [train], [train, "mul:0"], [train, "mixed:0"]):
            for _ in range(17):
                s.run(fetches, {"x:0": np.ones((8, 2), np.float32)})
    assert len(said(caught)) == 1


@pytest.fixture
def control_flow_v2():
    tf1.enable_control_flow_v2()
    yield
    tf1.disable_control_flow_v2()


def test_an_operation_in_a_function_is_named_with_its_line(control_flow_v2):
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [None, 2], name="x")
        w = tf1.get_variable("w", [2, 1], use_resource=True)
        total = tf1.get_variable("total", [], use_resource=True, trainable=False)

        def add():
            return total.assign_add(tf.reduce_sum(x, name="inner"))  # a sum

        added = tf.cond(tf.reduce_mean(w) < 100, add, total.read_value, name="choice")
        train = tf.group(minimise(tf.reduce_mean((x @ w) ** 2)), added)
        init = tf1.global_variables_initializer()
    (warning,) = warnings_of(graph, train, init, synchroniser=tensorbow.SMA())
    assert f"inner' {made_at('a sum')}" in str(warning.message)
    assert "TensorBow" not in str(warning.message)


def test_what_was_imported_has_no_line():
    graph, train, init = mixing_rows()
    with graph.as_default():
        tf1.add_to_collection("ops", train)
        tf1.add_to_collection("ops", init)
        meta = tf1.train.export_meta_graph()
    with tf.Graph().as_default() as imported:
        tf1.train.import_meta_graph(meta)
        train, init = tf1.get_collection("ops")
    (warning,) = warnings_of(imported, train, init)
    assert "RandomShuffle 'mixed' reorders the rows" in str(warning.message)


def test_operations_of_a_keras_model_are_named_with_the_users_line():
    class Shuffled(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(1)

        def call(self, x):
            return self.dense(tf.random.shuffle(x))  # in a model

    with context.eager_mode(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = tensorbow.keras.replicate(
            Shuffled(), options=tensorbow.Options(learners_per_device=2)
        )
        model.compile("sgd", "mse")
        x = np.ones((32, 2), np.float32)
        model.fit(x, x[:, :1], batch_size=8, verbose=0)
    (warning,) = said(caught)
    assert re.search(rf"RandomShuffle' {re.escape(made_at('in a model'))}", str(warning.message))


def test_operations_of_a_custom_loop_are_named_with_the_users_line():
    with context.eager_mode(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        w = tf.Variable([[1.0], [2.0]])

        @tensorbow.function(options=tensorbow.Options(learners_per_device=2))
        def step(x):
            with tf.GradientTape() as tape:
                mixed = tf.random.shuffle(x)  # in a loop
                loss = tf.reduce_mean((mixed @ w) ** 2 * (x @ w))
            w.assign_sub(0.1 * tape.gradient(loss, w))
            return loss

        for _ in range(3):
            step(tf.ones((8, 2)))
    (warning,) = said(caught)
    assert re.search(rf"RandomShuffle' {re.escape(made_at('in a loop'))}", str(warning.message))
