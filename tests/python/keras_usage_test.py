"""Keras as people use it, each program on stock Keras and on learners.

Expected values: stock Keras on the same program. One learner leaves the same bits; two that
average gradients leave the same values to rounding.
"""

import gc
import os
import threading
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras_comparisons import assert_close, averaged, compare, dense, fitting, trained
from keras_models import LOSS, ROWS, assert_same_state, independent
from shared_data import shared_data

import tensorbow
from tensorbow.keras import session_of

layers = keras.layers
callbacks = keras.callbacks


@pytest.fixture
def data(digits):
    return digits[0][: 6 * ROWS], digits[1][: 6 * ROWS]


# ------------------------------------------------------------------ applications


@pytest.fixture(scope="module")
def cifar():
    with np.load(shared_data("cifar10_5k1k.npz")) as file:
        return (file["x_train"][:32] / np.float32(255)), file["y_train"][:32].astype(np.int32)


def test_features_of_an_application(cifar):
    """Uses the first blocks of MobileNetV2, cut for features, with fixed normalisation (of a batch,
    each learner would see its own rows); whole networks take minutes to trace."""

    def make():
        base = keras.applications.MobileNetV2(
            (32, 32, 3), alpha=0.35, weights=None, include_top=False
        )
        for layer in base.layers:
            if isinstance(layer, layers.BatchNormalization):
                layer.trainable = False
        features = base.get_layer("block_2_expand_relu").output
        pooled = layers.GlobalAveragePooling2D()(features)
        return keras.Model(base.input, layers.Dense(10)(pooled))

    compare(make, fitting(cifar), "sgd", lone=False)


# ----------------------------------------------------------------- ways to compile


def test_mixed_bfloat16(data):
    policy = keras.mixed_precision.dtype_policy()
    keras.mixed_precision.set_dtype_policy("mixed_bfloat16")
    try:

        def make():
            hidden = layers.Dense(32, activation="relu")
            last = layers.Activation("linear", dtype="float32")
            return keras.Sequential(
                [keras.Input((8, 8, 1)), layers.Flatten(), hidden, layers.Dense(10), last]
            )

        # Weights are float32, their gradients come from products of 8 bits.
        two = compare(make, fitting(data), "sgd", dict(rtol=0.02, atol=2e-3))
    finally:
        keras.mixed_precision.set_dtype_policy(policy)
    assert two.layers[1].compute_dtype == "bfloat16"
    assert two.layers[1].kernel.dtype == "float32"


def test_jit_compile(data):
    compare(dense, fitting(data), "sgd", jit_compile="auto")
    # Stock Keras compiles the step by XLA, learners do not: last bits differ.
    stock = trained(dense, None, fitting(data), "sgd", jit_compile=True)
    for given in (independent(), averaged()):
        model = trained(dense, given, fitting(data), "sgd", jit_compile=True)
        assert_close(model, stock)
        np.testing.assert_allclose(
            model.predict(data[0][:4], verbose=0), stock.predict(data[0][:4], verbose=0), rtol=1e-4
        )


def test_fit_twice_goes_on(data):
    def fit(model):
        for epoch in range(2):
            fitting(data, initial_epoch=epoch, epochs=epoch + 1)(model)

    assert compare(dense, fit).optimizer.iterations.numpy() == 12


def test_fine_tuning_in_two_phases(data):
    """First with a frozen base, then with all of it, compiled again at a lower rate."""

    def make():
        base = keras.Sequential(
            [keras.Input((8, 8, 1)), layers.Flatten(), layers.Dense(12, activation="relu")]
        )
        base.trainable = False
        model = keras.Sequential([keras.Input((8, 8, 1)), base, layers.Dense(10)])
        model.base = base
        return model

    def fit(model):
        frozen = model.base.get_weights()
        fitting(data)(model)
        for a, b in zip(model.base.get_weights(), frozen):
            np.testing.assert_array_equal(a, b)
        model.base.trainable = True
        model.compile(keras.optimizers.Adam(1e-4), LOSS)
        fitting(data)(model)
        assert not np.array_equal(model.base.get_weights()[0], frozen[0])

    compare(make, fit)


