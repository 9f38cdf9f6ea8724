"""Custom training loops by their arguments, captures and results; see custom_loops.py."""

from __future__ import annotations

import collections
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.python.custom_loops import (
    FEATURES,
    ROWS,
    Loop,
    Net,
    batch,
    descend,
    each_loss,
    loop,
    mean_loss,
    training,
)

# -------------------------------------------------------------------------- arguments


@loop
def dictionary_of_lists() -> Loop:
    net = Net()
    once = training(net)

    def arguments(i: int) -> tuple[Any, ...]:
        x, y = batch(i)
        return ({"x": x, "labels": [y]},)

    return Loop(lambda data: once(data["x"], data["labels"][0]), net.weights, arguments)


@loop
def numpy_arrays() -> Loop:
    net = Net()
    return Loop(training(net), net.weights, lambda i: tuple(t.numpy() for t in batch(i)))


@loop
def python_values_and_keywords() -> Loop:
    net = Net()

    def step(x: Any, y: Any, scale: float, trains: bool = False, unused: Any = None) -> Any:
        with tf.GradientTape() as tape:
            loss = mean_loss(net(x), y) * scale
        if trains:
            descend(tape.gradient(loss, net.weights), net.weights)
        return loss

    return Loop(step, net.weights, lambda i: (*batch(i), 2.0 if i % 2 else 1.0), {"trains": True})


@loop
def keywords_in_another_order() -> Loop:
    net = Net()
    once = training(net)

    def step(y: Any, *, z: Any, x: Any) -> Any:
        return once(x + z, y)

    keywords: dict[str, Any] = {}  # of the last requested batch

    def arguments(i: int) -> tuple[Any, ...]:
        x, y = batch(i)
        keywords.update(x=x, z=tf.constant(0.5, tf.float64))
        return (y,)

    return Loop(step, net.weights, arguments, keywords)


@loop
def dictionary_of_equal_shapes() -> Loop:
    net = Net()
    once = training(net)

    def step(data: Any) -> Any:
        return once(data["second"] - 2 * data["first"], data["y"])

    def arguments(i: int) -> tuple[Any, ...]:
        x, y = batch(i)
        return ({"y": y, "second": x, "first": x + 1},)

    return Loop(step, net.weights, arguments)


@loop
def learning_rate_as_a_tensor() -> Loop:
    net = Net()

    def step(x: Any, y: Any, rate: Any) -> Any:
        return training(net, update=lambda g, w: descend(g, w, rate))(x, y)

    def arguments(i: int) -> tuple[Any, ...]:
        return (*batch(i), tf.constant(0.1 / (1 + i), tf.float64))

    return Loop(step, net.weights, arguments)


@loop
def class_weights_as_an_argument() -> Loop:
    net = Net()

    def step(x: Any, y: Any, weights: Any) -> Any:
        def loss_of(logits: Any, y: Any) -> Any:
            return tf.reduce_mean(tf.gather(weights, y) * each_loss(logits, y))

        return training(net, loss_of)(x, y)

    weights = tf.constant([1.0, 2.0, 3.0, 1.0, 1.0], tf.float64)
    return Loop(step, net.weights, lambda i: (*batch(i), weights))


@loop
def number_of_rows_in_python() -> Loop:
    net = Net()

    def step(x: Any, y: Any) -> Any:
        def loss_of(logits: Any, y: Any) -> Any:
            return tf.reduce_sum(each_loss(logits, y)) / x.shape[0]

        return training(net, loss_of)(x, y)

    return Loop(step, net.weights)


@loop
def masked_mean() -> Loop:
    net = Net()

    def step(x: Any, y: Any, mask: Any) -> Any:
        def loss_of(logits: Any, y: Any) -> Any:
            return tf.reduce_sum(each_loss(logits, y) * mask) / tf.reduce_sum(mask)

        return training(net, loss_of)(x, y)

    def arguments(i: int) -> tuple[Any, ...]:
        mask = np.random.default_rng(i).integers(0, 2, ROWS).astype(float)
        return (*batch(i), tf.constant(mask))

    return Loop(step, net.weights, arguments)


@loop
def model_as_an_argument() -> Loop:
    net = Net()
    return Loop(lambda net, x, y: training(net)(x, y), net.weights, lambda i: (net, *batch(i)))


@loop
def variable_as_an_argument() -> Loop:
    net = Net()
    rate = tf.Variable(0.1, trainable=False, dtype=tf.float64)

    def step(x: Any, y: Any, rate: Any) -> Any:
        return training(net, update=lambda g, w: descend(g, w, rate))(x, y)

    return Loop(step, net.weights, lambda i: (*batch(i), rate))


def dataset() -> tf.data.Dataset:
    def row(i: Any) -> tuple[Any, Any]:
        return tf.random.stateless_normal([FEATURES], [i, i], dtype=tf.float64), i % 5

    return tf.data.Dataset.range(1000).map(row).batch(ROWS)


@loop
def iterator_as_an_argument() -> Loop:
    net = Net()
    once, iterator = training(net), iter(dataset())
    return Loop(lambda iterator: once(*next(iterator)), net.weights, lambda i: (iterator,))


@loop
def captured_iterator() -> Loop:
    net = Net()
    once, iterator = training(net), iter(dataset())
    return Loop(lambda: once(*next(iterator)), net.weights, lambda i: ())


@loop
def iterator_in_a_loop() -> Loop:
    net = Net()
    once, iterator = training(net), iter(dataset())

    def step(iterator: Any) -> Any:
        loss = tf.constant(0.0, tf.float64)
        for _ in tf.range(2):
            loss = once(*next(iterator))
        return loss

    return Loop(step, net.weights, lambda i: (iterator,), divided=False)


