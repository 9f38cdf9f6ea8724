"""A custom training loop on learners: a small network learns to tell two spirals apart.

python examples/custom_loop.py --steps 300
"""

import argparse
import time

import keras
import numpy as np
import tensorflow as tf

import tensorbow


def spirals(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns points [rows, 2] on two spirals, and the spiral of each [rows]."""
    random = np.random.default_rng(seed)
    label = random.integers(0, 2, rows)
    angle = random.uniform(0.5, 1.5 * np.pi, rows)
    turned = angle + np.pi * label
    points = np.stack([angle * np.cos(turned), angle * np.sin(turned)], 1) / 2
    return (points + random.normal(0, 0.01, points.shape)).astype(np.float32), label


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rows", type=int, default=256, help="of a step")
    arguments = parser.parse_args()

    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(128, "tanh") for _ in range(3)]
    model = keras.Sequential([keras.Input((2,)), *layers, keras.layers.Dense(2)])
    optimizer = keras.optimizers.Adam(5e-3)
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tensorbow.function  # before: @tf.function
    def step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_fn(y, model(x, training=True))
        weights = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss

    x, y = spirals(8192, seed=0)
    begin = time.perf_counter()
    for i in range(arguments.steps):
        batch = np.random.default_rng(i).integers(0, len(x), arguments.rows)
        loss = step(x[batch], y[batch])
    seconds = time.perf_counter() - begin

    x, y = spirals(1024, seed=1)
    right = np.mean(np.argmax(model.predict(x, verbose=0), 1) == y)
    session = tensorbow.session_of(step)
    learners = 1 if session is None else session.num_learners
    print(f"{learners} learners: {arguments.steps / seconds:.0f} steps/s, loss {float(loss):.3f}")
    print(f"accuracy {right:.3f}")


if __name__ == "__main__":
    main()
