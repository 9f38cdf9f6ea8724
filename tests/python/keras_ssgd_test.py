"""S-SGD of Keras models: a step is stock Keras's at the same batch size."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from fused_products_test import products_in_updates
from keras_models import LOSS, ROWS, classifier, logistic, options, small, state
from keras_one_learner_test import OPTIMISERS

import tensorbow
from tensorbow.keras import learner_value, session_of
from tests.python.divided_programs import in_turn

layers = keras.layers


def ssgd(learners=2, **given):
    return options(learners, synchroniser=tensorbow.SSGD(**given))


def dense():
    """Makes a network whose rows do not depend on each other, without random numbers."""
    keras.utils.set_random_seed(1)
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Flatten(),
            layers.Dense(24, "tanh", kernel_constraint=keras.constraints.MaxNorm(0.9)),
            layers.Dense(10, kernel_regularizer=keras.regularizers.L2(1e-3)),
        ]
    )


def single():
    """Makes one layer, of which every optimiser is traced soon."""
    keras.utils.set_random_seed(1)
    kernel = {
        "kernel_constraint": keras.constraints.MaxNorm(0.9),
        "kernel_regularizer": keras.regularizers.L2(1e-3),
    }
    return keras.Sequential([keras.Input((8, 8, 1)), layers.Flatten(), layers.Dense(10, **kernel)])


def assert_replicas_equal(model, variables):
    for variable in variables:
        for j in range(1, model.num_learners):
            np.testing.assert_array_equal(
                learner_value(model, variable, j),
                learner_value(model, variable, 0),
                err_msg=variable.path,
            )


# function_updates_test.py has the others.
OF_KERAS = [
    *("sgd", "adam", "lamb", "muon", "adafactor", "clip by value", "clip by global norm"),
    *("schedule", "cosine", "ema overwrites", "accumulation", "loss scaling"),
]


@pytest.mark.parametrize("optimiser, learners", in_turn(OF_KERAS, [2, 3]))
def test_optimisers_equal_stock(optimiser, learners, digits):
    iterations = 8
    x, y = (a[: iterations * learners * ROWS] for a in digits)
    network = dense if optimiser in ("adam", "muon") else single
    stock = classifier(None, OPTIMISERS[optimiser], network)
    expected = stock.fit(x, y, batch_size=learners * ROWS, verbose=0, shuffle=False)
    chosen = ssgd(learners) if learners == 2 else options(learners, synchroniser="auto")
    model = classifier(chosen, OPTIMISERS[optimiser], network)
    actual = model.fit(x, y, batch_size=learners * ROWS, verbose=0, shuffle=False)

    assert session_of(model).synchroniser == tensorbow.SSGD()
    assert session_of(model).learning_tasks == iterations * learners
    assert_replicas_equal(model, [*model.trainable_variables, *model.optimizer.variables])
    for name, value in expected.history.items():
        np.testing.assert_allclose(actual.history[name], value, rtol=1e-5)
    ours, theirs = state(model), state(stock)
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        np.testing.assert_allclose(ours[name], value, rtol=1e-4, atol=1e-5, err_msg=str(name))


def test_a_short_last_iteration_reaches_the_learner_without_a_batch(digits):
    x, y = (a[: 6 * ROWS + 1] for a in digits)  # three iterations, and a row for one learner
    stock, model = (classifier(o, OPTIMISERS["adam"], dense) for o in (None, ssgd()))
    expected = stock.fit(x, y, batch_size=2 * ROWS, epochs=2, verbose=0, shuffle=False)
    actual = model.fit(x, y, batch_size=2 * ROWS, epochs=2, verbose=0, shuffle=False)
    assert_replicas_equal(model, [*model.trainable_variables, *model.optimizer.variables])
    for ours, theirs in zip(model.get_weights(), stock.get_weights()):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
    for name, value in expected.history.items():  # every row is counted once
        np.testing.assert_allclose(actual.history[name], value, rtol=1e-5)


@pytest.mark.parametrize("tasks", ["shards", "batches"])
def test_statistics_are_alike_where_learners_share_a_batch(tasks, digits):
    """Learners with batches of their own have their own statistics. Seeds always differ: `small`
    drops out."""
    x, y = (a[: 6 * ROWS] for a in digits)
    given = options(synchroniser=tensorbow.SSGD())
    if tasks == "batches":
        given = options(synchroniser=tensorbow.SSGD(), batch_size=ROWS // 2)
    model = classifier(given, OPTIMISERS["nesterov"], small)
    model.fit(x, y, batch_size=ROWS, verbose=0, shuffle=False)
    assert_replicas_equal(model, [*model.trainable_variables, *model.optimizer.variables])
    norm = model.get_layer("norm")
    own = [learner_value(model, norm.moving_mean, j) for j in range(2)]
    assert np.array_equal(*own) == (tasks == "shards")
    np.testing.assert_allclose(norm.moving_mean.numpy(), np.mean(own, axis=0), rtol=1e-6)


# Stock Keras's Adam treats a sparse gradient, whose rows may occur several times, differently from
# the same dense gradient.
@pytest.mark.parametrize("optimiser", ["nesterov", "adam"])
def test_sparse_gradients_are_stock_keras(optimiser):
    random = np.random.default_rng(0)
    words = random.integers(0, 50, [8 * ROWS, 12]).astype(np.int32)
    classes = random.integers(0, 10, 8 * ROWS).astype(np.int32)

    def network():
        keras.utils.set_random_seed(1)
        inputs = keras.Input((12,), dtype="int32")
        words = layers.Embedding(50, 8)(inputs)
        return keras.Model(inputs, layers.Dense(10)(layers.GRU(8)(words)))

    stock, model = (classifier(o, OPTIMISERS[optimiser], network) for o in (None, ssgd()))
    for each in (stock, model):
        each.fit(words, classes, batch_size=2 * ROWS, verbose=0, shuffle=False)
    assert session_of(model).learning_tasks == 8
    for ours, theirs in zip(model.get_weights(), stock.get_weights()):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


def test_an_overflow_on_any_learner_skips_the_step_of_all(digits):
    x, y = (a[: 8 * ROWS].copy() for a in digits)
    x[3 * ROWS] = np.float32(3e38)  # a row of learner 1, in the second of four iterations
    models = []
    for given in (None, ssgd()):
        model = logistic(given)
        model.compile(
            keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), initial_scale=64.0),
            LOSS,
        )
        model.fit(x, y, batch_size=2 * ROWS, verbose=0, shuffle=False)
        models.append(model)
    stock, model = models
    assert model.optimizer.iterations.numpy() == stock.optimizer.iterations.numpy()
    assert model.optimizer.dynamic_scale.numpy() == stock.optimizer.dynamic_scale.numpy() == 32
    for ours, theirs in zip(model.get_weights(), stock.get_weights()):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)
    assert_replicas_equal(model, [*model.trainable_variables, *model.optimizer.variables])


def test_the_average_is_of_what_the_replicas_are(digits):
    decay = 0.5
    for optimiser in ("sgd", "adam"):
        model = classifier(ssgd(ema_decay=decay), OPTIMISERS[optimiser], dense)
        expected = model.get_weights()
        for k in range(5):
            rows = slice(2 * k * ROWS, 2 * (k + 1) * ROWS)
            model.train_on_batch(digits[0][rows], digits[1][rows])
            d = min(decay, (1 + k) / (10 + k))
            replicas = [learner_value(model, v, 0) for v in model.trainable_variables]
            expected = [d * a + (1 - d) * w for a, w in zip(expected, replicas)]
            for actual, value in zip(model.get_weights(), expected):
                np.testing.assert_allclose(actual, value, rtol=1e-5, atol=1e-7)
        assert_replicas_equal(model, model.trainable_variables)


def test_gradient_of_a_large_dense_layer_is_computed_in_its_update(digits):
    x, y = (a[: 8 * ROWS] for a in digits)
    stock, model = (logistic(o, rate=0.2, classes=2048) for o in (None, ssgd()))
    for each in (stock, model):
        each.fit(x, y, batch_size=2 * ROWS, verbose=0, shuffle=False)
    for ours, theirs in zip(model.get_weights(), stock.get_weights()):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
    step = model._tensorbow.program.step
    feeds = dict(zip(step.inputs, (x[: 2 * ROWS], y[: 2 * ROWS])))
    assert products_in_updates(session_of(model), step.train_op, feeds) == 1


def test_the_optimiser_is_left_as_it_was(digits):
    model = classifier(ssgd(), OPTIMISERS["loss scaling"], dense)
    model.fit(digits[0][:64], digits[1][:64], batch_size=ROWS, verbose=0)
    for optimiser in (model.optimizer, model.optimizer.inner_optimizer):
        assert not {"apply", "update_step"} & vars(optimiser).keys()


def test_an_optimiser_keeps_the_methods_it_was_given(digits):
    """The optimiser doubles the gradient, and does not update the second layer, unlike its
    class."""
    x, y = (a[: 6 * ROWS] for a in digits)
    weights = []
    for given in (None, ssgd(), options(synchroniser=tensorbow.Independent())):
        model = classifier(given, OPTIMISERS["sgd"], dense)
        optimiser = model.optimizer
        optimiser.build(model.trainable_variables)
        stock_apply, stock_step = optimiser.apply, optimiser.update_step
        frozen = model.layers[-1].kernel.value

        def apply(grads, variables=None, stock=stock_apply):
            return stock([2 * gradient for gradient in grads], variables)

        def update_step(gradient, variable, rate, stock=stock_step, frozen=frozen):
            if variable is not frozen:
                stock(gradient, variable, rate)

        optimiser.apply, optimiser.update_step = apply, update_step
        before = frozen.numpy()
        model.fit(x, y, batch_size=2 * ROWS, verbose=0, shuffle=False)
        np.testing.assert_array_equal(frozen.numpy(), before)
        assert optimiser.apply is apply and optimiser.update_step is update_step
        weights.append(model.get_weights())
    for ours, theirs in zip(weights[1], weights[0]):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


class ByHand(keras.Sequential):
    """A model that does its gradient descent itself."""

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
        for weight, gradient in zip(
            self.trainable_weights, tape.gradient(loss, self.trainable_weights)
        ):
            weight.assign_sub(0.1 * gradient)
        return {"loss": loss}


class HalfByHand(ByHand):
    """A model with an optimiser for all weights but one."""

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
        *most, last = self.trainable_weights
        *gradients, gradient = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply(gradients, most)
        last.assign_sub(0.1 * gradient)
        return {"loss": loss}


class Norms(keras.Sequential):
    """A model that logs the norm of its gradients, and their mean norm."""

    def __init__(self, *args):
        super().__init__(*args)
        self.mean = keras.metrics.Mean(name="mean")

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
        gradients = tape.gradient(loss, self.trainable_weights)
        norm = tf.linalg.global_norm(gradients)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_weights))
        self.mean.update_state(norm)
        largest = tf.reduce_max(tf.abs(gradients[0]))
        return {"loss": loss, "norm": norm, "mean": self.mean.result(), "largest": largest}


@pytest.mark.parametrize(("optimiser", "learners"), [("sgd", 2), ("adam", 3)])
def test_what_is_computed_from_gradients_is_stock_keras(optimiser, learners, digits):
    found = []
    for given in (None, ssgd(learners)):
        keras.utils.set_random_seed(1)
        model = Norms([keras.Input((8, 8, 1)), layers.Flatten(), layers.Dense(10)])
        model.compile(optimiser, LOSS)
        if given is not None:
            tensorbow.keras.replicate(model, given)
        with warnings.catch_warnings():
            warnings.simplefilter("error", tensorbow.TensorBowWarning)
            data = digits[0][:88], digits[1][:88]  # five rows or six in the last shards
            fitted = model.fit(*data, batch_size=24, epochs=2, verbose=0, shuffle=False)
        found.append((fitted.history, model.get_weights()))
    (stock, stocks_weights), (ours, weights) = found
    assert session_of(model).learning_tasks == learners * session_of(model).iterations
    for name, values in stock.items():
        np.testing.assert_allclose(ours[name], values, rtol=1e-4, err_msg=name)
    for a, b in zip(weights, stocks_weights):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def weights_after_fit(kind, digits, given):
    """Returns the weights, the warnings and the session; stock Keras's if `given` is None."""
    keras.utils.set_random_seed(1)
    model = kind([keras.Input((8, 8, 1)), layers.Flatten(), layers.Dense(10)])
    model.build()
    model.compile(keras.optimizers.SGD(0.1), LOSS)
    model.optimizer.build(model.trainable_variables[:-1])
    if given is not None:
        tensorbow.keras.replicate(model, given)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", tensorbow.TensorBowWarning)
        model.fit(digits[0][:96], digits[1][:96], batch_size=ROWS, verbose=0, shuffle=False)
    said = [str(w.message) for w in caught if w.category is tensorbow.TensorBowWarning]
    return model.get_weights(), said, session_of(model) if given is not None else None


