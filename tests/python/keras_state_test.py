"""State that learners do not average: metrics, statistics, seeds, counters."""

import keras
import numpy as np
import pytest
from keras_models import LOSS, ROWS, classifier, independent, logistic, network, options

import tensorbow
from tensorbow.keras import learner_value, session_of


def test_metrics_are_summed_over_learners(digits):
    images, labels = digits[0][: 4 * ROWS + 1], digits[1][: 4 * ROWS + 1]
    # At learning rate 0 every row is judged by the same weights, on every learner.
    models = [
        logistic(o, rate=0.0, metrics=["accuracy", keras.metrics.SparseTopKCategoricalAccuracy(2)])
        for o in (None, options())
    ]
    histories = [
        m.fit(images, labels, batch_size=ROWS, epochs=2, verbose=0).history for m in models
    ]
    assert histories[0].keys() == histories[1].keys()
    for name in histories[0]:
        np.testing.assert_allclose(histories[1][name], histories[0][name], rtol=1e-6)
    loss = models[1].metrics[0]
    counts = [learner_value(models[1], loss.count, j) for j in range(2)]
    assert counts == [2 * ROWS + 1, 2 * ROWS]
    assert loss.count.numpy() == 4 * ROWS + 1


def test_logs_of_a_batch_are_the_learners_mean(digits):
    images, labels = digits[0][: 2 * ROWS], digits[1][: 2 * ROWS]
    model = logistic(options())
    expected = [float(LOSS(labels[k : k + ROWS], model(images[k : k + ROWS]))) for k in (0, ROWS)]
    logs = model.train_on_batch(images, labels, return_dict=True)
    assert logs["loss"] == pytest.approx(np.mean(expected), rel=1e-6)


def test_batch_norm_statistics_are_the_learners_mean(digits):
    model = classifier(options())
    model.fit(digits[0][: 8 * ROWS], digits[1][: 8 * ROWS], batch_size=ROWS, verbose=0)
    norm = model.get_layer("norm")
    for variable in (norm.moving_mean, norm.moving_variance):
        replicas = [learner_value(model, variable, j) for j in range(2)]
        assert not np.array_equal(*replicas)
        np.testing.assert_allclose(variable.numpy(), np.mean(replicas, axis=0), rtol=1e-6)


def test_slots_are_private_and_counters_are_learner_0s(digits):
    model = classifier(options(), lambda: keras.optimizers.Adam(0.01))
    # A row for learner 0 alone is left to the fifth step.
    images, labels = digits[0][: 4 * ROWS + 1], digits[1][: 4 * ROWS + 1]
    model.fit(images, labels, batch_size=ROWS, verbose=0)
    steps = [learner_value(model, model.optimizer.iterations, j) for j in range(2)]
    assert steps == [5, 4]
    assert model.optimizer.iterations.numpy() == 5
    slot = model.optimizer.variables[2]
    replicas = [learner_value(model, slot, j) for j in range(2)]
    assert not np.array_equal(*replicas)
    np.testing.assert_allclose(slot.numpy(), np.mean(replicas, axis=0), rtol=1e-6, atol=1e-9)


def test_dropout_differs_between_learners(digits):
    # Two learners with the same rows and the same start differ by dropout alone.
    rows = np.tile(np.arange(ROWS), 2)
    replicas = []
    for rate in (0.0, 0.5):

        def make(rate=rate):
            keras.utils.set_random_seed(1)
            return keras.Sequential(
                [
                    keras.Input((8, 8, 1)),
                    keras.layers.Flatten(),
                    keras.layers.Dropout(rate),
                    keras.layers.Dense(10),
                ]
            )

        model = classifier(independent(2), make=make)
        model.fit(digits[0][rows], digits[1][rows], batch_size=2 * ROWS, shuffle=False, verbose=0)
        replicas.append([learner_value(model, model.weights[0], j) for j in range(2)])
    np.testing.assert_array_equal(*replicas[0])
    assert not np.array_equal(*replicas[1])


