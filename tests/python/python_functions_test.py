"""Python functions in a learning run: called as a stock session calls them, or by one learner."""

import sys
import warnings

import numpy as np
import pytest
import tensorflow as tf
from messages import without_lines

import tensorbow

tf1 = tf.compat.v1

COLUMNS = 6


def data(runs, rows=12, seed=3):
    random = np.random.default_rng(seed)
    x = random.normal(size=(runs, rows, COLUMNS)).astype(np.float32)
    return x, x.sum(2, keepdims=True) + 0.1 * random.normal(size=(runs, rows, 1)).astype(np.float32)


def linear(x, y):
    """Makes the loss, and its training by Adam."""
    w = tf1.get_variable(
        "w", initializer=np.linspace(-0.5, 0.5, COLUMNS, dtype=np.float32)[:, None]
    )
    loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - y))
    return loss, tf1.train.AdamOptimizer(0.05).minimize(loss)


def placeholders():
    x = tf1.placeholder(tf.float32, [None, COLUMNS], name="x")
    return x, tf1.placeholder(tf.float32, [None, 1], name="y")


def variable(name):
    """Returns the variable of the current graph."""
    return next(v for v in tf1.global_variables() if v.op.name == name)


def trained(build, runs=20, options=None, extra=()):
    """Trains the result of `build()`: feeds (x, y; maybe none), the training op, and fetches.

    Returns the weights, the fetched values, the warnings, and the session's explanation.
    """
    with tf.Graph().as_default() as graph, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        feeds, train, fetch = build()
        fetches = {"train": train, "fetch": fetch}
        if options is None:
            config = tf1.ConfigProto(intra_op_parallelism_threads=1)
            session = tf1.Session(graph=graph, config=config)
        else:
            session = tensorbow.TensorBowSession(graph=graph, options=options)
        explanation = None
        fetched = []
        with session:
            session.run(tf1.global_variables_initializer())
            for xs, ys in zip(*data(runs)):
                fed = dict(zip(feeds, (xs, ys)))
                fetched.append(session.run(fetches, {**fed, **dict(extra)})["fetch"])
            if options is not None:
                explanation = session.explain(fetches, {**fed, **dict(extra)})
            weights = session.run(variable("w"))
    said = [str(w.message) for w in caught if issubclass(w.category, tensorbow.TensorBowWarning)]
    return weights, fetched, said, explanation


def two_learners(**more):
    return tensorbow.Options(learners_per_device=2, **more)


def compare(build, learners=2, runs=20, rtol=2e-5, **options):
    """Trains by stock and by learners; the weights are the same. Returns the warnings."""
    stock, stock_fetched, _, _ = trained(build, runs)
    ours, fetched, said, explanation = trained(
        build, runs, tensorbow.Options(learners_per_device=2, **options)
    )
    np.testing.assert_allclose(ours, stock, rtol=rtol)
    np.testing.assert_allclose(fetched, stock_fetched, rtol=1e-4, atol=1e-6)
    assert explanation.learners == learners, (explanation, said)
    return said


@pytest.mark.parametrize("kind", [tf1.py_func, tf.numpy_function, tf.py_function])
def test_a_function_of_the_feeds_is_called_once_with_all_rows(kind):
    """It draws random numbers itself, so calls by shards would give others."""
    calls = []

    def build():
        random = np.random.default_rng(7)
        calls.clear()

        def noisy(images):
            calls.append(len(images))
            return images + random.normal(scale=0.3, size=images.shape).astype(np.float32)

        x, y = placeholders()
        passed = kind(noisy, [x], tf.float32)
        loss, train = linear(tf.ensure_shape(passed, [None, COLUMNS]), y)
        return (x, y), train, loss

    assert compare(build) == []
    assert calls == [12] * len(calls)
    assert len(calls) == 20


def test_its_values_may_be_fetched_and_its_shape_may_be_unknown():
    def build():
        x, y = placeholders()
        passed = tf.numpy_function(lambda v: np.tanh(v), [x], tf.float32)
        _, train = linear(tf.reshape(passed, [-1, COLUMNS]), y)
        return (x, y), train, passed

    assert compare(build) == []


def test_it_may_give_several_values_of_which_one_is_used():
    calls = []

    def build():
        calls.clear()
        x, y = placeholders()
        noted = lambda v: (calls.append(len(v)), 2 * v, v.mean(), v.T)[1:]  # noqa: E731
        doubled, _, _ = tf1.py_func(noted, [x], [tf.float32] * 3)
        loss, train = linear(tf.ensure_shape(doubled, [None, COLUMNS]), y)
        return (x, y), train, loss

    assert compare(build) == []
    assert calls == [12] * 20


