"""A step of fit() is stock Keras's at the same batch size: the same rows, the same callbacks, logs
and history and, with S-SGD, the same weights except for rounding.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras_data_test import KINDS, Sequence, generator
from keras_models import ROWS, classifier, options
from keras_ssgd_test import dense

import tensorbow
from tensorbow.keras import session_of

STEPS = 5
EVEN = STEPS * ROWS + 6  # the last step has three rows for each of two learners


class Recorder(keras.callbacks.Callback):
    """Records every call with its arguments."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def on_train_batch_begin(self, batch, logs=None):
        self.calls.append(("begin", batch, {}))

    def on_train_batch_end(self, batch, logs=None):
        self.calls.append(("end", batch, dict(logs)))

    def on_epoch_begin(self, epoch, logs=None):
        self.calls.append(("epoch begin", epoch, {}))

    def on_epoch_end(self, epoch, logs=None):
        self.calls.append(("epoch end", epoch, dict(logs)))

    def on_train_begin(self, logs=None):
        self.calls.append(("steps", self.params["steps"], {}))


def adam():
    return keras.optimizers.Adam(0.002)


def scheduled():
    schedules = keras.optimizers.schedules
    return keras.optimizers.SGD(schedules.PiecewiseConstantDecay([3, 7], [0.1, 0.05, 0.01]))


def fit(given, optimiser, compiled, data, **fitted):
    """Returns (model, recorded calls, history)."""
    keras.utils.set_random_seed(7)
    model = classifier(given, optimiser, dense, **compiled)
    keras.utils.set_random_seed(8)  # the order of the rows
    recorder = Recorder()
    fitted = {"epochs": 3, **data, **fitted}
    history = model.fit(verbose=0, callbacks=[recorder], **fitted).history
    return model, recorder.calls, history


def assert_same_calls(actual, expected):
    assert [call[:2] for call in actual] == [call[:2] for call in expected]
    for (_, _, ours), (_, _, theirs) in zip(actual, expected):
        assert ours.keys() == theirs.keys()
        for name in theirs:
            assert ours[name] == pytest.approx(theirs[name], rel=1e-4)


def assert_close(model, stock):
    for ours, theirs in zip(model.get_weights(), stock.get_weights()):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def assert_equals_stock(optimiser, compiled, make_data, **fitted):
    """Compares with stock. `make_data()`: arguments of fit(), made anew for every model."""
    stock, expected_calls, expected = fit(None, optimiser, compiled, make_data(), **fitted)
    model, calls, history = fit(
        options(synchroniser=tensorbow.SSGD()), optimiser, compiled, make_data(), **fitted
    )
    assert not np.allclose(model.get_weights()[0], dense().get_weights()[0], atol=1e-3)
    assert_same_calls(calls, expected_calls)
    assert history.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(history[name], values, rtol=1e-4)
    assert_close(model, stock)
    iterations = stock.optimizer.iterations.numpy()
    assert session_of(model).iterations == model.optimizer.iterations.numpy() == iterations
    assert session_of(model).learning_tasks == 2 * iterations


@pytest.mark.parametrize("kind", ["numpy", "shuffled", "batch shuffled", "tf.data", "PyDataset"])
def test_every_kind_of_data(kind, digits):
    x, y = digits[0][:EVEN], digits[1][:EVEN]
    assert_equals_stock(adam, {}, lambda: KINDS[kind](x, y))


@pytest.mark.parametrize("kind", ["shuffled", "tf.data"])
def test_steps_per_execution(kind, digits):
    x, y = digits[0][:EVEN], digits[1][:EVEN]
    compiled = {"steps_per_execution": 3}
    validation = (digits[0][-40:], digits[1][-40:])
    assert_equals_stock(scheduled, compiled, lambda: KINDS[kind](x, y), validation_data=validation)


