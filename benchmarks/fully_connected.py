"""A fully connected ReLU network as a TensorFlow-1 program, and its training as a contender."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence
from typing import Any

IMAGE = (28, 28, 1)
INPUTS, CLASSES = 784, 10
HELD_OUT_ROWS = 1000
# Learning rates that people use.
RATES = {"adam": 1e-3, "momentum": 0.01, "sgd": 0.1}


def optimiser(name: str, rate: Any) -> Any:
    """Returns one of TensorFlow's optimisers: "sgd", "momentum" (0.9) or "adam"."""
    import tensorflow as tf

    train = tf.compat.v1.train
    if name == "adam":
        return train.AdamOptimizer(rate)
    if name == "momentum":
        return train.MomentumOptimizer(rate, 0.9)
    if name == "sgd":
        return train.GradientDescentOptimizer(rate)
    raise ValueError(f'unknown optimiser {name!r}; wanted "sgd", "momentum" or "adam"')


def logits(images: Any, hidden: Sequence[int], seed: int) -> Any:
    """Returns the network's output for `images`, [rows, INPUTS]."""
    import tensorflow as tf

    from tensorbow import models

    layers = models.Layers(seed, True, tf.float32)
    for k, units in enumerate(hidden):
        images = tf.nn.relu(layers.dense(images, units, f"dense{k}"))
    return layers.dense(images, CLASSES, "logits")


def cross_entropy(scores: Any, labels: Any) -> Any:
    """Returns the mean cross-entropy over the rows."""
    import tensorflow as tf

    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=scores)
    )


def build(hidden: Sequence[int], make_optimiser: Callable[[Any], Any], seed: int) -> dict[str, Any]:
    """Builds the program in a graph of its own.

    Args:
      hidden: units of the hidden layers.
      make_optimiser: given the global step, inside the graph.
      seed: of the initial weights.

    Returns:
      graph, images, labels, loss, train_op, init.
    """
    import tensorflow as tf

    tf1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default():
        images = tf1.placeholder(tf.float32, [None, INPUTS], name="images")
        labels = tf1.placeholder(tf.int32, [None], name="labels")
        loss = cross_entropy(logits(images, hidden, seed), labels)
        step = tf1.train.get_or_create_global_step()
        train_op = make_optimiser(step).minimize(loss, step)
        init = tf1.global_variables_initializer()
    return {
        "graph": graph,
        "images": images,
        "labels": labels,
        "loss": loss,
        "train_op": train_op,
        "init": init,
    }


def dying_rate(
    model: str,
    rows: int,
    hidden: Sequence[int],
    optimiser_name: str,
    drop_every: int,
    data: str | None,
    synchroniser: str,
    arguments: dict[str, Any],
    learners: int,
) -> Callable[[int], None]:
    """Trains the network with a learning rate that drops by 10 after every `drop_after` steps.

    `rows` are fed to a run, whatever the number of learners; rows are shuffled again for
    every pass. The stepper's `value()` is the loss on rows that are not trained on.
    """
    import tensorflow as tf
    from accuracy_runs import batches
    from training_data import images
    from ways import session

    found = images(pathlib.Path(data) if data else None, IMAGE)
    x, y = found.x_train.reshape(-1, INPUTS), found.y_train
    held_out = found.x_test.reshape(-1, INPUTS)[:HELD_OUT_ROWS], found.y_test[:HELD_OUT_ROWS]

    def make(step: Any) -> Any:
        first = RATES[optimiser_name]
        rate = tf.compat.v1.train.exponential_decay(first, step, drop_every, 0.1, staircase=True)
        return optimiser(optimiser_name, rate)

    program = build(hidden, make, seed=1)
    order = batches(rows, len(x), seed=1)
    trained = session(program["graph"], synchroniser, arguments, learners)
    trained.run(program["init"])

    def step(count: int) -> None:
        for _ in range(count):
            index = next(order)
            feeds = {program["images"]: x[index], program["labels"]: y[index]}
            trained.run(program["train_op"], feeds)

    def value() -> float:
        feeds = dict(zip((program["images"], program["labels"]), held_out))
        return float(trained.run(program["loss"], feeds))

    step.value = value  # type: ignore[attr-defined]
    return step
