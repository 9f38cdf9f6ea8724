"""Keras models with batch normalisation: learners that share a batch normalise by all of its
rows, as stock Keras does."""

import keras
import numpy as np
import pytest
from keras_models import classifier, options, state

import tensorbow
from tensorbow.keras import learner_value, session_of

layers = keras.layers


def convolutional():
    keras.utils.set_random_seed(1)
    x = inputs = keras.Input((8, 8, 1))
    x = layers.Conv2D(6, 3, use_bias=False)(x)
    x = layers.Activation("relu")(layers.BatchNormalization(momentum=0.9)(x))
    left = layers.BatchNormalization(scale=False)(layers.Conv2D(4, 3, padding="same")(x))
    right = layers.BatchNormalization(center=False)(layers.Conv2D(4, 1)(x))
    x = layers.GlobalAveragePooling2D()(layers.add([left, right]))
    return keras.Model(inputs, layers.Dense(10)(x))


def depthwise():
    keras.utils.set_random_seed(1)
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.DepthwiseConv2D(3, depth_multiplier=4),
            layers.BatchNormalization(),
            layers.ReLU(6),
            layers.Conv2D(8, 1),
            layers.BatchNormalization(),
            layers.GlobalAveragePooling2D(),
            layers.Dense(10),
        ]
    )


def dense():
    keras.utils.set_random_seed(1)
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Flatten(),
            layers.Dense(24),
            layers.BatchNormalization(),
            layers.Activation("relu"),
            layers.Dense(10),
        ]
    )


def optimiser():
    return keras.optimizers.SGD(0.05, momentum=0.9)


@pytest.mark.parametrize(
    "network, learners", [(convolutional, 3), (depthwise, 2), (dense, 2), (dense, 4)]
)
def test_a_step_is_stock_keras(network, learners, digits):
    x, y = (a[:82] for a in digits)  # the last batch has an odd number of rows
    stock = classifier(None, optimiser, network)
    wanted = stock.fit(x, y, batch_size=24, verbose=0, shuffle=False, epochs=2)
    model = classifier(options(learners, synchroniser="auto"), optimiser, network)
    found = model.fit(x, y, batch_size=24, verbose=0, shuffle=False, epochs=2)

    assert session_of(model).learning_tasks == 2 * 4 * learners
    np.testing.assert_allclose(found.history["loss"], wanted.history["loss"], rtol=1e-4)
    ours, theirs = state(model), state(stock)
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        np.testing.assert_allclose(ours[name], value, rtol=2e-3, atol=2e-5, err_msg=name)
    np.testing.assert_allclose(
        model.predict(x, verbose=0), stock.predict(x, verbose=0), rtol=1e-3, atol=1e-4
    )


def test_averaged_models_normalise_by_their_own_rows(digits):
    x, y = (a[:96] for a in digits)
    model = classifier(options(2, synchroniser=tensorbow.SMA()), optimiser, dense)
    model.fit(x, y, batch_size=32, verbose=0, shuffle=False)
    assert session_of(model).learning_tasks == 6
    means = [learner_value(model, model.layers[2].moving_mean, j) for j in range(2)]
    assert np.abs(means[0] - means[1]).max() > 1e-3


def similar(y, z):
    """Makes a contrastive loss: every row is compared with all of its batch."""
    z = keras.ops.normalize(z)
    return keras.ops.mean(keras.ops.logsumexp(5 * z @ keras.ops.transpose(z), axis=1))


@pytest.mark.parametrize("network", [convolutional, dense])
def test_a_contrastive_loss_is_of_all_rows(network, digits):
    x, y = (a[:72] for a in digits)
    models = [network(), network()]
    for model in models:
        model.compile(optimiser(), similar)
    tensorbow.keras.replicate(models[0], options(2, synchroniser="auto"))
    models[0].fit(x, y, batch_size=24, verbose=0, shuffle=False)
    assert session_of(models[0]).learning_tasks == 6
    models[1].fit(x, y, batch_size=24, verbose=0, shuffle=False)
    ours, theirs = (state(model) for model in models)
    for name, value in theirs.items():
        np.testing.assert_allclose(ours[name], value, rtol=2e-3, atol=2e-5, err_msg=name)