@pytest.mark.parametrize("kind", [ByHand, HalfByHand])
def test_updates_without_an_optimiser_are_of_all_rows(kind, digits):
    ours, said, session = weights_after_fit(kind, digits, ssgd())
    stock, _, _ = weights_after_fit(kind, digits, None)
    assert said == []
    assert session.learning_tasks == 2 * session.iterations == 12
    for a, b in zip(ours, stock):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_a_failing_batch_changes_no_weight(digits):
    model = classifier(ssgd(), OPTIMISERS["adam"], dense)
    model.fit(digits[0][:64], digits[1][:64], batch_size=ROWS, verbose=0, shuffle=False)
    before = model.get_weights()
    bad = digits[1][: 2 * ROWS].copy()
    bad[-1] = 99  # the second learner's
    with pytest.raises(tf.errors.InvalidArgumentError):
        model.train_on_batch(digits[0][: 2 * ROWS], bad)
    for value, expected in zip(model.get_weights(), before):
        np.testing.assert_array_equal(value, expected)
    assert_replicas_equal(model, [*model.trainable_variables, *model.optimizer.variables])
    model.train_on_batch(digits[0][: 2 * ROWS], digits[1][: 2 * ROWS])
    assert not np.array_equal(model.get_weights()[0], before[0])
    assert_replicas_equal(model, [*model.trainable_variables, *model.optimizer.variables])


def test_rates_set_by_callbacks_reach_every_learner(digits):
    x, y = (a[: 8 * ROWS] for a in digits)
    weights = []
    for given in (None, ssgd()):
        model = classifier(given, OPTIMISERS["nesterov"], dense)
        model.fit(
            x,
            y,
            batch_size=2 * ROWS,
            epochs=4,
            verbose=0,
            shuffle=False,
            callbacks=[keras.callbacks.LearningRateScheduler(lambda epoch: 0.1 / (1 + epoch))],
        )
        weights.append(model.get_weights())
    for ours, theirs in zip(*weights):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("learners", [2, 3])
def test_learners_with_more_rows_of_an_odd_batch_count_for_more(learners, digits):
    """Batches of 25 rows, the last one of 5."""
    x, y = (a[:130] for a in digits)
    weights = []
    for given in (None, ssgd(learners)):
        model = classifier(given, OPTIMISERS["nesterov"], dense)
        model.fit(x, y, batch_size=25, epochs=2, verbose=0, shuffle=False)
        weights.append(model.get_weights())
    for ours, theirs in zip(*weights):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
