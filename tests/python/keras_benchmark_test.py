"""benchmarks/keras_fit.py: its contenders, and the computation of its table."""

import dataclasses
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "benchmarks"))

import contenders
import keras_accuracy
import keras_fit

from tensorbow.keras import session_of

ROWS, BATCH = 128, 32


def test_everything_is_compared_at_the_same_batch_size():
    compared = keras_fit.contenders("logistic", BATCH, "sgd", learners=2)
    assert {contender.settings["batch_size"] for contender in compared} == {BATCH}
    assert len({contender.rows_per_step for contender in compared}) == 1
    assert len({contender.name for contender in compared}) == len(compared)


def test_an_epoch_on_learners_has_as_many_steps_as_stocks():
    step = contenders.keras_epochs("logistic", ROWS, BATCH, learners=2, synchroniser="SMA")
    step(3)
    session = session_of(step.network)
    assert session.iterations == 3 * ROWS // BATCH
    assert session.samples_seen == 3 * ROWS


def test_the_session_is_fed_as_many_rows_as_a_step_of_fit(monkeypatch):
    made = []
    make = contenders.keras_epochs
    monkeypatch.setattr(
        contenders, "keras_epochs", lambda *a, **k: made.append(make(*a, **k)) or made[0]
    )
    step = contenders.tensorbow_session_on_keras_graph("logistic", ROWS, BATCH, learners=2)
    session = session_of(made[0].network)
    before = session.iterations, session.samples_seen
    step(1)
    assert session.iterations - before[0] == ROWS // BATCH
    assert session.samples_seen - before[1] == ROWS


def test_averaged_gradients_learn_what_stock_learns():
    data = keras_accuracy.images(None, (8, 8, 1))
    rows = slice(256)
    data = dataclasses.replace(data, x_train=data.x_train[rows], y_train=data.y_train[rows])
    stock, ours = (keras_accuracy.curves(data, 1, 2, name) for name in (None, "SSGD"))
    np.testing.assert_allclose(ours["loss"], stock["loss"], rtol=1e-3)
    np.testing.assert_allclose(ours["accuracy"], stock["accuracy"], atol=0.02)