@pytest.mark.parametrize("before", ["assertion", "print", "pure function"])
def test_what_only_looks_at_values_may_come_before_it(before):
    calls = []

    def build():
        calls.clear()
        x, y = placeholders()
        waits = [tf.debugging.assert_less(x, 1e6)] if before == "assertion" else []
        with tf.control_dependencies(waits):
            seen = tf.identity(x)
        if before == "print":
            seen = tf1.Print(seen, [tf.shape(x)], first_n=0)
        elif before == "pure function":
            seen = tf1.py_func(np.tanh, [seen], tf.float32, stateful=False)
        passed = tf1.py_func(lambda v: (calls.append(len(v)), v)[1], [seen], tf.float32)
        loss, train = linear(tf.ensure_shape(passed, [None, COLUMNS]), y)
        return (x, y), train, loss

    assert compare(build) == []
    assert calls == [12] * 20


def test_batches_of_a_fixed_number_of_rows_are_divided():
    def build():
        x = tf1.placeholder(tf.float32, [12, COLUMNS])
        y = tf1.placeholder(tf.float32, [12, 1])
        passed = tf.ensure_shape(tf1.py_func(np.tanh, [x], tf.float32), [12, COLUMNS])
        loss, train = linear(passed, y)
        return (x, y), train, loss

    assert compare(build) == []


def test_a_run_that_puts_something_into_a_queue_is_one_learners():
    def build():
        x, y = placeholders()
        passed = tf.ensure_shape(tf1.py_func(np.tanh, [x], tf.float32), [None, COLUMNS])
        loss, train = linear(passed, y)
        noted = tf1.FIFOQueue(100, [tf.float32], [[]]).enqueue([loss])
        return (x, y), tf.group(train, noted), loss

    (said,) = compare(build, learners=1)
    assert "QueueEnqueueV2 'fifo_queue_enqueue' acts on state that learners share" in without_lines(
        said
    )


def test_a_function_without_inputs_is_a_source_of_batches():
    def build():
        x, y = data(100)
        batches = iter(zip(x, y))
        xs, ys = tf1.py_func(lambda: next(batches), [], [tf.float32, tf.float32])
        xs, ys = tf.ensure_shape(xs, [None, COLUMNS]), tf.ensure_shape(ys, [None, 1])
        loss, train = linear(xs, ys)
        return (), train, loss

    assert compare(build) == []


def test_a_source_that_ends_raises_and_trains_no_more():
    with tf.Graph().as_default() as graph:
        x, y = data(3)
        batches = iter(zip(x, y))
        xs, ys = tf1.py_func(lambda: next(batches), [], [tf.float32, tf.float32])
        loss, train = linear(tf.ensure_shape(xs, [None, COLUMNS]), tf.ensure_shape(ys, [None, 1]))
        with tensorbow.TensorBowSession(graph=graph, options=two_learners()) as session:
            session.run(tf1.global_variables_initializer())
            for _ in range(3):
                session.run(train)
            with pytest.raises(tf.errors.OutOfRangeError):
                session.run(train)
            assert session.iterations == 3


def test_functions_may_follow_each_other_and_an_element():
    counted = []

    def build():
        counted.clear()
        dataset = tf.data.Dataset.from_tensor_slices(data(100)).prefetch(1)
        x, y = tf1.data.make_one_shot_iterator(dataset).get_next()
        centred = tf1.py_func(lambda v: (counted.append(len(v)), v - v.mean(0))[1], [x], tf.float32)
        scaled = tf1.py_func(lambda v: v / np.abs(v).max(), [2.0 * centred], tf.float32)
        loss, train = linear(tf.ensure_shape(scaled, [None, COLUMNS]), y)
        return (), train, loss

    assert compare(build) == []
    assert counted == [12] * 20


def test_feeds_that_only_a_function_uses_need_no_rows():
    def build():
        x, y = placeholders()
        offsets = tf1.placeholder(tf.float32, [None], name="offsets")
        moved = tf1.py_func(lambda v, o: v + o.sum(), [x, offsets], tf.float32)
        loss, train = linear(tf.ensure_shape(moved, [None, COLUMNS]), y)
        return (x, y), train, loss

    extra = {"offsets:0": np.float32([0.1, -0.3, 0.5])}
    stock, _, _, _ = trained(build, extra=extra)
    ours, _, said, explanation = trained(build, options=two_learners(), extra=extra)
    np.testing.assert_allclose(ours, stock, rtol=2e-5)
    assert (explanation.learners, said) == (2, [])


