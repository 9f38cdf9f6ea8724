"""Six programs as people write them for TensorFlow 1, with usual learning rates.

They know nothing of TensorBow. Each has rows to train on, and rows on which its training loss
is evaluated.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Callable
from typing import Any

import fully_connected
import numpy as np
import tensorflow as tf
from fully_connected import cross_entropy
from training_data import images

from tensorbow import models

tf1 = tf.compat.v1

HELD_OUT_ROWS = 500
WORDS, WORDS_PER_ROW, TOPICS = 2000, 20, 10
LATENT = 16

Arrays = tuple[np.ndarray, ...]


@dataclasses.dataclass(frozen=True)
class Program:
    """A program to train.

    Attributes:
      data: given a folder with the data sets or None, the arrays of the training rows and those
        of the held-out rows, in the order of the network's inputs.
      network: given a seed, inside a graph: placeholders, the loss that is minimised, and the loss
        as it is evaluated.
      rates: by optimiser.
    """

    data: Callable[[pathlib.Path | None], tuple[Arrays, Arrays]]
    network: Callable[[int], tuple[list[Any], Any, Any]]
    rates: dict[str, float]


@dataclasses.dataclass(frozen=True)
class Built:
    """A program with its optimiser, in a graph of its own."""

    graph: Any
    inputs: list[Any]
    evaluated_loss: Any
    train_op: Any
    init: Any


def build(program: Program, optimiser: str, seed: int) -> Built:
    """Returns the program with one of its optimisers; `seed` fixes its weights and its noise."""
    graph = tf.Graph()
    with graph.as_default():
        tf1.set_random_seed(seed)
        inputs, loss, evaluated_loss = program.network(seed)
        minimiser = fully_connected.optimiser(optimiser, program.rates[optimiser])
        with tf.control_dependencies(tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)):
            train_op = minimiser.minimize(loss)
        init = tf1.global_variables_initializer()
    return Built(graph, inputs, evaluated_loss, train_op, init)


def _images(
    file: str, shape: tuple[int, int, int], labels: bool = True
) -> Callable[[pathlib.Path | None], tuple[Arrays, Arrays]]:
    def data(folder: pathlib.Path | None) -> tuple[Arrays, Arrays]:
        found = images(folder / file if folder else None, shape)
        training = (found.x_train, found.y_train)
        held_out = (found.x_test[:HELD_OUT_ROWS], found.y_test[:HELD_OUT_ROWS])
        return (training, held_out) if labels else (training[:1], held_out[:1])

    return data


def _topics(folder: pathlib.Path | None) -> tuple[Arrays, Arrays]:
    """Returns texts whose words are frequent or rare as in a language; a third tell the topic."""
    random = np.random.default_rng(0)
    frequency = 1 / np.arange(1, WORDS + 1)
    rows = 20_000 + HELD_OUT_ROWS
    topics = random.integers(0, TOPICS, rows)
    words = random.choice(WORDS, (rows, WORDS_PER_ROW), p=frequency / frequency.sum())
    telling = random.random(words.shape) < 1 / 3
    words = np.where(telling, words // TOPICS * TOPICS + topics[:, None], words)
    arrays = words.astype(np.int32), topics.astype(np.int32)
    return tuple(a[HELD_OUT_ROWS:] for a in arrays), tuple(a[:HELD_OUT_ROWS] for a in arrays)


def _classifier(
    shape: tuple[int, int, int], scores: Callable[[Any, int], Any]
) -> Callable[[int], tuple[list[Any], Any, Any]]:
    def network(seed: int) -> tuple[list[Any], Any, Any]:
        x = tf1.placeholder(tf.float32, [None, *shape])
        y = tf1.placeholder(tf.int32, [None])
        loss = cross_entropy(scores(x, seed), y)
        return [x, y], loss, loss

    return network


def _mlp(x: Any, seed: int) -> Any:
    return fully_connected.logits(tf.reshape(x, [-1, 784]), [256, 128], seed)


def _model(name: str) -> Callable[[Any, int], Any]:
    def scores(x: Any, seed: int) -> Any:
        layers = models.Layers(seed, True, tf.float32)
        return models.MODELS[name](x, 10, layers, training=True)

    return scores


def _lstm(x: Any, seed: int) -> Any:
    """Makes a network that reads an image row by row in a while_loop, as dynamic_rnn does."""
    layers = models.Layers(seed, True, tf.float32)
    last = layers.lstm(tf.reshape(x, [-1, 28, 28]), 64, "lstm", every_step=False)
    return models.Layers(seed, True, tf.float32).dense(last, 10, "logits")


def _vae(seed: int) -> tuple[list[Any], Any, Any]:
    """Makes an autoencoder that draws its noise in the graph; evaluation always uses the same."""
    x = tf1.placeholder(tf.float32, [None, 28, 28, 1])
    flat = tf.reshape(x, [-1, 784])
    layers = models.Layers(seed, True, tf.float32)
    hidden = tf.nn.relu(layers.dense(flat, 200, "encoder"))
    mean, log_variance = (layers.dense(hidden, LATENT, n) for n in ("mean", "log_variance"))

    def loss(noise: Any) -> Any:
        z = mean + tf.exp(0.5 * log_variance) * noise
        decoded = layers.dense(tf.nn.relu(layers.dense(z, 200, "decoder")), 784, "image")
        cross = tf.nn.sigmoid_cross_entropy_with_logits(labels=flat, logits=decoded)
        divergence = 0.5 * (tf.square(mean) + tf.exp(log_variance) - log_variance - 1)
        return tf.reduce_mean(tf.reduce_sum(cross, 1) + tf.reduce_sum(divergence, 1))

    fixed = np.random.default_rng(0).standard_normal((HELD_OUT_ROWS, LATENT), np.float32)
    evaluated = loss(tf.constant(fixed)[: tf.shape(x)[0]])
    return [x], loss(tf1.random_normal(tf.shape(mean))), evaluated


def _embedding(seed: int) -> tuple[list[Any], Any, Any]:
    """Makes a classifier of the mean of words' vectors, whose gradients are sparse."""
    words = tf1.placeholder(tf.int32, [None, WORDS_PER_ROW])
    topics = tf1.placeholder(tf.int32, [None])
    uniform = tf1.random_uniform_initializer(-0.5, 0.5, seed=seed)
    table = tf1.get_variable("embedding", [WORDS, 32], initializer=uniform)
    mean = tf.reduce_mean(tf1.nn.embedding_lookup(table, words), 1)
    scores = models.Layers(seed, True, tf.float32).dense(mean, TOPICS, "logits")
    loss = cross_entropy(scores, topics)
    return [words, topics], loss, loss


