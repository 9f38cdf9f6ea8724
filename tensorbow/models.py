"""Image classifiers as TensorFlow-1 programs, for the command line, tests and benchmarks.

They are ordinary programs: nothing in here knows of TensorBow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

tf1 = tf.compat.v1

Tensor = Any


class _Layers:
    """Variables by layer name, created on first use and shared afterwards."""

    def __init__(self, seed: int | None, use_resource: bool, dtype: tf.DType) -> None:
        self._seed = seed
        self._use_resource = use_resource
        self._dtype = dtype
        self._variables: dict[str, Any] = {}

    def _variable(
        self, name: str, shape: Sequence[int], initial: Tensor, trainable: bool = True
    ) -> Any:
        if name not in self._variables:
            self._variables[name] = tf1.get_variable(
                name,
                shape,
                self._dtype,
                initializer=initial,
                trainable=trainable,
                use_resource=self._use_resource,
            )
        return self._variables[name]

    def _weights(self, name: str, shape: Sequence[int]) -> Any:
        he = tf1.initializers.he_normal(
            seed=None if self._seed is None else self._seed + len(self._variables)
        )
        return self._variable(name, shape, he)

    def _constant(self, name: str, units: int, value: float, trainable: bool = True) -> Any:
        return self._variable(name, [units], tf1.constant_initializer(value), trainable)

    def dense(self, x: Tensor, units: int, name: str) -> Tensor:
        w = self._weights(f"{name}/kernel", [int(x.shape[-1]), units])
        return tf.matmul(x, w) + self._constant(f"{name}/bias", units, 0.0)

    def conv(self, x: Tensor, filters: int, size: int, name: str, stride: int = 1) -> Tensor:
        w = self._weights(f"{name}/kernel", [size, size, int(x.shape[-1]), filters])
        return tf.nn.conv2d(x, w, stride, "SAME")

    def bias(self, x: Tensor, name: str) -> Tensor:
        return tf.nn.bias_add(x, self._constant(f"{name}/bias", int(x.shape[-1]), 0.0))

    def batch_norm(self, x: Tensor, name: str, training: bool, decay: float = 0.9) -> Tensor:
        units = int(x.shape[-1])
        scale = self._constant(f"{name}/scale", units, 1.0)
        offset = self._constant(f"{name}/offset", units, 0.0)
        mean = self._constant(f"{name}/moving_mean", units, 0.0, trainable=False)
        variance = self._constant(f"{name}/moving_variance", units, 1.0, trainable=False)
        if not training:
            y, _, _ = tf1.nn.fused_batch_norm(x, scale, offset, mean, variance, is_training=False)
            return y
        y, batch_mean, batch_variance = tf1.nn.fused_batch_norm(x, scale, offset, is_training=True)
        for moving, batch in ((mean, batch_mean), (variance, batch_variance)):
            update = tf1.assign_sub(moving, (moving - batch) * (1 - decay))
            tf1.add_to_collection(tf1.GraphKeys.UPDATE_OPS, update)
        return y


def _logistic(x: Tensor, classes: int, layers: _Layers, training: bool) -> Tensor:
    flat = tf.reshape(x, [-1, int(x.shape[1] * x.shape[2] * x.shape[3])])
    return layers.dense(flat, classes, "logits")


def _lenet(x: Tensor, classes: int, layers: _Layers, training: bool) -> Tensor:
    for k, filters in enumerate((32, 64)):
        x = tf.nn.relu(layers.bias(layers.conv(x, filters, 5, f"conv{k}"), f"conv{k}"))
        x = tf.nn.max_pool2d(x, 2, 2, "SAME")
    x = tf.reshape(x, [-1, int(x.shape[1] * x.shape[2] * x.shape[3])])
    x = tf.nn.relu(layers.dense(x, 512, "dense"))
    return layers.dense(x, classes, "logits")


def _resnet(blocks: int) -> Callable[..., Tensor]:
    """The CIFAR residual network of 6 * blocks + 2 layers (He et al., 2015, section 4.2)."""

    def network(x: Tensor, classes: int, layers: _Layers, training: bool) -> Tensor:
        def conv_bn(x: Tensor, filters: int, size: int, name: str, stride: int = 1) -> Tensor:
            return layers.batch_norm(layers.conv(x, filters, size, name, stride), name, training)

        x = tf.nn.relu(conv_bn(x, 16, 3, "stem"))
        for stage, filters in enumerate((16, 32, 64)):
            for block in range(blocks):
                name = f"stage{stage}/block{block}"
                stride = 2 if stage > 0 and block == 0 else 1
                y = tf.nn.relu(conv_bn(x, filters, 3, f"{name}/a", stride))
                y = conv_bn(y, filters, 3, f"{name}/b")
                if stride != 1:
                    x = conv_bn(x, filters, 1, f"{name}/shortcut", stride)
                x = tf.nn.relu(x + y)
        return layers.dense(tf.reduce_mean(x, [1, 2]), classes, "logits")

    return network


MODELS: dict[str, Callable[..., Tensor]] = {
    "logistic": _logistic,
    "lenet": _lenet,
    "resnet20": _resnet(3),
    "resnet32": _resnet(5),
}


@dataclasses.dataclass(frozen=True)
class Program:
    """A training program: what to feed and what to run.

    Attributes:
      graph: the graph that holds everything else.
      images: placeholder, uint8-valued or scaled floats, [rows, height, width, channels].
      labels: placeholder, int32, [rows].
      loss: mean cross-entropy over the rows, scalar.
      train_op: one optimiser step (and the update of batch-norm statistics).
      accuracy: fraction of rows classified correctly by the inference network, scalar.
      init: initialises all variables.
    """

    graph: tf.Graph
    images: Tensor
    labels: Tensor
    loss: Tensor
    train_op: Any
    accuracy: Tensor
    init: Any


def build(
    model: str,
    image_shape: tuple[int, int, int],
    classes: int = 10,
    optimiser: Callable[[], Any] | None = None,
    seed: int | None = None,
    use_resource: bool = True,
    dtype: tf.DType = tf.float32,
) -> Program:
    """Builds a classifier and its training step in a graph of its own.

    Args:
      model: a key of `MODELS`.
      image_shape: (height, width, channels).
      classes: number of classes.
      optimiser: called inside the graph, returns a `tf.compat.v1.train.Optimizer`;
        plain gradient descent with rate 0.01 if None.
      seed: of the initial weights; None for different ones every time.
      use_resource: resource variables (True) or reference variables.
      dtype: of the variables.

    Raises:
      ValueError: for an unknown model.
    """
    if model not in MODELS:
        raise ValueError(f"unknown model {model!r}; wanted one of {', '.join(MODELS)}")
    graph = tf.Graph()
    with graph.as_default():
        images = tf1.placeholder(dtype, [None, *image_shape], name="images")
        labels = tf1.placeholder(tf.int32, [None], name="labels")
        layers = _Layers(seed, use_resource, dtype)
        logits = MODELS[model](images, classes, layers, training=True)
        cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        loss = tf.reduce_mean(cross_entropy, name="loss")
        if optimiser is None:
            minimiser = tf1.train.GradientDescentOptimizer(0.01)
        else:
            minimiser = optimiser()
        with tf.control_dependencies(tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)):
            train_op = minimiser.minimize(loss, name="train_op")
        inference = MODELS[model](images, classes, layers, training=False)
        hits = tf.equal(tf.argmax(inference, axis=1, output_type=tf.int32), labels)
        accuracy = tf.reduce_mean(tf.cast(hits, tf.float32), name="accuracy")
        init = tf1.global_variables_initializer()
    return Program(graph, images, labels, loss, train_op, accuracy, init)
