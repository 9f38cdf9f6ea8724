"""Programs built for batches of a fixed number of rows: divided if that is proved to be right, with
the shapes computed from the number following the rows."""

import warnings

import numpy as np
import pytest
import tensorflow as tf
from programs import session

import tensorbow
from tests.python.divided_programs import in_turn

tf1 = tf.compat.v1

ROWS, STEPS, COLUMNS, UNITS = 12, 5, 6, 7


def weights(name, *shape):
    values = np.random.RandomState(len(name) + sum(shape)).randn(*shape) * 0.3
    return tf1.get_variable(name, initializer=values.astype("f"))


def placeholders(*x_shape):
    return (
        tf1.placeholder(tf.float32, [ROWS, *x_shape], name="x"),
        tf1.placeholder(tf.float32, [ROWS, 1], name="y"),
    )


def squares(logits, y):
    return tf.reduce_mean(tf.square(logits - y))


def dense():
    x, y = placeholders(COLUMNS)
    hidden = tf.nn.relu(x @ weights("in", COLUMNS, UNITS) + weights("bias", UNITS))
    logits = hidden @ weights("out", UNITS, 1)
    return (
        x,
        y,
        tf.reduce_mean(
            tf.nn.sigmoid_cross_entropy_with_logits(
                labels=tf.cast(y > 0, tf.float32), logits=logits
            )
        ),
    )


def as_many_units():
    """Makes as many units as rows, and a bias for each."""
    x, y = placeholders(COLUMNS)
    hidden = tf.nn.bias_add(x @ weights("in", COLUMNS, ROWS), weights("bias", ROWS))
    logits = tf.nn.relu(hidden) @ weights("out", ROWS, 3)
    labels = tf.cast(tf.squeeze(y > 0, 1), tf.int32)
    each = tf1.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return x, y, tf.reduce_mean(each)


def convolution():
    x, y = placeholders(8, 8, 1)
    hidden = tf.nn.relu(tf.nn.conv2d(x, weights("kernel", 3, 3, 1, 4), 1, "SAME"))
    hidden = tf.nn.avg_pool2d(hidden, 2, 2, "VALID")
    hidden = tf.nn.conv2d(hidden, weights("more", 3, 3, 4, 4), 1, "SAME")
    flat = tf.reshape(hidden, [ROWS, 64])
    return x, y, squares(flat @ weights("out", 64, 1), y)


def cell(x, state):
    both = tf.concat([x, state], axis=1) @ weights("cell", COLUMNS + UNITS, UNITS)
    return tf.tanh(both)


def unrolled():
    """Makes a recurrent network that starts with zeros for a fixed number of rows."""
    x, y = placeholders(STEPS, COLUMNS)
    state = tf.zeros([ROWS, UNITS])
    with tf1.variable_scope("rnn", reuse=tf1.AUTO_REUSE):
        for part in tf.unstack(x, axis=1):
            state = cell(part, state)
    return x, y, squares(state @ weights("out", UNITS, 1), y)


def loop(x, y):
    kernel = weights("cell", COLUMNS + UNITS, UNITS)
    parts = tf.transpose(x, [1, 0, 2])
    step = lambda t, state: (t + 1, tf.tanh(tf.concat([parts[t], state], 1) @ kernel))  # noqa: E731
    _, state = tf.while_loop(lambda t, _: t < STEPS, step, [0, tf.zeros([ROWS, UNITS])])
    return squares(state @ weights("out", UNITS, 1), y)


def merged():
    """Merges rows and steps into one dimension, and back, as language models do."""
    x, y = placeholders(STEPS, COLUMNS)
    flat = tf.reshape(x, [ROWS * STEPS, COLUMNS])
    each = tf.nn.relu(flat @ weights("in", COLUMNS, UNITS)) @ weights("out", UNITS, 1)
    each = tf.reshape(each, [ROWS, STEPS])
    return x, y, tf.reduce_sum(tf.square(each - y)) / ROWS


def weighted():
    """Uses weights of the rows, and padding, as constants."""
    x, y = placeholders(COLUMNS)
    hidden = tf.pad(x, [[0, 0], [1, 1]])[:, 1:-1] * tf.ones([ROWS, 1]) * 0.5
    mask = tf.cast(tf.sequence_mask([4] * ROWS, COLUMNS), tf.float32)
    return x, y, squares((hidden * mask) @ weights("out", COLUMNS, 1), y)


def penalised():
    """Uses a weight whose dimensions are multiples of the rows."""
    x, y = placeholders(ROWS * 2)
    wide = weights("wide", ROWS * 2, ROWS * 3)
    hidden = tf.nn.relu(x @ wide)
    penalty = tf.reduce_sum(tf.square(wide)) + tf.reduce_mean(tf.abs(wide))
    return x, y, squares(hidden @ weights("out", ROWS * 3, 1), y) + 0.01 * penalty


PROGRAMS = {
    build.__name__: build
    for build in (dense, as_many_units, convolution, unrolled, merged, weighted, penalised)
}
OPTIMISERS = {
    "gradient descent": lambda: tf1.train.GradientDescentOptimizer(0.1),
    "Adam": lambda: tf1.train.AdamOptimizer(0.01),
}


def data_for(x, y, steps=4):
    random = np.random.RandomState(3)
    for _ in range(steps):
        yield {feed: random.randn(*feed.shape).astype("f") for feed in (x, y)}


