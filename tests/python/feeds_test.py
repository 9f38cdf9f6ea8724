"""The division of feeds into learning tasks: by rows, whole, or not without a hint."""

import warnings

import numpy as np
import pytest
import tensorflow as tf
from messages import without_lines
from programs import linear, rows, session

import tensorbow

tf1 = tf.compat.v1


def recorder(graph, x, key="seen"):
    """Returns a Python function that records the rows of every task.

    It is declared pure, so that learners call it; so do proofs.
    """
    seen = []

    def note(values):
        seen.append(values.copy())
        return values

    with graph.as_default():
        passed = tf1.py_func(note, [x], x.dtype, stateful=False, name=key)
        passed.set_shape(x.shape)
    return passed, seen


def recording_program(shape=(None,), dtype=tf.float32):
    """Makes a program that trains w on the mean of x, and records each task's part of x."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(dtype, shape, name="x")
        passed, seen = recorder(graph, x)
        w = tf1.get_variable("w", initializer=np.float32(0))
        loss = tf.reduce_mean(tf.square(w - tf.cast(passed, tf.float32)))
        train = tf1.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")
        init = tf1.global_variables_initializer()
    return graph, x, train, init, seen


def values_of(seen):
    return sorted(v for part in seen for v in np.ravel(part).tolist())


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 8, 64])
def test_rows_are_divided_evenly_and_each_is_used_once(count):
    graph, x, train, init, seen = recording_program()
    with session(graph, learners=3, proof="off") as s:
        s.run(init)
        s.run(train, {x: np.arange(count)})
    assert values_of(seen) == list(range(count))
    sizes = [len(part) for part in seen]
    assert len(sizes) == min(count, 3)
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("scheduling", ["fcfs", "round_robin"])
@pytest.mark.parametrize("count", [1, 4, 5, 8, 30])
def test_batch_size_cuts_batches(count, scheduling):
    graph, x, train, init, seen = recording_program()
    with session(graph, batch_size=4, scheduling=scheduling, proof="off") as s:
        s.run(init)
        s.run(train, {x: np.arange(count)})
        assert s.learning_tasks == -(-count // 4)
        assert s.samples_seen == count
    assert values_of(seen) == list(range(count))
    assert sorted(len(part) for part in seen) == sorted(
        min(4, count - k) for k in range(0, count, 4)
    )


def test_batch_size_with_one_learner_trains_batch_after_batch():
    p = linear()
    x, y = rows(10)
    with tf1.Session(
        graph=p.graph, config=tf1.ConfigProto(intra_op_parallelism_threads=1)
    ) as stock:
        stock.run(p.init)
        for k in range(0, 10, 4):
            stock.run(p.train, {p.x: x[k : k + 4], p.y: y[k : k + 4]})
        expected = stock.run(p.w)
    with session(p.graph, learners=1, batch_size=4) as s:
        s.run(p.init)
        s.run(p.train, {p.x: x, p.y: y})
        np.testing.assert_array_equal(s.run(p.w), expected)


def test_scalars_go_whole_to_everyone():
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None])
        rate = tf1.placeholder(tf.float32, [])
        flag = tf1.placeholder(tf.bool, [])
        passed, seen = recorder(graph, rate)
        w = tf1.get_variable("w", initializer=np.float32(0))
        loss = tf.reduce_mean(tf.square(w - x)) + 0.0 * tf.cast(flag, tf.float32)
        train = tf1.train.GradientDescentOptimizer(passed).minimize(loss)
        init = tf1.global_variables_initializer()
    with session(graph, shard=[x]) as s:
        s.run(init)
        s.run(train, {x: [1, 1, 3, 3], rate: 0.25, flag: True})
        assert seen == [0.25, 0.25]
        assert [s.learner_value(w, j) for j in range(2)] == [0.5, 1.5]


def test_unaligned_shards_compute_the_same():
    """Rows of 3 floats: no shard but the first has Eigen's alignment."""
    p = linear(columns=3)
    x, y = rows(7, columns=3)
    with session(p.graph, learners=3) as s:
        s.run(p.init)
        s.run(p.train, {p.x: x, p.y: y})
        actual = [s.learner_value(p.w, j) for j in range(3)]
    for value, part in zip(actual, [slice(0, 3), slice(3, 5), slice(5, 7)]):
        with tf1.Session(graph=p.graph) as stock:
            stock.run(p.init)
            stock.run(p.train, {p.x: x[part], p.y: y[part]})
            np.testing.assert_array_equal(value, stock.run(p.w))


