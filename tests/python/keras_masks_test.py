"""Means over unmasked values are those of the whole batch, as in stock Keras."""

import warnings

import keras
import numpy as np

import tensorbow
import tensorbow.keras


def masked_sequences():
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            keras.Input((12,), dtype="int32"),
            keras.layers.Embedding(50, 8, mask_zero=True),
            keras.layers.LSTM(16, return_sequences=True),
            keras.layers.Dense(5),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(0.5), loss, weighted_metrics=["accuracy"])
    return model


def test_a_keras_model_of_masked_sequences_is_stocks():
    random = np.random.RandomState(0)
    x, lengths = random.randint(1, 50, (128, 12)), random.randint(1, 13, 128)
    x[np.arange(12) >= lengths[:, None]] = 0
    y = random.randint(0, 5, (128, 12))
    stock = masked_sequences()
    wanted = stock.fit(x, y, batch_size=32, epochs=2, verbose=0, shuffle=False).history
    options = tensorbow.Options(learners_per_device=2)
    ours = tensorbow.keras.replicate(masked_sequences(), options=options)
    with warnings.catch_warnings():
        warnings.simplefilter("error", tensorbow.TensorBowWarning)
        found = ours.fit(x, y, batch_size=32, epochs=2, verbose=0, shuffle=False).history
    for name, values in wanted.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-5)
    for a, b in zip(ours.get_weights(), stock.get_weights()):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
