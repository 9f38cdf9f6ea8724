"""Custom training loops, as people write them: gradients, optimisers, control flow.

Each function makes a `Loop` anew, so that it can be trained twice and compared.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

ROWS, FEATURES, CLASSES = 16, 20, 5
# More elements than a slice has: learners share one copy of the first layer.
UNITS = 900


def batch(i: int, rows: int = ROWS) -> tuple[Any, ...]:
    """Returns the i-th batch: features [rows, 20] and labels [rows]."""
    random = np.random.default_rng(i)
    x = random.normal(size=(rows, FEATURES))
    return tf.constant(x), tf.constant(random.integers(0, CLASSES, rows))


@dataclasses.dataclass
class Loop:
    """A custom training loop.

    Attributes:
      step: the function that people decorate.
      variables: those to compare in the end, or a function that returns them.
      arguments: of the i-th call.
      keywords: of every call.
      between: executed after the i-th call.
      divided: whether learners divide the rows of a call.
    """

    step: Callable[..., Any]
    variables: Any
    arguments: Callable[[int], tuple[Any, ...]] = batch
    keywords: dict[str, Any] = dataclasses.field(default_factory=dict)
    between: Callable[[int], Any] = lambda i: None
    divided: bool = True


LOOPS: dict[str, Callable[[], Loop]] = {}


def loop(make: Callable[[], Loop]) -> Callable[[], Loop]:
    """Registers a loop under the name of the function that makes it."""
    LOOPS[make.__name__] = make
    return make


class Net(tf.Module):
    """Two dense layers."""

    def __init__(self, units: int = UNITS, seed: int = 3) -> None:
        super().__init__()
        random = np.random.default_rng(seed)
        self.w = tf.Variable(random.normal(size=(FEATURES, units)) * 0.2, name="w")
        self.b = tf.Variable(np.zeros(units), name="b")
        self.v = tf.Variable(random.normal(size=(units, CLASSES)) * 0.1, name="v")

    def __call__(self, x: Any) -> Any:
        return tf.matmul(tf.tanh(tf.matmul(x, self.w) + self.b), self.v)

    @property
    def weights(self) -> list[Any]:
        return [self.w, self.b, self.v]


def each_loss(logits: Any, y: Any) -> Any:
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)


def mean_loss(logits: Any, y: Any) -> Any:
    return tf.reduce_mean(each_loss(logits, y))


def descend(gradients: Any, weights: Any, rate: Any = 0.1) -> None:
    for gradient, weight in zip(gradients, weights):
        weight.assign_sub(rate * gradient)


def training(
    net: Net, loss_of: Any = mean_loss, update: Any = descend, transform: Any = lambda g: g
) -> Callable[[Any, Any], Any]:
    """Returns a plain step: tape, transformed gradients, update."""

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(net(x), y)
        update(transform(tape.gradient(loss, net.weights)), net.weights)
        return loss

    return step


# ------------------------------------------------------------------------- optimisers
_optimizers = keras.optimizers
_OPTIMISERS = {
    "keras_sgd": lambda: _optimizers.SGD(0.1),
    "keras_nesterov": lambda: _optimizers.SGD(0.1, momentum=0.9, nesterov=True),
    "keras_adam": lambda: _optimizers.Adam(0.01),
    "keras_adamw": lambda: _optimizers.AdamW(0.01),
    "keras_rmsprop": lambda: _optimizers.RMSprop(0.01),
    "keras_adagrad": lambda: _optimizers.Adagrad(0.1),
    "keras_nadam": lambda: _optimizers.Nadam(0.01),
    "keras_lion": lambda: _optimizers.Lion(0.01),
    "keras_ftrl": lambda: _optimizers.Ftrl(0.1),
    "keras_global_clipnorm": lambda: _optimizers.SGD(0.1, global_clipnorm=0.1),
    "keras_moving_average": lambda: _optimizers.SGD(0.1, use_ema=True, ema_overwrite_frequency=2),
    "keras_schedule": lambda: _optimizers.SGD(_optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)),
    "v1_momentum": lambda: tf.compat.v1.train.MomentumOptimizer(0.1, 0.9),
    "v1_adam": lambda: tf.compat.v1.train.AdamOptimizer(0.01),
}


def _optimiser_loop(name: str, make: Callable[[], Any]) -> None:
    def of_optimiser() -> Loop:
        optimiser, net = make(), Net()
        step = training(net, update=lambda g, w: optimiser.apply_gradients(zip(g, w)))
        return Loop(step, net.weights)

    of_optimiser.__name__ = name
    loop(of_optimiser)


for _name, _make in _OPTIMISERS.items():
    _optimiser_loop(_name, _make)


@loop
def gradient_descent_by_hand() -> Loop:
    net = Net()
    return Loop(training(net), net.weights)


@loop
def adam_by_hand() -> Loop:
    net = Net()
    means = [tf.Variable(tf.zeros_like(w), trainable=False) for w in net.weights]
    squares = [tf.Variable(tf.zeros_like(w), trainable=False) for w in net.weights]
    time = tf.Variable(0.0, trainable=False, dtype=tf.float64)

    def update(gradients: Any, weights: Any) -> None:
        time.assign_add(1.0)
        rate = 0.01 * tf.sqrt(1 - 0.999**time) / (1 - 0.9**time)
        for g, w, m, s in zip(gradients, weights, means, squares):
            m.assign(0.9 * m + 0.1 * g)
            s.assign(0.999 * s + 0.001 * g * g)
            w.assign_sub(rate * m / (tf.sqrt(s) + 1e-8))

    return Loop(training(net, update=update), [*net.weights, *means, *squares, time])


@loop
def momentum_in_trainable_variables() -> Loop:
    net = Net()
    slots = [tf.Variable(tf.zeros_like(w)) for w in net.weights]

    def update(gradients: Any, weights: Any) -> None:
        for g, w, slot in zip(gradients, weights, slots):
            slot.assign(0.9 * slot + g)
            w.assign_sub(0.1 * slot)

    return Loop(training(net, update=update), [*net.weights, *slots])


# -------------------------------------------------------------------------- gradients


@loop
def clipped_by_global_norm() -> Loop:
    net = Net()
    return Loop(training(net, transform=lambda g: tf.clip_by_global_norm(g, 0.05)[0]), net.weights)


@loop
def clipped_by_value() -> Loop:
    net = Net()

    def clip(gradients: Any) -> Any:
        return [tf.clip_by_value(part, -1e-3, 1e-3) for part in gradients]

    return Loop(training(net, transform=clip), net.weights)


@loop
def weight_decay() -> Loop:
    net = Net()

    def update(gradients: Any, weights: Any) -> None:
        for g, w in zip(gradients, weights):
            w.assign_sub(0.1 * (g + 0.01 * w))

    return Loop(training(net, update=update), net.weights)


@loop
def sum_over_a_known_batch() -> Loop:
    net = Net()
    return Loop(
        training(net, lambda logits, y: tf.reduce_sum(each_loss(logits, y)) / ROWS), net.weights
    )


@loop
def two_losses_of_one_tape() -> Loop:
    first, second = Net(), Net(30)

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            a = mean_loss(first(x), y)
            b = mean_loss(second(x) + tf.stop_gradient(first(x)), y)
        descend(tape.gradient(a, first.weights), first.weights)
        descend(tape.gradient(b, second.weights), second.weights)
        return a, b

    return Loop(step, [*first.weights, *second.weights])


@loop
def gradient_penalty() -> Loop:
    net = Net()

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            with tf.GradientTape() as inner:
                inner.watch(x)
                loss = tf.reduce_sum(each_loss(net(x), y))
            of_rows = inner.gradient(loss, x)
            total = loss / ROWS + 0.1 * tf.reduce_mean(tf.reduce_sum(of_rows**2, 1))
        descend(tape.gradient(total, net.weights), net.weights)
        return total

    return Loop(step, net.weights)


@loop
def gradients_in_two_tapes() -> Loop:
    """Computes gradients as in a GAN: each network learns from the other's output on the rows."""
    maker, judge = Net(40, seed=1), Net(40, seed=2)

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as of_maker, tf.GradientTape() as of_judge:
            logits = judge(tf.pad(maker(x), [[0, 0], [0, FEATURES - CLASSES]]))
            good = mean_loss(logits, y)
            bad = tf.reduce_mean(tf.nn.softplus(logits)) - good
        ours = of_maker.gradient(good, maker.weights)
        theirs = of_judge.gradient(bad, judge.weights)
        descend(ours, maker.weights)
        descend(theirs, judge.weights)
        return {"good": good, "bad": bad}

    return Loop(step, [*maker.weights, *judge.weights])


