"""The gradient of weights that a sparse matrix is multiplied with: only the rows that are not zero,
with the numbers of the dense one."""

import numpy as np
import pytest
import tensorflow as tf

import tensorbow

tf1 = tf.compat.v1

FEATURES, HIDDEN, ROWS = 700, 64, 12
OPTIMISERS = {
    "sgd": tf1.train.GradientDescentOptimizer,
    "adagrad": tf1.train.AdagradOptimizer,
    "momentum": lambda rate: tf1.train.MomentumOptimizer(rate, 0.9),
    "adam": tf1.train.AdamOptimizer,
    "rmsprop": tf1.train.RMSPropOptimizer,
}
KINDS = pytest.mark.parametrize("use_resource", [True, False], ids=["resource", "reference"])
ALL_OPTIMISERS = pytest.mark.parametrize("optimiser", OPTIMISERS)


class Program:
    """Sparse rows times weights, with a layer after them, and targets."""

    def __init__(self, optimiser="sgd", use_resource=True, dense=False, rate=0.1):
        self.graph = tf.Graph()
        rng = np.random.default_rng(0)
        with self.graph.as_default():
            self.x = tf1.sparse_placeholder(tf.float32, [None, FEATURES])
            self.y = tf1.placeholder(tf.float32, [None])

            def variable(name, shape):
                value = rng.normal(size=shape).astype(np.float32)
                return tf1.get_variable(name, initializer=value, use_resource=use_resource)

            self.w = variable("w", [FEATURES, HIDDEN])
            self.v = variable("v", [HIDDEN, 1])
            hidden = tf.nn.relu(tf.sparse.sparse_dense_matmul(self.x, self.w))
            loss = tf.reduce_mean((tf.matmul(hidden, self.v)[:, 0] - self.y) ** 2) / 100
            self.optimiser = OPTIMISERS[optimiser](rate)
            gradients = self.optimiser.compute_gradients(loss)
            if dense:  # an op between the product and the update, which changes nothing
                one = tf1.placeholder_with_default(1.0, [])
                gradients = [(g * one, v) for g, v in gradients]
            self.train = self.optimiser.apply_gradients(gradients)
            self.init = tf1.global_variables_initializer()

    @property
    def variables(self):
        return [self.w, self.v, *self.optimiser.variables()]

    def feeds(self, step, rows=ROWS):
        """Makes features that occur in many rows, in one and in none; some occur with a zero."""
        rng = np.random.default_rng(step)
        entries = [
            (row, column)
            for row in range(rows)
            for column in sorted({3, *rng.integers(0, 40, 4), *rng.integers(0, FEATURES, 3)})
        ]
        values = rng.normal(size=len(entries)).astype(np.float32)
        values[5] = 0
        x = tf1.SparseTensorValue(np.array(entries), values, (rows, FEATURES))
        return {self.x: x, self.y: rng.normal(size=rows)}


def session_of(program, learners, **options):
    options = tensorbow.Options(
        learners_per_device=learners, shard=[program.x, program.y], **options
    )
    return tensorbow.TensorBowSession(graph=program.graph, options=options)


def ops_of(session, fetches, feeds):
    """Returns the ops that the learners execute for the run."""
    metadata = tf1.RunMetadata()
    options = tf1.RunOptions(output_partition_graphs=True)
    session.run(fetches, feeds, options=options, run_metadata=metadata)
    return [node.op for graph in metadata.partition_graphs for node in graph.node]


def trained(session, program, steps=8, rows=ROWS):
    session.run(program.init)
    for step in range(steps):
        session.run(program.train, program.feeds(step, rows))
    return session.run(program.variables)


def assert_equal(actual, expected):
    assert len(actual) == len(expected) > 0
    for a, e in zip(actual, expected):
        np.testing.assert_array_equal(a, e)


@KINDS
@ALL_OPTIMISERS
def test_one_learner_has_stocks_bits(optimiser, use_resource, one_thread):
    program = Program(optimiser, use_resource)
    with tf1.Session(graph=program.graph, config=one_thread) as stock:
        expected = trained(stock, program)
    with session_of(program, 1) as session:
        assert_equal(trained(session, program), expected)
        ops = ops_of(session, program.train, program.feeds(0))
    # TensorFlow's Adagrad approximates a square root by the width of its vectors.
    fused = optimiser != "adagrad"
    assert ops.count("TensorBowSparseProduct") == fused
    assert ops.count("TensorBowSparseTensorDenseMatMul") == 2 - fused  # one is the forward product


@ALL_OPTIMISERS
@pytest.mark.parametrize(
    "synchroniser",
    [
        tensorbow.SMA(),
        tensorbow.SSGD(ema_decay=0.5),
        tensorbow.EASGD(sync_period=2),
        tensorbow.Independent(),
        tensorbow.AdaptiveSGD(b_max=4, mega_batch=16),
    ],
    ids=lambda s: type(s).__name__,
)
def test_learners_have_the_bits_of_the_dense_gradient(synchroniser, optimiser):
    found = []
    for dense in (False, True):
        program = Program(optimiser, dense=dense)
        options = dict(synchroniser=synchroniser, scheduling="round_robin", seed=1)
        with session_of(program, 2, **options) as session:
            found.append(trained(session, program, rows=13))  # the last task has fewer
            found[-1] += [session.learner_value(program.w, j) for j in range(2)]
            ops = ops_of(session, program.train, program.feeds(0))
        assert ("TensorBowSparseProduct" in ops) == (not dense)
    corrects = isinstance(synchroniser, (tensorbow.SMA, tensorbow.SSGD, tensorbow.EASGD))
    if optimiser == "adagrad" and not corrects:  # the dense one is TensorFlow's: see above
        for a, e in zip(*found):
            np.testing.assert_allclose(a, e, rtol=1e-5, atol=1e-6)
    else:
        assert_equal(*found)


