"""synchroniser="auto" of a replicated Keras model: S-SGD, or one learner; never averaged models."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras_kinds_test import Gan
from keras_models import LOSS, ROWS, classifier, small
from keras_one_learner_test import OPTIMISERS

import tensorbow
from tensorbow.keras import learner_value, session_of

layers = keras.layers


class Clipped(keras.optimizers.SGD):
    """Gradient descent of its own kind, with Keras's update."""

    def apply(self, grads, trainable_variables=None):
        super().apply([keras.ops.clip(g, -1, 1) for g in grads], trainable_variables)


class Signs(keras.optimizers.SGD):
    """An optimiser that is no gradient descent, although it is derived from it."""

    def update_step(self, gradient, variable, learning_rate):
        super().update_step(keras.ops.sign(gradient), variable, learning_rate)


def auto(learners=2, **given):
    return tensorbow.Options(learners_per_device=learners, **given)


def fit(model, digits, batches=4):
    """Trains, and checks that there is no warning."""
    rows = batches * ROWS
    with warnings.catch_warnings():
        warnings.simplefilter("error", tensorbow.TensorBowWarning)
        model.fit(digits[0][:rows], digits[1][:rows], batch_size=ROWS, verbose=0, shuffle=False)


def replicas_are_equal(model):
    return all(
        np.array_equal(*(learner_value(model, variable, j) for j in range(2)))
        for variable in model.trainable_variables
    )


# function_updates_test.py and keras_ssgd_test.py have the others.
@pytest.mark.parametrize("optimiser", ["sgd", "adam", "muon", "ema", "accumulation"])
def test_gradients_are_averaged_under_optimisers_of_every_kind(optimiser, digits):
    model = classifier(auto(), OPTIMISERS[optimiser], small)
    for k in range(2):  # the end of fit() would write weights where they have an average
        rows = slice(2 * k * ROWS, 2 * (k + 1) * ROWS)
        model.train_on_batch(digits[0][rows], digits[1][rows])
    session = session_of(model)
    assert session.synchroniser == tensorbow.SSGD()
    assert session.learning_tasks == 4
    assert replicas_are_equal(model)


@pytest.mark.parametrize(
    "optimiser",
    [
        lambda: Clipped(0.1),
        lambda: Signs(0.1),
        lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01)),
    ],
    ids=["its own gradients", "its own update", "Adam in a wrapper"],
)
def test_gradients_are_averaged_under_optimisers_of_a_users_own(optimiser, digits):
    model = classifier(auto(), optimiser, small)
    fit(model, digits)
    assert session_of(model).synchroniser == tensorbow.SSGD()


@pytest.mark.parametrize("optimiser", ["nesterov", "adam"])
def test_the_choice_computes_what_the_explicit_one_does(optimiser, digits):
    weights = []
    explicit = tensorbow.SSGD()
    for given in (auto(), auto(synchroniser=explicit)):
        model = classifier(given, OPTIMISERS[optimiser], small)
        fit(model, digits, batches=7)
        assert session_of(model).synchroniser == explicit
        weights.append(model.get_weights())
    for chosen, said in zip(*weights):
        np.testing.assert_array_equal(chosen, said)


@pytest.mark.parametrize(
    "explicit",
    [
        tensorbow.SMA(),
        tensorbow.SMA(centre="lagging"),
        tensorbow.EASGD(sync_period=2),
        tensorbow.Independent(),
    ],
    ids=["SMA", "lagging", "EASGD", "Independent"],
)
def test_an_explicit_synchroniser_stays(explicit, digits):
    model = classifier(auto(synchroniser=explicit), OPTIMISERS["adam"], small)
    fit(model, digits)
    assert session_of(model).synchroniser == explicit
    assert not replicas_are_equal(model)


def test_an_embedding_under_adam_is_trained_by_s_sgd():
    random = np.random.default_rng(0)
    words = random.integers(0, 50, [4 * ROWS, 12]).astype(np.int32)
    classes = random.integers(0, 10, 4 * ROWS).astype(np.int32)

    def network():
        keras.utils.set_random_seed(1)
        inputs = keras.Input((12,), dtype="int32")
        pooled = layers.GlobalAveragePooling1D()(layers.Embedding(50, 8)(inputs))
        return keras.Model(inputs, layers.Dense(10)(pooled))

    model = classifier(auto(), OPTIMISERS["adam"], network)
    fit(model, (words, classes))
    assert session_of(model).synchroniser == tensorbow.SSGD()
    assert replicas_are_equal(model)


