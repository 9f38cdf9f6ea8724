"""Two Keras learners compute SMA exactly, and the rest of their state by ALGORITHMS.md."""

import keras
import numpy as np
import pytest
from fused_products_test import products_in_updates
from keras_models import ROWS, classifier, logistic, options, small
from keras_one_learner_test import OPTIMISERS
from sma_model import SMAModel

import tensorbow
from tensorbow.keras import learner_value, session_of


def batches(digits, count, rows=ROWS):
    """Returns consecutive batches."""
    return [
        (digits[0][k * rows : (k + 1) * rows], digits[1][k * rows : (k + 1) * rows])
        for k in range(count)
    ]


def gradients_of(weights, images, labels):
    """Returns the gradients of logistic regression's mean cross-entropy, in float64."""
    x = images.reshape(len(images), -1).astype(np.float64)
    logits = x @ weights[0] + weights[1]
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(labels)), labels] -= 1
    return [x.T @ p / len(x), p.mean(axis=0)]


@pytest.mark.parametrize("learners", [2, 3])
@pytest.mark.parametrize(
    "sma",
    [tensorbow.SMA(), *(tensorbow.SMA(centre="lagging", momentum=m) for m in (0.0, 0.9))],
    ids=["current", "lagging", "lagging with momentum"],
)
def test_replicas_and_z_equal_the_float64_model(learners, sma, digits):
    # The last iteration is short: a row for learner 0 alone.
    iterations, rows = 12, 8
    total = iterations * learners * rows + 1
    model = logistic(options(learners, synchroniser=sma), rate=0.2)
    expected = SMAModel(
        model.get_weights(), learners, 0.2, centre=sma.centre, momentum=sma.momentum or 0.0
    )
    model.fit(
        digits[0][:total], digits[1][:total], batch_size=learners * rows, verbose=0, shuffle=False
    )
    given = batches(digits, iterations * learners, rows)
    for i in range(0, iterations * learners, learners):
        expected.iteration(gradients_of, given[i : i + learners])
    last = tuple(array[total - 1 : total] for array in digits)
    expected.iteration(gradients_of, [last] + [None] * (learners - 1))
    for variable, z in zip(model.weights, expected.z):
        np.testing.assert_allclose(variable.numpy(), z, rtol=1e-5, atol=2e-6)
    for j in range(learners):
        for variable, w in zip(model.weights, expected.w[j]):
            actual = learner_value(model, variable, j)
            np.testing.assert_allclose(actual, w, rtol=1e-5, atol=2e-6)
    session = session_of(model)
    assert session.iterations == iterations + 1
    assert session.learning_tasks == iterations * learners + 1
    assert session.samples_seen == total


def test_gradient_of_a_large_dense_layer_is_computed_in_its_update(digits):
    iterations, rows, classes = 6, 8, 2048
    model = logistic(options(synchroniser=tensorbow.SMA()), rate=0.2, classes=classes)
    expected = SMAModel(model.get_weights(), 2, 0.2)
    images, labels = (a[: 2 * iterations * rows] for a in digits)
    model.fit(images, labels, batch_size=2 * rows, verbose=0, shuffle=False)
    given = batches(digits, 2 * iterations, rows)
    for i in range(0, 2 * iterations, 2):
        expected.iteration(gradients_of, given[i : i + 2])
    for variable, z in zip(model.weights, expected.z):
        np.testing.assert_allclose(variable.numpy(), z, rtol=1e-5, atol=2e-6)
    step = model._tensorbow.program.step
    feeds = dict(zip(step.inputs, (images[: 2 * rows], labels[: 2 * rows])))
    assert products_in_updates(session_of(model), step.train_op, feeds) == 1


def test_plain_gradient_descent_gives_z_a_momentum_and_other_optimisers_do_not(digits):
    for optimiser, momentum in (
        (lambda: keras.optimizers.SGD(0.1), 0.9),
        (lambda: keras.optimizers.SGD(0.1, momentum=0.5), 0.0),
    ):
        z = []
        for central in (None, momentum):
            synchroniser = tensorbow.SMA(centre="lagging", momentum=central)
            model = classifier(options(synchroniser=synchroniser), optimiser, small)
            model.fit(digits[0][:160], digits[1][:160], batch_size=8, verbose=0, shuffle=False)
            z.append(model.get_weights())
        for a, b in zip(*z):
            np.testing.assert_array_equal(a, b)


# Each writes variables otherwise: by one op, several, a product of matrices, in a conditional.
# function_updates_test.py and keras_ssgd_test.py have the other optimisers.
WRITING = [
    *("sgd", "nesterov", "adam", "rmsprop", "ftrl", "lion", "muon", "adafactor"),
    *("accumulation", "loss scaling"),
]


@pytest.mark.parametrize("optimiser", WRITING)
def test_the_updates_of_every_kind_of_optimiser_are_corrected(optimiser, digits):
    """w' = w + u − α(w − z), u from stock Keras at the learner's own weights and slots."""
    model = classifier(options(), OPTIMISERS[optimiser], small)
    x, y = digits[0][: 14 * ROWS], digits[1][: 14 * ROWS]
    model.fit(x[: 10 * ROWS], y[: 10 * ROWS], batch_size=2 * ROWS, verbose=0, shuffle=False)
    z = {v.path: v.numpy() for v in model.trainable_variables}
    stocks = []
    for j in range(2):
        stock = classifier(None, OPTIMISERS[optimiser], small)
        stock.optimizer.build(stock.trainable_variables)
        pairs = [
            *zip(model.variables, stock.variables),
            *zip(model.optimizer.variables, stock.optimizer.variables),
        ]
        assert len(model.optimizer.variables) == len(stock.optimizer.variables)
        for ours, theirs in pairs:
            theirs.assign(learner_value(model, ours, j))
        stocks.append(stock)
    before = [[learner_value(model, v, j) for v in model.trainable_variables] for j in range(2)]
    rows = slice(10 * ROWS, 12 * ROWS)
    model.fit(x[rows], y[rows], batch_size=2 * ROWS, verbose=0, shuffle=False)
    for j, stock in enumerate(stocks):
        own = slice((10 + j) * ROWS, (11 + j) * ROWS)
        stock.fit(x[own], y[own], batch_size=ROWS, verbose=0, shuffle=False)
        for k, variable in enumerate(model.trainable_variables):
            correction = 0.5 * (before[j][k] - z[variable.path])
            expected = stock.trainable_variables[k].numpy() - correction
            np.testing.assert_allclose(
                learner_value(model, variable, j), expected, rtol=2e-5, atol=2e-6
            )
    assert session_of(model).learning_tasks == 12
