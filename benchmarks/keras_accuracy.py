"""The accuracy of `fit` on learners after every epoch, against stock Keras.

    python benchmarks/keras_accuracy.py --data ../shared/data/mnist.npz [--seeds N] [--epochs N]

LeNet under momentum at the same `batch_size` and learning rate. A seed gives every contender the
same initial weights and the same rows in the same order. Averaged gradients (S-SGD) must then give
stock's losses and accuracies, except for rounding; averaged models (SMA) must stay within the
spread of stock's seeds, or above it. Writes benchmarks/results/NAME.{json,md}.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
from interleave import machine
from training_data import images

RESULTS = pathlib.Path(__file__).parent / "results"
BATCH, RATE, MOMENTUM = 32, 0.02, 0.9
CONTENDERS = {"stock Keras": None, "SMA": "SMA", "S-SGD": "SSGD"}

Curves = dict[str, list[dict[str, list[float]]]]  # by contender, seed, and quantity


def curves(data: Any, seed: int, epochs: int, synchroniser: str | None) -> dict[str, list[float]]:
    """Returns training loss and test accuracy of one model after every epoch."""
    import keras

    import tensorbow
    from tensorbow.cli.train import keras_networks

    keras.utils.set_random_seed(seed)
    model = keras_networks.build("lenet", data.x_train.shape[1:])
    if synchroniser is not None:
        options = tensorbow.Options(synchroniser=getattr(tensorbow, synchroniser)())
        tensorbow.keras.replicate(model, options)
    model.compile(
        keras.optimizers.SGD(RATE, momentum=MOMENTUM),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    order = np.random.default_rng(seed).permutation(len(data.x_train))
    history = model.fit(
        data.x_train[order],
        data.y_train[order],
        batch_size=BATCH,
        epochs=epochs,
        shuffle=False,
        validation_data=(data.x_test, data.y_test),
        validation_batch_size=500,
        verbose=0,
    ).history
    return {"loss": history["loss"], "accuracy": history["val_accuracy"]}


def lines_of(found: Curves) -> list[str]:
    """Returns Markdown: accuracies epoch by epoch, and each contender's distance from stock."""
    stock = np.array([run["accuracy"] for run in found["stock Keras"]])
    epochs = stock.shape[1]
    lines = [
        "| | " + " | ".join(f"epoch {k + 1}" for k in range(epochs)) + " |",
        "|---" * (epochs + 1) + "|",
    ]
    for name, runs in found.items():
        values = np.array([run["accuracy"] for run in runs])
        cells = [f"{v.mean():.4f} ({v.min():.4f}–{v.max():.4f})" for v in values.T]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines.append("")
    for name, runs in found.items():
        if name == "stock Keras":
            continue
        values = np.array([run["accuracy"] for run in runs])
        below = int((values.mean(axis=0) < stock.min(axis=0)).sum())
        losses = [np.array([run["loss"] for run in some]) for some in (runs, found["stock Keras"])]
        apart = np.max(np.abs(losses[0] / losses[1] - 1), axis=0)
        lines.append(
            f"- {name}: its mean is below stock's worst seed after {below} of {epochs} epochs; "
            "seed by seed, accuracies differ from stock's by at most "
            f"{np.max(np.abs(values - stock)):.4f}, training losses after each epoch by at most "
            + ", ".join(f"{a:.1e}" for a in apart)
            + " (relative)."
        )
    return lines


def main() -> None:
    """Trains, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=pathlib.Path, help=".npz in the layout of Keras's MNIST")
    parser.add_argument("--rows", type=int, default=10_000, help="training images used")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--output", default="keras_accuracy", help="name of the result files")
    arguments = parser.parse_args()

    data = images(arguments.data, (28, 28, 1))
    rows = slice(arguments.rows)
    data = dataclasses.replace(data, x_train=data.x_train[rows], y_train=data.y_train[rows])
    found: Curves = {name: [] for name in CONTENDERS}
    for seed in range(arguments.seeds):
        for name, synchroniser in CONTENDERS.items():
            found[name].append(curves(data, seed, arguments.epochs, synchroniser))
            print(seed, name, found[name][-1], flush=True)
    where = machine()
    lines = [
        "# Keras fit, accuracy",
        "",
        f"{where['cpu']}, {where['cores']} cores; TensorFlow {where['tensorflow']}, Keras "
        f"{where['keras']}; {where['date']}. LeNet, {len(data.x_train):,} training and "
        f"{len(data.x_test):,} test images, batch_size={BATCH}, gradient descent at {RATE} "
        f"with momentum {MOMENTUM}, {arguments.seeds} seeds: mean test accuracy (range).",
        "",
        *lines_of(found),
    ]
    print("\n".join(lines))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{arguments.output}.json").write_text(
        json.dumps({"machine": where, "runs": found}, indent=1) + "\n"
    )
    (RESULTS / f"{arguments.output}.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
