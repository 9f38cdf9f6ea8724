"""synchroniser="auto", the default: S-SGD if gradients are found, else model averaging."""

import types
import warnings

import numpy as np
import pytest
import tensorflow as tf
from programs import linear, rows

import tensorbow
from tests.python.divided_programs import in_turn

tf1 = tf.compat.v1

OPTIMISERS = {
    "sgd": lambda: tf1.train.GradientDescentOptimizer(0.05),
    "momentum": lambda: tf1.train.MomentumOptimizer(0.02, 0.9),
    "nesterov": lambda: tf1.train.MomentumOptimizer(0.02, 0.9, use_nesterov=True),
    "adam": lambda: tf1.train.AdamOptimizer(0.02),
    "rmsprop": lambda: tf1.train.RMSPropOptimizer(0.02),
    "centered rmsprop": lambda: tf1.train.RMSPropOptimizer(0.02, momentum=0.5, centered=True),
    "adagrad": lambda: tf1.train.AdagradOptimizer(0.05),
    "adadelta": lambda: tf1.train.AdadeltaOptimizer(1.0),
    "ftrl": lambda: tf1.train.FtrlOptimizer(0.05),
}
KINDS = pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "reference"])


def session(graph, learners=2, **options):
    """Makes a session with the synchroniser that it chooses, if none is given."""
    return tensorbow.TensorBowSession(
        graph=graph, options=tensorbow.Options(learners_per_device=learners, **options)
    )


