"""Networks as TensorFlow-1 programs, for the command line, examples, tests and benchmarks.

They are ordinary programs that know nothing of TensorBow. `tensorbow.cli.model_names` has their
data and learning rates.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tensorbow.cli import model_names
from tensorbow.models import images, text
from tensorbow.models._layers import Layers

tf1 = tf.compat.v1

Tensor = Any

MODELS: dict[str, images.Network] = {
    "logistic": images.logistic,
    "lenet": images.lenet,
    "resnet20": images.resnet(3),
    "resnet32": images.resnet(5),
    "resnet50": images.resnet50,
    "vgg16": images.vgg16,
    "mobilenet": images.mobilenet,
    "lstm": text.lstm,
    "transformer": text.transformer,
    "embedding": text.embedding,
}


@dataclasses.dataclass(frozen=True)
class Program:
    """A training program: what to feed and what to run.

    Attributes:
      graph: the graph that holds everything else.
      inputs: placeholder: images, [rows, height, width, channels], uint8-valued or scaled
        floats; or text, int32 [rows, length].
      labels: placeholder, int32: classes [rows], or the next characters [rows, length].
      loss: mean cross-entropy over the rows (and characters), scalar.
      train_op: one optimiser step (and the update of batch-norm statistics).
      accuracy: fraction of labels that the inference network finds, scalar.
      init: initialises all variables.
    """

    graph: tf.Graph
    inputs: Tensor
    labels: Tensor
    loss: Tensor
    train_op: Any
    accuracy: Tensor
    init: Any

    @property
    def images(self) -> Tensor:
        """The inputs of a program that classifies images."""
        return self.inputs


def build(
    model: str,
    shape: tuple[int, ...],
    classes: int = 10,
    optimiser: Callable[[], Any] | None = None,
    seed: int | None = None,
    use_resource: bool = True,
    dtype: tf.DType = tf.float32,
) -> Program:
    """Builds a network and its training step in a graph of its own.

    Args:
      model: a key of `MODELS`.
      shape: of a row: (height, width, channels) of images, (length,) of text.
      classes: number of classes; of text, the size of the vocabulary.
      optimiser: called inside the graph, returns a `tf.compat.v1.train.Optimizer`;
        plain gradient descent with rate 0.01 if None.
      seed: of the initial weights; None for different ones every time.
      use_resource: resource variables (True) or reference variables.
      dtype: of the variables.

    Raises:
      ValueError: for an unknown model, or a shape of the wrong kind.
    """
    if model not in MODELS:
        raise ValueError(f"unknown model {model!r}; wanted one of {', '.join(MODELS)}")
    reads = model_names.MODELS[model].reads
    check_shape(model, shape)
    graph = tf.Graph()
    with graph.as_default():
        kind = dtype if reads == "image" else tf.int32
        inputs = tf1.placeholder(kind, [None, *shape], name="inputs")
        every_step = shape if reads == "characters" else ()
        labels = tf1.placeholder(tf.int32, [None, *every_step], name="labels")
        layers = Layers(seed, use_resource, dtype)
        logits = MODELS[model](inputs, classes, layers, True)
        cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        loss = tf.reduce_mean(cross_entropy, name="loss")
        if optimiser is None:
            minimiser = tf1.train.GradientDescentOptimizer(0.01)
        else:
            minimiser = optimiser()
        with tf.control_dependencies(tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)):
            train_op = minimiser.minimize(loss, name="train_op")
        inference = MODELS[model](inputs, classes, layers, False)
        hits = tf.equal(tf.argmax(inference, axis=-1, output_type=tf.int32), labels)
        accuracy = tf.reduce_mean(tf.cast(hits, tf.float32), name="accuracy")
        init = tf1.global_variables_initializer()
    return Program(graph, inputs, labels, loss, train_op, accuracy, init)


def check_shape(model: str, shape: tuple[int, ...]) -> None:
    """Refuses a row that the network does not read.

    Raises:
      ValueError: that says so.
    """
    reads = model_names.MODELS[model].reads
    wanted = 3 if reads == "image" else 1
    if len(shape) != wanted:
        kind = "(height, width, channels)" if wanted == 3 else "(length,)"
        raise ValueError(f"{model} reads a row of shape {kind}, got {tuple(shape)}")
