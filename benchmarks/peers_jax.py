"""Networks of networks.py in JAX, trained as its users do. Needs `make peers`."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from fully_connected import RATES
from networks import NETWORKS, batches

Weights = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class _Model:
    """A network with `shapes` of the weights and `scores(weights, x)`, [rows, classes]."""

    shapes: dict[str, tuple[int, ...]]
    scores: Callable[[Weights, Any], Any]


def _layer(name: str, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}/w": (inputs, outputs), f"{name}/b": (outputs,)}


def _dense(weights: Weights, name: str, x: Any) -> Any:
    return x @ weights[f"{name}/w"] + weights[f"{name}/b"]


def _fully_connected(*units: int) -> _Model:
    import jax

    count = len(units) - 1
    shapes: dict[str, tuple[int, ...]] = {}
    for k in range(count):
        shapes |= _layer(str(k), units[k], units[k + 1])

    def scores(weights: Weights, x: Any) -> Any:
        for k in range(count - 1):
            x = jax.nn.relu(_dense(weights, str(k), x))
        return _dense(weights, str(count - 1), x)

    return _Model(shapes, scores)


def _convolution(x: Any, w: Any, stride: int = 1) -> Any:
    import jax

    return jax.lax.conv_general_dilated(
        x, w, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def _pool(x: Any) -> Any:
    import jax

    window = (1, 2, 2, 1)
    return jax.lax.reduce_window(x, -np.inf, jax.lax.max, window, window, "SAME")


def _lenet() -> _Model:
    import jax

    shapes = {"0/w": (5, 5, 1, 32), "0/b": (32,), "1/w": (5, 5, 32, 64), "1/b": (64,)}
    shapes |= _layer("dense", 64 * 7 * 7, 512) | _layer("head", 512, 10)

    def scores(weights: Weights, x: Any) -> Any:
        for k in "01":
            x = _pool(jax.nn.relu(_convolution(x, weights[f"{k}/w"]) + weights[f"{k}/b"]))
        x = jax.nn.relu(_dense(weights, "dense", x.reshape(x.shape[0], -1)))
        return _dense(weights, "head", x)

    return _Model(shapes, scores)


def _convnet(channels: Sequence[Any]) -> _Model:
    import jax

    shapes: dict[str, tuple[int, ...]] = {}
    inputs = 3
    for k, units in enumerate(channels):
        if units != "pool":
            shapes[str(k)] = (3, 3, inputs, units)
            inputs = units
    shapes |= _layer("head", inputs, 10)

    def scores(weights: Weights, x: Any) -> Any:
        for k, units in enumerate(channels):
            x = _pool(x) if units == "pool" else jax.nn.relu(_convolution(x, weights[str(k)]))
        return _dense(weights, "head", x.mean((1, 2)))

    return _Model(shapes, scores)


def _resnet20() -> _Model:
    import jax

    widths = [16, 16, 16, 16, 32, 32, 32, 64, 64, 64]
    shapes: dict[str, tuple[int, ...]] = {}

    def add(name: str, inputs: int, outputs: int, size: int) -> None:
        shapes[name] = (size, size, inputs, outputs)
        shapes[f"{name}/scale"] = shapes[f"{name}/offset"] = (outputs,)

    add("stem", 3, 16, 3)
    for k, (inputs, outputs) in enumerate(zip(widths, widths[1:])):
        add(f"{k}/a", inputs, outputs, 3)
        add(f"{k}/b", outputs, outputs, 3)
        if inputs != outputs:
            add(f"{k}/shortcut", inputs, outputs, 1)
    shapes |= _layer("head", 64, 10)

    def conv_bn(weights: Weights, name: str, x: Any, stride: int = 1) -> Any:
        x = _convolution(x, weights[name], stride)
        mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
        scale = weights[f"{name}/scale"] * jax.lax.rsqrt(variance + 1e-3)
        return (x - mean) * scale + weights[f"{name}/offset"]

    def scores(weights: Weights, x: Any) -> Any:
        x = jax.nn.relu(conv_bn(weights, "stem", x))
        for k, (inputs, outputs) in enumerate(zip(widths, widths[1:])):
            stride = 1 if inputs == outputs else 2
            y = jax.nn.relu(conv_bn(weights, f"{k}/a", x, stride))
            y = conv_bn(weights, f"{k}/b", y)
            x = x if stride == 1 else conv_bn(weights, f"{k}/shortcut", x, stride)
            x = jax.nn.relu(x + y)
        return _dense(weights, "head", x.mean((1, 2)))

    return _Model(shapes, scores)


def _lstm(units: int = 64) -> _Model:
    import jax
    import jax.numpy as jnp

    def scores(weights: Weights, x: Any) -> Any:
        def read(state: tuple[Any, Any], row: Any) -> tuple[tuple[Any, Any], None]:
            c, h = state
            gates = _dense(weights, "lstm", jnp.concatenate([row, h], 1))
            i, j, f, o = jnp.split(gates, 4, 1)
            c = c * jax.nn.sigmoid(f + 1.0) + jax.nn.sigmoid(i) * jnp.tanh(j)
            return (c, jnp.tanh(c) * jax.nn.sigmoid(o)), None

        zeros = jnp.zeros((x.shape[0], units))
        rows = x.reshape(-1, 28, 28).transpose(1, 0, 2)
        (_, last), _ = jax.lax.scan(read, (zeros, zeros), rows)
        return _dense(weights, "head", last)

    return _Model(_layer("lstm", 28 + units, 4 * units) | _layer("head", units, 10), scores)


def _transformer(width: int = 128, heads: int = 4) -> _Model:
    import jax

    shapes: dict[str, tuple[int, ...]] = {}
    for name in ("q", "k", "v", "mixed"):
        shapes |= _layer(name, width, width)
    shapes |= _layer("wide", width, 4 * width) | _layer("narrow", 4 * width, width)
    shapes |= _layer("head", width, 10)

    def scores(weights: Weights, x: Any) -> Any:
        q, k, v = (_dense(weights, n, x).reshape(*x.shape[:2], heads, -1) for n in "qkv")
        mixed = jax.nn.dot_product_attention(q, k, v).reshape(x.shape)
        x = x + _dense(weights, "mixed", mixed)
        x = x + _dense(weights, "narrow", jax.nn.relu(_dense(weights, "wide", x)))
        return _dense(weights, "head", x.mean(1))

    return _Model(shapes, scores)


def _embedding(words: int, width: int) -> _Model:
    def scores(weights: Weights, ids: Any) -> Any:
        return _dense(weights, "head", weights["table"][ids].mean(1))

    return _Model({"table": (words, width)} | _layer("head", width, 10), scores)


MODELS: dict[str, Callable[[], _Model]] = {
    "logistic 32": lambda: _fully_connected(784, 10),
    "MLP 3×512, Adam, 32": lambda: _fully_connected(784, 512, 512, 512, 10),
    "MLP 2×2048, 128": lambda: _fully_connected(784, 2048, 2048, 10),
    "LeNet 32": _lenet,
    "small convnet 32": lambda: _convnet([8, "pool", 16, "pool", 16]),
    "ResNet-20 32": _resnet20,
    "LSTM 32": _lstm,
    "transformer block 16×64": _transformer,
    "embedding 50,000×64, Adam, 64": lambda: _embedding(50_000, 64),
}


def _initial(model: _Model) -> Weights:
    """Returns He's normal values for weights of two dimensions or more, ones for scales, else
    zeros."""
    random = np.random.default_rng(1)
    weights: Weights = {}
    for name, shape in model.shapes.items():
        if len(shape) > 1:
            spread = 0.05 if name == "table" else (2 / np.prod(shape[:-1])) ** 0.5
            weights[name] = (spread * random.standard_normal(shape)).astype(np.float32)
        else:
            weights[name] = np.full(shape, name.endswith("scale"), np.float32)
    return weights


def jax_network(model: str, rows: int, replicas: int = 1) -> Callable[[int], None]:
    """Trains by a step compiled by `jax.jit` with optax's optimiser, rows from NumPy.

    With several replicas (0: one for every core) `jax.vmap` trains them on their shares of the
    rows. Each then moves 1/replicas of the way to their mean (SMA with the current centre). The
    stepper's `value()` is the number of trained parameters of one.
    """
    import jax
    import jax.numpy as jnp
    import optax

    network, trained = NETWORKS[model], MODELS[model]()
    replicas = replicas or len(os.sched_getaffinity(0))
    rate = RATES[network.optimiser]
    momentum = 0.9 if network.optimiser == "momentum" else None
    optimiser = optax.adam(rate) if network.optimiser == "adam" else optax.sgd(rate, momentum)

    def loss(weights: Weights, x: Any, y: Any) -> Any:
        scores = trained.scores(weights, x)
        return optax.softmax_cross_entropy_with_integer_labels(scores, y).mean()

    def train(weights: Weights, slots: Any, x: Any, y: Any) -> tuple[Weights, Any]:
        gradients = jax.grad(loss)(weights, x, y)
        updates, slots = optimiser.update(gradients, slots, weights)
        return updates, slots

    def alone(weights: Weights, slots: Any, x: Any, y: Any) -> tuple[Weights, Any]:
        updates, slots = train(weights, slots, x, y)
        return optax.apply_updates(weights, updates), slots

    def averaged(weights: Weights, slots: Any, x: Any, y: Any) -> tuple[Weights, Any]:
        x, y = (part.reshape(replicas, -1, *part.shape[1:]) for part in (x, y))
        updates, slots = jax.vmap(train)(weights, slots, x, y)
        corrected = jax.tree.map(lambda w: w - (w - w.mean(0)) / replicas, weights)
        return optax.apply_updates(corrected, updates), slots

    weights = jax.tree.map(jnp.asarray, _initial(trained))
    parameters = sum(w.size for w in weights.values())
    slots = optimiser.init(weights)
    if replicas > 1:
        copies = lambda w: jnp.stack([w] * replicas)  # noqa: E731
        weights, slots = jax.tree.map(copies, weights), jax.tree.map(copies, slots)
    compiled = jax.jit(averaged if replicas > 1 else alone, donate_argnums=(0, 1))
    ready = batches(model)
    done = 0

    def step(count: int) -> None:
        nonlocal done, weights, slots
        for _ in range(count):
            weights, slots = compiled(weights, slots, *ready[done % len(ready)])
            done += 1
        jax.block_until_ready((weights, slots))

    step.value = lambda: float(parameters)  # type: ignore[attr-defined]
    return step
