"""Custom training loops by their state; see custom_loops.py."""

from __future__ import annotations

import pathlib
import tempfile
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
    loop,
    mean_loss,
    training,
)


def keras_step(model: Any, optimizer: Any) -> Any:
    """Returns the plain step of a Keras model."""

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = mean_loss(model(x, training=True), y)
        weights = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss

    return step


@loop
def keras_metrics() -> Loop:
    net = Net()
    once = training(net)
    mean, total = keras.metrics.Mean(), keras.metrics.Sum()

    def step(x: Any, y: Any) -> Any:
        loss = once(x, y)
        mean.update_state(loss)
        total.update_state(tf.ones_like(y))
        return loss, mean.result()

    state = [v.value for v in [*mean.variables, *total.variables]]
    return Loop(
        step, [*net.weights, *state], between=lambda i: mean.reset_state() if i == 2 else None
    )


@loop
def keras_accuracy() -> Loop:
    net = Net()
    accuracy = keras.metrics.SparseCategoricalAccuracy()

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            logits = net(x)
            loss = mean_loss(logits, y)
        descend(tape.gradient(loss, net.weights), net.weights)
        accuracy.update_state(y, logits)
        return accuracy.result()

    return Loop(step, [*net.weights, *(v.value for v in accuracy.variables)])


@loop
def keras_model_with_batch_norm() -> Loop:
    keras.utils.set_random_seed(1)
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((FEATURES,)),
            layers.Dense(30),
            layers.BatchNormalization(),
            layers.Activation("tanh"),
            layers.Dense(5),
        ]
    )
    optimizer = keras.optimizers.SGD(0.1)

    step = keras_step(model, optimizer)
    return Loop(step, [v.value for v in model.variables if v.dtype == "float64"])


@loop
def variables_made_in_the_first_call() -> Loop:
    made: dict[str, Any] = {}
    random = np.random.default_rng(3)
    w, v = random.normal(size=(FEATURES, 900)) * 0.2, random.normal(size=(900, 5)) * 0.1

    def step(x: Any, y: Any) -> Any:
        if not made:
            made["w"], made["v"] = tf.Variable(w), tf.Variable(v)
            made["slots"] = [tf.Variable(tf.zeros_like(made[k]), trainable=False) for k in "wv"]
        with tf.GradientTape() as tape:
            loss = mean_loss(tf.matmul(tf.tanh(tf.matmul(x, made["w"])), made["v"]), y)
        for g, k, slot in zip(tape.gradient(loss, [made["w"], made["v"]]), "wv", made["slots"]):
            slot.assign(0.9 * slot + g)
            made[k].assign_sub(0.1 * slot)
        return loss

    return Loop(step, lambda: [made["w"], made["v"], *made["slots"]])


@loop
def keras_model_built_in_the_first_call() -> Loop:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Dense(30, "tanh"), keras.layers.Dense(5)])
    optimizer = keras.optimizers.Adam(0.01)

    step = keras_step(model, optimizer)
    return Loop(step, lambda: [v.value for v in model.trainable_variables])


