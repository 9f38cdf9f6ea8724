"""Custom training loops under `tensorbow.function` make the steps of `tf.function`, in float64."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import tensorbow
from tests.python import custom_loop_inputs, custom_loop_state  # noqa: F401  (register loops)
from tests.python.custom_loops import LOOPS, Loop

STEPS = 4
# Also on one learner and on three.
OTHER_LEARNERS = [
    "keras_adam",
    "clipped_by_global_norm",
    "keras_accuracy",
    "accumulated_gradients",
    "embedding_scattered_by_hand",
    "any_number_of_rows",
]


@pytest.fixture(autouse=True, scope="module")
def float64() -> Iterator[None]:
    before = keras.config.floatx()
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    yield
    keras.config.set_floatx(before)
    keras.config.set_dtype_policy(before)


def train(make: Any, decorate: Any) -> tuple[list[Any], list[np.ndarray], Any]:
    """Returns the results of all calls, the final variables, and the decorated step."""
    keras.utils.set_random_seed(5)
    made: Loop = make()
    step = decorate(made.step)
    results = []
    for i in range(STEPS):
        result = step(*made.arguments(i), **made.keywords)
        results.append(tf.nest.map_structure(np.asarray, result))
        made.between(i)
    variables = made.variables() if callable(made.variables) else made.variables
    return results, [np.array(v) for v in variables], step


_stock: dict[str, Any] = {}


def stock(name: str) -> Any:
    if name not in _stock:
        _stock[name] = train(LOOPS[name], tf.function)[:2]
    return _stock[name]


def check(name: str, learners: int) -> Any:
    results, variables = stock(name)
    options = tensorbow.Options(learners_per_device=learners)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tensorbow.TensorBowWarning)
        ours, values, step = train(LOOPS[name], tensorbow.function(options=options))
    for i, (expected, got) in enumerate(zip(results, ours)):
        tf.nest.assert_same_structure(expected, got)
        for a, b in zip(tf.nest.flatten(expected), tf.nest.flatten(got)):
            assert a.dtype == b.dtype and a.shape == b.shape
            if a.dtype.kind in "fc":
                np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-12, err_msg=f"call {i}")
            else:
                np.testing.assert_array_equal(b, a, err_msg=f"call {i}")
    for a, b in zip(variables, values):
        np.testing.assert_allclose(b, a, rtol=1e-8, atol=1e-11)
    return tensorbow.session_of(step)


@pytest.mark.parametrize("name", LOOPS)
def test_two_learners_make_the_steps_of_tf_function(name: str) -> None:
    session = check(name, 2)
    tasks = 0 if session is None else session.learning_tasks
    assert (tasks > STEPS) == LOOPS[name]().divided


@pytest.mark.parametrize("name", OTHER_LEARNERS)
def test_one_learner_and_three_make_the_same_steps(name: str) -> None:
    for learners in (1, 3):
        check(name, learners)
