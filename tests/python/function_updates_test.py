"""Updates that programs write with ops of their own become one op with stock TensorFlow's
numbers."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tensorbow
from tests.python.divided_programs import in_turn

OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: keras.optimizers.SGD(0.1),
    "momentum": lambda: keras.optimizers.SGD(0.1, 0.9),
    "nesterov": lambda: keras.optimizers.SGD(0.1, 0.9, nesterov=True),
    "weight_decay": lambda: keras.optimizers.SGD(0.1, weight_decay=0.01),
    "averages": lambda: keras.optimizers.SGD(0.1, use_ema=True),
    "adam": lambda: keras.optimizers.Adam(1e-2),
    "amsgrad": lambda: keras.optimizers.Adam(1e-2, amsgrad=True),
    "adamw": lambda: keras.optimizers.AdamW(1e-2),
    "nadam": lambda: keras.optimizers.Nadam(1e-2),
    "adamax": lambda: keras.optimizers.Adamax(1e-2),
    "rmsprop": lambda: keras.optimizers.RMSprop(1e-2),
    "rmsprop_centered": lambda: keras.optimizers.RMSprop(1e-2, momentum=0.5, centered=True),
    "adagrad": lambda: keras.optimizers.Adagrad(1e-2),
    "adadelta": lambda: keras.optimizers.Adadelta(1.0),
    "ftrl": lambda: keras.optimizers.Ftrl(1e-2),
    "lion": lambda: keras.optimizers.Lion(1e-3),
    "clipped_values": lambda: keras.optimizers.Adam(1e-2, clipvalue=0.01),
    "clipped_norms": lambda: keras.optimizers.Adam(1e-2, clipnorm=0.1),
    "clipped_by_global_norm": lambda: keras.optimizers.Adam(1e-2, global_clipnorm=0.1),
}
# Reciprocal square roots differ in bits from TensorFlow's: one learner executes the ops as they
# are.
OTHER_BITS = {"rmsprop", "rmsprop_centered", "adagrad", "adadelta"}
STEPS = 12
RANDOM = np.random.default_rng(0)
X = RANDOM.standard_normal((STEPS, 24, 10))
Y = RANDOM.integers(0, 5, (STEPS, 24))


@pytest.fixture
def num_fused(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], set[int]]:
    """Returns the numbers of such ops in the task graphs that were made."""
    monkeypatch.setenv("TENSORBOW_DUMP_GRAPHS", str(tmp_path))

    def count() -> set[int]:
        graphs = [path.read_text() for path in tmp_path.glob("*-learners.txt")]
        ends = 'op: "TensorBowResourceApplyElements"'
        return {
            graph.count(ends) // max(1, graph.count('op: "TensorBowBeginUpdates"'))
            for graph in graphs
        }

    return count


def on_learners(count: int, **options: Any) -> Callable[[Any], Any]:
    given = tensorbow.Options(learners_per_device=count, **options)
    return lambda step: tensorbow.function(step, options=given)


def train(make: Callable[[], Any], decorate: Callable[[Any], Any], dtype: str) -> list[np.ndarray]:
    """Returns weights, slots and counters after some steps of a small network."""
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(16, "tanh", dtype=dtype), keras.layers.Dense(5, dtype=dtype)]
    model = keras.Sequential([keras.layers.Input((10,), dtype=dtype), *layers])
    optimizer = make()
    optimizer.build(model.trainable_variables)
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True, dtype=dtype)

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_fn(y, model(x, training=True))
        weights = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss

    decorated = decorate(step)
    for x, y in zip(X.astype(dtype), Y):
        decorated(x, y)
    return [np.array(v) for v in [*model.variables, *optimizer.variables]]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_one_learner_has_the_bits_of_tensorflow(name, num_fused):
    expected = train(OPTIMIZERS[name], tf.function, "float32")
    trained = train(OPTIMIZERS[name], on_learners(1), "float32")
    assert num_fused() == {0 if name in OTHER_BITS else 4}
    for a, b in zip(trained, expected):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("name", "learners"), [*((name, 2) for name in OPTIMIZERS), ("momentum", 3), ("nadam", 3)]
)
def test_learners_have_the_numbers_of_tensorflow(name, learners, num_fused):
    expected = train(OPTIMIZERS[name], tf.function, "float64")
    trained = train(OPTIMIZERS[name], on_learners(learners), "float64")
    assert num_fused() == {4}
    for a, b in zip(trained, expected):
        # Keras computes some scalars in float32.
        np.testing.assert_allclose(a, b, rtol=1e-6 if b.dtype == np.float32 else 1e-11, atol=1e-12)


def hand_written(
    update: Callable[[Any, Any, Any], Any], decorate: Any, *, trainable: bool = False
) -> list[np.ndarray]:
    """Trains `w` with a slot by `update(w, slot, gradient)`; returns both and the results."""
    w = tf.Variable(np.linspace(-1, 1, 12).reshape(3, 4))
    slot = tf.Variable(np.zeros((3, 4)), trainable=trainable)
    x = np.random.default_rng(1).standard_normal((5, 12, 3))

    def step(rows: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.matmul(rows, w) - 1))
        return update(w, slot, tape.gradient(loss, w))

    decorated = decorate(step)
    results = [np.asarray(decorated(rows)) for rows in x]
    return [w.numpy(), slot.numpy(), *results]


def momentum(w: Any, slot: Any, gradient: Any) -> Any:
    slot.assign(0.9 * slot + gradient)
    return w.assign_sub(0.1 * slot)


def results_of_ops_within(w: Any, slot: Any, gradient: Any) -> Any:
    direction = 0.9 * slot + gradient
    slot.assign(direction)
    w.assign_sub(0.1 * direction)
    return direction


def values_before_and_after(w: Any, slot: Any, gradient: Any) -> Any:
    before, slot_before = w.read_value(), slot.read_value()
    slot.assign_add(gradient)
    w.assign_sub(0.1 * slot)
    return tf.stack([before, slot_before, w.read_value(), slot.read_value()])


def twice(w: Any, slot: Any, gradient: Any) -> Any:
    w.assign(w * 0.99)
    slot.assign(0.9 * slot + gradient * gradient + 0.01 * w)
    w.assign_sub(0.1 * gradient / (tf.sqrt(slot) + 1e-3))
    return w.read_value()


def old_value_after_a_new_one(w: Any, slot: Any, gradient: Any) -> Any:
    before = w.read_value()
    w.assign_sub(0.1 * gradient)
    slot.assign(before + 0.5 * w)
    w.assign(w + 0.01 * slot)
    return slot.read_value()


def swapped(w: Any, slot: Any, gradient: Any) -> Any:
    before = w.read_value()
    w.assign(slot - 0.1 * gradient)
    slot.assign(before)
    return w.read_value()


def value_in_between(w: Any, slot: Any, gradient: Any) -> Any:
    w.assign(w * 0.99)
    between = w.read_value()
    slot.assign(gradient)
    w.assign_sub(0.1 * slot)
    return between


def norm_of_the_new_slot(w: Any, slot: Any, gradient: Any) -> Any:
    slot.assign(0.9 * slot + gradient)
    w.assign_sub(0.1 * slot / (1 + tf.norm(slot)))
    return w.read_value()


def a_row_for_all(w: Any, slot: Any, gradient: Any) -> Any:
    slot.assign_add(tf.ones([1, 4], tf.float64) * gradient)
    w.assign_sub(0.1 * slot * tf.range(1.0, 5.0, dtype=tf.float64))
    return w.read_value()


def two_gradients(w: Any, slot: Any, gradient: Any) -> Any:
    slot.assign_add(tf.cumsum(gradient))
    w.assign_sub(0.1 * slot + 0.01 * gradient)
    return w.read_value()


FUSED = [
    momentum,
    results_of_ops_within,
    values_before_and_after,
    twice,
    old_value_after_a_new_one,
    swapped,
]
NOT_FUSED = [value_in_between, norm_of_the_new_slot, a_row_for_all, two_gradients]


@pytest.mark.parametrize("update, learners", in_turn([*FUSED, *NOT_FUSED], [2, 3, 1]))
def test_updates_by_hand(update, learners, num_fused):
    expected = hand_written(update, tf.function)
    trained = hand_written(update, on_learners(learners))
    assert num_fused() == {1 if update in FUSED else 0}
    for a, b in zip(trained, expected):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("update", [momentum, swapped, norm_of_the_new_slot, two_gradients])
def test_a_slot_may_be_trainable(update):
    expected = hand_written(update, tf.function, trainable=True)
    trained = hand_written(update, on_learners(2), trainable=True)
    for a, b in zip(trained, expected):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def test_a_slot_of_two_variables_stays_as_it_is(num_fused):
    def train_both(decorate: Any) -> list[np.ndarray]:
        a, b = (tf.Variable(np.full((3, 4), value)) for value in (1.0, 2.0))
        slot = tf.Variable(np.zeros((3, 4)), trainable=False)
        x = np.random.default_rng(1).standard_normal((12, 3))

        def step(rows: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(tf.matmul(rows, a) - tf.matmul(rows, b)))
            for variable, gradient in zip([a, b], tape.gradient(loss, [a, b])):
                slot.assign(0.5 * slot + gradient)
                variable.assign_sub(0.1 * slot)
            return loss

        decorated = decorate(step)
        results = [np.asarray(decorated(x)) for _ in range(4)]
        return [a.numpy(), b.numpy(), slot.numpy(), *results]

    expected = train_both(tf.function)
    trained = train_both(on_learners(2))
    assert num_fused() == {0}
    for left, right in zip(trained, expected):
        np.testing.assert_allclose(left, right, rtol=1e-12)


@pytest.mark.parametrize("learners", [1, 2])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_variables_of_one_element(shape, learners, num_fused):
    def train_one(decorate: Any) -> list[np.ndarray]:
        w = tf.Variable(np.full(shape, 0.5))
        slot = tf.Variable(np.zeros(shape), trainable=False)
        rate = tf.Variable(np.float64(0.1), trainable=False)
        x = np.random.default_rng(1).standard_normal((12, 1))

        def step(rows: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(rows * w - 1))
            slot.assign(0.9 * slot + tape.gradient(loss, w))
            w.assign_sub(rate * slot)
            return loss

        decorated = decorate(step)
        return [*(np.asarray(decorated(x)) for _ in range(4)), w.numpy(), slot.numpy()]

    expected = train_one(tf.function)
    trained = train_one(on_learners(learners))
    assert num_fused() == {1}
    for a, b in zip(trained, expected):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_averaged_models_are_corrected(num_fused):
    """Two learners with the same rows stay equal: they train as one learner does on them."""
    make = OPTIMIZERS["adam"]
    expected = train(make, tf.function, "float64")
    synchroniser = tensorbow.SMA()
    global X, Y
    x, y = X, Y
    X, Y = np.concatenate([X, X], axis=1), np.concatenate([Y, Y], axis=1)
    try:
        trained = train(make, on_learners(2, synchroniser=synchroniser), "float64")
    finally:
        X, Y = x, y
    assert num_fused() == {2 * 4}  # of both learners
    for a, b in zip(trained[:4], expected[:4]):
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("guarded", [True, False])
def test_a_step_whose_assertion_fails_has_written_what_stock_has(guarded):
    """Nothing orders an assertion about an average before updates that do not wait for it."""
    ours, stocks = (fail(make, guarded) for make in (on_learners(2), tf.function))
    for name, (before, after) in stocks.items():
        np.testing.assert_allclose(ours[name][0], before, rtol=1e-12)
        found = ours[name][1]
        as_before = np.allclose(found, before, rtol=1e-12)
        assert as_before if guarded else as_before or np.allclose(found, after, rtol=1e-12)


def fail(function: Any, guarded: bool) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Returns the variables before and after a step that fails."""
    w = tf.Variable(np.ones((3, 4)))
    slot = tf.Variable(np.zeros((3, 4)), trainable=False)

    @function
    def step(rows: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.matmul(rows, w)))
        gradient = tape.gradient(loss, w)
        if guarded:
            gradient = tf.debugging.check_numerics(gradient, "too large")
        else:
            tf.debugging.assert_less(loss, np.float64(100), "too large")
        slot.assign(0.9 * slot + gradient)
        w.assign_sub(0.1 * slot)
        return loss

    x = np.random.default_rng(1).standard_normal((12, 3))
    step(x)
    before = w.numpy(), slot.numpy()
    with pytest.raises(tf.errors.InvalidArgumentError, match="too large"):
        step(x * (1e200 if guarded else 100))
    after = w.numpy(), slot.numpy()
    return dict(zip(("w", "slot"), zip(before, after)))
