"""The ops that a learning task's graph may contain: control flow, functions, random numbers…"""

import types

import numpy as np
import pytest
import tensorflow as tf
from programs import session

import tensorbow

tf1 = tf.compat.v1


def train_on(transform, steps=30, learners=2, rate=0.05, check=True, use_resource=True):
    """Fits y = x·w in which the model sees transform(x); returns the session's losses."""
    graph = tf.Graph()
    with graph.as_default():
        tf1.set_random_seed(1)
        x = tf1.placeholder(tf.float32, [None, 4], name="x")
        y = tf1.placeholder(tf.float32, [None, 1], name="y")
        w = tf1.get_variable(
            "w", initializer=np.zeros((4, 1), np.float32), use_resource=use_resource
        )
        loss = tf.reduce_mean(tf.square(tf.matmul(transform(x), w) - y))
        train = tf1.train.AdamOptimizer(rate).minimize(loss)
        init = tf1.global_variables_initializer()
    random = np.random.default_rng(0)
    inputs = random.random((16, 4), np.float32)
    targets = inputs.sum(axis=1, keepdims=True)
    losses = []
    with session(graph, learners, synchroniser=tensorbow.SMA(), shard=[x, y]) as s:
        s.run(init)
        for _ in range(steps):
            losses.append(s.run([loss, train], {x: inputs, y: targets})[0])
        assert s.learning_tasks == steps * learners
    if check:
        assert losses[-1] < losses[0] / 2
    return losses


def as_while_v1(x):
    with_v1 = tf1.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * 1.0), [tf.constant(0), x])
    return with_v1[1]


def as_tensor_array(x):
    array = tf.TensorArray(tf.float32, size=0, dynamic_size=True).unstack(tf.transpose(x))
    out = tf.TensorArray(tf.float32, size=4)
    _, out = tf.while_loop(
        lambda i, o: i < 4, lambda i, o: (i + 1, o.write(i, array.read(i) * 1.0)), [0, out]
    )
    return tf.transpose(out.stack())


@tf.function
def as_function(x):
    if tf.reduce_sum(x) > -1:
        return x * 1.0
    return x * 2.0


@tf.function(experimental_attributes={"_noinline": True})
def as_kept_function(x):
    return x * 1.0


def as_rnn(x):
    state = tf.zeros_like(x[:, :1])
    for i in range(4):
        state = tf.tanh(x[:, i : i + 1] + 0.0 * state)
    return tf.concat([state * 0.0 + x[:, :1], x[:, 1:]], axis=1)