class ByHand(keras.Sequential):
    """A model with an optimiser that does its gradient descent itself."""

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
        gradients = tape.gradient(loss, self.trainable_weights)
        for weight, gradient in zip(self.trainable_weights, gradients):
            weight.assign_sub(0.1 * gradient)
        return {"loss": loss}


def test_gradients_are_averaged_that_the_optimiser_does_not_get(digits):
    keras.utils.set_random_seed(1)
    model = ByHand([keras.Input((8, 8, 1)), layers.Flatten(), layers.Dense(10)])
    tensorbow.keras.replicate(model, auto())
    model.compile("adam", LOSS)
    fit(model, digits)
    session = session_of(model)
    assert (session.synchroniser, session.learning_tasks) == (tensorbow.SSGD(), 8)
    assert replicas_are_equal(model)
    fit(model, digits)
    assert session_of(model) is session


class GanWithoutNoise(Gan):
    """Generates images from parts of the data, which do not depend on the learner."""

    def noise(self, images):
        return images[:, 18:22]


def test_gradients_of_updated_weights_are_of_all_rows(digits):
    """A GAN of one Adam and one SGD in one step."""
    found = []
    for given in (None, auto()):
        keras.utils.set_random_seed(11)
        model = GanWithoutNoise()
        if given is not None:
            tensorbow.keras.replicate(model, given)
        model.compile(keras.optimizers.Adam(0.01), keras.optimizers.SGD(0.1))
        with warnings.catch_warnings():
            warnings.simplefilter("error", tensorbow.TensorBowWarning)
            history = model.fit(digits[0][: 8 * ROWS], batch_size=ROWS, verbose=0).history
        found.append((history, model.get_weights()))
    session = session_of(model)
    assert session.synchroniser == tensorbow.SSGD()
    assert session.learning_tasks == 2 * session.iterations == 16
    (stock, stocks_weights), (ours, weights) = found
    for name, values in stock.items():
        np.testing.assert_allclose(ours[name], values, rtol=1e-5, err_msg=name)
    for a, b in zip(weights, stocks_weights):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


class TwoOptimisers(keras.Sequential):
    """The last layer has an optimiser of its own."""

    def compile(self, optimizer, last, loss):
        super().compile(optimizer, loss)
        self.last = last

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
        gradients = tape.gradient(loss, self.trainable_weights)
        own = len(self.layers[-1].trainable_weights)
        self.optimizer.apply(gradients[:-own], self.trainable_weights[:-own])
        self.last.apply(gradients[-own:], self.trainable_weights[-own:])
        return {"loss": loss}


@pytest.mark.parametrize("last", ["sgd", "adam"])
def test_gradients_are_averaged_under_several_optimisers(last, digits):
    keras.utils.set_random_seed(1)
    model = TwoOptimisers(
        [keras.Input((8, 8, 1)), layers.Flatten(), layers.Dense(12), layers.Dense(10)]
    )
    tensorbow.keras.replicate(model, auto())
    model.compile(keras.optimizers.SGD(0.1), OPTIMISERS[last](), LOSS)
    model.optimizer.build(model.trainable_variables[:-2])
    model.last.build(model.trainable_variables[-2:])
    fit(model, digits)
    assert session_of(model).synchroniser == tensorbow.SSGD()
    assert replicas_are_equal(model)


def test_every_compile_begins_anew(digits):
    model = classifier(auto(), OPTIMISERS["sgd"], small)
    assert session_of(model) is None
    for optimiser in ("sgd", "adam", "nesterov"):
        model.compile(OPTIMISERS[optimiser](), LOSS)
        assert session_of(model) is None
        fit(model, digits)
        assert session_of(model).synchroniser == tensorbow.SSGD()
        assert session_of(model).iterations == 4


@pytest.mark.parametrize("optimiser", ["sgd", "adam"])
def test_with_default_options_the_number_of_learners_stays(optimiser, digits):
    """A session on its own tunes it within some hundred runs."""
    model = classifier(tensorbow.Options(), optimiser)
    fit(model, digits, batches=20)
    session = session_of(model)
    for _ in range(20):
        fit(model, digits, batches=20)
        assert session.num_learners == model.num_learners
    assert not session.tunes_learners
    assert session.iterations == 21 * 20
