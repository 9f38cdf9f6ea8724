"""Preprocessing layers, masks and states, on stock Keras and on learners."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras_comparisons import averaged, compare, fitting, trained
from keras_models import ROWS, assert_same_state, independent

import tensorbow
from tensorbow.keras import session_of

layers = keras.layers


@pytest.fixture
def data(digits):
    return digits[0][: 6 * ROWS], digits[1][: 6 * ROWS]


# ------------------------------------------------------------------- preprocessing


def test_normalisation_and_rescaling_in_the_model(data):
    def make():
        normalise = layers.Normalization()
        normalise.adapt(255 * data[0])
        return keras.Sequential(
            [
                keras.Input((8, 8, 1)),
                normalise,
                layers.Rescaling(0.5, offset=0.1),
                layers.Flatten(),
                layers.Dense(10),
            ]
        )

    compare(make, fitting((255 * data[0], data[1])), lone=False)


def test_augmentation_in_the_model_draws_for_every_learner(data):
    def make():
        return keras.Sequential(
            [
                keras.Input((8, 8, 1)),
                layers.RandomFlip("horizontal", seed=5),
                layers.RandomTranslation(0.1, 0.1, seed=6),
                layers.Flatten(),
                layers.Dense(10),
            ]
        )

    stock, one, two = (
        trained(make, given, fitting(data, epochs=4)) for given in (None, independent(), averaged())
    )
    assert_same_state(one, stock)
    assert session_of(two).num_learners == 2
    (loss, before) = (
        m.evaluate(*data, verbose=0) for m in (two, trained(make, None, lambda model: None))
    )
    assert loss < before


def test_text_vectorisation_in_the_input_pipeline():
    words = ["red", "green", "blue", "black"]
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(words, 1 + k % 5)) for k in range(96)]
    labels = np.array([("red" in text) for text in texts], np.int32)
    vectorise = layers.TextVectorization(max_tokens=8, output_sequence_length=5)
    vectorise.adapt(texts)

    def make():
        return keras.Sequential(
            [
                keras.Input((5,), dtype="int64"),
                layers.Embedding(8, 4, mask_zero=True),
                layers.GlobalAveragePooling1D(),
                layers.Dense(2),
            ]
        )

    def fit(model):
        rows = tf.data.Dataset.from_tensor_slices((texts, labels)).batch(ROWS)
        rows = rows.map(lambda x, y: (vectorise(x), y))
        model.fit(rows, epochs=2, shuffle=False, verbose=0)

    compare(make, fit, "sgd")


# ------------------------------------------------------------- sequences, masks, state


@pytest.fixture
def sequences():
    random = np.random.default_rng(1)
    words = random.integers(1, 20, [4 * ROWS, 6]).astype(np.int32)
    for k, row in enumerate(words):
        row[2 + k % 5 :] = 0  # the mask: 2 to 6 words
    return words, (words[:, 0] % 3).astype(np.int32)


def test_a_mask_inside_the_model(sequences):
    def make():
        return keras.Sequential(
            [
                keras.Input((6,), dtype="int32"),
                layers.Embedding(20, 4, mask_zero=True),
                layers.LSTM(5),
                layers.Dense(3),
            ]
        )

    compare(make, fitting(sequences), "sgd", lone=False)


def test_a_mask_in_the_loss_that_shards_have_more_or_less_of(sequences):
    """Keras divides by the unmasked steps of the whole batch, which learners add up."""
    words = sequences[0].copy()
    for begin in range(0, len(words), ROWS):
        words[begin : begin + ROWS // 2] = 1 + words[begin : begin + ROWS // 2, :1]
        words[begin + ROWS // 2 : begin + ROWS, 1:] = 0

    def make():
        return keras.Sequential(
            [
                keras.Input((6,), dtype="int32"),
                layers.Embedding(21, 4, mask_zero=True),
                layers.Dense(21),
            ]
        )

    compare(make, fitting((words, words)), "sgd", lone=False)


def test_a_stateful_network_carries_its_state_from_batch_to_batch():
    random = np.random.default_rng(2)
    x = random.standard_normal((4 * ROWS, 5, 3)).astype(np.float32)
    y = x.sum((1, 2)).astype(np.float32)

    def make():
        return keras.Sequential(
            [
                keras.Input(batch_shape=(ROWS, 5, 3)),
                layers.LSTM(4, stateful=True),
                layers.Dense(1),
            ]
        )

    def fit(model):
        for _ in range(2):
            model.fit(x, y, batch_size=ROWS, shuffle=False, verbose=0)
            model.layers[0].reset_state()

    stock = trained(make, None, fit, loss="mse")
    assert_same_state(trained(make, independent(), fit, loss="mse"), stock)
    with pytest.warns(tensorbow.TensorBowWarning, match="fixed number of rows"):
        keras.utils.set_random_seed(7)
        two = tensorbow.keras.replicate(make(), averaged())
        two.compile("adam", "mse")
        fit(two)
    assert_same_state(two, stock)
