"""Callbacks read the central model, and their changes reach the learners."""

import csv

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras_models import (
    LOSS,
    ROWS,
    assert_same_state,
    classifier,
    independent,
    logistic,
    options,
    small,
)

import tensorbow
from tensorbow.keras import learner_value, session_of

callbacks = keras.callbacks


@pytest.fixture
def data(digits):
    return digits[0][: 6 * ROWS], digits[1][: 6 * ROWS]


def fit(model, data, *given, epochs=4, **more):
    more.setdefault("validation_data", (data[0][:40], data[1][:40]))
    return model.fit(
        *data, batch_size=ROWS, epochs=epochs, verbose=0, callbacks=list(given), **more
    )


def both(data, make, compiled=logistic, **more):
    """Trains by stock Keras and by one learner: (stock, ours), with histories."""
    results = []
    for given in (None, independent()):
        model = compiled(given)
        made = make()
        history = fit(model, data, *made, **more)
        results.append((model, history.history, made))
    assert results[0][1] == results[1][1]
    assert_same_state(results[1][0], results[0][0])
    return results


def test_early_stopping_restores_the_best_central_weights(data):
    def make():
        return [
            callbacks.EarlyStopping(
                "val_accuracy", patience=1, restore_best_weights=True, mode="min"
            )
        ]

    both(data, make)
    model = logistic(options())
    best = []
    fit(
        model,
        data,
        callbacks.LambdaCallback(on_epoch_end=lambda e, _: best.append(model.get_weights())),
        *make(),
    )
    assert len(best) == 2
    for a, b in zip(model.get_weights(), best[0]):
        np.testing.assert_array_equal(a, b)


def test_learning_rate_scheduler(data):
    (stock, _, _), (ours, history, _) = both(
        data, lambda: [callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.4)]
    )
    assert history["learning_rate"][-1] == pytest.approx(0.1 * 0.4**4)
    model = logistic(options())
    fit(model, data, callbacks.LearningRateScheduler(lambda epoch, rate: 0.0 if epoch else rate))
    rate = model.optimizer.learning_rate
    assert [learner_value(model, rate, j) for j in range(2)] == [0, 0]


def test_csv_logger_and_terminate_on_nan(data, tmp_path):
    both(data, lambda: [callbacks.TerminateOnNaN()])
    model = logistic(options())
    history = fit(model, data, callbacks.CSVLogger(tmp_path / "log.csv")).history
    rows = list(csv.DictReader((tmp_path / "log.csv").open()))
    assert [float(row["loss"]) for row in rows] == pytest.approx(history["loss"])
    model = logistic(options(), rate=float("inf"))
    model.compile(keras.optimizers.SGD(float("inf")), LOSS)
    assert len(fit(model, data, callbacks.TerminateOnNaN()).history["loss"]) < 4


def test_lambda_callback_on_batches_sees_the_model_of_that_moment(data):
    def make():
        seen = []

        def look(batch, logs):
            seen.append((batch, logs["loss"], seen_of[0].get_weights()[0].sum()))

        seen_of = []
        callback = callbacks.LambdaCallback(on_train_batch_end=look)
        callback.set_model = lambda model: seen_of.append(model)
        callback.seen = seen
        return [callback]

    (_, _, [stock]), (_, _, [ours]) = both(data, make)
    assert len(stock.seen) == 24
    assert ours.seen == stock.seen


