"""Networks of many kinds as TensorFlow-1 programs, for properties that hold for all of them."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

TUNING_SECONDS = 120  # the limit before a network is measured
SEED = 1
BATCHES = 4  # fed in turn

Feeds = Callable[[np.random.Generator, int], list[np.ndarray]]


@dataclasses.dataclass(frozen=True)
class Network:
    """A network to train.

    Attributes:
      rows: fed to a run.
      optimiser: "sgd", "momentum" or "adam".
      make: makes the placeholders and the loss, inside a graph.
      feeds: random values for the placeholders, so many rows of them.
    """

    rows: int
    optimiser: str
    make: Callable[[], tuple[list[Any], Any]]
    feeds: Feeds


def _layers() -> Any:
    import tensorflow as tf

    from tensorbow import models

    return models.Layers(SEED, True, tf.float32)


def _placeholders(*shapes: Sequence[int], integers: Sequence[int] = ()) -> list[Any]:
    import tensorflow as tf

    types = [tf.int32 if k in integers else tf.float32 for k in range(len(shapes))]
    placeholder = tf.compat.v1.placeholder
    return [placeholder(t, [None, *shape]) for t, shape in zip(types, shapes, strict=True)]


def _classified(inputs: Sequence[int], classes: int) -> Feeds:
    def feeds(random: np.random.Generator, rows: int) -> list[np.ndarray]:
        x = random.standard_normal((rows, *inputs), np.float32)
        return [x, random.integers(0, classes, rows).astype(np.int32)]

    return feeds


def _classifier(
    rows: int,
    optimiser: str,
    inputs: Sequence[int],
    scores: Callable[[Any], Any],
    classes: int = 10,
) -> Network:
    def make() -> tuple[list[Any], Any]:
        from fully_connected import cross_entropy

        x, y = _placeholders(inputs, (), integers=[1])
        return [x, y], cross_entropy(scores(x), y)

    return Network(rows, optimiser, make, _classified(inputs, classes))


def _dense(hidden: Sequence[int], classes: int = 10) -> Callable[[Any], Any]:
    def scores(x: Any) -> Any:
        import tensorflow as tf

        layers = _layers()
        for k, units in enumerate(hidden):
            x = tf.nn.relu(layers.dense(x, units, f"dense{k}"))
        return layers.dense(x, classes, "logits")

    return scores


def _network(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Makes a network of tensorbow.models, which `make` picks out of that module."""

    def scores(x: Any) -> Any:
        from tensorbow import models

        return make(models)(x, 10, _layers(), training=True)

    return scores


def _model(name: str) -> Callable[[Any], Any]:
    return _network(lambda models: models.MODELS[name])


def _convolutions(channels: Sequence[Any], separable: bool = False) -> Callable[[Any], Any]:
    """Makes convolution layers with these channels; "pool" halves the image."""
    return _network(lambda models: models.images.convolutions(channels, separable))


def _lstm(x: Any) -> Any:
    """Makes a network that reads an image row by row."""
    import tensorflow as tf

    layers = _layers()
    last = layers.lstm(tf.reshape(x, [-1, 28, 28]), 64, "lstm", every_step=False)
    return layers.dense(last, 10, "logits")


def _attention(heads: int) -> Callable[[Any], Any]:
    """Makes one block of a transformer, without norms."""

    def scores(x: Any) -> Any:
        import tensorflow as tf

        from tensorbow.models import text

        layers = _layers()
        x = text.transformer_block(x, layers, "block", heads, causal=False, normalised=False)
        return layers.dense(tf.reduce_mean(x, 1), 10, "logits")

    return scores


def _embedding(words: int, width: int, length: int = 20) -> Network:
    def make() -> tuple[list[Any], Any]:
        from fully_connected import cross_entropy

        from tensorbow.models import text

        ids, labels = _placeholders((length,), (), integers=[0, 1])
        scores = text.mean_of_vectors(ids, words, width, 10, _layers())
        return [ids, labels], cross_entropy(scores, labels)

    def feeds(random: np.random.Generator, rows: int) -> list[np.ndarray]:
        ids = random.integers(0, words, (rows, length)).astype(np.int32)
        return [ids, random.integers(0, 10, rows).astype(np.int32)]

    return Network(64, "adam", make, feeds)


IMAGE, COLOURS = (28, 28, 1), (32, 32, 3)
VGG16 = [64, 64, "pool", 128, 128, "pool", 256, 256, 256, "pool"]
VGG16 += [512, 512, 512, "pool", 512, 512, 512]  # its convolutions, without the last pooling