GRAPHS = {
    "while": as_while_v1,
    "cond": lambda x: tf1.cond(tf.reduce_sum(x) > 0, lambda: x * 1.0, lambda: x * 2.0),
    "switch_case": lambda x: tf.switch_case(tf.constant(1), [lambda: x * 0, lambda: x * 1]),
    "map_fn": lambda x: tf.map_fn(lambda row: row * 1.0, x),
    "scan": lambda x: tf.scan(lambda a, row: row * 1.0, x, initializer=tf.zeros([4])),
    "tensor_array": as_tensor_array,
    "function": as_function,
    "function_not_inlined": as_kept_function,
    "unrolled_rnn": as_rnn,
    "py_func": lambda x: tf.ensure_shape(
        tf1.py_func(lambda v: v * np.float32(1), [tf.stop_gradient(x)], tf.float32), [None, 4]
    ),
    "pure_py_func": lambda x: tf.ensure_shape(
        tf1.py_func(lambda v: v * np.float32(1), [x], tf.float32, stateful=False), [None, 4]
    ),
    "dropout": lambda x: tf1.nn.dropout(x, rate=0.1, seed=3),
    "gradient_clipping": lambda x: tf.clip_by_norm(x, 100.0),
    "string_round_trip": lambda x: tf.strings.to_number(tf.strings.as_string(x, precision=6)),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_graph_trains_on_two_learners(name):
    train_on(GRAPHS[name], check=name != "string_round_trip")


@pytest.fixture
def control_flow_v1():
    enabled = tf1.control_flow_v2_enabled()
    tf1.disable_control_flow_v2()
    yield
    if enabled:
        tf1.enable_control_flow_v2()


@pytest.mark.parametrize("name", ["while", "cond", "map_fn", "tensor_array"])
@pytest.mark.usefixtures("control_flow_v1")
def test_control_flow_v1_trains_on_two_learners(name):
    train_on(GRAPHS[name], use_resource=False)


def taking_data_in_a_branch(source, fed, copies):
    """Trains on data every other step, else on rows that are fed or constant.

    Each batch of the data comes `copies` times: one for every learner, so that all of them compute
    stock's result.
    """
    batches = np.random.default_rng(0).standard_normal((20, 4, 2)).astype(np.float32)
    p = types.SimpleNamespace(graph=tf.Graph())
    with p.graph.as_default():
        p.x = tf1.placeholder(tf.float32, [None, 2]) if fed else tf.ones([4, 2])
        p.step = tf1.train.get_or_create_global_step()
        p.w = tf1.get_variable("w", initializer=np.float32([0.5, -0.5]))
        p.init = [tf1.global_variables_initializer()]
        elements = np.repeat(batches, copies, axis=0)
        if source == "queue":
            queue = tf1.FIFOQueue(1000, [tf.float32], [[2]])
            p.init.append(queue.enqueue_many([elements.reshape(-1, 2)]))
            take = lambda: queue.dequeue_many(4)  # noqa: E731
        else:
            data = tf1.data.Dataset.from_tensor_slices(elements)
            if source == "batched":  # the number of rows is known only when it runs
                data = data.unbatch().batch(4)
            iterator = tf1.data.make_initializable_iterator(data)
            p.init.append(iterator.initializer)
            take = iterator.get_next
        p.from_data = tf1.placeholder(tf.bool, []) if fed else tf.equal(p.step % 2, 1)
        batch = tf1.cond(p.from_data, take, lambda: tf.identity(p.x))
        p.loss = tf.reduce_mean(tf.square(tf.linalg.matvec(batch, p.w) - 1))
        p.train = tf1.train.GradientDescentOptimizer(0.1).minimize(p.loss, p.step)
    return p


@pytest.mark.parametrize("learners", [1, 2])
@pytest.mark.parametrize("fed", [True, False], ids=["fed", "nothing fed"])
@pytest.mark.parametrize("source", ["iterator", "batched", "queue"])
@pytest.mark.usefixtures("control_flow_v1")
def test_data_may_be_taken_in_one_branch_of_a_conditional(source, fed, learners):
    trained = []
    for copies in (0, learners):  # 0 stands for stock
        p = taking_data_in_a_branch(source, fed, max(1, copies))
        ours = session(p.graph, learners, elements="one_each") if copies else None
        with ours or tf1.Session(graph=p.graph) as s:
            for init in p.init:
                s.run(init)
            values = []
            for k in range(8):
                rows_fed = np.full((4 * learners, 2), k, np.float32)
                feeds = {p.from_data: k % 2 == 1, p.x: rows_fed} if fed else {}
                values.append([*s.run([p.loss, p.train], feeds)[:1], s.run(p.w)])
            if copies:
                assert s.learning_tasks == 8 * learners
                assert s.samples_seen == 8 * learners * (4 if fed else 1)
        trained.append(values)
    for (loss, w), (our_loss, our_w) in zip(*trained):
        np.testing.assert_allclose(our_loss, loss, rtol=1e-5)
        np.testing.assert_allclose(our_w, w, rtol=1e-5)
    if learners == 1:
        for stock, ours in zip(*trained):
            np.testing.assert_array_equal(ours[1], stock[1])


def test_training_inside_a_loop():
    """The optimiser's update itself stands in a while loop."""
    graph = tf.Graph()
    tf1.disable_control_flow_v2()
    try:
        with graph.as_default():
            x = tf1.placeholder(tf.float32, [None])
            w = tf1.get_variable("w", initializer=np.float32(0))

            def body(i):
                gradient = 2 * (w - tf.reduce_mean(x))
                update = tf1.assign_sub(w, 0.1 * gradient)
                with tf.control_dependencies([update]):
                    return i + 1

            train = tf1.while_loop(lambda i: i < 3, body, [0], parallel_iterations=1)
            init = tf1.global_variables_initializer()
    finally:
        tf1.enable_control_flow_v2()
    with session(graph) as s:
        s.run(init)
        s.run(train, {x: [1, 1, 3, 3]})
        assert s.learning_tasks == 2
        expected = [mean * (1 - 0.8**3) for mean in (1, 3)]
        np.testing.assert_allclose([s.learner_value(w, j) for j in range(2)], expected, rtol=1e-5)


RANDOM = {
    "uniform": lambda: tf.random.uniform([8], seed=5),
    "normal": lambda: tf.random.normal([8], seed=5),
    "shuffle": lambda: tf.random.shuffle(tf.range(64, dtype=tf.float32), seed=5)[:8],
    "in_function": lambda: _noise(),
    "generator": lambda: tf.random.Generator.from_seed(7, alg="philox").normal([8]),
}


@tf.function(experimental_attributes={"_noinline": True})
def _noise():
    return tf.random.uniform([8], seed=5)


def draws(make, learners=2, runs=3, **options):
    graph = tf.Graph()
    with graph.as_default():
        tf1.set_random_seed(11)
        w = tf1.get_variable("w", initializer=np.float32(1))
        noise = make()
        loss = tf.square(w) + 0.0 * tf.reduce_sum(noise)
        train = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
        init = tf1.global_variables_initializer()
    with session(graph, learners, combine={noise: "stack"}, **options) as s:
        s.run(init)
        return np.array([s.run([noise, train])[0] for _ in range(runs)])


@pytest.mark.parametrize("name", RANDOM)
def test_learners_draw_different_numbers_and_a_seeded_run_is_reproducible(name):
    first, second = draws(RANDOM[name]), draws(RANDOM[name])
    np.testing.assert_array_equal(first, second)
    flat = first.reshape(-1, 8)
    for i in range(len(flat)):
        for j in range(i):
            assert not np.array_equal(flat[i], flat[j]), (i, j)


def test_first_learner_draws_what_stock_draws():
    graph = tf.Graph()
    with graph.as_default():
        tf1.set_random_seed(11)
        tf1.get_variable("w", initializer=np.float32(1))
        noise = tf.random.uniform([8], seed=5)
    with tf1.Session(graph=graph) as stock:
        expected = np.array([stock.run(noise) for _ in range(3)])
    actual = draws(lambda: tf.random.uniform([8], seed=5))[:, 0]
    np.testing.assert_array_equal(actual, expected)


def test_seed_option_makes_unseeded_operations_reproducible():
    def make():
        tf1.set_random_seed(None)
        return tf.random.uniform([8])

    assert not np.array_equal(draws(make), draws(make))
    first, second = draws(make, seed=3), draws(make, seed=3)
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, draws(make, seed=4))
    assert not np.array_equal(first[0, 0], first[0, 1])