_MNIST, _CIFAR = "mnist.npz", "cifar10_5k1k.npz"
_MNIST_SHAPE, _CIFAR_SHAPE = (28, 28, 1), (32, 32, 3)

PROGRAMS = {
    "mlp": Program(
        _images(_MNIST, _MNIST_SHAPE),
        _classifier(_MNIST_SHAPE, _mlp),
        {"sgd": 0.1, "momentum": 0.01, "adam": 1e-3},
    ),
    "lenet": Program(
        _images(_MNIST, _MNIST_SHAPE),
        _classifier(_MNIST_SHAPE, _model("lenet")),
        {"sgd": 0.05, "momentum": 0.01, "adam": 1e-3},
    ),
    "resnet20": Program(
        _images(_CIFAR, _CIFAR_SHAPE),
        _classifier(_CIFAR_SHAPE, _model("resnet20")),
        {"sgd": 0.1, "momentum": 0.05, "adam": 1e-3},
    ),
    "vae": Program(
        _images(_MNIST, _MNIST_SHAPE, labels=False),
        _vae,
        {"sgd": 1e-3, "momentum": 3e-4, "adam": 1e-3},
    ),
    "lstm": Program(
        _images(_MNIST, _MNIST_SHAPE),
        _classifier(_MNIST_SHAPE, _lstm),
        {"sgd": 0.3, "momentum": 0.05, "adam": 3e-3},
    ),
    "embedding": Program(
        _topics,
        _embedding,
        {"sgd": 3.0, "momentum": 0.5, "adam": 0.01},
    ),
}
