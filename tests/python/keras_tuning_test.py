"""Keras models find their number of learners by measurements, if that is allowed."""

import time

import keras
import numpy as np
import pytest
from keras_models import LOSS

import tensorbow
from tensorbow.keras._replication import replication_of

ROWS, LENGTH, WORDS = 32, 30, 50


def recurrent():
    """Makes a network on which each learner repeats the overhead of every time step."""
    initial = keras.initializers.GlorotUniform(seed=1)
    given = dict(kernel_initializer=initial, recurrent_initializer=initial)
    model = keras.Sequential(
        [
            keras.Input((LENGTH,)),
            keras.layers.Embedding(WORDS, 8, embeddings_initializer=initial),
            keras.layers.GRU(8, **given),
            keras.layers.Dense(2, kernel_initializer=initial),
        ]
    )
    model.compile(keras.optimizers.SGD(0.1), LOSS)
    return model


def fit(model, epochs=1):
    words = np.random.default_rng(0).integers(0, WORDS, (20 * ROWS, LENGTH))
    model.fit(words, words[:, 0] % 2, ROWS, epochs, verbose=0, shuffle=False)


def test_a_model_finds_its_number_of_learners_and_makes_steps_of_stock_keras():
    model = tensorbow.keras.replicate(recurrent())
    cores = model.num_learners
    assert cores == tensorbow.Options().num_learners
    epochs, found = 0, None
    deadline = time.monotonic() + 120
    while found is None:
        fit(model)
        epochs += 1
        session = tensorbow.keras.session_of(model)
        assert session.tunes_learners
        found = next((tried for tried in session.tuning if tried.chosen), None)
        assert time.monotonic() < deadline, session.tuning
    assert {tried.learners for tried in session.tuning} >= {1, cores}
    fit(model)
    assert model.num_learners == session.num_learners
    if model.num_learners == 1:  # its step is traced for the known shape, as in stock Keras
        traced = replication_of(model)._loop.current._programs
        assert any(f"shape=({ROWS}, {LENGTH})" in spec for spec in traced)

    stock = recurrent()
    fit(stock, epochs + 1)
    for ours, wanted in zip(model.get_weights(), stock.get_weights()):
        np.testing.assert_allclose(ours, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "options, seed",
    [
        (dict(synchroniser=tensorbow.SMA()), None),
        (dict(learners_per_device=2), None),
        (dict(seed=1), None),
        ({}, 1),
    ],
)
def test_a_number_is_kept(options, seed):
    if seed is not None:
        keras.utils.set_random_seed(seed)
    model = tensorbow.keras.replicate(recurrent(), tensorbow.Options(**options))
    fit(model)
    session = tensorbow.keras.session_of(model)
    assert not session.tunes_learners
    assert model.num_learners == session.num_learners


def test_averaged_models_are_not_tuned():
    options = tensorbow.Options(learners_per_device="auto", synchroniser=tensorbow.SMA())
    with pytest.raises(ValueError, match="averaged gradients"):
        tensorbow.keras.replicate(recurrent(), options)
