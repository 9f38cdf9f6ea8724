"""A Keras model on several learners: one line more than without.

    python examples/keras_mnist.py --learners 2 --epochs 3

Trains on MNIST if Keras has it in its cache, else on digits made of scikit-learn's.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np

import tensorbow
from tensorbow import datasets


def lenet(image_shape: tuple[int, int, int], classes: int) -> keras.Model:
    """Returns a small convolutional network."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input(image_shape),
            layers.Conv2D(32, 5, padding="same", activation="relu"),
            layers.MaxPooling2D(padding="same"),
            layers.Conv2D(64, 5, padding="same", activation="relu"),
            layers.MaxPooling2D(padding="same"),
            layers.Flatten(),
            layers.Dense(512, activation="relu"),
            layers.Dense(classes),
        ]
    )


def main() -> None:
    """Trains, evaluates, saves and loads."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--learners", type=int, help="default: one per core")
    parser.add_argument("--batch-size", type=int, default=32, help="rows of a step")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--data", help="an .npz file in MNIST's layout")
    arguments = parser.parse_args()
    data = datasets.load(arguments.data)

    keras.utils.set_random_seed(1)
    model = lenet(data.image_shape, data.classes)
    model = tensorbow.keras.replicate(  # the one line
        model, tensorbow.Options(learners_per_device=arguments.learners)
    )
    model.compile(
        keras.optimizers.SGD(0.02, momentum=0.9),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    print(
        f"{data.name}: {len(data.x_train)} rows, {arguments.batch_size} a step, divided among "
        f"{model.num_learners} learners"
    )
    start = time.perf_counter()
    model.fit(
        data.x_train,
        data.y_train,
        batch_size=arguments.batch_size,
        epochs=arguments.epochs,
        validation_data=(data.x_test, data.y_test),
        callbacks=[keras.callbacks.EarlyStopping("val_accuracy", patience=3, mode="max")],
        verbose=2,
    )
    print(f"{time.perf_counter() - start:.1f} s of training and validation")

    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "lenet.keras")
        model.save(path)  # the central model; a plain Keras file
        loaded = keras.models.load_model(path)
    rows = data.x_test[:100]
    difference = np.abs(loaded.predict(rows, verbose=0) - model.predict(rows, verbose=0)).max()
    print(f"saved and loaded with plain Keras: predictions differ by at most {difference:.1e}")


if __name__ == "__main__":
    main()