@KINDS
@pytest.mark.parametrize("optimiser", ["adagrad", "adam"])
def test_ssgd_is_stock_with_all_rows(optimiser, use_resource):
    program = Program(optimiser, use_resource)
    with tf1.Session(graph=program.graph) as stock:
        expected = trained(stock, program)
    with session_of(program, 3, synchroniser=tensorbow.SSGD()) as session:
        actual = trained(session, program)
    for a, e in zip(actual, expected):
        np.testing.assert_allclose(a, e, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("learners", [1, 2])
@pytest.mark.parametrize("synchroniser", [tensorbow.SSGD(), tensorbow.AdaptiveSGD(b_max=6)])
def test_rows_that_no_feature_touches_are_left_alone(synchroniser, learners):
    """At an infinite rate zero gradients would make them NaN."""
    program = Program(rate=float("inf"))
    with session_of(program, learners, synchroniser=synchroniser, proof="off") as session:
        session.run(program.init)
        before = session.run(program.w)
        feeds = program.feeds(0)
        session.run(program.train, feeds)
        after = session.run(program.w)
    seen = np.isin(np.arange(FEATURES), feeds[program.x].indices[:, 1])
    assert 20 < seen.sum() < 120
    np.testing.assert_array_equal(after[~seen], before[~seen])
    assert not np.isfinite(after[seen]).all(axis=1).any() or np.any(after[seen] != before[seen])


@pytest.mark.parametrize("learners", [1, 2])
@pytest.mark.parametrize(
    "entry, error",
    [((0, FEATURES), r"m \(700\) from index\[2,1\] out of bounds"), ((-1, 0), r"k \(-1\)")],
)
def test_an_entry_outside_of_the_matrix_is_an_error_and_changes_nothing(entry, error, learners):
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.sparse_placeholder(tf.float32, [None, FEATURES])
        dy = tf1.placeholder(tf.float32, [None, HIDDEN])
        w = tf1.get_variable("w", initializer=np.ones((FEATURES, HIDDEN), np.float32))
        gradient = tf.sparse.sparse_dense_matmul(x, dy, adjoint_a=True)
        optimiser = tf1.train.GradientDescentOptimizer(0.1)
        update = optimiser.apply_gradients([(gradient, w)])
        init = tf1.global_variables_initializer()
    options = tensorbow.Options(learners_per_device=learners, shard=[x, dy], proof="off")

    def feeds(last):
        entries = np.array([(0, 1), (0, 2), last, (1, 5)])
        value = tf1.SparseTensorValue(entries, np.ones(4, np.float32), (2, FEATURES))
        return {x: value, dy: np.ones((2, HIDDEN))}

    with tensorbow.TensorBowSession(graph=graph, options=options) as session:
        session.run(init)
        session.run(update, feeds((0, 3)))
        before = session.run(w)
        with pytest.raises(tf.errors.InvalidArgumentError, match=error):
            session.run(update, feeds(entry))
        np.testing.assert_array_equal(session.run(w), before)
        session.run(update, feeds((0, 3)))
        assert (session.run(w)[[1, 2, 3, 5]] != before[[1, 2, 3, 5]]).all()


@pytest.mark.parametrize("learners", [1, 2])
def test_products_forward_have_tensorflows_bits_and_errors(learners, one_thread):
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.sparse_placeholder(tf.float32, [None, 30])
        w = tf1.get_variable("w", initializer=np.random.default_rng(1).normal(size=(30, 9)))
        product = tf.sparse.sparse_dense_matmul(x, tf.cast(w, tf.float32))
        update = w.assign_add(tf.zeros_like(w) + 1e-9 * tf.cast(tf.reduce_mean(product), w.dtype))
        init = tf1.global_variables_initializer()
    rng = np.random.default_rng(2)
    entries = np.array(sorted({tuple(e) for e in rng.integers(0, [8, 30], (60, 2)).tolist()}))
    value = tf1.SparseTensorValue(entries, rng.normal(size=len(entries)), (8, 30))
    outside = value._replace(indices=np.concatenate([entries[:-1], [[7, 30]]]))
    options = tensorbow.Options(
        learners_per_device=learners,
        synchroniser=tensorbow.SMA(),  # without gradients
        shard=[x],
        combine={product: "concat"},
        proof="off",
    )
    with (
        tf1.Session(graph=graph, config=one_thread) as stock,
        tensorbow.TensorBowSession(graph=graph, options=options) as session,
    ):
        found = []
        for s in (stock, session):
            s.run(init)
            found.append(s.run([product, update], {x: value})[0])
            message = r"k \(30\) from index\[\d+,1\] out of bounds \(>=30\)"
            with pytest.raises(tf.errors.InvalidArgumentError, match=message):
                s.run([product, update], {x: outside})
        np.testing.assert_array_equal(found[0], found[1])
        assert "TensorBowSparseTensorDenseMatMul" in ops_of(session, [product, update], {x: value})


def test_small_weights_keep_their_dense_gradient():
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.sparse_placeholder(tf.float32, [None, 10])
        w = tf1.get_variable("w", initializer=np.ones((10, 4), np.float32))
        loss = tf.reduce_sum(tf.sparse.sparse_dense_matmul(x, w))
        update = tf1.train.GradientDescentOptimizer(1.0).minimize(loss)
        init = tf1.global_variables_initializer()
    value = tf1.SparseTensorValue([(0, 1)], [2.0], (1, 10))
    with tensorbow.TensorBowSession(graph=graph) as session:
        session.run(init)
        assert "TensorBowSparseProduct" not in ops_of(session, update, {x: value})
        np.testing.assert_array_equal(session.run(w)[:3, 0], [1, -1, 1])