def train(make_session, build, optimiser):
    graph = tf.Graph()
    with graph.as_default():
        x, y, loss = build()
        step = optimiser().minimize(loss)
        variables = tf1.trainable_variables()
        init = tf1.global_variables_initializer()
    with make_session(graph) as s:
        s.run(init)
        losses = [s.run([step, loss], feeds)[1] for feeds in data_for(x, y)]
        tasks = getattr(s, "learning_tasks", None)
        return losses, s.run(variables), tasks


def stock(graph):
    return tf1.Session(graph=graph)


def ours(learners, **options):
    return lambda graph: session(graph, learners, synchroniser="auto", **options)


def assert_alike(found, wanted):
    np.testing.assert_allclose(found[0], wanted[0], rtol=2e-5)
    for value, other in zip(found[1], wanted[1]):
        np.testing.assert_allclose(value, other, rtol=1e-3, atol=2e-6)


@pytest.mark.parametrize("name, optimiser, learners", in_turn(PROGRAMS, OPTIMISERS, [2, 5]))
def test_one_batch_of_a_fixed_number_of_rows_is_divided(name, learners, optimiser):
    build, optimiser = PROGRAMS[name], OPTIMISERS[optimiser]
    wanted = train(stock, build, optimiser)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = train(ours(learners), build, optimiser)
    assert found[2] == 4 * learners
    assert_alike(found, wanted)


def test_a_loop_for_a_fixed_number_of_rows():
    """Divided or not, the trained weights are those of a stock session."""

    def build():
        x, y = placeholders(STEPS, COLUMNS)
        return x, y, loop(x, y)

    wanted = train(stock, build, OPTIMISERS["Adam"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tensorbow.TensorBowWarning)
        assert_alike(train(ours(5), build, OPTIMISERS["Adam"]), wanted)


def stateful():
    """Keeps the state of every row in a variable."""
    x, y = placeholders(COLUMNS)
    kept = tf1.get_variable(
        "kept", [ROWS, UNITS], initializer=tf1.zeros_initializer(), trainable=False
    )
    with tf1.control_dependencies([kept.assign(cell(x, kept))]):
        return x, y, squares(tf.identity(kept) @ weights("out", UNITS, 1), y)


def numbered():
    """Distinguishes the rows by their numbers."""
    x, y = placeholders(COLUMNS)
    number = tf.reshape(tf.cast(tf.range(ROWS), tf.float32), [ROWS, 1])
    return x, y, squares((x * number) @ weights("out", COLUMNS, 1), y)


def test_a_state_with_the_rows_is_for_one_learner():
    wanted = train(stock, stateful, OPTIMISERS["gradient descent"])
    with pytest.warns(tensorbow.TensorBowWarning, match="one learner"):
        found = train(ours(2), stateful, OPTIMISERS["gradient descent"])
    assert found[2] == 4
    assert_alike(found, wanted)


def test_rows_have_their_numbers_among_all():
    wanted = train(stock, numbered, OPTIMISERS["gradient descent"])
    found = train(ours(2), numbered, OPTIMISERS["gradient descent"])
    assert found[2] == 8
    assert_alike(found, wanted)


def test_without_a_proof_one_learner_takes_it():
    with pytest.warns(tensorbow.TensorBowWarning, match="fixed number of rows"):
        found = train(ours(2, proof="off"), dense, OPTIMISERS["Adam"])
    assert found[2] == 4


def test_several_batches_are_a_task_each_as_before():
    graph = tf.Graph()
    with graph.as_default():
        x, y, loss = dense()
        step = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
        init = tf1.global_variables_initializer()
    with session(graph, 2) as s:
        s.run(init)
        s.run(step, {x: np.ones([3 * ROWS, COLUMNS]), y: np.ones([3 * ROWS, 1])})
        assert (s.learning_tasks, s.samples_seen) == (3, 3 * ROWS)


def test_noise_of_a_fixed_number_of_rows_follows_them():
    """Dropout and random numbers of the batch's shape have as many rows as a learner."""
    graph = tf.Graph()
    with graph.as_default():
        x, y = placeholders(COLUMNS)
        hidden = tf1.nn.dropout(x, rate=0.5) + 0.1 * tf1.random_normal([ROWS, COLUMNS])
        loss = squares(hidden @ weights("out", COLUMNS, 1), y)
        step = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
        init = tf1.global_variables_initializer()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with session(graph, 2, synchroniser="auto") as s:
            s.run(init)
            losses = [s.run([step, loss], feeds)[1] for feeds in data_for(x, y, 30)]
            assert s.learning_tasks == 60 and np.isfinite(losses).all()


def test_the_number_of_learners_may_change():
    wanted = train(stock, convolution, OPTIMISERS["gradient descent"])
    graph = tf.Graph()
    with graph.as_default():
        x, y, loss = convolution()
        step = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
        variables = tf1.trainable_variables()
        init = tf1.global_variables_initializer()
    with session(graph, 1, synchroniser="auto") as s:
        s.run(init)
        losses = []
        for learners, feeds in zip((1, 3, 1, 4), data_for(x, y)):
            s.set_learners(learners)
            losses.append(s.run([step, loss], feeds)[1])
        assert s.learning_tasks == 9
        assert_alike((losses, s.run(variables)), wanted)
