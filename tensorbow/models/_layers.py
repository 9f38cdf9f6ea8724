"""Layers of TensorFlow-1 programs: variables by name, and what is computed with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

tf1 = tf.compat.v1

Tensor = Any


class Layers:
    """Variables by layer name, created on first use and shared afterwards.

    Args:
      seed: of the initial weights; None for different ones every time.
      use_resource: resource variables (True) or reference variables.
      dtype: of the variables.
    """

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

    def _next_seed(self) -> int | None:
        return None if self._seed is None else self._seed + len(self._variables)

    def _weights(self, name: str, shape: Sequence[int]) -> Any:
        return self._variable(name, shape, tf1.initializers.he_normal(seed=self._next_seed()))

    def _constant(self, name: str, units: int, value: float, trainable: bool = True) -> Any:
        return self._variable(name, [units], tf1.constant_initializer(value), trainable)

    def dense(self, x: Tensor, units: int, name: str) -> Tensor:
        """Adds x·W + b over the last dimension; of more than two, all but the first are static."""
        size = int(x.shape[-1])
        w = self._weights(f"{name}/kernel", [size, units])
        b = self._constant(f"{name}/bias", units, 0.0)
        if x.shape.rank == 2:
            return tf.matmul(x, w) + b
        flat = tf.matmul(tf.reshape(x, [-1, size]), w) + b
        return tf.reshape(flat, [-1, *map(int, x.shape[1:-1]), units])

    def conv(self, x: Tensor, filters: int, size: int, name: str, stride: int = 1) -> Tensor:
        """Adds a convolution without a bias, of the same size (divided by the stride)."""
        w = self._weights(f"{name}/kernel", [size, size, int(x.shape[-1]), filters])
        return tf.nn.conv2d(x, w, stride, "SAME")

    def depthwise(self, x: Tensor, size: int, name: str, stride: int = 1) -> Tensor:
        """Adds one filter for each channel, without a bias."""
        # He (2015) for a filter that sees size² values; as he_normal is for conv.
        he = tf1.initializers.variance_scaling(
            2.0 * int(x.shape[-1]), "fan_in", "truncated_normal", seed=self._next_seed()
        )
        w = self._variable(f"{name}/kernel", [size, size, int(x.shape[-1]), 1], he)
        return tf.nn.depthwise_conv2d(x, w, [1, stride, stride, 1], "SAME")

    def bias(self, x: Tensor, name: str) -> Tensor:
        """Adds one for each channel."""
        return tf.nn.bias_add(x, self._constant(f"{name}/bias", int(x.shape[-1]), 0.0))

    def batch_norm(self, x: Tensor, name: str, training: bool, decay: float = 0.9) -> Tensor:
        """Adds batch normalisation; the updates of its statistics are in UPDATE_OPS."""
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

    def layer_norm(self, x: Tensor, name: str) -> Tensor:
        """Adds layer normalisation over the last dimension."""
        units = int(x.shape[-1])
        mean, variance = tf.nn.moments(x, [-1], keepdims=True)
        scale = self._constant(f"{name}/scale", units, 1.0)
        return (x - mean) * tf.math.rsqrt(variance + 1e-5) * scale + self._constant(
            f"{name}/offset", units, 0.0
        )

    def vectors(self, count: int, width: int, name: str, limit: float = 0.05) -> Any:
        """Adds a table of that many vectors, uniform in ±limit at first; [count, width]."""
        uniform = tf1.random_uniform_initializer(-limit, limit, seed=self._next_seed())
        return self._variable(name, [count, width], uniform)

    def lstm(self, x: Tensor, units: int, name: str, every_step: bool) -> Tensor:
        """Adds a layer of long short-term memory in a while_loop, as dynamic_rnn does it.

        Args:
          x: [rows, steps, inputs]; steps and inputs are static.
          units: of its state.
          name: of its variables.
          every_step: whether to return the outputs of all steps, [rows, steps, units], or
            that of the last one, [rows, units].
        """
        steps, inputs = int(x.shape[1]), int(x.shape[2])
        glorot = tf1.glorot_uniform_initializer(seed=self._next_seed())
        w = self._variable(f"{name}/w", [inputs + units, 4 * units], glorot)
        b = self._constant(f"{name}/b", 4 * units, 0.0)
        pieces = tf.TensorArray(self._dtype, steps).unstack(tf.transpose(x, [1, 0, 2]))

        def step(t: Any, c: Any, h: Any, *outputs: Any) -> tuple[Any, ...]:
            gates = tf.matmul(tf.concat([pieces.read(t), h], 1), w) + b
            i, j, f, o = tf.split(gates, 4, 1)
            c = c * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
            h = tf.tanh(c) * tf.sigmoid(o)
            return t + 1, c, h, *(array.write(t, h) for array in outputs)

        zeros = tf.zeros([tf.shape(x)[0], units], self._dtype)
        zeros.set_shape([None, units])
        start = [tf.constant(0), zeros, zeros]
        start += [tf.TensorArray(self._dtype, steps)] if every_step else []
        _, _, last, *outputs = tf1.while_loop(lambda t, *rest: t < steps, step, start)
        if not every_step:
            return last
        found = tf.transpose(outputs[0].stack(), [1, 0, 2])
        found.set_shape([None, steps, units])
        return found

    def attention(self, x: Tensor, heads: int, name: str, causal: bool) -> Tensor:
        """Adds attention of several heads; [rows, tokens, width] both, tokens and width static.

        Args:
          x: what attends and is attended to.
          heads: divide the width.
          name: of its variables.
          causal: whether a token sees only itself and those before it.
        """
        tokens, width = int(x.shape[1]), int(x.shape[2])

        def split(value: Tensor) -> Tensor:
            return tf.transpose(
                tf.reshape(value, [-1, tokens, heads, width // heads]), [0, 2, 1, 3]
            )

        q, k, v = (split(self.dense(x, width, f"{name}/{part}")) for part in ("q", "k", "v"))
        scores = tf.matmul(q, k, transpose_b=True) / (width / heads) ** 0.5
        if causal:
            later = 1 - tf.linalg.band_part(tf.ones([tokens, tokens], self._dtype), -1, 0)
            scores -= 1e9 * later
        mixed = tf.transpose(tf.nn.softmax(scores) @ v, [0, 2, 1, 3])
        return self.dense(tf.reshape(mixed, [-1, tokens, width]), width, f"{name}/mixed")