def test_multiple_of_a_fixed_batch_is_divided_into_such_batches():
    graph, x, train, init, seen = recording_program(shape=(4,))
    with session(graph, shard=[x]) as s:
        s.run(init)
        s.run(train, {x: np.arange(12)})
        assert s.learning_tasks == 3
    assert sorted(part.tolist() for part in seen) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


def test_not_a_multiple_of_a_fixed_batch_is_refused_as_by_stock():
    graph, x, train, init, seen = recording_program(shape=(4,))
    with session(graph) as s:
        s.run(init)
        for count in (2, 6):
            with pytest.raises(ValueError, match="Cannot feed value of shape"):
                s.run(train, {x: np.arange(count)})
    assert not seen


def stock_refusal(graph, fetch, feeds):
    """Returns the error of a stock session for the whole run."""
    with tf1.Session(graph=graph) as stock, pytest.raises(ValueError) as refused:
        stock.run(fetch, feeds)
    return refused.value


@pytest.mark.parametrize("learners", [1, 2])
def test_only_learning_runs_take_a_multiple_of_a_fixed_batch(learners):
    """A read or a write of the wrong number of rows is refused with stock's words."""
    graph, x, train, init, seen = recording_program(shape=(4,))
    with graph.as_default():
        kept = tf1.get_variable("kept", [4], trainable=False)
        read, write = tf.reduce_sum(x), tf1.assign(kept, x).op
        written_by_name = tf1.assign(kept, 2 * x)
    several = np.arange(12, dtype=np.float32)
    with session(graph, learners, shard=[x]) as s:
        s.run(init)
        for fetch in (read, write, [read], [written_by_name, read]):
            for feeds in ({x: several}, {x: list(range(8))}, {"x:0": several}):
                wanted = stock_refusal(graph, fetch, feeds)
                for _ in range(2):
                    with pytest.raises(ValueError) as refused:
                        s.run(fetch, feeds)
                    assert type(refused.value) is type(wanted)
                    assert str(refused.value) == str(wanted)
            s.run(fetch, {x: several[:4]})
        for _ in range(2):
            s.run(train, {x: several})
        assert s.learning_tasks == 6
        with pytest.raises(ValueError, match="Cannot feed value of shape"):
            s.run(read, {x: several})


def test_multiple_of_a_feed_that_is_not_divided_is_refused_as_by_stock():
    graph, x, train, init, seen = recording_program()
    with graph.as_default():
        table = tf1.placeholder(tf.float32, [2, 3], name="table")
        sparse = tf1.sparse_placeholder(tf.float32, [5, 5])
        total = tf.reduce_sum(table) + tf1.sparse_reduce_sum(sparse)
    good, bad = ([[0, 0]], [1.0], [5, 5]), ([[0, 0]], [1.0], [5, 5, 5, 5])
    fetches = [train, total]
    with session(graph, replicate=[table]) as s, warnings.catch_warnings():
        warnings.simplefilter("ignore", tensorbow.TensorBowWarning)
        s.run(init)
        for value, rows_of_table in ((good, 4), (bad, 2)):
            feeds = {x: np.arange(6), table: np.ones((rows_of_table, 3)), sparse: value}
            wanted = stock_refusal(graph, fetches, feeds)
            with pytest.raises(ValueError) as refused:
                s.run(fetches, feeds)
            assert str(refused.value) == str(wanted)
        s.run(fetches, {x: np.arange(6), table: np.ones((2, 3)), sparse: good})
    assert seen


