"""Keras programs as people write them: a model, the arrays for `fit`, arguments for `compile`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

Program = tuple[keras.Model, tuple[np.ndarray, ...], dict[str, Any]]
ROWS = 1024
_RANDOM = np.random.default_rng(0)


def _compiled() -> dict[str, Any]:
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    return {"optimizer": keras.optimizers.Adam(1e-3), "loss": loss, "metrics": ["accuracy"]}


def _images(*shape: int) -> np.ndarray:
    return _RANDOM.random((ROWS, *shape), np.float32)


def _words(length: int, words: int) -> np.ndarray:
    return _RANDOM.integers(0, words, (ROWS, length)).astype(np.int32)


def _classifier(x: np.ndarray, *stack: Any) -> Program:
    model = keras.Sequential([keras.Input(x.shape[1:], dtype=str(x.dtype)), *stack])
    return model, (x, _RANDOM.integers(0, 10, ROWS)), _compiled()


def _perceptron() -> Program:
    hidden = [layers.Dense(128, "relu"), layers.Dropout(0.2)]
    return _classifier(_images(28, 28), layers.Flatten(), *hidden, layers.Dense(10))


def _convolutional() -> Program:
    body = [layers.Conv2D(16, 3, activation="relu"), layers.BatchNormalization()]
    body += [layers.MaxPooling2D(), layers.Conv2D(32, 3, activation="relu")]
    return _classifier(_images(28, 28, 1), *body, layers.Flatten(), layers.Dense(10))


def _lstm() -> Program:
    return _classifier(
        _words(40, 5000), layers.Embedding(5000, 32), layers.LSTM(32), layers.Dense(10)
    )


def _gru() -> Program:
    body = [layers.Bidirectional(layers.GRU(16, return_sequences=True)), layers.GRU(16)]
    return _classifier(_images(20, 8), *body, layers.Dense(10))


def _block(x: Any, width: int, heads: int) -> Any:
    """Makes a block of a transformer."""
    normal = layers.LayerNormalization(epsilon=1e-6)(x)
    x = layers.Add()(
        [layers.MultiHeadAttention(heads, width // heads, dropout=0.1)(*[normal] * 2), x]
    )
    hidden = layers.LayerNormalization(epsilon=1e-6)(x)
    hidden = layers.Dropout(0.1)(layers.Dense(2 * width, "gelu")(hidden))
    return layers.Add()([layers.Dropout(0.1)(layers.Dense(width)(hidden)), x])


class _Positions(layers.Layer):
    """Adds an embedding of each position."""

    def build(self, shape: Any) -> None:
        self.embedding = self.add_weight(shape=shape[1:], name="positions")

    def call(self, x: Any) -> Any:
        return x + self.embedding


def _vision_transformer() -> Program:
    inputs = keras.Input((32, 32, 3))
    x = layers.Conv2D(64, 4, 4)(inputs)
    x = _Positions()(layers.Reshape((64, 64))(x))
    for _ in range(4):
        x = _block(x, 64, 4)
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization(epsilon=1e-6)(x))
    model = keras.Model(inputs, layers.Dense(10)(layers.Dropout(0.5)(x)))
    return model, (_images(32, 32, 3), _RANDOM.integers(0, 10, ROWS)), _compiled()


def _text_transformer() -> Program:
    inputs = keras.Input((32,), dtype="int32")
    x = _block(_Positions()(layers.Embedding(2000, 32)(inputs)), 32, 2)
    model = keras.Model(inputs, layers.Dense(10)(layers.GlobalAveragePooling1D()(x)))
    return model, (_words(32, 2000), _RANDOM.integers(0, 10, ROWS)), _compiled()


class _Wgan(keras.Model):
    """Three steps of a critic with a penalty of its gradients, and one of a generator."""

    def __init__(self) -> None:
        super().__init__()
        critic: list[Any] = [keras.Input((28, 28, 1)), layers.ZeroPadding2D(2)]
        for filters in (16, 32, 64):
            critic += [layers.Conv2D(filters, 5, 2, "same"), layers.LeakyReLU(0.2)]
            critic.append(layers.Dropout(0.3))
        self.critic = keras.Sequential([*critic, layers.Flatten(), layers.Dense(1)])
        body: list[Any] = [keras.Input((64,)), layers.Dense(4 * 4 * 64, use_bias=False)]
        body += [layers.BatchNormalization(), layers.LeakyReLU(0.2), layers.Reshape((4, 4, 64))]
        for filters in (32, 16, 8):
            body += [layers.UpSampling2D(), layers.Conv2D(filters, 3, padding="same")]
            body += [layers.BatchNormalization(), layers.LeakyReLU(0.2)]
        body += [layers.Conv2D(1, 3, padding="same", activation="tanh"), layers.Cropping2D(2)]
        self.generator = keras.Sequential(body)

    def compile(self, critic_optimizer: Any, generator_optimizer: Any) -> None:
        super().compile()
        self.critic_optimizer, self.generator_optimizer = critic_optimizer, generator_optimizer

    def _penalty(self, real: Any, fake: Any) -> Any:
        between = real + tf.random.normal([tf.shape(real)[0], 1, 1, 1]) * (fake - real)
        with tf.GradientTape() as tape:
            tape.watch(between)
            score = self.critic(between, training=True)
        norm = tf.sqrt(tf.reduce_sum(tf.square(tape.gradient(score, between)), [1, 2, 3]))
        return tf.reduce_mean((norm - 1) ** 2)

    def _made(self, images: Any) -> Any:
        noise = tf.random.normal([tf.shape(images)[0], 64])
        return self.generator(noise, training=True)

    def train_step(self, data: Any) -> dict[str, Any]:
        (images,) = data if isinstance(data, tuple) else (data,)
        for _ in range(3):
            with tf.GradientTape() as tape:
                fake = self._made(images)
                scores = self.critic(fake, training=True) - self.critic(images, training=True)
                cost = tf.reduce_mean(scores) + 10.0 * self._penalty(images, fake)
            weights = self.critic.trainable_variables
            self.critic_optimizer.apply_gradients(zip(tape.gradient(cost, weights), weights))
        with tf.GradientTape() as tape:
            loss = -tf.reduce_mean(self.critic(self._made(images), training=True))
        weights = self.generator.trainable_variables
        self.generator_optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return {"critic": cost, "generator": loss}


def _wgan() -> Program:
    optimisers = [keras.optimizers.Adam(2e-4, beta_1=0.5, beta_2=0.9) for _ in range(2)]
    return (
        _Wgan(),
        (_images(28, 28, 1),),
        dict(zip(("critic_optimizer", "generator_optimizer"), optimisers)),
    )


class _Convolution(layers.Layer):
    """Mixes nodes that are in one batch, whose rows nobody can divide."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.dense = layers.Dense(units)

    def call(self, x: Any) -> Any:
        near = ops.softmax(ops.matmul(x, ops.transpose(x)))
        return ops.relu(self.dense(ops.matmul(near, x)))


def _graph_convolution() -> Program:
    return _classifier(_images(16), _Convolution(16), _Convolution(16), layers.Dense(10))


def _autoencoder() -> Program:
    x = _images(784)
    body = [layers.Dense(128, "relu"), layers.Dense(16), layers.Dense(128, "relu")]
    model = keras.Sequential([keras.Input((784,)), *body, layers.Dense(784, "sigmoid")])
    return model, (x, x), {"optimizer": "adam", "loss": "binary_crossentropy"}


PROGRAMS: dict[str, Callable[[], Program]] = {
    "perceptron": _perceptron,
    "CNN": _convolutional,
    "autoencoder": _autoencoder,
    "embedding + LSTM": _lstm,
    "two GRUs": _gru,
    "text transformer": _text_transformer,
    "vision transformer": _vision_transformer,
    "graph convolution": _graph_convolution,
    "WGAN-GP": _wgan,
}
