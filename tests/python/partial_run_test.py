"""A partial run is a stock session's: on the central model, visible to all learners afterwards."""

import warnings

import numpy as np
import pytest
import tensorflow as tf
from programs import linear, rows

import tensorbow

tf1 = tf.compat.v1

STOCK = 0
X, Y = rows(8)


def opened(graph, learners, **options):
    """Opens a stock session, or one with learners."""
    if learners == STOCK:
        return tf1.Session(graph=graph)
    return tensorbow.TensorBowSession(
        graph=graph, options=tensorbow.Options(learners_per_device=learners, **options)
    )


def learn(s, p, row=slice(None)):
    return s.run(p.loss, {p.x: X[row], p.y: Y[row]}), s.run(p.train, {p.x: X[row], p.y: Y[row]})


def train_partially(s, p):
    """Trains a step whose targets follow from its predictions; returns these and the loss."""
    handle = s.partial_run_setup([p.prediction, p.loss, p.train], [p.x, p.y])
    prediction = s.partial_run(handle, p.prediction, {p.x: X})
    return prediction, s.partial_run(handle, p.loss, {p.y: 0.5 * prediction + 1})


def outcomes(program, **kinds):
    """Returns the results of a program in a stock session, and on one, two and three learners."""
    found = []
    for learners in (STOCK, 1, 2, 3):
        p = linear(**kinds)
        with opened(p.graph, learners) as s:
            s.run(p.init)
            found.append(program(s, p))
    return found


def assert_all_as_stock(found):
    stock, *others = found
    for other in others:
        for a, b in zip(stock, other, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6)


def adam():
    return tf1.train.AdamOptimizer(0.1)


@pytest.mark.filterwarnings("ignore::tensorbow.TensorBowWarning")
@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("optimiser", [None, adam])
def test_partial_runs_that_train_between_learning_runs_are_stocks(use_resource, optimiser):
    def program(s, p):
        seen = []
        for _ in range(3):
            learn(s, p)
            seen += [*train_partially(s, p), s.run(p.w)]
            learn(s, p)
            seen += [s.run(p.w), s.run(p.step)]
        return seen

    assert_all_as_stock(outcomes(program, use_resource=use_resource, optimiser=optimiser))


@pytest.mark.parametrize("use_resource", [False, True])
def test_a_partial_run_reads_what_learners_have_learned(use_resource):
    def program(s, p):
        learn(s, p)
        handle = s.partial_run_setup([p.prediction, p.loss], [p.x, p.y])
        prediction = s.partial_run(handle, p.prediction, {p.x: X})
        learn(s, p)
        return prediction, s.partial_run(handle, p.loss, {p.y: Y}), s.run(p.w)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = outcomes(program, use_resource=use_resource)
    assert_all_as_stock(found)


@pytest.mark.filterwarnings("ignore::tensorbow.TensorBowWarning")
def test_learning_beside_an_open_partial_run_that_writes_is_stocks():
    def program(s, p):
        learn(s, p)
        handle = s.partial_run_setup([p.prediction, p.loss, p.train], [p.x, p.y])
        prediction = s.partial_run(handle, p.prediction, {p.x: X})
        learn(s, p, slice(4))
        loss = s.partial_run(handle, p.loss, {p.y: Y})
        learn(s, p)
        return prediction, loss, s.run(p.w), s.run(p.step)

    assert_all_as_stock(outcomes(program))


def test_learners_go_on_when_a_partial_run_that_writes_has_ended():
    p = linear()
    with opened(p.graph, 2) as s:
        s.run(p.init)
        with pytest.warns(tensorbow.TensorBowWarning, match="it is a partial run") as one:
            handle = s.partial_run_setup([p.loss, p.train], [p.x, p.y])
        assert len(one) == 1
        with pytest.warns(tensorbow.TensorBowWarning, match="has not ended") as one:
            for _ in range(3):
                s.run(p.train, {p.x: X, p.y: Y})
        assert len(one) == 1
        assert "has not ended" in s.explain(p.train, {p.x: X, p.y: Y}).why
        assert s.learning_tasks == 3  # one learner's
        s.partial_run(handle, p.loss, {p.x: X, p.y: Y})
        assert (s.learning_tasks, s.samples_seen) == (4, 32)
        s.run(p.train, {p.x: X, p.y: Y})
        assert s.learning_tasks == 6
        assert s.explain(p.train, {p.x: X, p.y: Y}).learners == 2
        np.testing.assert_array_equal(s.learner_value(p.w, 0), s.learner_value(p.w, 1))


@pytest.mark.parametrize("learners", [STOCK, 1, 2])
def test_assigning_in_a_partial_run_reaches_the_learners(learners):
    p = linear()
    with p.graph.as_default():
        value = tf1.placeholder(tf.float32, [2])
        assign = p.w.assign(value)
    with opened(p.graph, learners) as s:
        s.run(p.init)
        learn(s, p)
        handle = s.partial_run_setup([assign], [value])
        np.testing.assert_array_equal(s.partial_run(handle, assign, {value: [3, 4]}), [3, 4])
        loss, _ = learn(s, p)
        np.testing.assert_allclose(loss, np.mean((X @ [3, 4] - Y) ** 2), rtol=1e-5)


@pytest.mark.parametrize("learners", [STOCK, 1, 2])
def test_a_failed_partial_run_cancels_the_session_as_in_stock(learners):
    p = linear()
    with p.graph.as_default():
        checked = tf.debugging.check_numerics(p.loss, "no number")
    with opened(p.graph, learners) as s:
        s.run(p.init)
        learn(s, p)
        handle = s.partial_run_setup([p.loss, checked], [p.x, p.y])
        with pytest.raises(tf.errors.OpError):  # with the reason, or without
            s.partial_run(handle, [p.loss, checked], {p.x: X, p.y: Y * np.inf})
        with pytest.raises(tf.errors.InvalidArgumentError, match="Must run 'setup'"):
            s.partial_run(handle, p.loss)
        with pytest.raises(tf.errors.CancelledError):
            s.run(p.loss, {p.x: X, p.y: Y})


@pytest.mark.parametrize("learners", [STOCK, 2])
def test_what_was_not_set_up_is_refused_in_stocks_words(learners):
    p = linear()
    with opened(p.graph, learners) as s:
        s.run(p.init)
        handle = s.partial_run_setup([p.prediction], [p.x])
        with pytest.raises(tf.errors.InvalidArgumentError, match="was not specified in"):
            s.partial_run(handle, p.prediction, {p.x: X, p.y: Y})
        with pytest.raises(tf.errors.InvalidArgumentError, match="can't be computed"):
            s.partial_run(handle, p.prediction)
        s.partial_run(handle, p.prediction, {p.x: X})
        with pytest.raises(tf.errors.InvalidArgumentError, match="Must run 'setup'"):
            s.partial_run("handle", p.prediction, {p.x: X})
        # An unfinished one does not change the session.
        s.partial_run_setup([p.prediction], [p.x])
    with pytest.raises(RuntimeError, match="closed"):
        s.partial_run_setup([p.prediction], [p.x])