def fallback(s, fetch, feeds, match):
    """Runs twice; one learner must execute the run, with one warning that gives the reason."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        s.run(fetch, feeds)
        s.run(fetch, feeds)
    texts = [str(w.message) for w in caught if w.category is tensorbow.TensorBowWarning]
    assert len(texts) == 1, texts
    assert match in without_lines(texts[0])
    assert s.learning_tasks == 2


def test_unequal_leading_dimensions_fall_back_to_stock_behaviour():
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None], name="x")
        noise = tf1.placeholder(tf.float32, [None], name="noise")
        w = tf1.get_variable("w", initializer=np.float32(0))
        loss = tf.reduce_mean(tf.square(w - x)) + tf.reduce_mean(w * noise)
        train = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
        init = tf1.global_variables_initializer()
    feeds = {x: np.float32([1, 2, 3, 4]), noise: np.float32([1, 2, 3])}
    with tf1.Session(graph=graph) as stock:
        stock.run(init)
        stock.run(train, feeds)
        stock.run(train, feeds)
        expected = stock.run(w)
    with session(graph) as s:
        s.run(init)
        fallback(s, train, feeds, "'x:0' has 4 rows, 'noise:0' has 3")
        assert s.run(w) == expected
        assert [s.learner_value(w, j) for j in range(2)] == [expected] * 2
    with session(graph, replicate=[noise]) as s:
        s.run(init)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            s.run(train, feeds)
        assert s.learning_tasks == 2
        # Each learner: −0.1·(2(w − mean x) + mean noise), from w = 0.
        np.testing.assert_allclose(
            [s.learner_value(w, j) for j in range(2)],
            [-0.1 * (-2 * 1.5 + 2), -0.1 * (-2 * 3.5 + 2)],
            rtol=1e-6,
        )


class SparseProgram:
    """Least squares on sparse rows of 3 columns."""

    def __init__(self):
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.x = tf1.sparse_placeholder(tf.float32, [None, 3], name="x")
            self.y = tf1.placeholder(tf.float32, [None], name="y")
            self.w = tf1.get_variable("w", initializer=np.zeros((3, 1), np.float32))
            product = tf.squeeze(tf.sparse.sparse_dense_matmul(self.x, self.w), 1)
            self.loss = tf.reduce_mean(tf.square(product - self.y))
            self.train = tf1.train.GradientDescentOptimizer(0.1).minimize(self.loss)
            self.init = tf1.global_variables_initializer()


def sparse_of(dense):
    indices = np.argwhere(dense)
    return tf1.SparseTensorValue(indices, dense[tuple(indices.T)], dense.shape)


@pytest.mark.parametrize("batch_size", [None, 3])
def test_sparse_feeds_are_divided_by_rows(batch_size):
    """Each learner receives the rows that it would get of the dense matrix: empty ones at the cuts,
    one learner's all empty, and a run of another number of values."""
    program = SparseProgram()
    x, y = program.x, program.y
    dense = np.zeros((9, 3), np.float32)
    dense[[1, 1, 2, 5, 7], [0, 2, 1, 1, 0]] = [1, -2, 3, 0.5, -1]
    late = np.zeros((4, 3), np.float32)
    late[3] = [1, 2, 3]
    with session(program.graph, synchroniser=tensorbow.SSGD(), batch_size=batch_size) as s:
        s.run(program.init)
        w = np.zeros(3)
        for rows in (dense, late, dense):
            labels = np.arange(len(rows), dtype=np.float32)
            loss, _ = s.run([program.loss, program.train], {x: sparse_of(rows), y: labels})
            if batch_size is None:
                errors = rows @ w - labels
                np.testing.assert_allclose(loss, np.mean(errors**2), rtol=1e-5)
                w = w - 0.1 * 2 * rows.T @ errors / len(rows)
                np.testing.assert_allclose(s.run(program.w)[:, 0], w, rtol=1e-5, atol=1e-6)
        assert s.samples_seen == 22
        assert s.learning_tasks == (6 if batch_size is None else 3 + 2 + 3)
        explanation = s.explain(program.train, {x: sparse_of(dense), y: np.zeros(9)})
        assert explanation.learners == 2, explanation


def test_sparse_feeds_that_have_no_rows_fall_back():
    program = SparseProgram()
    x, y = program.x, program.y
    # As many values as rows: their shapes alone look divisible.
    unordered = tf1.SparseTensorValue([[1, 2], [0, 0]], [1.0, 2.0], [2, 3])
    with session(program.graph) as s:
        s.run(program.init)
        fallback(s, program.train, {x: unordered, y: [1, 2]}, "not sorted by row")


def test_sparse_feeds_may_be_named():
    """shard= leaves nothing to prove; replicate= gives every learner all of it."""
    program = SparseProgram()
    with program.graph.as_default():
        table = tf1.sparse_placeholder(tf.float32, [2, 3], name="table")
        spread = tf.reduce_sum(tf.sparse.sparse_dense_matmul(table, program.w))
        loss = program.loss + tf.square(spread - 1)
        train = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
    dense = np.diag([1.0, 2.0, 3.0]).astype(np.float32)[[0, 1, 2, 1]]
    feeds = {
        program.x: sparse_of(dense),
        program.y: np.arange(4, dtype=np.float32),
        table: sparse_of(np.ones((2, 3), np.float32)),
    }
    chosen = {"shard": [program.x, program.y], "replicate": [table]}
    with (
        session(program.graph, synchroniser=tensorbow.SSGD(), **chosen) as s,
        tf1.Session(graph=program.graph) as stock,
    ):
        for other in (s, stock):
            other.run(program.init)
            for _ in range(3):
                other.run(train, feeds)
        assert s.learning_tasks == 6
        np.testing.assert_allclose(s.run(program.w), stock.run(program.w), rtol=1e-5)