def test_a_clone_is_trained_on_its_own(data):
    model = trained(dense, averaged(), fitting(data))
    weights = model.get_weights()

    def make():
        clone = keras.models.clone_model(model)
        clone.set_weights(weights)
        return clone

    compare(make, fitting(data), lone=False)
    for a, b in zip(model.get_weights(), weights):
        np.testing.assert_array_equal(a, b)


# ----------------------------------------------------------------------- callbacks


def test_the_best_weights_are_kept_in_a_file(data, tmp_path):
    """The best epoch of the measure is known, the second of four."""

    class Measure(callbacks.Callback):
        def __init__(self):
            super().__init__()
            self.weights = []

        def on_epoch_end(self, epoch, logs=None):
            logs["measure"] = [3, 1, 2, 2][epoch]
            self.weights.append(self.model.get_weights())

    for weights_only, name in ((True, "best.weights.h5"), (False, "best.keras")):
        best = callbacks.ModelCheckpoint(
            tmp_path / name, "measure", save_best_only=True, mode="min",
            save_weights_only=weights_only,
        )  # fmt: skip
        measure = Measure()
        trained(dense, averaged(), fitting(data, epochs=4, callbacks=[measure, best]))
        if weights_only:
            found = dense()
            found.load_weights(tmp_path / name)
        else:
            found = keras.models.load_model(tmp_path / name)
        for a, b, last in zip(found.get_weights(), measure.weights[1], measure.weights[3]):
            np.testing.assert_array_equal(a, b)
            assert not np.array_equal(a, last)


def test_an_interrupted_training_is_resumed_where_it_was(data, tmp_path):
    def interrupt(epoch, logs):
        if epoch == 2:
            raise RuntimeError("interrupted")

    def fit(model):
        backup = callbacks.BackupAndRestore(tmp_path / "backup")
        stop = callbacks.LambdaCallback(on_epoch_begin=interrupt)
        with pytest.raises(RuntimeError, match="interrupted"):
            fitting(data, epochs=4, callbacks=[backup, stop])(model)

    def resume(model):
        backup = callbacks.BackupAndRestore(tmp_path / "backup")
        fitting(data, epochs=4, callbacks=[backup])(model)

    resumed = []
    for given in (None, independent(), averaged()):
        trained(dense, given, fit)
        resumed.append(trained(dense, given, resume))
    assert_same_state(resumed[1], resumed[0])
    assert_close(resumed[2], resumed[0])
    assert_close(resumed[2], trained(dense, None, fitting(data, epochs=4)))


class PredictingCallback(callbacks.Callback):
    """Predicts and evaluates in the middle of an epoch."""

    def __init__(self, x, y):
        super().__init__()
        self.x, self.y = x, y
        self.found = []

    def on_train_batch_end(self, batch, logs=None):
        if batch % 3 == 1:
            self.found.append(self.model.predict(self.x, verbose=0))
            self.found.append(self.model(self.x, training=False).numpy())
            self.found.append(np.float32(self.model.evaluate(self.x, self.y, verbose=0)))


def test_predictions_in_a_callback_are_of_that_moment(data):
    found = []

    def fit(model):
        predicting = PredictingCallback(data[0][:4], data[1][:4])
        fitting(data, callbacks=[predicting])(model)
        found.append(predicting.found)

    compare(dense, fit)
    stock, one, two = found
    assert len(stock) == len(one) == len(two) == 2 * 3
    for a, b, c in zip(stock, one, two):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(a, c, rtol=1e-4, atol=1e-4)