NETWORKS: dict[str, Network] = {
    "logistic 32": _classifier(32, "sgd", (784,), _dense([])),
    "MLP 3×512, Adam, 32": _classifier(32, "adam", (784,), _dense([512] * 3)),
    "MLP 2×2048, 128": _classifier(128, "sgd", (784,), _dense([2048] * 2)),
    "25 million parameters, Adam, 32": _classifier(32, "adam", (784,), _dense([3340] * 3)),
    "LeNet 32": _classifier(32, "sgd", IMAGE, _model("lenet")),
    "LeNet 128": _classifier(128, "sgd", IMAGE, _model("lenet")),
    "LeNet 512": _classifier(512, "sgd", IMAGE, _model("lenet")),
    "small convnet 32": _classifier(32, "sgd", COLOURS, _convolutions([8, "pool", 16, "pool", 16])),
    "small convnet 256": _classifier(
        256, "sgd", COLOURS, _convolutions([8, "pool", 16, "pool", 16])
    ),
    "large convnet 32": _classifier(
        32, "sgd", COLOURS, _convolutions([64, "pool", 128, "pool", 256])
    ),
    "large convnet 256": _classifier(
        256, "sgd", COLOURS, _convolutions([64, "pool", 128, "pool", 256])
    ),
    "ResNet-20 32": _classifier(32, "momentum", COLOURS, _model("resnet20")),
    "ResNet-50 32": _classifier(32, "momentum", COLOURS, _model("resnet50")),
    "VGG-16 32": _classifier(32, "momentum", COLOURS, _convolutions(VGG16)),
    "depthwise convnet 32": _classifier(
        32, "sgd", COLOURS, _convolutions([16, 32, "pool", 64, "pool", 128], separable=True)
    ),
    "LSTM 32": _classifier(32, "adam", IMAGE, _lstm),
    "transformer block 16×64": _classifier(16, "adam", (64, 128), _attention(4)),
    "embedding 50,000×64, Adam, 64": _embedding(50_000, 64),
    "softmax 64×10,000, 64": _classifier(64, "sgd", (64,), _dense([64], 10_000), 10_000),
    "softmax 64×100,000, 64": _classifier(64, "sgd", (64,), _dense([64], 100_000), 100_000),
}


def batches(model: str) -> list[list[np.ndarray]]:
    """Returns batches that are fed in turn, the same for every contender."""
    random = np.random.default_rng(0)
    network = NETWORKS[model]
    return [network.feeds(random, network.rows) for _ in range(BATCHES)]


def network_program(model: str) -> tuple[Any, Any, Any, list[dict[Any, Any]]]:
    """Returns the graph of a network, its training and initialising operations, and feed dicts."""
    import tensorflow as tf
    from fully_connected import RATES, optimiser

    tf1 = tf.compat.v1
    network = NETWORKS[model]
    graph = tf.Graph()
    with graph.as_default():
        tf1.set_random_seed(SEED)
        inputs, loss = network.make()
        train_op = optimiser(network.optimiser, RATES[network.optimiser]).minimize(loss)
        init = tf1.global_variables_initializer()
    feeds = [dict(zip(inputs, values, strict=True)) for values in batches(model)]
    return graph, train_op, init, feeds


def network_session(model: str, rows: int, learners: int | str) -> Callable[[int], None]:
    """Trains a network of `NETWORKS` with feed dicts.

    `rows`: those of the network. `learners`: of `Options(learners_per_device=...)`; 0 is a stock
    session. Tuning ends before this returns. The stepper's `value()` is the number of learners.
    """
    import tensorflow as tf

    import tensorbow

    graph, train_op, init, batches = network_program(model)
    if learners == 0:
        session = tf.compat.v1.Session(graph=graph)
    else:
        options = tensorbow.Options(learners_per_device=learners)
        session = tensorbow.TensorBowSession(graph=graph, options=options)
    session.run(init)
    done = 0

    def step(count: int) -> None:
        nonlocal done
        for _ in range(count):
            session.run(train_op, batches[done % len(batches)])
            done += 1

    end = time.monotonic() + TUNING_SECONDS
    while learners == "auto" and time.monotonic() < end:
        step(5)
        if any(tried.chosen for tried in session.tuning):
            break
    step.value = lambda: float(getattr(session, "num_learners", 1))  # type: ignore[attr-defined]
    return step