def embedding_loop(update: Any) -> Loop:
    table = tf.Variable(np.random.default_rng(0).normal(size=(5000, 5)))

    def step(ids: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = mean_loss(tf.reduce_sum(tf.nn.embedding_lookup(table, ids), 1), y)
        update(tape.gradient(loss, table), table)
        return loss

    def arguments(i: int) -> tuple[Any, ...]:
        ids = np.random.default_rng(i).integers(0, 5000, (ROWS, 4))
        return tf.constant(ids), batch(i)[1]

    return Loop(step, [table], arguments)


@loop
def embedding_under_keras() -> Loop:
    optimizer = keras.optimizers.SGD(0.5)
    return embedding_loop(lambda g, table: optimizer.apply_gradients([(g, table)]))


@loop
def embedding_scattered_by_hand() -> Loop:
    return embedding_loop(
        lambda g, table: table.scatter_sub(tf.IndexedSlices(0.5 * g.values, g.indices))
    )


@loop
def moving_average_of_weights() -> Loop:
    net = Net()
    shadows = [tf.Variable(w, trainable=False) for w in net.weights]
    once = training(net)

    def step(x: Any, y: Any) -> Any:
        loss = once(x, y)
        for w, shadow in zip(net.weights, shadows):
            shadow.assign(0.9 * shadow + 0.1 * w)
        return loss

    return Loop(step, [*net.weights, *shadows])


@loop
def target_network_updated_between_steps() -> Loop:
    net, target = Net(), Net()

    @tf.function
    def follow() -> None:
        for w, t in zip(net.weights, target.weights):
            t.assign(0.5 * t + 0.5 * w)

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((net(x) - 0.9 * target(x)) ** 2)
        descend(tape.gradient(loss, net.weights), net.weights)
        return loss

    return Loop(step, [*net.weights, *target.weights], between=lambda i: follow())


@loop
def weights_written_in_place_between_steps() -> Loop:
    net = Net()

    @tf.function
    def decay() -> None:
        for w in net.weights:
            w.assign_sub(0.1 * w)

    return Loop(training(net), net.weights, between=lambda i: decay())


@loop
def evaluation_traced_before() -> Loop:
    net = Net()
    seen: list[float] = []
    evaluate = tf.function(lambda: tf.reduce_sum(net.w) + tf.reduce_sum(net.b))
    evaluate()
    return Loop(
        training(net),
        lambda: [*net.weights, tf.constant(seen)],
        between=lambda i: seen.append(float(evaluate())),
    )


@loop
def checkpoint_in_the_loop() -> Loop:
    net = Net()
    path = pathlib.Path(tempfile.mkdtemp(), "ckpt")
    checkpoint = tf.train.Checkpoint(net=net)
    saved: list[str] = []

    def between(i: int) -> None:
        if i == 0:
            saved.append(checkpoint.save(str(path)))
        if i == 2:
            checkpoint.restore(saved[0])

    return Loop(training(net), net.weights, between=between)


@loop
def scaled_loss_of_mixed_precision() -> Loop:
    net = Net()
    inner = keras.optimizers.SGD(0.1)
    optimizer = keras.optimizers.LossScaleOptimizer(
        inner, initial_scale=8.0, dynamic_growth_steps=3
    )

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = mean_loss(net(x), y)
            scaled = optimizer.scale_loss(loss)
        optimizer.apply_gradients(zip(tape.gradient(scaled, net.weights), net.weights))
        return loss

    return Loop(step, net.weights)


@loop
def accumulated_gradients() -> Loop:
    net = Net()
    sums = [tf.Variable(tf.zeros_like(w), trainable=False) for w in net.weights]
    count = tf.Variable(0, trainable=False)

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = mean_loss(net(x), y)
        for g, total in zip(tape.gradient(loss, net.weights), sums):
            total.assign_add(g)
        count.assign_add(1)
        if count % 2 == 0:
            for total, w in zip(sums, net.weights):
                w.assign_sub(0.05 * total)
                total.assign(tf.zeros_like(total))
        return loss

    return Loop(step, [*net.weights, *sums, count])


@loop
def keras_adafactor() -> Loop:
    """Uses slots with names of their own, which a `tf.Variable` does not give."""
    random = np.random.default_rng(3)
    w = keras.Variable(random.normal(size=(FEATURES, 5)) * 0.2, dtype="float64", name="w")
    optimizer = keras.optimizers.Adafactor(0.01)

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = mean_loss(tf.matmul(x, w.value), y)
        optimizer.apply_gradients([(tape.gradient(loss, w.value), w)])
        return loss

    return Loop(step, lambda: [w.value, *(v.value for v in optimizer.variables)])


@loop
def keras_accumulation() -> Loop:
    net = Net()
    optimizer = keras.optimizers.Adam(0.01, gradient_accumulation_steps=2)
    step = training(net, update=lambda g, w: optimizer.apply_gradients(zip(g, w)))
    return Loop(step, net.weights)
