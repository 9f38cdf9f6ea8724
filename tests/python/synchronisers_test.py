"""The other algorithms, and their common properties with SMA and with stock TensorFlow."""

import numpy as np
import programs
import pytest
import tensorflow as tf
from sma_test import Comparison

import tensorbow
from tensorbow import models
from tests.python.divided_programs import in_turn

tf1 = tf.compat.v1

OPTIMISERS = {
    "sgd": lambda: tf1.train.GradientDescentOptimizer(0.05),
    "momentum": lambda: tf1.train.MomentumOptimizer(0.02, 0.9, use_nesterov=True),
    "adam": lambda: tf1.train.AdamOptimizer(0.002),
}


def train(session, program, data, steps, rows, begin=0):
    for step in range(steps):
        at = slice(begin + step * rows, begin + (step + 1) * rows)
        batch = {program.images: data[0][at], program.labels: data[1][at]}
        session.run(program.train_op, batch)


def variables_of(program):
    with program.graph.as_default():
        return tf1.global_variables()


# ------------------------------------------------------------------------------ S-SGD


@pytest.mark.parametrize(
    "optimiser, learners, use_resource", in_turn(OPTIMISERS, [2, 3], [True, False])
)
def test_ssgd_equals_stock_with_one_big_batch(digits, optimiser, learners, use_resource):
    data = digits[0].astype(np.float64), digits[1]
    program = models.build(
        "lenet",
        data[0].shape[1:],
        optimiser=OPTIMISERS[optimiser],
        seed=5,
        use_resource=use_resource,
        dtype=tf.float64,
    )
    variables = variables_of(program)
    with tf1.Session(graph=program.graph) as stock:
        stock.run(program.init)
        train(stock, program, data, steps=10, rows=8 * learners)
        expected = stock.run(variables)
    with programs.session(program.graph, learners, synchroniser=tensorbow.SSGD()) as session:
        session.run(program.init)
        train(session, program, data, steps=10, rows=8 * learners)
        for variable, value in zip(variables, expected):
            replicas = [session.learner_value(variable, j) for j in range(learners)]
            for replica in replicas[1:]:
                np.testing.assert_array_equal(replica, replicas[0])
            np.testing.assert_allclose(replicas[0], value, rtol=1e-9, atol=1e-12)
            np.testing.assert_array_equal(session.run(variable), replicas[0])
        assert session.iterations == 10


def test_ssgd_averages_in_learner_order_whoever_is_first(digits):
    """The same bits in every run, float32, many tasks per run."""
    program = models.build("logistic", digits[0].shape[1:], optimiser=OPTIMISERS["sgd"], seed=5)
    outcomes = []
    for _ in range(3):
        with programs.session(
            program.graph,
            3,
            synchroniser=tensorbow.SSGD(),
            batch_size=4,
            scheduling="round_robin",
        ) as session:
            session.run(program.init)
            train(session, program, digits, steps=3, rows=4 * 3 * 7)
            outcomes.append(session.run(variables_of(program)))
    for outcome in outcomes[1:]:
        for a, b in zip(outcome, outcomes[0]):
            np.testing.assert_array_equal(a, b)


def test_ssgd_short_iteration_reaches_learners_without_a_task(digits):
    program = models.build(
        "logistic", digits[0].shape[1:], optimiser=OPTIMISERS["momentum"], seed=5
    )
    variables = variables_of(program)
    with tf1.Session(graph=program.graph) as stock:
        stock.run(program.init)
        train(stock, program, digits, steps=2, rows=16)
        train(stock, program, digits, steps=1, rows=8, begin=32)  # the fifth task, alone
        expected = stock.run(variables)
    with programs.session(
        program.graph, 2, synchroniser=tensorbow.SSGD(), batch_size=8, scheduling="round_robin"
    ) as session:
        session.run(program.init)
        train(session, program, digits, steps=1, rows=40)
        assert (session.iterations, session.learning_tasks) == (3, 5)
        for variable, value in zip(variables, expected):
            for j in range(2):
                np.testing.assert_allclose(
                    session.learner_value(variable, j), value, rtol=1e-5, atol=1e-7
                )


