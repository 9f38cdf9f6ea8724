"""The number of learners is found by measurements, if that is allowed."""

import time

import numpy as np
import pytest
import tensorflow as tf
from programs import linear, rows, session

import tensorbow

tf1 = tf.compat.v1


def momentum():
    return tf1.train.MomentumOptimizer(0.05, 0.9)


def test_the_number_of_learners_is_found_while_a_program_trains():
    p = linear(optimiser=momentum, columns=50)
    x, y = rows(32, columns=50)
    options = tensorbow.Options(synchroniser=tensorbow.SMA())
    with tensorbow.TensorBowSession(graph=p.graph, options=options) as sess:
        cores = sess.num_learners
        assert cores == options.num_learners
        assert sess.tuning == []
        sess.run(p.init)
        deadline = time.monotonic() + 120
        while not any(tried.chosen for tried in sess.tuning):
            assert time.monotonic() < deadline, sess.tuning
            for _ in range(50):
                sess.run(p.train, {p.x: x, p.y: y})
        (chosen,) = [tried for tried in sess.tuning if tried.chosen]
        assert sess.num_learners == chosen.learners
        tried = {(tried.learners, tried.threads) for tried in sess.tuning}
        assert {(1, cores), (cores, 1)} <= tried
        best = max(tried.samples_per_second for tried in sess.tuning)
        assert chosen.samples_per_second > 0.9 * best
        assert sess.learning_tasks >= sess.iterations > 0
        # Every run has trained the model, in whatever layout.
        assert sess.run(p.loss, {p.x: x, p.y: y}) < 1
        sess.set_learners(1)
        assert sess.tuning == []


def test_runs_of_one_learner_are_measured_too():
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float64, [None, 3])
        w = tf1.get_variable("w", initializer=np.full([3, 1], 0.5), use_resource=True)
        loss = tf.reduce_mean(tf.square(tf.cumsum(x @ w) - 1))  # mixes rows
        step = tf1.train.MomentumOptimizer(1e-3, 0.5).minimize(loss)
        initialise = tf1.global_variables_initializer()
    values, runs = np.random.default_rng(0).normal(size=(8, 3)), 0
    with tensorbow.TensorBowSession(graph=graph) as session:
        session.run(initialise)
        deadline = time.monotonic() + 120
        with pytest.warns(tensorbow.TensorBowWarning, match="one learner only") as warned:
            while not any(tried.chosen for tried in session.tuning):
                assert time.monotonic() < deadline, session.tuning
                session.run(step, {x: values})
                runs += 1
        assert len(warned) == 1
        assert {tried.learners for tried in session.tuning} >= {1, session.num_learners}
        trained = session.run(w)
    with tf1.Session(graph=graph) as session:
        session.run(initialise)
        for _ in range(runs):
            session.run(step, {x: values})
        np.testing.assert_allclose(trained, session.run(w), rtol=1e-12)


def test_what_is_tuned_is_not_said_as_well():
    with pytest.raises(ValueError, match="finds the threads of each learner too"):
        tensorbow.Options(learners_per_device="auto", threads_per_learner=2)
    with pytest.raises(TypeError, match="learners_per_device"):
        tensorbow.Options(learners_per_device="many")


def test_a_number_is_found_where_nothing_is_to_be_the_same_every_time():
    p = linear(columns=3)
    cores = tensorbow.Options().num_learners
    x, y = rows(8, columns=3)
    with tensorbow.TensorBowSession(graph=p.graph) as sess:
        assert sess.tunes_learners and sess.num_learners == cores
        sess.run(p.init)
        sess.run(p.train, {p.x: x, p.y: y})
        assert sess.tunes_learners
        sess.set_learners(2)
        assert not sess.tunes_learners
    for said in (
        {"learners_per_device": cores},
        {"threads_per_learner": 1},
        {"seed": 1},
        {"scheduling": "round_robin"},
        {"synchroniser": tensorbow.Independent()},
        {"combine": {p.loss: "stack"}},
    ):
        options = tensorbow.Options(**said)
        with tensorbow.TensorBowSession(graph=p.graph, options=options) as sess:
            assert not sess.tunes_learners, said
            assert sess.num_learners == cores, said
    auto = tensorbow.Options(learners_per_device="auto", seed=1, scheduling="round_robin")
    with tensorbow.TensorBowSession(graph=p.graph, options=auto) as sess:
        assert sess.tunes_learners


@pytest.mark.parametrize("first", ["seed", "session"])
def test_a_graph_with_a_seed_keeps_its_number_of_learners(first):
    with tf.Graph().as_default() as graph:
        if first == "seed":
            tf1.set_random_seed(1)
        with tensorbow.TensorBowSession(graph=graph) as sess:
            assert sess.tunes_learners == (first == "session")
            tf1.set_random_seed(1)
            w = tf1.get_variable("w", initializer=1.0)
            step = tf1.train.GradientDescentOptimizer(0.5).minimize(tf.square(w))
            sess.run(tf1.global_variables_initializer())
            sess.run(step)
            assert not sess.tunes_learners


def test_a_state_brings_the_number_of_learners_that_is_kept(tmp_path):
    p = linear(columns=3)
    x, y = rows(8, columns=3)
    with session(p.graph, learners=3) as sess:
        sess.run(p.init)
        sess.run(p.train, {p.x: x, p.y: y})
        sess.save_state(tmp_path / "state")
    for learners, tunes in ((None, False), ("auto", True)):
        with session(p.graph, learners=learners) as sess:
            with pytest.raises(tf.errors.NotFoundError):
                sess.load_state(tmp_path / "another")
            assert sess.tunes_learners
            sess.load_state(tmp_path / "state")
            assert sess.num_learners == 3
            assert sess.tunes_learners == tunes