def test_a_sparse_matrix_between_the_rows_is_not_divided():
    """A graph's adjacency matrix, fed beside the nodes' features: rows are columns, too."""
    graph = tf.Graph()
    with graph.as_default():
        adjacency = tf1.sparse_placeholder(tf.float32, name="adjacency")
        features = tf1.placeholder(tf.float32, [None, 2], name="features")
        w = tf1.get_variable("w", initializer=np.ones((2, 1), np.float32))
        hidden = tf.sparse.sparse_dense_matmul(adjacency, features @ w)
        train = tf1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_mean(hidden**2))
        init = tf1.global_variables_initializer()
    values = np.random.default_rng(0).normal(size=(6, 2)).astype(np.float32)
    ring = np.roll(np.eye(6, dtype=np.float32), 1, axis=0)
    with session(graph) as s, tf1.Session(graph=graph) as stock:
        for other in (s, stock):
            other.run(init)
        with pytest.warns(tensorbow.TensorBowWarning, match="one learner only"):
            s.run(train, {adjacency: sparse_of(ring), features: values})
        stock.run(train, {adjacency: sparse_of(ring), features: values})
        np.testing.assert_allclose(s.run(w), stock.run(w), rtol=1e-6)


def test_fixed_batch_falls_back():
    graph, x, train, init, seen = recording_program(shape=(4,))
    with session(graph, proof="off") as s:
        s.run(init)
        fallback(s, train, {x: np.arange(4)}, "is declared with a fixed number of rows")
    assert [len(part) for part in seen] == [4, 4]


def test_recurrent_state_with_the_batch_inside_falls_back():
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None, 2], name="x")
        state = tf1.placeholder(tf.float32, [3, None, 2], name="state")
        w = tf1.get_variable("w", initializer=np.float32(1))
        loss = tf.reduce_mean(tf.square(w * x + tf.reduce_sum(state, 0)))
        train = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
        init = tf1.global_variables_initializer()
    feeds = {x: np.ones((4, 2)), state: np.ones((3, 4, 2))}
    with session(graph) as s:
        s.run(init)
        fallback(s, train, feeds, "one learner only")


def test_square_matrix_between_the_rows_falls_back():
    """A dense adjacency matrix: it has as many columns as there are rows."""
    graph = tf.Graph()
    with graph.as_default():
        adjacency = tf1.placeholder(tf.float32, [None, None], name="adjacency")
        features = tf1.placeholder(tf.float32, [None, 2], name="features")
        w = tf1.get_variable("w", initializer=np.ones((2, 1), np.float32))
        loss = tf.reduce_mean(tf.square(adjacency @ features @ w))
        train = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
        init = tf1.global_variables_initializer()
    feeds = {adjacency: np.eye(4), features: np.ones((4, 2))}
    with session(graph) as s:
        s.run(init)
        fallback(s, train, feeds, "combines every row with every other")


@pytest.mark.parametrize(
    "time, proof, parallel",
    [(4, "off", False), (6, "off", True), (4, "auto", True), (6, "auto", True)],
)
@pytest.mark.parametrize("declared", [[None, None], None])
def test_a_batch_as_long_as_its_sequences_is_typed_or_not_guessed(time, proof, parallel, declared):
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, declared, name="x")
        w = tf1.get_variable("w", initializer=np.float32(1))
        loss = tf.reduce_mean(tf.square(w * x))
        train = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
        init = tf1.global_variables_initializer()
    feeds = {x: np.ones((4, time))}
    with session(graph, proof=proof) as s:
        s.run(init)
        if parallel:
            s.run(train, feeds)
            assert s.learning_tasks == 2
        else:
            fallback(s, train, feeds, "more than one dimension")
    with session(graph, shard=[x]) as s:  # named, so that nothing is guessed
        s.run(init)
        s.run(train, feeds)
        assert s.learning_tasks == 2