class Meddler(callbacks.Callback):
    """A callback that reads weights and slots, and writes weights, the rate and BN statistics."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def on_train_batch_end(self, batch, logs=None):
        if batch % 3 == 1:
            self.seen += [w.sum() for w in self.model.get_weights()]
            self.seen += [v.numpy().sum() for v in self.model.optimizer.variables]
        if batch == 2:
            self.model.optimizer.learning_rate = 0.003
        if batch == 3:
            layer = self.model.layers[-1]
            layer.set_weights([w * 0.9 for w in layer.get_weights()])
        if batch == 4:
            self.model.weights[0].assign_add(np.ones_like(self.model.weights[0]))
            self.model.weights[1].value.assign(self.model.weights[1] * 2)

    def on_epoch_end(self, epoch, logs=None):
        self.seen.append(sorted(logs.items()))
        self.seen.append(self.model.evaluate(np.ones([8, 8, 8, 1]), np.arange(8), verbose=0))
        self.seen.append(self.model.predict(np.ones([2, 8, 8, 1]), verbose=0).tolist())


def test_a_user_written_callback_may_read_and_write_anything(data):
    (_, _, [stock]), (_, _, [ours]) = both(
        data, lambda: [Meddler()], lambda o: classifier(o, "adam", small)
    )
    assert ours.seen == stock.seen


def test_what_a_callback_writes_reaches_every_learner(data):
    model = logistic(options())

    class Reset(callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 4:
                self.model.layers[-1].set_weights([np.ones([64, 10]), np.zeros(10)])
                assert np.array_equal(
                    learner_value(self.model, self.model.weights[0], 1), np.ones([64, 10])
                )

    fit(model, data, Reset(), epochs=1, shuffle=False)
    assert session_of(model).iterations == 6
    # One more iteration ran from there: from equal replicas, a step of stock's on all rows.
    stock = logistic(None)
    stock.set_weights([np.ones([64, 10]), np.zeros(10)])
    stock.train_on_batch(*(array[5 * ROWS :] for array in data))
    for ours, theirs in zip(model.get_weights(), stock.get_weights()):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)


def test_a_traced_function_in_a_callback_sees_the_central_model(data):
    import tensorflow as tf

    model = logistic(options())
    probe = tf.constant(data[0][:4])
    predict = tf.function(lambda: model(probe))
    seen = []
    look = callbacks.LambdaCallback(
        on_epoch_end=lambda *_: seen.append((predict().numpy(), model.predict(probe, verbose=0)))
    )
    fit(model, data, look)
    for a, b in seen:
        np.testing.assert_allclose(a, b, rtol=1e-5)
    assert not np.allclose(seen[0][0], seen[-1][0])


def test_stop_training(data):
    model = logistic(options())

    class Stop(callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            self.model.stop_training = True

    fit(model, data, Stop())
    assert session_of(model).iterations == 1


def test_model_checkpoint_and_reload_resumes(data, tmp_path):
    def go(given, epochs, start=0, path=None):
        model = classifier(given, "adam", small)
        if path is not None:
            model = keras.models.load_model(path)
            if given is not None:
                tensorbow.keras.replicate(model, given)
        save = callbacks.ModelCheckpoint(tmp_path / f"{given is None}.keras")
        fit(model, data, save, epochs=epochs, initial_epoch=start, shuffle=False)
        return model, tmp_path / f"{given is None}.keras"

    whole, _ = go(independent(), 2)
    states = []
    for given in (None, independent()):
        _, path = go(given, 2)
        resumed, _ = go(given, 4, 2, path)
        states.append(resumed)
    assert_same_state(states[1], states[0])
    assert states[1].optimizer.iterations.numpy() == 24
    # Two learners continue from the saved central model.
    _, path = go(options(), 2)
    saved = keras.models.load_model(path).get_weights()
    model = tensorbow.keras.replicate(keras.models.load_model(path), options())
    for a, b in zip(model.get_weights(), saved):
        np.testing.assert_array_equal(a, b)
    fit(model, data, epochs=1)
    assert session_of(model).learning_tasks == 12


def test_swap_ema_weights_evaluates_the_averages(data):
    def compiled(given):
        optimiser = keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5)
        return classifier(given, lambda: optimiser, small)

    both(data, lambda: [callbacks.SwapEMAWeights()], compiled, epochs=2)


def test_a_callback_writes_the_metrics_of_a_keras_model(tmp_path):
    data = np.random.default_rng(0).standard_normal((40, 3)).astype(np.float32)
    for replicated in (True, False):
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
        if replicated:
            model = tensorbow.keras.replicate(model, tensorbow.Options(learners_per_device=2))
        model.compile("sgd", "mse")
        folder = tmp_path / str(replicated)
        callback = tensorbow.keras.MetricsCallback(folder)
        model.fit(data, data[:, :1], batch_size=8, epochs=2, verbose=0, callbacks=[callback])
        found = {
            (value.tag, event.step): float(tf.make_ndarray(value.tensor))
            for path in folder.glob("*tfevents*")
            for event in tf.compat.v1.train.summary_iterator(str(path))
            for value in event.summary.value
        }
        if not replicated:
            assert not found
            continue
        assert {at for _, at in found} == {5, 10}
        assert found["tensorbow/learners", 5] == 2
        assert found["tensorbow/samples_per_second", 10] > 0
    with pytest.raises(TypeError, match="log_dir"):
        tensorbow.keras.MetricsCallback(3)