# ----------------------------------------------------------------------- control flow


@loop
def two_updates_in_a_python_loop() -> Loop:
    net = Net()
    once = training(net)

    def step(x: Any, y: Any) -> Any:
        for _ in range(2):
            loss = once(x, y)
        return loss

    return Loop(step, net.weights)


@loop
def updates_in_a_graph_loop() -> Loop:
    net = Net()
    once = training(net)

    def step(x: Any, y: Any) -> Any:
        loss = tf.constant(0.0, tf.float64)
        for _ in tf.range(3):
            loss = once(x, y)
        return loss

    return Loop(step, net.weights, divided=False)


@loop
def graph_loop_in_the_model() -> Loop:
    net = Net()

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            hidden = x
            for _ in tf.range(3):
                hidden = tf.tanh(hidden) + 0.1 * hidden
            loss = mean_loss(net(hidden), y)
        descend(tape.gradient(loss, net.weights), net.weights)
        return loss

    return Loop(step, net.weights)


@loop
def update_every_other_step() -> Loop:
    net = Net()
    count = tf.Variable(0, trainable=False)

    def step(x: Any, y: Any) -> Any:
        count.assign_add(1)
        with tf.GradientTape() as tape:
            loss = mean_loss(net(x), y)
        gradients = tape.gradient(loss, net.weights)
        if count % 2 == 0:
            descend(gradients, net.weights)
        return loss

    return Loop(step, [*net.weights, count])