def test_ssgd_failed_iteration_changes_nothing(digits):
    program = models.build("logistic", digits[0].shape[1:], optimiser=OPTIMISERS["sgd"], seed=5)
    variables = variables_of(program)
    with programs.session(program.graph, 2, synchroniser=tensorbow.SSGD()) as session:
        session.run(program.init)
        train(session, program, digits, steps=2, rows=16)
        before = session.run(variables)
        bad = digits[1][:16].copy()
        bad[-1] = 99  # the second learner's shard
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(program.train_op, {program.images: digits[0][:16], program.labels: bad})
        for variable, value in zip(variables, before):
            for j in range(2):
                np.testing.assert_array_equal(session.learner_value(variable, j), value)
        train(session, program, digits, steps=1, rows=16)
        assert any(np.any(a != b) for a, b in zip(session.run(variables), before))


@pytest.mark.parametrize("optimiser", ["momentum", "ftrl"])
def test_ssgd_keeps_the_order_of_updates(optimiser, one_thread):
    """One update after the other, by control edges, with gradients from before both."""
    make = {
        "momentum": lambda: tf1.train.MomentumOptimizer(0.1, 0.9),
        "ftrl": lambda: tf1.train.FtrlOptimizer(0.1),  # has no fused op
    }[optimiser]
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None, 2])
        first, second = (
            tf1.get_variable(name, initializer=[0.5, -0.25], use_resource=True)
            for name in ("first", "second")
        )
        loss = tf.reduce_mean((x * first + second - 1) ** 2)
        gradients = tf.gradients(loss, [first, second])
        earlier = make().apply_gradients([(gradients[0], first)])
        with tf.control_dependencies([earlier]):
            update = make().apply_gradients([(gradients[1], second)])
        init = tf1.global_variables_initializer()
    rows = np.random.default_rng(0).random((5, 8, 2), np.float32)
    with (
        tf1.Session(graph=graph, config=one_thread) as stock,
        programs.session(graph, 2, synchroniser=tensorbow.SSGD()) as session,
    ):
        for each in (stock, session):
            each.run(init)
            for batch in rows:
                each.run(update, {x: batch})
        assert session.learning_tasks == 2 * len(rows)
        for variable in (first, second):
            for j in range(2):
                np.testing.assert_allclose(
                    session.learner_value(variable, j), stock.run(variable), rtol=1e-5
                )


def test_an_update_in_a_branch_that_one_row_chooses_is_stocks_under_ssgd():
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None, 1])
        w = tf1.get_variable("w", initializer=tf.constant([1.0]))
        gradient = tf.gradients(tf.reduce_mean((x * w - 1) ** 2), w)[0]
        update = tf.cond(
            x[0, 0] > -1e9,
            lambda: w.assign_sub(0.1 * gradient),
            lambda: w.assign_sub(0 * gradient),
        )
        init = tf1.global_variables_initializer()
    with programs.session(graph, 2, synchroniser=tensorbow.SSGD()) as session:
        session.run(init)
        session.run(update, {x: [[1.0], [2.0]]})
        assert session.learning_tasks == 2
        # Stock's result: w − 0.1 · mean(2 x (x w − 1)) with w = 1
        np.testing.assert_allclose(session.run(w), [1 - 0.1 * (0 + 4) / 2], rtol=1e-6)


# ----------------------------------------------------------------------------- EA-SGD


def test_easgd_is_sma_without_momentum_every_third_task(digits):
    c = Comparison(
        digits,
        2,
        model="logistic",
        dtype=tf.float64,
        sma=tensorbow.EASGD(alpha=0.4, sync_period=3),
        expected_momentum=0.0,
    )
    for i in range(10):
        c.run(i * 16, 16)
        c.model.iteration(c.gradients, [c.rows(i * 16, 8), c.rows(i * 16 + 8, 8)])
    c.check()
    c.close()


