"""A program on stock Keras and on learners, and the comparison of its values."""

import warnings

import keras
import numpy as np
from keras_models import LOSS, ROWS, assert_same_state, independent, state

import tensorbow
from tensorbow.keras import session_of

layers = keras.layers

GRADIENTS = dict(synchroniser=tensorbow.SSGD(), learners_per_device=2)


def averaged():
    """Returns options for two learners whose gradients are averaged: stock Keras's step, except for
    rounding."""
    return tensorbow.Options(**GRADIENTS)


def trained(make, given, fit, optimiser="adam", **compiled):
    """Makes a model, replicated unless `given` is None, compiles and fits it."""
    keras.utils.set_random_seed(7)
    model = make()
    if given is not None:
        tensorbow.keras.replicate(model, given)
    compiled.setdefault("loss", LOSS)
    model.compile(optimiser() if callable(optimiser) else optimiser, **compiled)
    with warnings.catch_warnings():
        warnings.simplefilter("error", tensorbow.TensorBowWarning)
        fit(model)
    return model


def assert_close(actual, expected, rtol=1e-4, atol=1e-5):
    actual, expected = state(actual), state(expected)
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(actual[name], value, rtol, atol, err_msg=str(name))


def compare(make, fit, optimiser="adam", tolerance=None, lone=True, **compiled):
    """Compares two learners with stock Keras's values, and one (if asked for) with its bits.

    Returns the model of two learners.
    """
    stock = trained(make, None, fit, optimiser, **compiled)
    if lone:
        assert_same_state(trained(make, independent(), fit, optimiser, **compiled), stock)
    two = trained(make, averaged(), fit, optimiser, **compiled)
    assert_close(two, stock, **(tolerance or {}))
    session = session_of(two)
    assert session.num_learners == 2
    assert session.learning_tasks == 2 * session.iterations > 0
    return two


def dense():
    return keras.Sequential([keras.Input((8, 8, 1)), layers.Flatten(), layers.Dense(10)])


def fitting(data, **more):
    more = {"batch_size": ROWS, "verbose": 0, "shuffle": False} | more
    return lambda model: model.fit(*data, **more)