@loop
def update_if_finite() -> Loop:
    net = Net()

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = mean_loss(net(x), y)
        gradients = tape.gradient(loss, net.weights)
        if tf.reduce_all([tf.reduce_all(tf.math.is_finite(g)) for g in gradients]):
            descend(gradients, net.weights)
        return loss

    return Loop(step, net.weights)


# ------------------------------------------------------------------- nested functions


@loop
def forward_in_a_function() -> Loop:
    net = Net()
    forward = tf.function(net.__call__)

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = mean_loss(forward(x), y)
        descend(tape.gradient(loss, net.weights), net.weights)
        return loss

    return Loop(step, net.weights)


@loop
def update_in_a_function() -> Loop:
    net = Net()
    update = tf.function(lambda gradients: descend(gradients, net.weights))
    return Loop(training(net, update=lambda g, w: update(g)), net.weights)


@loop
def everything_in_a_function() -> Loop:
    net = Net()
    inner = tf.function(training(net))
    return Loop(lambda x, y: inner(x, y), net.weights)


@loop
def forward_compiled_by_xla() -> Loop:
    net = Net()
    forward = tf.function(net.__call__, jit_compile=True)

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = mean_loss(forward(x), y)
        descend(tape.gradient(loss, net.weights), net.weights)
        return loss

    return Loop(step, net.weights)


@loop
def recomputed_gradients() -> Loop:
    net = Net()
    hidden = tf.recompute_grad(lambda x: tf.tanh(tf.matmul(x, net.w) + net.b))

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = mean_loss(tf.matmul(hidden(x), net.v), y)
        descend(tape.gradient(loss, net.weights), net.weights)
        return loss

    return Loop(step, net.weights)
