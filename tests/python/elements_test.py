"""The data that a run takes from pipelines and queues: one element with divided rows, as in a stock
session, or one element for each learner."""

import threading
import warnings

import numpy as np
import pytest
import tensorflow as tf
from programs import session

import tensorbow

tf1 = tf.compat.v1

ROWS, COLUMNS = 100, 6
RANDOM = np.random.RandomState(7)
X = RANDOM.randn(ROWS, COLUMNS).astype("f")
Y = (X.sum(axis=1, keepdims=True) > 0).astype("f")


class Program:
    """Logistic regression on the result of `data`, in the default graph."""

    def __init__(self, data):
        self.x, self.y = data
        self.w = tf1.get_variable("w", [COLUMNS, 1], initializer=tf1.zeros_initializer())
        logits = self.x @ self.w
        self.loss = tf.reduce_mean(
            tf.nn.sigmoid_cross_entropy_with_logits(labels=self.y, logits=logits)
        )
        self.train = tf1.train.GradientDescentOptimizer(0.5).minimize(self.loss)


def batches(size=16, drop_remainder=False):
    data = tf.data.Dataset.from_tensor_slices((X, Y))
    return data.batch(size, drop_remainder=drop_remainder)


def iterator(size=16, **options):
    made = tf1.data.make_initializable_iterator(batches(size, **options))
    return made.get_next(), [made.initializer]


def feedable_iterator():
    made = tf1.data.make_initializable_iterator(batches())
    handle = tf1.placeholder_with_default(made.string_handle(), [])
    types, shapes = (tf.float32, tf.float32), ([None, COLUMNS], [None, 1])
    fed = tf1.data.Iterator.from_string_handle(handle, types, shapes)
    return fed.get_next(), [made.initializer]


def queue(many="dequeue_many"):
    made = tf1.FIFOQueue(1000, [tf.float32, tf.float32], [[COLUMNS], [1]])
    return getattr(made, many)(16), [made.enqueue_many([X, Y]), made.close()]


def queue_of_batches():
    made = tf1.FIFOQueue(1000, [tf.float32, tf.float32])
    puts = [made.enqueue([X[k : k + 16], Y[k : k + 16]]) for k in range(0, ROWS, 16)]
    x, y = made.dequeue()
    return (tf.ensure_shape(x, [None, COLUMNS]), tf.ensure_shape(y, [None, 1])), [
        *puts,
        made.close(),
    ]


def sparse():
    """Makes rows of sparse tensors: an iterator returns them serialised."""
    data = tf.data.Dataset.from_tensor_slices((tf.sparse.from_dense(X), Y)).batch(16)
    made = tf1.data.make_initializable_iterator(data)
    x, y = made.get_next()
    return (_SparseRows(x), y), [made.initializer]


class _SparseRows:
    def __init__(self, rows):
        self.rows = rows

    def __matmul__(self, weights):
        return tf.sparse.sparse_dense_matmul(self.rows, weights)


SOURCES = {
    "iterator": iterator,
    "batches of a fixed size": lambda: iterator(20, drop_remainder=True),
    "feedable iterator": feedable_iterator,
    "queue": queue,
    "queue, up to": lambda: queue("dequeue_up_to"),
    "queue of batches": queue_of_batches,
    "sparse": sparse,
}


def built(source=iterator):
    """Returns a graph, its program, the op that starts the data, and the initialiser."""
    graph = tf.Graph()
    with graph.as_default():
        data, start = source()
        program = Program(data)
        return graph, program, start, tf1.global_variables_initializer()


def until_the_end(make_session, source, epochs=1):
    """Returns losses of every run until the data ends, the weights, the session's counts."""
    losses, counts = [], None
    graph, program, start, init = built(source)
    with make_session(graph) as s:
        s.run(init)
        for _ in range(epochs):
            for op in start:
                s.run(op)
            with pytest.raises(tf.errors.OutOfRangeError):
                while True:
                    losses.append(s.run([program.train, program.loss])[1])
        if hasattr(s, "samples_seen"):
            counts = (s.iterations, s.learning_tasks, s.samples_seen)
        return losses, s.run(program.w), counts


def stock(graph):
    return tf1.Session(graph=graph)


@pytest.mark.parametrize("learners", [2, 3])
@pytest.mark.parametrize("name", SOURCES)
def test_a_run_takes_one_element_as_a_stock_session_does(name, learners):
    epochs = 1 if "queue" in name else 3
    wanted, wanted_w, _ = until_the_end(stock, SOURCES[name], epochs)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        losses, w, counts = until_the_end(
            lambda graph: session(graph, learners, synchroniser="auto"), SOURCES[name], epochs
        )
    np.testing.assert_allclose(losses, wanted, rtol=1e-5)
    np.testing.assert_allclose(w, wanted_w, rtol=1e-4, atol=1e-6)
    iterations, tasks, rows = counts
    whole = ROWS // 16 * 16 if name == "queue" else ROWS
    assert (iterations, rows) == (len(losses), whole * epochs)
    assert tasks == iterations * learners


