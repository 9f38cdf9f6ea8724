"""Learners of several threads each, of one number or of different ones."""

import collections
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from programs import linear, rows, session
from tensorflow.python.eager import context

import tensorbow

tf1 = tf.compat.v1


def pools():
    """Returns the threads of each learner's pool, and how many of them have worked."""
    found, worked = collections.Counter(), collections.Counter()
    for task in pathlib.Path("/proc/self/task").iterdir():
        try:
            name = (task / "comm").read_text().strip()
            fields = (task / "stat").read_text().rpartition(")")[2].split()
        except FileNotFoundError:
            continue
        learner = name.removeprefix("tensorbow_")
        if learner.isdigit():
            found[int(learner)] += 1
            worked[int(learner)] += int(fields[11]) > 0
    return dict(found), dict(worked)


def of_long_kernels():
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None, 2000])
        w = tf1.get_variable("w", initializer=np.ones(2000, np.float32))
        value = x * w
        for _ in range(10):
            value = tf.sin(value)
        step = tf1.train.GradientDescentOptimizer(1e-6).minimize(tf.reduce_mean(value))
        init = tf1.global_variables_initializer()
    return graph, x, step, init


@pytest.mark.parametrize("synchroniser", ["auto", tensorbow.SMA(), tensorbow.AdaptiveSGD()])
def test_each_learner_has_its_own_threads_and_they_work(synchroniser):
    graph, x, step, init = of_long_kernels()
    assert pools() == ({}, {})
    options = {"threads_per_learner": [3, 2], "synchroniser": synchroniser}
    data = np.ones((512, 2000), np.float32)
    with session(graph, learners=2, **options) as sess:
        assert sess.threads_per_learner == [3, 2]
        assert not sess.tunes_learners
        sess.run(init)
        for _ in range(20):
            sess.run(step, {x: data})
        assert pools() == ({0: 3, 1: 2}, {0: 3, 1: 2})
    assert pools() == ({}, {})


def test_one_number_is_every_learners():
    graph, x, step, init = of_long_kernels()
    assert pools() == ({}, {})
    data = np.ones((512, 2000), np.float32)
    with session(graph, learners=2, threads_per_learner=2) as sess:
        assert sess.threads_per_learner == 2
        assert pools()[0] == {0: 2, 1: 2}
        sess.run(init)
        for _ in range(20):
            sess.run(step, {x: data})
        assert pools() == ({0: 2, 1: 2}, {0: 2, 1: 2})
        sess.set_learners(1, threads=3)
        assert pools()[0] == {0: 3}
        sess.set_learners(2, threads=1)
        assert pools() == ({}, {})
        sess.run(step, {x: data})
    assert pools() == ({}, {})


def test_a_list_says_how_many_learners_there_are():
    p = linear()
    options = tensorbow.Options(threads_per_learner=[2, 1, 1])
    assert options.num_learners == options.learners_per_device == 3
    assert tensorbow.Options(threads_per_learner=(4,)).num_learners == 1
    with tensorbow.TensorBowSession(graph=p.graph, options=options) as sess:
        assert sess.num_learners == 3
        assert sess.threads_per_learner == [2, 1, 1]
        assert pools()[0] == {0: 2}  # one thread is the learner's own
        sess.run(p.init)
        x, y = rows(12)
        explanation = sess.explain(p.train, {p.x: x, p.y: y})
        assert (explanation.learners, explanation.feeds["x:0"]) == (3, [4, 4, 4])
        sess.run(p.train, {p.x: x, p.y: y})
        assert [learner.tasks for learner in sess.metrics().learners] == [1, 1, 1]
    equal = tensorbow.Options(threads_per_learner=[2, 2])
    with tensorbow.TensorBowSession(graph=p.graph, options=equal) as sess:
        assert sess.threads_per_learner == 2


@pytest.mark.parametrize(
    "arguments, error, match",
    [
        (dict(learners_per_device=3), ValueError, r"got \[2, 1\] for 3, wanted as many numbers"),
        (dict(learners_per_device="auto"), ValueError, "finds the threads of each learner too"),
        (dict(threads_per_learner=[]), ValueError, "a number for each learner, got an empty list"),
        (
            dict(threads_per_learner=[2, 0]),
            ValueError,
            r"learner\[1\] must be from 1 to 1024, got 0",
        ),
        (dict(threads_per_learner=[2, 1.5]), TypeError, r"learner\[1\] must be an int, got 1\.5"),
        (dict(threads_per_learner=[True, 1]), TypeError, r"learner\[0\] must be an int, got True"),
        (dict(threads_per_learner=[[2], 1]), TypeError, r"learner\[0\] must be an int, got \[2\]"),
        (dict(threads_per_learner="21"), TypeError, "an int, a list of ints or None, got '21'"),
        (dict(threads_per_learner=2.0), TypeError, "an int, a list of ints or None, got 2.0"),
        (dict(threads_per_learner=0), ValueError, "learner must be from 1 to 1024, got 0"),
    ],
)
def test_what_are_no_threads_is_refused(arguments, error, match):
    with pytest.raises(error, match=match):
        tensorbow.Options(**({"threads_per_learner": [2, 1]} | arguments))