def test_ctrl_c_in_a_callback_leaves_a_model_that_goes_on(data):
    def interrupt(batch, logs):
        if batch == 2:
            raise KeyboardInterrupt

    def fit(model):
        stop = callbacks.LambdaCallback(on_train_batch_end=interrupt)
        with pytest.raises(KeyboardInterrupt):
            fitting(data, callbacks=[stop])(model)
        assert model.optimizer.iterations.numpy() == 3
        fitting(data)(model)
        assert model.optimizer.iterations.numpy() == 9

    compare(dense, fit)


def test_rates_and_stops_by_callbacks_are_stocks(data):
    """Uses a schedule by epoch, a rate that falls on a plateau, and a stop that restores."""
    histories = []

    def fit(model):
        def schedule(epoch, rate):
            return rate * 0.9

        given = [
            callbacks.LearningRateScheduler(schedule),
            callbacks.ReduceLROnPlateau("val_loss", factor=0.3, patience=1, min_delta=10),
            callbacks.EarlyStopping(
                "val_loss", patience=4, min_delta=10, restore_best_weights=True
            ),
        ]
        validation = (data[0][:20], data[1][:20])
        history = fitting(data, epochs=8, validation_data=validation, callbacks=given)(model)
        histories.append(history.history)

    compare(dense, fit, lambda: keras.optimizers.Adam(0.01))
    stock, one, two = histories
    assert stock == one
    assert len(two["loss"]) == len(stock["loss"]) == 5
    assert stock["learning_rate"][-1] < 0.01 * 0.9**5 * 0.3 * 1.01
    for name, values in stock.items():
        np.testing.assert_allclose(two[name], values, rtol=1e-4, err_msg=name)


def test_tensorboard_has_the_same_figures(data, tmp_path):
    def figures(folder):
        found = {}
        for path in sorted((tmp_path / folder).rglob("*events*")):
            for event in tf.compat.v1.train.summary_iterator(str(path)):
                for value in event.summary.value:
                    array = tf.make_ndarray(value.tensor)
                    if array.dtype.kind == "f" and array.ndim == 0:
                        found[path.parent.name, value.tag, event.step] = float(array)
        return found

    for folder, given in (("stock", None), ("two", averaged())):
        board = callbacks.TensorBoard(tmp_path / folder, histogram_freq=1, update_freq=2)
        validation = (data[0][:20], data[1][:20])
        trained(
            dense, given, fitting(data, epochs=2, validation_data=validation, callbacks=[board])
        )
    stock, two = figures("stock"), figures("two")
    named = {key for key in stock if "steps_per_second" not in key[1]}
    assert named == {key for key in two if "steps_per_second" not in key[1]}
    assert any(tag == "batch_loss" for _, tag, _ in named)
    for key in named:
        if key[1] != "batch_loss":  # of a batch: the mean of running values
            assert two[key] == pytest.approx(stock[key], rel=1e-4), key


# ------------------------------------------------------------------- many models, one process


def counts_of_process():
    """Returns the numbers of Python's threads, all threads, and open files."""
    return (
        threading.active_count(),
        len(os.listdir("/proc/self/task")),
        len(os.listdir("/proc/self/fd")),
    )


def test_a_search_over_many_models_leaves_nothing_behind(data):
    """Only the weights of the best model are kept."""
    rows = (data[0][: 2 * ROWS], data[1][: 2 * ROWS])
    sessions, best, counts = [], None, []
    for trial in range(5):
        model = tensorbow.keras.replicate(dense(), averaged())
        model.compile(keras.optimizers.SGD(0.001 * (1 + trial)), LOSS)
        history = fitting(rows)(model)
        sessions.append(weakref.ref(session_of(model)))
        if best is None or history.history["loss"][-1] < best[0]:
            best = history.history["loss"][-1], model.get_weights()
        del model, history
        if trial % 2 == 0:
            keras.backend.clear_session()
            gc.collect()
            assert [found() for found in sessions] == [None] * len(sessions)
            counts.append(counts_of_process())
    assert counts[1] == counts[2]