def test_one_element_for_each_learner_where_that_is_wanted():
    losses, _, counts = until_the_end(
        lambda graph: session(graph, 2, elements="one_each"), iterator
    )
    # Seven elements for two learners: the last iteration has one.
    assert len(losses) == 4 and counts == (4, 7, ROWS)


def test_batch_size_cuts_an_element_into_tasks():
    losses, _, counts = until_the_end(lambda graph: session(graph, 2, batch_size=4), iterator)
    assert len(losses) == 7 and counts[1:] == (ROWS // 4, ROWS)


@pytest.mark.parametrize("elements", ["divided", "one_each"])
def test_a_lone_learner_takes_one_element_a_run(elements):
    wanted, wanted_w, _ = until_the_end(stock, iterator)
    losses, w, _ = until_the_end(lambda graph: session(graph, 1, elements=elements), iterator)
    assert losses == wanted
    np.testing.assert_array_equal(w, wanted_w)


def test_the_element_is_fetched_whole_as_it_was_taken():
    graph, program, start, init = built()
    x, y = program.x, program.y
    with session(graph) as s:
        s.run([init, *start])
        s.run(start)
        labels, _, rows, loss = s.run([y, program.train, x, program.loss])
    np.testing.assert_array_equal(labels, Y[:16])
    np.testing.assert_array_equal(rows, X[:16])
    assert loss == pytest.approx(np.log(2))


def test_the_learning_rate_is_fed_beside_an_element():
    """Feeds and elements belong to the same run."""

    def run(make_session):
        graph = tf.Graph()
        with graph.as_default():
            (x, y), start = iterator()
            w = tf1.get_variable("w", [COLUMNS, 1], initializer=tf1.zeros_initializer())
            rate = tf1.placeholder(tf.float32, [])
            loss = tf.reduce_mean(tf.square(x @ w - y))
            train = tf1.train.GradientDescentOptimizer(rate).minimize(loss)
            init = tf1.global_variables_initializer()
        with make_session(graph) as s:
            s.run(init)
            s.run(start)
            step = s.make_callable([train, loss], [rate])
            losses = [s.run([train, loss], {rate: 0.1})[1] for _ in range(3)]
            return losses + [step(0.01)[1] for _ in range(3)], s.run(w)

    wanted, wanted_w = run(stock)
    losses, w = run(lambda graph: session(graph, synchroniser="auto"))
    np.testing.assert_allclose(losses, wanted, rtol=1e-5)
    np.testing.assert_allclose(w, wanted_w, rtol=1e-4, atol=1e-6)


def one_learner(build, text):
    """Trains a program whose data cannot be divided, on learners and in a stock session."""

    def run(make_session):
        graph = tf.Graph()
        with graph.as_default():
            train, w, start = build()
            init = tf1.global_variables_initializer()
        with make_session(graph) as s:
            s.run(init)
            for op in start:
                s.run(op)
            for _ in range(3):
                s.run(train)
            return s.run(w)

    wanted = run(stock)
    with pytest.warns(tensorbow.TensorBowWarning, match=text):
        w = run(session)
    np.testing.assert_allclose(w, wanted, rtol=1e-6)
    return wanted


def trained(loss_of):
    w = tf1.get_variable("w", initializer=np.float32(2))
    return tf1.train.GradientDescentOptimizer(0.1).minimize(loss_of(w)), w


def test_a_single_number_is_for_one_learner():
    def build():
        made = tf1.data.make_one_shot_iterator(tf.data.Dataset.range(1, 50))
        number = tf.cast(made.get_next(), tf.float32)
        return *trained(lambda w: tf.square(w - number)), []

    one_learner(build, "has no rows")


def test_a_conditional_that_takes_data_is_for_one_learner():
    def build():
        first = tf1.data.make_one_shot_iterator(tf.data.Dataset.from_tensor_slices(X).batch(4))
        other = tf1.data.make_one_shot_iterator(tf.data.Dataset.from_tensor_slices(Y).batch(4))
        step = tf1.train.get_or_create_global_step()
        data = tf.cond(
            tf.equal(step % 2, 0),
            lambda: tf.reduce_sum(first.get_next(), axis=1),
            lambda: tf.reduce_sum(other.get_next(), axis=1),
        )
        train, w = trained(lambda w: tf.reduce_mean(tf.square(w - data)))
        with tf.control_dependencies([train]):
            return step.assign_add(1).op, w, []

    one_learner(build, "cannot be taken ahead of it.*conditional")


def test_an_element_that_something_else_waits_for_is_for_one_learner():
    def build():
        (x, _), start = iterator()
        with tf.control_dependencies([x.op]):
            weight = tf.constant(0.5) + 0
        return *trained(lambda w: weight * tf.reduce_mean(tf.square(w - x))), start

    one_learner(build, "an operation waits for")


def test_a_run_that_refills_its_queue_is_for_one_learner():
    def build():
        made = tf1.FIFOQueue(100, [tf.float32], [[4]])
        taken = made.dequeue()
        train, w = trained(lambda w: tf.reduce_mean(tf.square(w - taken)))
        return tf.group(train, made.enqueue(taken + 1)), w, [made.enqueue(X[0, :4])]

    one_learner(build, "adds elements to a queue")


def test_a_run_waits_for_an_element_while_others_go_on():
    """An evaluation continues beside a run that waits for data, and the time-out ends the
    latter."""
    graph = tf.Graph()
    with graph.as_default():
        made = tf1.FIFOQueue(10, [tf.float32, tf.float32], [[COLUMNS], [1]])
        program = Program(made.dequeue_many(8))
        put = made.enqueue_many([X[:8], Y[:8]])
        init = tf1.global_variables_initializer()
    with session(graph) as s:
        s.run(init)
        with pytest.raises(tf.errors.DeadlineExceededError):
            s.run(program.train, options=tf1.RunOptions(timeout_in_ms=200))
        waiting = threading.Thread(target=s.run, args=(program.train,))
        waiting.start()
        assert s.run(program.w).shape == (COLUMNS, 1)
        s.run(put)
        waiting.join(30)
        assert not waiting.is_alive()
        assert s.samples_seen == 8 and np.abs(s.run(program.w)).max() > 0


def test_the_number_of_learners_may_change_between_elements():
    graph, program, start, init = built()
    wanted, _, _ = until_the_end(stock, iterator)
    with session(graph, 1, synchroniser="auto") as s:
        s.run(init)
        s.run(start)
        losses = []
        for learners in (1, 2, 3, 1, 4, 2, 2):
            s.set_learners(learners)
            losses.append(s.run([program.train, program.loss])[1])
        assert s.learning_tasks == sum((1, 2, 3, 1, 4, 2, 2))
    np.testing.assert_allclose(losses, wanted, rtol=1e-5)


def test_explain_takes_no_element():
    graph, program, start, init = built()
    x, y = program.x, program.y
    with session(graph) as s:
        s.run(init)
        s.run(start)
        told = s.explain([program.train, program.loss])
        assert told.learners == 2 and set(told.element) == {x.name, y.name}
        np.testing.assert_array_equal(s.run([program.train, x])[1], X[:16])


def test_the_option_is_checked():
    with pytest.raises(ValueError, match="elements must be"):
        tensorbow.Options(elements="all")
    with pytest.raises(ValueError, match="AdaptiveSGD"):
        tensorbow.Options(elements="divided", synchroniser=tensorbow.AdaptiveSGD())


def convolution(data):
    """Makes a network whose constants TensorFlow's optimiser makes wait for the iterator."""
    x, _ = data
    image = tf.reshape(tf.tile(x, [1, 6]), [-1, 6, 6, 1])
    kernel = tf1.get_variable("kernel", [3, 3, 1, 4])
    w = tf1.get_variable("w", [64, 1], initializer=tf1.zeros_initializer())
    hidden = tf.nn.relu(tf.nn.conv2d(image, kernel, 1, "VALID") + tf1.get_variable("b", [4]))
    return tf.reshape(hidden, [-1, 64]) @ w


@pytest.mark.parametrize("divided", [True, False])
def test_constants_of_the_optimiser_take_no_element(divided):
    """Fed beside an iterator, a stock session may take an element that nobody trains on."""

    def run(make_session):
        graph = tf.Graph()
        with graph.as_default():
            tf1.set_random_seed(3)
            data = tf1.data.make_one_shot_iterator(batches(10)).get_next()
            logits = convolution(data)
            if not divided:
                numbers = tf.cast(tf.range(tf.shape(logits)[0]), tf.float32)
                logits *= numbers[:, None]
            loss = tf.reduce_mean(tf.square(logits - data[1]))
            step = tf1.train.GradientDescentOptimizer(0.01).minimize(loss)
            variables = tf1.trainable_variables()
            init = tf1.global_variables_initializer()
        losses = []
        with make_session(graph) as s:
            s.run(init)
            with pytest.raises(tf.errors.OutOfRangeError):
                while True:
                    losses.append(s.run([step, loss])[1])
            return losses, s.run(variables)

    wanted, wanted_values = run(stock)
    with warnings.catch_warnings():
        warnings.simplefilter("error" if divided else "ignore")
        losses, values = run(lambda graph: session(graph, synchroniser="auto"))
    assert len(losses) == ROWS // 10
    np.testing.assert_allclose(losses, wanted, rtol=1e-4)
    for value, other in zip(values, wanted_values):
        np.testing.assert_allclose(value, other, rtol=1e-3, atol=1e-6)