@loop
def any_number_of_rows() -> Loop:
    net = Net()
    return Loop(training(net), net.weights, lambda i: batch(i, 16 if i % 3 else 7))


@loop
def one_row() -> Loop:
    net = Net()
    return Loop(training(net), net.weights, lambda i: batch(i, 1), divided=False)


@loop
def sparse_rows() -> Loop:
    net = Net()

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            hidden = tf.tanh(tf.sparse.sparse_dense_matmul(x, net.w) + net.b)
            loss = mean_loss(tf.matmul(hidden, net.v), y)
        descend(tape.gradient(loss, net.weights), net.weights)
        return loss

    def arguments(i: int) -> tuple[Any, ...]:
        x, y = batch(i)
        return tf.sparse.from_dense(x), y

    return Loop(step, net.weights, arguments, divided=False)


@loop
def ragged_rows() -> Loop:
    table = tf.Variable(np.random.default_rng(0).normal(size=(50, 5)))

    def step(ids: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = mean_loss(tf.reduce_sum(tf.nn.embedding_lookup(table, ids), 1), y)
        table.assign_sub(0.1 * tf.convert_to_tensor(tape.gradient(loss, table)))
        return loss

    ids = tf.ragged.constant([[1, 2]] * 8 + [[3]] * 8)
    return Loop(step, [table], lambda i: (ids, batch(i)[1]), divided=False)


# --------------------------------------------------------------------------- captures


@loop
def captured_tensor() -> Loop:
    net = Net()
    shift = tf.constant(np.linspace(0, 1, FEATURES))
    once = training(net)
    return Loop(lambda x, y: once(x + shift, y), net.weights)


@loop
def captured_table() -> Loop:
    net = Net()
    keys, values = tf.range(5, dtype=tf.int64), tf.constant([4, 3, 2, 1, 0], tf.int64)
    initializer = tf.lookup.KeyValueTensorInitializer(keys, values)
    table = tf.lookup.StaticHashTable(initializer, 0)
    once = training(net)
    return Loop(lambda x, y: once(x, table.lookup(y)), net.weights, divided=False)


@loop
def learning_rate_written_between_steps() -> Loop:
    net = Net()
    rate = tf.Variable(0.1, trainable=False, dtype=tf.float64)
    step = training(net, update=lambda g, w: descend(g, w, rate))
    return Loop(step, [*net.weights, rate], between=lambda i: rate.assign(rate * 0.5))


@loop
def captured_generator() -> Loop:
    net = Net()
    generator = tf.random.Generator.from_seed(1)
    once = training(net)

    def step(x: Any, y: Any) -> Any:
        return once(x + 0 * generator.normal(tf.shape(x), dtype=tf.float64), y)

    return Loop(step, net.weights)


# ---------------------------------------------------------------------------- results


Result = collections.namedtuple("Result", "loss each logits norm nothing rows bias")


@loop
def many_results() -> Loop:
    net = Net()

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            logits = net(x)
            each = each_loss(logits, y)
            loss = tf.reduce_mean(each)
        gradients = tape.gradient(loss, net.weights)
        descend(gradients, net.weights)
        norm = tf.linalg.global_norm(gradients)
        return Result(loss, each, logits, norm, None, tf.shape(x)[0], net.b.read_value())

    return Loop(step, net.weights)


@loop
def no_result() -> Loop:
    net = Net()
    once = training(net)

    def step(x: Any, y: Any) -> None:
        once(x, y)

    return Loop(step, net.weights)


@loop
def gradients_as_results() -> Loop:
    net = Net()

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = mean_loss(net(x), y)
        gradients = tape.gradient(loss, net.weights)
        descend(gradients, net.weights)
        return gradients

    return Loop(step, net.weights)


@loop
def arguments_as_results() -> Loop:
    net = Net()
    once = training(net)
    return Loop(lambda x, y: (once(x, y), x, [y, 3, "text"]), net.weights)


# ----------------------------------------------------------------------- side effects


@loop
def python_function_on_rows() -> Loop:
    net = Net()
    once = training(net)

    def step(x: Any, y: Any) -> Any:
        doubled = tf.numpy_function(lambda a: a * 2, [x], tf.float64)
        return once(tf.ensure_shape(doubled, [None, FEATURES]), y)

    return Loop(step, net.weights)


@loop
def checked_numerics() -> Loop:
    net = Net()

    def loss_of(logits: Any, y: Any) -> Any:
        tf.debugging.assert_less(y, tf.constant(5, tf.int64))
        return tf.debugging.check_numerics(mean_loss(logits, y), "the loss")

    return Loop(training(net, loss_of), net.weights)


@loop
def random_mask_by_a_seed_per_step() -> Loop:
    net = Net()
    count = tf.Variable(0, trainable=False)

    def step(x: Any, y: Any) -> Any:
        count.assign_add(1)
        seed = tf.stack([count, 7])
        kept = tf.random.stateless_uniform(tf.shape(x), seed, dtype=tf.float64) >= 0
        return training(net)(x * tf.cast(kept, x.dtype), y)

    return Loop(step, [*net.weights, count])


@loop
def keras_random_layer() -> Loop:
    keras.utils.set_random_seed(1)
    dropout = keras.layers.Dropout(0.3, seed=5, dtype="float64")
    net = Net()
    once = training(net)
    return Loop(lambda x, y: once(x + 0 * dropout(x, training=True), y), net.weights)