def test_a_scalar_of_a_function_is_the_same_for_all():
    def build():
        x, y = placeholders()
        w = tf1.get_variable("w", initializer=np.zeros((COLUMNS, 1), np.float32))
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - y))
        rate = tf1.py_func(lambda v: np.float32(0.01 + 0.1 * abs(v.mean())), [x], tf.float32)
        rate.set_shape([])
        return (x, y), tf1.train.GradientDescentOptimizer(rate).minimize(loss), rate

    assert compare(build) == []


def test_it_is_called_once_where_learners_exchange_as_well():
    calls = []

    def build():
        calls.clear()
        x, y = placeholders()
        passed = tf1.py_func(lambda v: (calls.append(len(v)), v)[1], [x], tf.float32)
        w = tf1.get_variable("w", initializer=np.zeros((COLUMNS, 1), np.float32))
        error = tf.matmul(tf.ensure_shape(passed, [None, COLUMNS]), w) - y
        loss = tf.reduce_max(tf.square(error))
        return (x, y), tf1.train.GradientDescentOptimizer(0.05).minimize(loss), loss

    said = compare(build)
    assert calls == [12] * 20
    assert said == []


def test_a_function_of_the_model_is_called_by_one_learner_with_a_warning():
    def build():
        x, y = placeholders()
        w = tf1.get_variable("w", initializer=np.zeros((COLUMNS, 1), np.float32))
        predicted = tf.matmul(x, w)
        largest = tf1.py_func(lambda p: np.float32(1 + np.abs(p).max()), [predicted], tf.float32)
        loss = tf.reduce_mean(tf.square(predicted - y)) / tf.stop_gradient(
            tf.ensure_shape(largest, [])
        )
        return (x, y), tf1.train.GradientDescentOptimizer(0.05).minimize(loss), loss

    said = compare(build, learners=1)
    assert len(said) == 1
    assert "PyFunc 'PyFunc' takes data or calls Python during the run" in without_lines(said[0])


def test_learners_that_come_later_are_told_as_well():
    """A session with one learner has nothing to divide."""
    with tf.Graph().as_default() as graph, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        x, y = placeholders()
        loss, _ = linear(x, y)
        factor = tf1.py_func(lambda v: 1 + np.abs(v).max(), [variable("w")], tf.float32)
        loss *= tf.stop_gradient(tf.reshape(factor, []))
        train = tf1.train.GradientDescentOptimizer(0.05).minimize(loss)
        options = tensorbow.Options(learners_per_device=1)
        with tensorbow.TensorBowSession(graph=graph, options=options) as session:
            session.run(tf1.global_variables_initializer())
            xs, ys = data(1)
            session.run(train, {x: xs[0], y: ys[0]})
            assert caught == []
            session.set_learners(2)
            session.run(train, {x: xs[0], y: ys[0]})
            assert session.learning_tasks == 2
    assert len(caught) == 1 and "calls Python during the run" in str(caught[0].message)


@pytest.mark.parametrize("within", ["the graph", "a conditional", "a function"])
@pytest.mark.parametrize("mixes", [False, True])
def test_a_function_of_what_is_computed_from_rows_is_one_learners(mixes, within):
    """Nobody knows whether it mixes them, although it is declared stateless."""

    def build():
        x, y = placeholders()
        w = tf1.get_variable("w", initializer=np.zeros((COLUMNS, 1), np.float32))
        predicted = tf.matmul(x, w)

        def weights(p):
            return np.float32(1) / (1 + np.abs(p - p.mean() if mixes else p))

        def call(p):
            return tf1.py_func(weights, [p], tf.float32, stateful=False)

        if within == "a function":
            by_row = tf.function(call)(predicted)
        elif within == "a conditional":
            by_row = tf.cond(tf.size(x) > 0, lambda: call(predicted), lambda: predicted)
        else:
            by_row = call(predicted)
        by_row = tf.ensure_shape(by_row, [None, 1])
        loss = tf.reduce_mean(tf.stop_gradient(by_row) * tf.square(predicted - y))
        return (x, y), tf1.train.GradientDescentOptimizer(0.05).minimize(loss), loss

    said = compare(build, learners=1)
    assert len(said) == 1 and "PyFuncStateless" in said[0]