# -------------------------------------------------------------------------- extremes


@pytest.mark.parametrize(
    "synchroniser, model, optimiser",
    [
        (tensorbow.SMA(alpha=1e-30), "resnet20", "adam"),
        (tensorbow.EASGD(sync_period=10**9), "lenet", "sgd"),
    ],
    ids=["no strength", "no synchronisation"],
)
def test_averaging_that_does_nothing_leaves_learners_independent(
    digits, synchroniser, model, optimiser
):
    program = models.build(model, digits[0].shape[1:], optimiser=OPTIMISERS[optimiser], seed=5)
    variables = variables_of(program)
    replicas = []
    for choice in (synchroniser, tensorbow.Independent()):
        with programs.session(program.graph, 2, synchroniser=choice) as session:
            session.run(program.init)
            train(session, program, digits, steps=10, rows=16)
            replicas.append([session.learner_value(v, j) for v in variables for j in range(2)])
    for ours, independent in zip(*replicas):
        if model == "lenet":  # its dense layer's products are computed in the update
            np.testing.assert_allclose(ours, independent, rtol=1e-5, atol=1e-6)
        else:
            np.testing.assert_array_equal(ours, independent)


@pytest.mark.parametrize(
    "synchroniser",
    [tensorbow.SMA(), tensorbow.EASGD(), tensorbow.SSGD(), tensorbow.Independent()],
    ids=lambda s: type(s).__name__,
)
def test_one_learner_is_stock(digits, synchroniser, one_thread):
    program = models.build("lenet", digits[0].shape[1:], optimiser=OPTIMISERS["adam"], seed=5)
    values = []
    options = tensorbow.Options(learners_per_device=1, synchroniser=synchroniser)
    for session in (
        tf1.Session(graph=program.graph, config=one_thread),
        tensorbow.TensorBowSession(graph=program.graph, config=one_thread, options=options),
    ):
        with session:
            session.run(program.init)
            train(session, program, digits, steps=10, rows=16)
            values.append(session.run(variables_of(program)))
    for stock, ours in zip(*values):
        np.testing.assert_array_equal(ours, stock)


# ---------------------------------------------------------------------- moving average


@pytest.mark.parametrize(
    "make, use_resource",
    [(tensorbow.SMA, True), (tensorbow.EASGD, False), (tensorbow.SSGD, False)],
)
def test_ema_of_the_central_model(digits, tmp_path, make, use_resource):
    program = models.build(
        "logistic",
        digits[0].shape[1:],
        optimiser=OPTIMISERS["momentum"],
        seed=5,
        dtype=tf.float64,
        use_resource=use_resource,
    )
    data = digits[0].astype(np.float64), digits[1]
    with program.graph.as_default():
        trained = tf1.trainable_variables()
        saver = tf1.train.Saver(trained)
    decay = 0.3
    with programs.session(program.graph, 2, synchroniser=make(ema_decay=decay)) as session:
        session.run(program.init)
        average = session.run(trained)
        for t in range(12):
            train(session, program, data, steps=1, rows=16, begin=16 * t)
            d = min(decay, (1 + t) / (10 + t))
            z = [session.central(v, averaged=False) for v in trained]
            average = [d * a + (1 - d) * v for a, v in zip(average, z)]
            if t % 4:  # reads make no difference
                continue
            for variable, value in zip(trained, average):
                np.testing.assert_allclose(session.run(variable), value, rtol=1e-12)
                np.testing.assert_allclose(session.central(variable), value, rtol=1e-12)
        assert any(np.abs(a - v).max() > 1e-6 for a, v in zip(average, z))
        path = saver.save(session, str(tmp_path / "model"))
    with tf1.Session(graph=program.graph) as stock:
        saver.restore(stock, path)
        for variable, value in zip(trained, average):
            np.testing.assert_allclose(stock.run(variable), value, rtol=1e-12)


