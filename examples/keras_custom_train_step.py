"""A GAN with a train_step of its own, on several learners.

    python examples/keras_custom_train_step.py --learners 2 --epochs 20

Generator and discriminator belong to one model, so that one train_step trains both:
each learner has a replica of both, and draws noise of its own. The generator's gradients follow
from the updated discriminator, so models are averaged, not gradients.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf

import tensorbow
from tensorbow import datasets

NOISE = 16


class Gan(keras.Model):
    """A generator of images and a discriminator that tells them from real ones."""

    def __init__(self, image_shape: tuple[int, int, int]) -> None:
        super().__init__()
        pixels = int(np.prod(image_shape))
        layers = keras.layers
        self.generator = keras.Sequential(
            [
                keras.Input((NOISE,)),
                layers.Dense(128, "relu"),
                layers.Dense(pixels, "sigmoid"),
                layers.Reshape(image_shape),
            ]
        )
        self.discriminator = keras.Sequential(
            [keras.Input(image_shape), layers.Flatten(), layers.Dense(128, "relu"), layers.Dense(1)]
        )
        self.seed_generator = keras.random.SeedGenerator(1)
        self.d_loss = keras.metrics.Mean(name="d_loss")
        self.g_loss = keras.metrics.Mean(name="g_loss")

    def compile(self, d_optimizer: Any, g_optimizer: Any) -> None:
        """One optimiser for each network."""
        super().compile(loss=None)
        self.d_optimizer = d_optimizer
        self.g_optimizer = g_optimizer
        self.cross_entropy = keras.losses.BinaryCrossentropy(from_logits=True)

    @property
    def metrics(self) -> list[Any]:
        return [self.d_loss, self.g_loss]

    def fakes(self, rows: Any) -> Any:
        """Returns generated images."""
        return self.generator(keras.random.normal((rows, NOISE), seed=self.seed_generator))

    def train_step(self, real: Any) -> dict[str, Any]:
        real = real[0] if isinstance(real, tuple) else real
        rows = tf.shape(real)[0]
        labels = tf.concat([tf.ones((rows, 1)), tf.zeros((rows, 1))], 0)
        with tf.GradientTape() as tape:
            verdicts = self.discriminator(tf.concat([real, self.fakes(rows)], 0))
            d_loss = self.cross_entropy(labels, verdicts)
        weights = self.discriminator.trainable_weights
        self.d_optimizer.apply_gradients(zip(tape.gradient(d_loss, weights), weights))
        with tf.GradientTape() as tape:
            verdicts = self.discriminator(self.fakes(rows))
            g_loss = self.cross_entropy(tf.ones((rows, 1)), verdicts)
        weights = self.generator.trainable_weights
        self.g_optimizer.apply_gradients(zip(tape.gradient(g_loss, weights), weights))
        self.d_loss.update_state(d_loss)
        self.g_loss.update_state(g_loss)
        return {"d_loss": self.d_loss.result(), "g_loss": self.g_loss.result()}


def draw(image: np.ndarray) -> str:
    """Returns an image [height, width, 1] in [0, 1] as text."""
    shades = " .:-=+*#%@"
    rows = (np.clip(image[..., 0], 0, 1) * (len(shades) - 1)).round().astype(int)
    return "\n".join("".join(shades[k] * 2 for k in row) for row in rows)


def main() -> None:
    """Trains and shows an image."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--learners", type=int, help="default: one per core")
    parser.add_argument("--batch-size", type=int, default=64, help="rows of a step")
    parser.add_argument("--epochs", type=int, default=20)
    arguments = parser.parse_args()
    data = datasets.digits()

    keras.utils.set_random_seed(1)
    options = tensorbow.Options(
        learners_per_device=arguments.learners, synchroniser=tensorbow.SMA()
    )
    model = tensorbow.keras.replicate(Gan(data.image_shape), options)
    model.compile(keras.optimizers.Adam(2e-3, beta_1=0.5), keras.optimizers.Adam(2e-3, beta_1=0.5))
    model.fit(data.x_train, batch_size=arguments.batch_size, epochs=arguments.epochs, verbose=2)
    print(f"{model.num_learners} learners; an image of the central model's generator:")
    print(draw(model.fakes(1).numpy()[0]))


if __name__ == "__main__":
    main()