def test_a_program_is_told_once_however_its_feeds_differ():
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None, None], name="x")
        lengths = tf1.placeholder(tf.float32, [None], name="lengths")
        w = tf1.get_variable("w", initializer=np.float32(1))
        loss = tf.reduce_mean(tf.square(w * x - lengths))
        train = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
        init = tf1.global_variables_initializer()
    with session(graph) as s, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        s.run(init)
        for time in range(5, 9):
            s.run(train, {x: np.ones((time, 4)), lengths: np.ones(4)})
        assert s.learning_tasks == 4
    (told,) = (str(w.message) for w in caught if w.category is tensorbow.TensorBowWarning)
    assert "combines rows with rows on another axis or of another selection" in told


def test_feeds_that_a_run_does_not_use_do_not_count():
    """One feed dict for all runs: the test set, the decoder's lengths, …"""
    p = linear()
    x, y = rows(8)
    with p.graph.as_default():
        unused = [
            tf1.placeholder(tf.float32, [None, 2], name="x_test"),
            tf1.placeholder(tf.float32, [5], name="weights"),
            tf1.sparse_placeholder(tf.float32, name="sparse"),
        ]
        unused[0] * 2
    values = [np.ones((11, 2)), np.ones(5), tf1.SparseTensorValue([[0, 1]], [1.0], [2, 3])]
    feeds = {p.x: x, p.y: y, **dict(zip(unused, values))}
    with session(p.graph) as s, session(p.graph) as plain:
        for each, feed in ((s, feeds), (plain, {p.x: x, p.y: y})):
            each.run(p.init)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                each.run(p.train, feed)
                each.run(p.train, feed)
        assert s.learning_tasks == 4
        np.testing.assert_array_equal(s.run(p.w), plain.run(p.w))


def test_state_whose_rows_lead_is_divided_with_its_batch():
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None, 2])
        state = tf1.placeholder(tf.float32, [None, 2])
        w = tf1.get_variable("w", initializer=np.float32(1))
        new_state = tf.tanh(w * x + state)
        loss = tf.reduce_mean(tf.square(new_state))
        train = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
        init = tf1.global_variables_initializer()
    carried = np.arange(10, dtype=np.float32).reshape(5, 2) / 10
    with session(graph) as s:
        s.run(init)
        _, fetched = s.run([train, new_state], {x: np.zeros((5, 2)), state: carried})
        np.testing.assert_allclose(fetched, np.tanh(carried), rtol=1e-6)
        s.run([train, new_state], {x: np.zeros((5, 2)), state: fetched})
        assert s.learning_tasks == 4


def test_feed_of_an_intermediate_tensor_is_divided():
    p = linear()
    x, y = rows(8)
    with p.graph.as_default():
        hidden = tf.multiply(p.x, 2.0, name="hidden")
        loss = tf.reduce_mean(tf.square(tf.linalg.matvec(hidden, p.w) - p.y))
        train = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
    with session(p.graph) as s:
        s.run(p.init)
        s.run(train, {hidden: x, p.y: y})
        assert s.learning_tasks == 2
        assert not np.array_equal(s.learner_value(p.w, 0), s.learner_value(p.w, 1))


def test_feeds_of_every_form():
    p = linear()
    x, y = rows(6)
    with p.graph.as_default():
        names = tf1.placeholder(tf.string, [None])
        loss = p.loss + 0.0 * tf.reduce_mean(tf.cast(tf.strings.length(names), tf.float32))
        train = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
    outcomes = []
    for feeds in (
        {p.x: x, p.y: y, names: np.array(list("abcdef"))},
        {p.x: x.tolist(), p.y: tuple(y.tolist()), names: list("abcdef")},
        {p.x: x.astype(np.float64), p.y: np.asfortranarray(y), names: [b"a"] * 6},
        {(p.x, p.y): (x, y), names: ["a"] * 6},
        {"x:0": x, "y:0": y, names: ["a"] * 6},
        {p.x: x[::-1][::-1], p.y: y[::-1][::-1], names: ["a"] * 6},
    ):
        with session(p.graph) as s:
            s.run(p.init)
            s.run(train, feeds)
            assert s.learning_tasks == 2
            outcomes.append(s.learner_value(p.w, 1))
    for outcome in outcomes:
        np.testing.assert_array_equal(outcome, outcomes[0])


