"""The speed of custom training loops: `tf.function` against `tensorbow.function`.

    python benchmarks/function.py [--networks lenet:32 …] [--slices N] [--output NAME]

Each step is a `GradientTape` over a Keras model, with Keras's loss and optimiser; logistic
regression has plain variables. Compared are `tf.function`, `tf.function(jit_compile=True)` and
`tensorbow.function` with default options, in turn, slice by slice; the ratio of two is the median
of their ratios within a slice. Writes benchmarks/results/NAME.{json,md}.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
from contenders import Contender, Stepper
from interleave import machine, measure, spread

RESULTS = pathlib.Path(__file__).parent / "results"
NETWORKS = ["logistic:32", "lenet:32", "mlp:32", "convnet:32", "resnet20:32", "wide:32"]
BATCHES = 20
WAYS = {"stock": "tf.function", "xla": "tf.function, XLA", "learners": "tensorbow.function"}


def _logistic() -> tuple[Callable[..., Any], tuple[int, ...]]:
    import tensorflow as tf

    w = tf.Variable(tf.random.stateless_normal([784, 10], [1, 2]) * 0.01)
    b = tf.Variable(tf.zeros([10]))

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            logits = tf.matmul(x, w) + b
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
            loss = tf.reduce_mean(each)
        for gradient, variable in zip(tape.gradient(loss, [w, b]), [w, b]):
            variable.assign_sub(0.1 * gradient)
        return loss

    return step, (784,)


def _keras_model(network: str) -> tuple[Any, Any, tuple[int, ...]]:
    """Returns a network, its optimiser and the shape of a row."""
    import keras

    from tensorbow.cli.train import keras_networks

    layers, optimizers = keras.layers, keras.optimizers
    if network in ("lenet", "resnet20"):
        shape = (28, 28, 1) if network == "lenet" else (32, 32, 3)
        return keras_networks.build(network, shape), optimizers.SGD(0.05), shape
    if network in ("mlp", "wide"):
        units = 512 if network == "mlp" else 3400  # 0.9 and 25.8 million parameters
        made = [layers.Dense(units, "relu") for _ in range(3)]
        model = keras.Sequential([keras.layers.Input((784,)), *made, layers.Dense(10)])
        return model, optimizers.Adam(1e-3), (784,)
    if network != "convnet":
        raise ValueError(f"unknown network {network!r}; wanted one of {', '.join(NETWORKS)}")
    made = [layers.Input((28, 28, 1))]
    for filters in (16, 32, 32):
        made += [layers.Conv2D(filters, 3, padding="same", activation="relu")]
        made += [layers.MaxPool2D()]
    model = keras.Sequential([*made, layers.Flatten(), layers.Dense(10)])
    return model, optimizers.SGD(0.05), (28, 28, 1)


def _keras_step(network: str) -> tuple[Callable[..., Any], tuple[int, ...]]:
    import keras
    import tensorflow as tf

    model, optimizer, shape = _keras_model(network)
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_fn(y, model(x, training=True))
        weights = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss

    return step, shape


def custom_loop(model: str, rows: int, way: str) -> Stepper:
    """Trains by the step of a network with one of the decorators."""
    import tensorflow as tf

    import tensorbow

    step, shape = _logistic() if model == "logistic" else _keras_step(model)
    decorated: Any = tensorbow.function(step)
    if way != "learners":
        decorated = tf.function(step, jit_compile=way == "xla")
    random = np.random.default_rng(0)
    batches = [
        (
            tf.constant(random.random((rows, *shape), np.float32)),
            tf.constant(random.integers(0, 10, rows)),
        )
        for _ in range(BATCHES)
    ]
    done = 0

    def steps(count: int) -> None:
        nonlocal done
        for _ in range(count):
            loss = decorated(*batches[done % BATCHES])
            done += 1
        float(loss)  # waits for all computations

    return steps


def contenders(batch: int) -> list[Contender]:
    """Returns everything that is compared at `batch` rows a step."""
    return [Contender(name, "custom_loop", batch, {"way": way}) for way, name in WAYS.items()]


def table(speeds: dict[str, list[float]]) -> list[str]:
    """Returns Markdown: samples/s and ratios to `tf.function`, each with quartiles."""
    stock = speeds[WAYS["stock"]]
    lines = ["| | samples/s (quartiles) | ÷ tf.function |", "|---|---|---|"]
    for name, values in speeds.items():
        speed = "{:,.0f} ({:,.0f}–{:,.0f})".format(*spread(values))
        ratio = "{:.2f} ({:.2f}–{:.2f})".format(*spread(np.divide(values, stock)))
        lines.append(f"| {name} | {speed} | {ratio} |")
    return lines


def main() -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", nargs="+", default=NETWORKS, metavar="NETWORK:BATCH")
    parser.add_argument("--slices", type=int, default=15, help="slices of each contender")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a slice")
    parser.add_argument("--output", default="function", help="name of the result files")
    arguments = parser.parse_args()

    where = machine()
    report: dict[str, Any] = {"machine": where, "slices": arguments.slices, "rows": {}}
    lines = [
        "# Custom training loops",
        "",
        f"{where['cpu']}, {where['cores']} cores, {where['memory_gib']} GiB; TensorFlow "
        f"{where['tensorflow']}, Keras {where['keras']}, Python {where['python']}; "
        f"{where['date']}.",
        f"{arguments.slices} slices of {arguments.seconds:g} s of each, taken in turn; medians "
        f"with quartiles. Load average at the start: {os.getloadavg()[0]:.1f}.",
    ]
    for row in arguments.networks:
        network, batch = row.split(":")
        compared = contenders(int(batch))
        speeds = measure(network, compared, arguments.slices, arguments.seconds)
        section = ["", f"## {network}, {batch} rows a step", "", *table(speeds)]
        print("\n".join(section), flush=True)
        lines += section
        report["rows"][row] = {"samples_per_s": speeds}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{arguments.output}.json").write_text(json.dumps(report, indent=1) + "\n")
    (RESULTS / f"{arguments.output}.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
