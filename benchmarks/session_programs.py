"""Session programs whose training runs also write summaries, and convolutional networks.

A program has the form of those in tests/programs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import fully_connected
import numpy as np
import tensorflow as tf
from fully_connected import cross_entropy

from tensorbow import models

tf1 = tf.compat.v1
STEPS, ROWS = 40, 64


def _summarise(gradients: list[tuple[Any, Any]], what: str) -> Any:
    """Returns the merged summaries, with histograms of weights, of gradients, or both."""
    for gradient, variable in gradients:
        name = variable.op.name
        if "weights" in what:
            tf1.summary.histogram(name, variable)
        if "gradients" in what:
            tf1.summary.histogram(f"{name}/gradient", gradient)
    return tf1.summary.merge_all()


def _train(network: Callable[[Any], Any], summaries: str, sessions: Any, *unused: Any) -> None:
    x = tf1.placeholder(tf.float32, [None, 28, 28, 1])
    y = tf1.placeholder(tf.int32, [None])
    loss = cross_entropy(network(x), y)
    optimiser = fully_connected.optimiser("adam", 1e-3)
    gradients = optimiser.compute_gradients(loss)
    fetches = [optimiser.apply_gradients(gradients), loss]
    if summaries:
        tf1.summary.scalar("loss", loss)
        fetches.append(_summarise(gradients, summaries))
    _fit(sessions, fetches, x, y)


def _fit(sessions: Any, fetches: list[Any], x: Any, y: Any) -> None:
    random = np.random.default_rng(0)
    feed = {
        x: random.random((ROWS, 28, 28, 1), np.float32),
        y: random.integers(0, 10, ROWS).astype(np.int32),
    }
    with sessions.Session() as session:
        session.run(tf1.global_variables_initializer())
        for _ in range(STEPS):
            session.run(fetches, feed)


def _mlp(x: Any) -> Any:
    return fully_connected.logits(tf.reshape(x, [-1, 784]), [256, 256], 1)


def _cnn(x: Any) -> Any:
    layers = models.Layers(1, True, tf.float32)
    return models.MODELS["lenet"](x, 10, layers, training=True)


def _convolution(x: Any, channels: int, name: str) -> Any:
    """Makes a layer of raw variables and strided kernels, as tutorials do."""
    with tf1.variable_scope(name, reuse=tf1.AUTO_REUSE):
        kernel = tf1.get_variable("kernel", [5, 5, x.shape[-1], channels])
        bias = tf1.get_variable("bias", [channels], initializer=tf1.zeros_initializer())
    hidden = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, kernel, 1, "SAME"), bias))
    return tf.nn.max_pool2d(hidden, 2, 2, "SAME")


def _raw_cnn(x: Any) -> Any:
    hidden = _convolution(_convolution(x, 8, "conv1"), 16, "conv2")
    with tf1.variable_scope("logits", reuse=tf1.AUTO_REUSE):
        weights = tf1.get_variable("weights", [7 * 7 * 16, 10])
    return tf.reshape(hidden, [-1, 7 * 7 * 16]) @ weights


def _towers(sessions: Any, *unused: Any) -> None:
    """Trains four towers on a quarter of the rows each; their gradients are averaged."""
    x = tf1.placeholder(tf.float32, [None, 28, 28, 1])
    y = tf1.placeholder(tf.int32, [None])
    optimiser = fully_connected.optimiser("momentum", 0.01)
    towers = []
    for rows, labels in zip(tf.split(x, 4), tf.split(y, 4)):
        towers.append(optimiser.compute_gradients(cross_entropy(_raw_cnn(rows), labels)))
    mean = [
        (tf.reduce_mean(tf.stack([gradient for gradient, _ in found]), 0), found[0][1])
        for found in zip(*towers)
    ]
    _fit(sessions, [optimiser.apply_gradients(mean)], x, y)


def _character_lstm(sessions: Any, *unused: Any) -> None:
    """Trains an unrolled LSTM whose fetched state is fed to the next run."""
    rows, length, units, characters = 16, 25, 64, 60
    x = tf1.placeholder(tf.int32, [rows, length])
    y = tf1.placeholder(tf.int32, [rows, length])
    first = tf1.placeholder(tf.float32, [2, rows, units])
    cell, hidden = tf.unstack(first)
    losses = []
    inputs = tf.one_hot(x, characters)
    kernel = tf1.get_variable("lstm", [characters + units, 4 * units])
    weights = tf1.get_variable("logits", [units, characters])
    for t in range(length):
        gates = tf.split(tf.concat([inputs[:, t], hidden], 1) @ kernel, 4, 1)
        write, forget, output = (tf.sigmoid(gate) for gate in gates[:3])
        cell = forget * cell + write * tf.tanh(gates[3])
        hidden = output * tf.tanh(cell)
        losses.append(cross_entropy(hidden @ weights, y[:, t]))
    last, loss = tf.stack([cell, hidden]), tf.add_n(losses) / length
    train = fully_connected.optimiser("adam", 1e-3).minimize(loss)
    text = np.random.default_rng(0).integers(0, characters, (rows, length + 1)).astype(np.int32)
    carried = np.zeros((2, rows, units), np.float32)
    with sessions.Session() as session:
        session.run(tf1.global_variables_initializer())
        for _ in range(STEPS):
            feed = {x: text[:, :-1], y: text[:, 1:], first: carried}
            _, carried, _ = session.run([train, last, loss], feed)


PROGRAMS: dict[str, Callable[..., None]] = {
    "MLP": functools.partial(_train, _mlp, ""),
    "MLP, loss": functools.partial(_train, _mlp, "loss"),
    "MLP, histograms of weights": functools.partial(_train, _mlp, "weights"),
    "MLP, histograms of gradients": functools.partial(_train, _mlp, "gradients"),
    "MLP, histograms of both": functools.partial(_train, _mlp, "weights and gradients"),
    "LeNet, histograms of both": functools.partial(_train, _cnn, "weights and gradients"),
    "raw CNN": functools.partial(_train, _raw_cnn, ""),
    "CNN, 4 towers": _towers,
    "character LSTM": _character_lstm,
}