def test_easgd_takes_its_average_where_it_corrects(digits):
    program = models.build("logistic", digits[0].shape[1:], seed=5, dtype=tf.float64)
    data = digits[0].astype(np.float64), digits[1]
    variable = variables_of(program)[0]
    easgd = tensorbow.EASGD(sync_period=3, ema_decay=0.3)
    with programs.session(program.graph, 2, synchroniser=easgd) as session:
        session.run(program.init)
        average = session.run(variable)
        for iteration in range(12):
            train(session, program, data, steps=1, rows=16, begin=16 * iteration)
            if iteration % 3 == 2:
                t = iteration // 3
                d = min(0.3, (1 + t) / (10 + t))
                z = session.central(variable, averaged=False)
                average = d * average + (1 - d) * z
            np.testing.assert_allclose(session.run(variable), average, rtol=1e-12)
        assert np.abs(average - z).max() > 1e-6


def test_ssgd_average_is_of_what_the_replicas_are(digits):
    """Short iterations, many tasks a run, a failed one: z is every replica."""
    program = models.build(
        "logistic", digits[0].shape[1:], optimiser=OPTIMISERS["momentum"], seed=5
    )
    variable = variables_of(program)[0]
    values = []
    for decay in (None, 0.5):
        with programs.session(
            program.graph,
            3,
            synchroniser=tensorbow.SSGD(ema_decay=decay),
            batch_size=4,
            scheduling="round_robin",
        ) as session:
            session.run(program.init)
            train(session, program, digits, steps=2, rows=4 * (3 * 2 + 1))
            with pytest.raises(tf.errors.InvalidArgumentError):
                session.run(
                    program.train_op,
                    {program.images: digits[0][:12], program.labels: np.full([12], 99)},
                )
            replicas = [session.learner_value(variable, j) for j in range(3)]
            for replica in replicas:
                np.testing.assert_array_equal(replica, replicas[0])
            z = session.central(variable, averaged=False)
            np.testing.assert_array_equal(z, replicas[0])
            values.append(z)
            averaged = session.run(variable)
    np.testing.assert_array_equal(values[0], values[1])  # it changes nothing else
    assert np.abs(averaged - values[1]).max() > 1e-6


def test_central_before_any_learning_is_the_variable(digits):
    program = models.build("logistic", digits[0].shape[1:], seed=5)
    variable = variables_of(program)[0]
    with programs.session(program.graph, 2) as session:
        with pytest.raises(tf.errors.FailedPreconditionError):
            session.central(variable)
        session.run(program.init)
        np.testing.assert_array_equal(session.central(variable), session.run(variable))
        np.testing.assert_array_equal(session.central(variable.op.name), session.run(variable))


# ----------------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: tensorbow.SMA(ema_decay=1.0), ValueError, "between 0 and 1, got 1.0"),
        (lambda: tensorbow.SMA(ema_decay="0.9"), TypeError, "a number or None"),
        (lambda: tensorbow.EASGD(ema_decay=0), ValueError, "EASGD: ema_decay must be between"),
        (lambda: tensorbow.SSGD(ema_decay=1), ValueError, "SSGD: ema_decay must be between"),
        (lambda: tensorbow.SSGD(ema_decay=True), TypeError, "SSGD: ema_decay must be a number"),
        (lambda: tensorbow.EASGD(alpha=0), ValueError, "EASGD: alpha must be greater than 0"),
        (lambda: tensorbow.EASGD(sync_period=0), ValueError, "EASGD: sync_period"),
        (lambda: tensorbow.EASGD(restart="now"), ValueError, "EASGD: restart"),
        (
            lambda: tensorbow.TensorBowSession(
                options=tensorbow.Options(
                    learners_per_device=4, synchroniser=tensorbow.EASGD(alpha=0.4)
                )
            ),
            ValueError,
            r"EASGD: alpha must be less than 2 / \(L \+ 1\) = 0.4",
        ),
    ],
)
def test_bad_synchroniser(make, error, match):
    with pytest.raises(error, match=match):
        make()