def test_a_generator(digits):
    """Trains three epochs of one generator, which stock Keras must not exhaust."""
    x, y = digits[0][: 12 * ROWS], digits[1][: 12 * ROWS]
    assert_equals_stock(adam, {}, lambda: dict(x=generator(x, y), steps_per_epoch=4))


@pytest.mark.parametrize(
    "fitted",
    [
        dict(steps_per_epoch=2, initial_epoch=2, epochs=4),
        dict(validation_split=0.2, class_weight={k: 1 + k / 10 for k in range(10)}),
    ],
    ids=lambda fitted: next(iter(fitted)),
)
def test_arguments_of_fit(fitted, digits):
    x, y = digits[0][: 6 * ROWS], digits[1][: 6 * ROWS]
    assert_equals_stock(
        lambda: keras.optimizers.SGD(0.05, momentum=0.9),
        {},
        lambda: dict(x=x, y=y, batch_size=ROWS),
        **fitted,
    )


def test_sample_weights(digits):
    x, y = digits[0][:EVEN], digits[1][:EVEN]
    weights = np.linspace(0.1, 2, EVEN, dtype=np.float32)
    dataset = tf.data.Dataset.from_tensor_slices((x, y, weights)).batch(ROWS)
    assert_equals_stock(adam, {}, lambda: dict(x=dataset))


def test_train_on_batch(digits):
    models, logs = [], []
    for given in (None, options(synchroniser=tensorbow.SSGD())):
        model = classifier(given, adam, dense)
        for k in range(6):
            rows = slice(k * ROWS, (k + 1) * ROWS if k < 5 else EVEN)
            logs.append(model.train_on_batch(digits[0][rows], digits[1][rows]))
        models.append(model)
    np.testing.assert_allclose(logs[6:], logs[:6], rtol=1e-4)
    assert models[1].optimizer.iterations.numpy() == session_of(models[1]).iterations == 6
    assert_close(models[1], models[0])


def test_sma_is_called_back_as_often(digits):
    x, y = digits[0][: EVEN - 1], digits[1][: EVEN - 1]
    data = dict(x=Sequence(x, y))
    _, expected, _ = fit(None, adam, {}, data)
    model, calls, _ = fit(options(3), adam, {}, data)
    assert [call[:2] for call in calls] == [call[:2] for call in expected]
    assert model.optimizer.iterations.numpy() == 3 * (STEPS + 1)


def test_tasks_of_half_the_rows_are_two_iterations_of_a_step(digits):
    """An iteration has 8 rows and a step 16, with tasks of 4 rows for two learners."""
    x, y = digits[0][: STEPS * ROWS], digits[1][: STEPS * ROWS]
    given = options(synchroniser=tensorbow.SSGD(), batch_size=4)
    model, calls, _ = fit(given, scheduled, {}, dict(x=x, y=y, batch_size=ROWS))
    _, expected, _ = fit(None, scheduled, {}, dict(x=x, y=y, batch_size=ROWS))
    assert [call[:2] for call in calls] == [call[:2] for call in expected]
    stock, _, _ = fit(None, scheduled, {}, dict(x=x, y=y, batch_size=ROWS // 2))
    assert session_of(model).learning_tasks == 3 * 4 * STEPS
    assert model.optimizer.iterations.numpy() == stock.optimizer.iterations.numpy()
    assert_close(model, stock)


def traces(given, digits):
    """Returns how often fit() calls the model's layers in Python."""
    calls = []

    class Noting(keras.layers.Layer):
        def call(self, images):
            calls.append(images.shape)
            return images

    layers = [keras.Input((8, 8, 1)), Noting(), keras.layers.Flatten(), keras.layers.Dense(10)]
    model = classifier(given, adam(), lambda: keras.Sequential(layers))
    calls.clear()
    model.fit(digits[0][:ROWS], digits[1][:ROWS], batch_size=ROWS, verbose=0)
    return len(calls)


def test_a_step_is_traced_no_more_often_than_by_stock_keras(digits):
    assert 1 <= traces(options(synchroniser=tensorbow.SSGD()), digits) <= traces(None, digits)