def train(sess, program, steps=3):
    """Trains, and checks that there is no warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", tensorbow.TensorBowWarning)
        for k in range(steps):
            x, y = rows(8, seed=k)
            sess.run(program.train, {program.x: x, program.y: y})
    assert sess.learning_tasks == steps * sess.num_learners


def replicas_are_equal(sess, variable):
    return np.array_equal(*(sess.learner_value(variable, j) for j in range(2)))


@pytest.mark.parametrize("optimiser, use_resource", in_turn(OPTIMISERS, [True, False]))
def test_gradients_are_averaged_under_every_optimiser(optimiser, use_resource):
    program = linear(use_resource, OPTIMISERS[optimiser])
    with session(program.graph) as s:
        s.run(program.init)
        train(s, program)
        assert s.synchroniser == tensorbow.SSGD()
        assert replicas_are_equal(s, program.w)


def assert_trains_as_stock(program, learners, one_thread, runs=30, rtol=1e-4):
    weights = []
    for make in (
        lambda: tf1.Session(graph=program.graph, config=one_thread),
        lambda: session(program.graph, learners),
    ):
        with make() as s:
            s.run(program.init)
            for k in range(runs):
                x, y = rows(8, seed=k)
                s.run(program.train, {program.x: x, program.y: y})
            weights.append(s.run(program.w))
    np.testing.assert_allclose(weights[1], weights[0], rtol=rtol)


@pytest.mark.parametrize("optimiser, learners", in_turn(OPTIMISERS, [2, 4]))
def test_default_options_train_as_a_stock_session_does(optimiser, learners, one_thread):
    assert_trains_as_stock(linear(optimiser=OPTIMISERS[optimiser]), learners, one_thread)


@pytest.mark.parametrize("optimiser", ["momentum", "adam"])
def test_the_choice_computes_what_the_explicit_one_does(optimiser):
    values = []
    for options in (dict(), dict(synchroniser=tensorbow.SSGD())):
        program = linear(optimiser=OPTIMISERS[optimiser])
        with session(program.graph, **options) as s:
            s.run(program.init)
            train(s, program, steps=6)
            values.append([s.run(program.w), *(s.learner_value(program.w, j) for j in range(2))])
    np.testing.assert_array_equal(values[0], values[1])


def test_the_choice_is_made_at_the_first_learning_run_and_outlives_the_session():
    program = linear(optimiser=OPTIMISERS["adam"])
    x, y = rows(8)
    s = session(program.graph)
    assert s.synchroniser == s.options.synchroniser == "auto"
    s.run(program.init)
    s.run(program.loss, {program.x: x, program.y: y})
    s.run(program.w)
    assert s.synchroniser == "auto"
    s.run(program.train, {program.x: x, program.y: y})
    assert s.synchroniser == tensorbow.SSGD()
    assert s.options.synchroniser == "auto"
    s.close()
    assert s.synchroniser == tensorbow.SSGD()


@pytest.mark.parametrize("first", ["optimiser", "row by row"])
def test_a_run_that_one_learner_executes_leaves_the_others_divided(first):
    """Even if it comes first: only divided runs decide the choice."""
    program = linear(optimiser=OPTIMISERS["sgd"])
    with program.graph.as_default():
        each = tf1.map_fn(tf.square, program.error)
        other = tf1.train.GradientDescentOptimizer(1e-4).minimize(tf.reduce_mean(each))
    steps = [program.train, other] if first == "optimiser" else [other, program.train]
    tasks = []
    with (
        session(program.graph) as s,
        tf1.Session(graph=program.graph) as stock,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        s.run(program.init)
        stock.run(program.init)
        for k, step in enumerate([*steps, *steps]):
            x, y = rows(8, seed=k)
            for each in (s, stock):
                each.run(step, {program.x: x, program.y: y})
            tasks.append(s.learning_tasks)
            assert replicas_are_equal(s, program.w)
        assert s.synchroniser == tensorbow.SSGD()
        np.testing.assert_allclose(s.run(program.w), stock.run(program.w), rtol=1e-5)
    texts = [str(w.message) for w in caught if w.category is tensorbow.TensorBowWarning]
    assert tasks == ([2, 3, 5, 6] if first == "optimiser" else [1, 3, 4, 6])
    assert len(texts) == 1 and "'map/" in texts[0]


@pytest.mark.parametrize(
    "explicit",
    [
        tensorbow.SMA(),
        tensorbow.SMA(centre="lagging"),
        tensorbow.EASGD(sync_period=2),
        tensorbow.Independent(),
    ],
    ids=["SMA", "lagging", "EASGD", "Independent"],
)
def test_an_explicit_synchroniser_stays(explicit):
    program = linear(optimiser=OPTIMISERS["adam"])
    with session(program.graph, synchroniser=explicit) as s:
        assert s.synchroniser == explicit
        s.run(program.init)
        train(s, program)
        assert s.synchroniser == explicit
        assert not replicas_are_equal(s, program.w)


def two_layers(first, second):
    """Makes y ≈ (x·a + x²·b), each variable with an optimiser of its own, in one run."""
    p = types.SimpleNamespace(graph=tf.Graph())
    with p.graph.as_default():
        p.x = tf1.placeholder(tf.float32, [None, 2])
        p.y = tf1.placeholder(tf.float32, [None])
        p.a, p.b = (tf1.get_variable(name, initializer=np.full(2, 0.1, "f")) for name in "ab")
        predicted = tf.linalg.matvec(p.x, p.a) + tf.linalg.matvec(tf.square(p.x), p.b)
        loss = tf.reduce_mean(tf.square(predicted - p.y))
        gradients = tf.gradients(loss, [p.a, p.b])
        p.train = tf.group(
            first().apply_gradients([(gradients[0], p.a)]),
            second().apply_gradients([(gradients[1], p.b)]),
        )
        p.init = tf1.global_variables_initializer()
    return p


@pytest.mark.parametrize("first", ["sgd", "adagrad"])
@pytest.mark.parametrize("second", ["momentum", "adam"])
def test_gradients_are_averaged_under_mixtures_of_optimisers(first, second):
    program = two_layers(OPTIMISERS[first], OPTIMISERS[second])
    with session(program.graph) as s:
        s.run(program.init)
        train(s, program)
        assert s.synchroniser == tensorbow.SSGD()
        for variable in (program.a, program.b):
            assert replicas_are_equal(s, variable)


def embedding(optimiser):
    """Makes a lookup of rows of a table: their gradient is sparse."""
    p = types.SimpleNamespace(graph=tf.Graph())
    with p.graph.as_default():
        p.x = tf1.placeholder(tf.float32, [None, 2])
        p.y = tf1.placeholder(tf.float32, [None])
        p.w = tf1.get_variable("table", initializer=np.full((5, 2), 0.1, "f"))
        words = tf.cast(tf.abs(p.x[:, 0]) * 2, tf.int32) % 5
        predicted = tf.reduce_sum(tf.nn.embedding_lookup(p.w, words) * p.x, 1)
        loss = tf.reduce_mean(tf.square(predicted - p.y))
        p.train = optimiser().minimize(loss)
        p.init = tf1.global_variables_initializer()
    return p


def in_a_branch(optimiser):
    """Puts the optimiser into a conditional, where S-SGD cannot find it."""
    p = types.SimpleNamespace(graph=tf.Graph())
    with p.graph.as_default():
        p.x = tf1.placeholder(tf.float32, [None, 2])
        p.y = tf1.placeholder(tf.float32, [None])
        p.w = tf1.get_variable("w", initializer=np.full(2, 0.1, "f"))
        loss = tf.reduce_mean(tf.square(tf.linalg.matvec(p.x, p.w) - p.y))
        (gradient,) = tf.gradients(loss, [p.w])
        made = optimiser()
        made._create_slots([p.w])

        def update():
            with tf.control_dependencies([made.apply_gradients([(gradient, p.w)])]):
                return tf.constant(True)

        p.train = tf.cond(loss < 1e9, update, lambda: tf.constant(False))
        p.init = tf1.global_variables_initializer()
    return p


def adaptive_by_hand(_):
    """Makes an update that divides by the root of a slot, by assignments."""
    p = linear()
    with p.graph.as_default():
        slot = tf1.get_variable("v", initializer=np.ones(2, "f"), trainable=False)
        (gradient,) = tf.gradients(p.loss, [p.w])
        squares = 0.9 * slot + 0.1 * gradient**2
        moved = p.w - 0.05 * gradient / (tf.sqrt(squares) + 1e-3)
        p.train = tf.group(slot.assign(squares), p.w.assign(moved))
        p.init = tf1.global_variables_initializer()
    return p


def by_hand(optimiser):
    """Makes an update without an optimiser."""
    p = linear()
    with p.graph.as_default():
        (gradient,) = tf.gradients(p.loss, [p.w])
        p.train = p.w.assign_sub(0.05 * gradient)
    return p


@pytest.mark.parametrize("optimiser", ["sgd", "momentum", "adam"])
def test_gradients_of_rows_are_averaged(optimiser):
    program = embedding(OPTIMISERS[optimiser])
    with session(program.graph) as s:
        s.run(program.init)
        train(s, program)
        assert s.synchroniser == tensorbow.SSGD()
        assert replicas_are_equal(s, program.w)


def test_a_table_under_momentum_trains_as_in_a_stock_session(one_thread):
    assert_trains_as_stock(embedding(OPTIMISERS["momentum"]), 4, one_thread, runs=20, rtol=1e-5)


def test_an_update_in_a_conditional_is_stocks(one_thread):
    """Trains by all learners or by one; averages models on request."""
    program = in_a_branch(OPTIMISERS["adam"])
    x, y = rows(8)
    with session(program.graph) as s, tf1.Session(graph=program.graph, config=one_thread) as stock:
        for each in (s, stock):
            each.run(program.init)
            for _ in range(5):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", tensorbow.TensorBowWarning)
                    each.run(program.train, {program.x: x, program.y: y})
        assert s.synchroniser in ("auto", tensorbow.SSGD())
        assert replicas_are_equal(s, program.w)
        np.testing.assert_allclose(s.run(program.w), stock.run(program.w), rtol=1e-5)


def row_by_row():
    """Makes a loss that is computed by a loop over the rows."""
    p = types.SimpleNamespace(graph=tf.Graph())
    with p.graph.as_default():
        p.x = tf1.placeholder(tf.float32, [None, 2])
        p.y = tf1.placeholder(tf.float32, [None])
        w = tf1.get_variable("w", initializer=np.full(2, 0.1, "f"))
        errors = tf1.map_fn(tf.square, tf.linalg.matvec(p.x, w) - p.y)
        loss = tf.reduce_mean(errors)
        p.train = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
        p.init = tf1.global_variables_initializer()
    return p


def test_learners_that_come_later_are_told_why_one_of_them_trains():
    program = row_by_row()
    with session(program.graph, learners=1) as s:
        s.run(program.init)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            train(s, program)
        s.set_learners(2)
        x, y = rows(8)
        with pytest.warns(tensorbow.TensorBowWarning, match="one learner only"):
            s.run(program.train, {program.x: x, program.y: y})


@pytest.mark.parametrize("make", [adaptive_by_hand, by_hand])
def test_gradients_of_updates_by_hand_are_averaged(make):
    program = make(None)
    with session(program.graph) as s:
        s.run(program.init)
        train(s, program)
        assert s.synchroniser == tensorbow.SSGD()
        assert replicas_are_equal(s, program.w)


@pytest.mark.parametrize("synchroniser", ["auto", tensorbow.SMA()], ids=["auto", "SMA"])
def test_one_task_a_run_trains_at_stocks_pace(synchroniser, one_thread):
    """Runs of one row under Adam, in which only one learner has a task."""
    p = linear(optimiser=lambda: tf1.train.AdamOptimizer(0.05))
    x, y = rows(30)
    with tf1.Session(graph=p.graph, config=one_thread) as stock:
        stock.run(p.init)
        for i in range(30):
            stock.run(p.train, {p.x: x[i : i + 1], p.y: y[i : i + 1]})
        expected = stock.run(p.w)
    with session(p.graph, synchroniser=synchroniser) as sess:
        sess.run(p.init)
        for i in range(30):
            sess.run(p.train, {p.x: x[i : i + 1], p.y: y[i : i + 1]})
        np.testing.assert_allclose(sess.run(p.w), expected, rtol=1e-6)