def test_a_function_of_the_loss_is_called_once_a_run():
    seen = []

    def build():
        x, y = placeholders()
        loss, train = linear(x, y)
        seen.clear()
        note = tf1.py_func(lambda v: (seen.append(v), v)[1], [loss], tf.float32)
        return (x, y), train, tf.ensure_shape(note, [])

    (said,) = compare(build, learners=1)
    assert "PyFunc 'PyFunc'" in said
    assert len(seen) == 20


def test_who_names_the_rows_divides_them():
    calls = []

    def build():
        x, y = placeholders()
        w = tf1.get_variable("w", initializer=np.zeros((COLUMNS, 1), np.float32))
        predicted = tf1.py_func(
            lambda p: (calls.append(len(p)), p)[1], [tf.matmul(x, w)], tf.float32
        )
        predicted = tf.ensure_shape(predicted, [None, 1])
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w) + tf.stop_gradient(predicted) - y))
        return (x, y), tf1.train.GradientDescentOptimizer(0.05).minimize(loss), loss

    _, _, said, _ = trained(build, options=two_learners(shard=["x:0", "y:0"]))
    assert said == []
    assert calls == [6] * 40


def test_an_element_of_its_own_is_made_by_every_learner():
    calls = []

    def build():
        x, y = placeholders()
        passed = tf1.py_func(lambda v: (calls.append(len(v)), v)[1], [x], tf.float32)
        loss, train = linear(tf.ensure_shape(passed, [None, COLUMNS]), y)
        return (x, y), train, loss

    options = two_learners(elements="one_each", shard=["x:0", "y:0"])
    trained(build, runs=5, options=options)
    assert calls == [6] * 10


def test_an_error_of_the_function_is_the_runs_and_loses_nothing():
    with tf.Graph().as_default() as graph:
        x, y = placeholders()

        def refuse(v):
            if v[0, 0] > 100:
                raise ValueError("too bright")
            return v

        passed = tf1.py_func(refuse, [x], tf.float32)
        loss, train = linear(tf.ensure_shape(passed, [None, COLUMNS]), y)
        with tensorbow.TensorBowSession(graph=graph, options=two_learners()) as session:
            session.run(tf1.global_variables_initializer())
            xs, ys = data(2)
            session.run(train, {x: xs[0], y: ys[0]})
            w = variable("w")
            before = session.run(w)
            with pytest.raises(tf.errors.InvalidArgumentError, match="too bright"):
                session.run(train, {x: xs[1] + 1000, y: ys[1]})
            np.testing.assert_array_equal(session.run(w), before)
            session.run(train, {x: xs[1], y: ys[1]})
            assert session.iterations == 2


def test_what_waits_for_the_function_itself_is_executed_by_one_learner():
    calls = []

    def build():
        x, y = placeholders()
        passed = tf1.py_func(lambda v: (calls.append(len(v)), v)[1], [x], tf.float32)
        loss, train = linear(tf.ensure_shape(passed, [None, COLUMNS]), y)
        with tf.control_dependencies([passed.op]):
            counted = tf1.get_variable("count", initializer=0, trainable=False).assign_add(1)
        return (x, y), tf.group(train, counted), loss

    calls.clear()
    stock, _, _, _ = trained(build)
    calls.clear()
    ours, _, said, _ = trained(build, options=two_learners())
    np.testing.assert_allclose(ours, stock, rtol=2e-5)
    assert calls == [12] * 20
    assert len(said) == 1 and "an operation waits for" in said[0]


@pytest.mark.parametrize("passing", ["print", "print in a function", "check_numerics"])
def test_ops_that_look_at_values_do_not_hinder_a_division(passing):
    @tf.function
    def printed(x):
        tf.print(tf.shape(x), output_stream=sys.stderr)
        return 1 * x

    def build():
        x, y = placeholders()
        if passing == "print":
            x_seen = tf1.Print(x, [tf.shape(x)], first_n=0)
        elif passing == "check_numerics":
            x_seen = tf.debugging.check_numerics(x, "of x")
        else:
            x_seen = printed(x)
        loss, train = linear(x_seen, y)
        return (x, y), train, loss

    assert compare(build) == []
    _, _, _, explanation = trained(build, runs=2, options=two_learners())
    assert explanation.division == "exact"