def test_half_and_bfloat16_and_complex_variables_are_averaged():
    for dtype, tolerance in ((tf.float16, 1e-2), (tf.bfloat16, 5e-2), (tf.complex64, 1e-5)):
        graph = tf.Graph()
        with graph.as_default():
            x = tf1.placeholder(tf.float32, [None])
            w = tf1.get_variable("w", initializer=tf.ones([3], dtype))
            pull = tf.cast(tf.reduce_mean(x), dtype)
            train = tf1.assign_sub(w, tf.cast(0.1, dtype) * (w - pull))
            init = tf1.global_variables_initializer()
        with session(graph) as s:
            s.run(init)
            expected = np.array([1.0, 1.0])
            for _ in range(10):
                s.run(train, {x: [1, 1, 3, 3]})
                c = 0.5 * (expected - expected.mean())
                expected = expected - 0.1 * (expected - [1, 3]) - c
            values = [np.asarray(s.learner_value(w, j)).astype(np.complex64) for j in range(2)]
            np.testing.assert_allclose([v[0].real for v in values], expected, rtol=tolerance)
            central = np.asarray(s.run(w)).astype(np.complex64)
            np.testing.assert_allclose(central.real, [expected.mean()] * 3, rtol=tolerance)


def test_input_pipeline_gives_each_element_to_one_learner():
    graph = tf.Graph()
    with graph.as_default():
        dataset = tf1.data.Dataset.range(100).map(lambda v: v + 0, num_parallel_calls=2)
        iterator = tf1.data.make_initializable_iterator(dataset.batch(7).prefetch(2))
        x = iterator.get_next()
        w = tf1.get_variable("w", initializer=np.float32(0))
        loss = tf.reduce_mean(tf.square(w - tf.cast(x, tf.float32)))
        train = tf1.train.GradientDescentOptimizer(1e-3).minimize(loss)
        init = tf1.global_variables_initializer()
    with session(graph, elements="one_each") as s:
        s.run(init)
        for epoch in (1, 2):
            s.run(iterator.initializer)
            seen = []
            with pytest.raises(tf.errors.OutOfRangeError):
                while len(seen) < 1000:
                    seen += s.run([x, train])[0].tolist()
            # 15 batches on two learners: the last iteration is short, none is lost.
            assert sorted(seen) == list(range(100))
            assert s.learning_tasks == 15 * epoch
            assert s.samples_seen == 100 * epoch