def test_no_feeds_at_all_gives_every_learner_one_task():
    graph = tf.Graph()
    with graph.as_default():
        w = tf1.get_variable("w", initializer=np.float32(1))
        train = tf1.train.GradientDescentOptimizer(0.1).minimize(tf.square(w))
        init = tf1.global_variables_initializer()
    with session(graph, learners=3) as s:
        s.run(init)
        s.run(train)
        assert s.learning_tasks == 3
        np.testing.assert_allclose([s.learner_value(w, j) for j in range(3)], [0.8] * 3)


def test_batches_of_zero_rows_are_refused():
    p = linear()
    x, y = rows(4)
    with session(p.graph, batch_size=2) as s:
        s.run(p.init)
        before = s.run(p.w)
        with pytest.raises(tf.errors.InvalidArgumentError, match="batch of 0 rows"):
            s.run(p.train, {p.x: x[:0], p.y: y[:0]})
        np.testing.assert_array_equal(s.run(p.w), before)
        s.run(p.train, {p.x: x, p.y: y})


@pytest.mark.parametrize("resource", [False, True])
def test_zero_rows_are_one_learners(resource):
    """A filter may leave none: Adam moves on, a sum is 0, a mean no number."""

    def train(make_session):
        with tf.Graph().as_default():
            x = tf1.placeholder(tf.float64, [None, 3])
            w = tf1.get_variable("w", initializer=np.ones((3, 1)), use_resource=resource)
            products = tf.matmul(x, w)
            loss, largest = tf.reduce_sum(tf.square(products - 1)), tf.reduce_max(products)
            step = tf1.train.AdamOptimizer(0.1).minimize(loss)
            fetches = [step, loss, largest, tf.reduce_mean(products), products]
            with make_session() as s:
                s.run(tf1.global_variables_initializer())
                random = np.random.default_rng(0)
                found = [
                    s.run(fetches, {x: random.standard_normal((count, 3))})[1:]
                    for count in (8, 0, 1, 7, 0, 3)
                ]
                return found, s.run(w)

    options = tensorbow.Options(learners_per_device=2)
    found, w = train(lambda: tensorbow.TensorBowSession(options=options))
    stock, stocks_w = train(tf1.Session)
    np.testing.assert_allclose(w, stocks_w, rtol=1e-12)
    for ours, wanted in zip(found, stock):
        for a, b in zip(ours, wanted):
            np.testing.assert_allclose(a, b, rtol=1e-12)


def test_option_names_that_do_not_fit_the_feeds_are_refused():
    p = linear()
    x, y = rows(4)
    with p.graph.as_default():
        rate = tf1.placeholder(tf.float32, [], name="rate")
        train = tf1.train.GradientDescentOptimizer(rate).minimize(p.loss)
    with session(p.graph, shard=[rate]) as s:
        s.run(p.init)
        with pytest.raises(tf.errors.InvalidArgumentError, match="was fed a scalar"):
            s.run(train, {p.x: x, p.y: y, rate: 0.1})
    graph, x, train, init, _ = recording_program(shape=(4,))
    with session(graph, batch_size=3, shard=[x]) as s:
        s.run(init)
        with pytest.raises(tf.errors.InvalidArgumentError, match="takes exactly 4 rows"):
            s.run(train, {x: np.arange(8)})


@pytest.mark.parametrize(
    "feeds, error, match",
    [
        (lambda p: {p.x: np.ones((4, 3)), p.y: np.ones(4)}, ValueError, "Cannot feed value"),
        (lambda p: {p.x: "text", p.y: np.ones(4)}, ValueError, "could not convert"),
        (lambda p: {p.x: p.y, p.y: np.ones(4)}, TypeError, "cannot be a tf.Tensor"),
        (lambda p: {"nobody:0": 1.0}, TypeError, "Cannot interpret feed_dict key"),
        (lambda p: {p.step.initializer: 1.0}, TypeError, "Cannot interpret feed_dict key"),
        (lambda p: {p.x: np.ones((4, 2))}, tf.errors.InvalidArgumentError, "must feed a value"),
    ],
    ids=["shape", "dtype", "tensor", "unknown", "operation", "missing"],
)
def test_wrong_feeds_are_refused_as_by_stock(feeds, error, match):
    p = linear()
    x, y = rows(4)
    with session(p.graph) as s, tf1.Session(graph=p.graph) as stock:
        for each in (stock, s):
            each.run(p.init)
            with pytest.raises(error, match=match):
                each.run(p.train, feeds(p))
        s.run(p.train, {p.x: x, p.y: y})
        assert s.learning_tasks == 2