def test_numbers_of_threads_change_with_the_learners():
    graph, x, step, init = of_long_kernels()
    data = np.ones((60, 2000), np.float32)
    with session(graph, learners=2, threads_per_learner=[3, 2]) as sess:
        sess.run(init)
        for change, threads, found in [
            ((3, [2, 1, 4]), [2, 1, 4], {0: 2, 2: 4}),
            ((2, None), [3, 2], {0: 3, 1: 2}),
            ((2, [2, 3]), [2, 3], {0: 2, 1: 3}),
            ((2, 2), 2, {0: 2, 1: 2}),
            ((1, [3]), 3, {0: 3}),
            ((4, 1), 1, {}),
        ]:
            sess.set_learners(*change)
            assert sess.threads_per_learner == threads
            assert pools()[0] == found
            before = sess.learning_tasks
            sess.run(step, {x: data})
            assert sess.learning_tasks == before + change[0]
        for change, error, match in [
            ((3,), ValueError, r"without threads: Options has .* got \[3, 2\] for 3, wanted"),
            ((3, [2, 1]), ValueError, r"threads has a number .* got \[2, 1\] for 3, wanted"),
            ((2, [2, "1"]), TypeError, r"threads\[1\] must be an int, got '1'"),
            ((2, []), ValueError, "got an empty list"),
        ]:
            with pytest.raises(error, match=match):
                sess.set_learners(*change)
            assert (sess.num_learners, sess.threads_per_learner) == (4, 1)


def test_the_model_is_that_of_equal_learners():
    """A gradient of so few rows is computed in the same order on any number of threads."""
    p = linear(columns=7)
    trained = []
    for threads in (1, [2, 1], [1, 3]):
        with session(p.graph, learners=2, threads_per_learner=threads) as sess:
            sess.run(p.init)
            for i in range(10):
                x, y = rows(12, columns=7, seed=i)
                sess.run(p.train, {p.x: x, p.y: y})
            trained.append(sess.run(p.w))
    np.testing.assert_allclose(trained[1], trained[0], rtol=1e-6)
    np.testing.assert_allclose(trained[2], trained[0], rtol=1e-6)
    assert not np.allclose(trained[0], 0)


def test_saved_states_are_of_learners_whatever_their_threads(tmp_path):
    p = linear()
    x, y = rows(12)
    options = {"synchroniser": tensorbow.SMA(), "scheduling": "round_robin"}

    def saved(learners, threads, name):
        with session(p.graph, learners=learners, threads_per_learner=threads, **options) as sess:
            sess.run(p.init)
            sess.run(p.train, {p.x: x, p.y: y})
            sess.save_state(tmp_path / name)
            return [sess.learner_value(p.w, j) for j in range(learners)]

    two, three = saved(2, [2, 1], "two"), saved(3, [1, 1, 2], "three")
    for threads in ([2, 1], [1, 2], 1):
        with session(p.graph, learners=2, threads_per_learner=threads, **options) as sess:
            sess.load_state(tmp_path / "two")
            for j in range(2):
                np.testing.assert_array_equal(sess.learner_value(p.w, j), two[j])
    with session(p.graph, learners=2, threads_per_learner=[2, 1], **options) as sess:
        with pytest.raises(
            tf.errors.FailedPreconditionError,
            match=r"numbers for 2 learners, and 3 are wanted; call set_learners\(3, threads=...\)",
        ):
            sess.load_state(tmp_path / "three")
        sess.set_learners(3, threads=[1, 2, 1])
        sess.load_state(tmp_path / "three")
        assert sess.threads_per_learner == [1, 2, 1]
        for j in range(3):
            np.testing.assert_array_equal(sess.learner_value(p.w, j), three[j])


def test_learners_of_keras_models_have_their_own_threads():
    import keras

    x = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    with context.eager_mode():
        model = keras.Sequential([keras.layers.Input((64,)), keras.layers.Dense(1)])
        model.compile(optimizer="sgd", loss="mse")
        options = tensorbow.Options(threads_per_learner=[3, 2])
        tensorbow.keras.replicate(model, options)
        assert model.num_learners == 2
        model.fit(x, x[:, :1], batch_size=32, epochs=1, verbose=0)
        sess = tensorbow.keras.session_of(model)
        assert sess.threads_per_learner == [3, 2]
        assert pools()[0] == {0: 3, 1: 2}
        assert sess.learning_tasks == 4
