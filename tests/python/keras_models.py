"""Small Keras models that the tests share, and the comparison of their values."""

from __future__ import annotations

import keras
import numpy as np

import tensorbow

ROWS = 16
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def options(learners=2, **given):
    """Returns options for learners whose models are averaged."""
    given.setdefault("synchroniser", tensorbow.SMA())
    return tensorbow.Options(learners_per_device=learners, **given)


def independent(learners=1):
    """Returns options without averaging."""
    return tensorbow.Options(learners_per_device=learners, synchroniser=tensorbow.Independent())


def network(seed=3):
    """Makes convolution, batch-norm, dropout and dense layers on images of 8x8 pixels."""
    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(4, 3, activation="relu", name="conv"),
            keras.layers.BatchNormalization(name="norm"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.2, name="dropout"),
            keras.layers.Dense(10, name="dense"),
        ]
    )


def small(seed=3):
    """Makes batch-norm, dropout and a dense layer on the pixels."""
    keras.utils.set_random_seed(seed)
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Flatten(),
            keras.layers.BatchNormalization(scale=False, name="norm"),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(10),
        ]
    )


def classifier(with_options=None, optimiser="sgd", make=network, **compiled):
    """Returns a compiled classifier of digits: stock Keras's without options."""
    model = make()
    if with_options is not None:
        model = tensorbow.keras.replicate(model, with_options)
    compiled.setdefault("loss", LOSS)
    compiled.setdefault("metrics", ["accuracy"])
    model.compile(optimiser() if callable(optimiser) else optimiser, **compiled)
    return model


def logistic(with_options=None, rate=0.1, classes=10, **compiled):
    """Makes logistic regression on images of 8x8 pixels, trained by plain gradient descent."""

    def make():
        keras.utils.set_random_seed(1)
        return keras.Sequential(
            [keras.Input((8, 8, 1)), keras.layers.Flatten(), keras.layers.Dense(classes)]
        )

    return classifier(with_options, lambda: keras.optimizers.SGD(rate), make, **compiled)


def state(model):
    """Returns all values of a model: weights, statistics, optimiser slots, metrics, seeds."""
    variables = [*model.variables, *model.optimizer.variables, *model.metrics_variables]
    return {k: v.numpy() for k, v in enumerate(variables)}


def assert_same_state(actual, expected):
    """Compares bit for bit."""
    actual, expected = state(actual), state(expected)
    assert actual.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(actual[name], value, err_msg=str(name))