def test_a_step_wise_drop_of_the_rate_restarts_the_averaging(digits):
    images, labels = digits[0][: 8 * ROWS], digits[1][: 8 * ROWS]

    def apart(model):
        return not np.array_equal(*(learner_value(model, model.weights[0], j) for j in range(2)))

    for factor, restarts in ((0.4, True), (0.7, False)):
        model = logistic(options())
        model.fit(images, labels, batch_size=ROWS, verbose=0)
        assert apart(model)
        z = model.get_weights()
        model.optimizer.learning_rate = 0.1 * factor
        # Rows of zeros move the bias alone.
        model.fit(np.zeros_like(images[:2]), labels[:2], batch_size=2, verbose=0)
        assert apart(model) is not restarts
        np.testing.assert_allclose(model.get_weights()[0], z[0], rtol=1e-6, atol=1e-7)


def test_a_schedule_that_drops_restarts_the_averaging(digits):
    images, labels = digits[0][: 8 * ROWS], digits[1][: 8 * ROWS]
    models = []
    for sma in (tensorbow.SMA(), tensorbow.SMA(restart="never")):
        schedule = keras.optimizers.schedules.PiecewiseConstantDecay([1], [0.1, 0.01])
        model = logistic(options(synchroniser=sma), rate=schedule)
        model.fit(images, labels, batch_size=ROWS, shuffle=False, verbose=0)
        models.append(model)
    assert not np.array_equal(models[0].get_weights()[0], models[1].get_weights()[0])


def test_compiling_again_keeps_the_weights_and_ends_the_session(digits):
    model = logistic(options())
    model.fit(digits[0][:64], digits[1][:64], batch_size=ROWS, verbose=0)
    first, z = session_of(model), model.get_weights()
    assert first.learning_tasks == 8
    model.compile("adam", LOSS)
    assert session_of(model) is None
    for a, b in zip(model.get_weights(), z):
        np.testing.assert_array_equal(a, b)
    model.fit(digits[0][:64], digits[1][:64], batch_size=ROWS, verbose=0)
    assert session_of(model) is not first


def alternate(given, digits):
    """Trains as in a classic GAN: two models with shared layers, in turns."""
    images, labels = digits[0][: 4 * ROWS], digits[1][: 4 * ROWS]
    keras.utils.set_random_seed(4)
    inputs = keras.Input((8, 8, 1))
    outputs = keras.layers.Dense(10)(keras.layers.Flatten()(inputs))
    models = [keras.Model(inputs, outputs) for _ in range(2)]
    for k, model in enumerate(models):
        if given is not None:
            tensorbow.keras.replicate(model, given)
        model.compile(keras.optimizers.SGD(0.1 + 0.1 * k), LOSS)
    seen = []
    for k in range(6):
        models[k % 2].train_on_batch(images, labels)
        seen += models[0].get_weights()
    return seen


def test_two_models_that_share_layers_see_each_others_steps(digits):
    for a, b in zip(alternate(None, digits), alternate(independent(), digits)):
        np.testing.assert_array_equal(a, b)


def test_sharing_trained_layers_between_averaged_models_is_warned_of(digits):
    with pytest.warns(tensorbow.TensorBowWarning, match="trained by two replicated models"):
        alternate(options(), digits)


def test_replicating_again_changes_the_options_and_keeps_the_weights(digits):
    model = logistic(options(2))
    model.fit(digits[0][:64], digits[1][:64], batch_size=ROWS, verbose=0)
    z = model.get_weights()
    tensorbow.keras.replicate(model, options(3))
    assert model.num_learners == 3
    for a, b in zip(model.get_weights(), z):
        np.testing.assert_array_equal(a, b)
    model.fit(digits[0][:96], digits[1][:96], batch_size=ROWS, verbose=0)
    assert session_of(model).num_learners == 3
    assert session_of(model).iterations == 6


def test_wrong_arguments_are_refused():
    with pytest.raises(TypeError, match="must be a keras.Model"):
        tensorbow.keras.replicate(lambda x: x)
    with pytest.raises(TypeError, match=r"must be a tensorbow\.Options"):
        tensorbow.keras.replicate(network(), {"learners": 2})
    with pytest.raises(ValueError, match="speaks of a graph"):
        tensorbow.keras.replicate(network(), tensorbow.Options(shard=["x"]))
    with pytest.raises(ValueError, match="not replicated"):
        session_of(network())
    model = logistic(options())
    with pytest.raises(ValueError, match="from 0 to 1"):
        learner_value(model, model.weights[0], 2)
