"""A gradient that is a product of matrices is computed in its update, together with the gradient of
the layer's inputs.

Expected values: TensorFlow's own matmul and op in a stock session, one learner's weights at a time,
or the NumPy model in float64. Sums of products may be rounded differently: the library that
TensorFlow multiplies with chooses its own order.
"""

import types

import numpy as np
import programs
import pytest
import tensorflow as tf
from fused_updates_test import APPLY, BOTH, KINDS, of_op
from sma_model import SMAModel, StockGradients
from stock_sessions import loader

import tensorbow
from tensorbow import models
from tests.python.divided_programs import in_turn

tf1 = tf.compat.v1

ALPHA, MOMENTUM, LEARNERS = 0.3, 0.5, 2
ROWS, COLUMNS = 301, 450  # slices end inside rows; neither is a multiple of a block
CLOSE = dict(rtol=2e-5, atol=2e-6)
# Sums of 300 products: their errors against float64, in both, are up to 6e-6 (the test below).
CLOSE_SUMS = dict(rtol=2e-5, atol=1e-5)


def executed_nodes(session, fetches, feeds):
    """Runs; returns the nodes of the executed graph."""
    metadata = tf1.RunMetadata()
    session.run(
        fetches,
        feeds,
        options=tf1.RunOptions(output_partition_graphs=True),
        run_metadata=metadata,
    )
    nodes = [n for graph in metadata.partition_graphs for n in graph.node]
    assert nodes
    return nodes


def fused_in_updates(session, fetches, feeds):
    """Runs, and counts the fused updates that compute a product, and those of them that return the
    gradient of their inputs."""
    nodes = executed_nodes(session, fetches, feeds)
    return tuple(
        sum(n.attr[attribute].i == 1 for n in nodes)
        for attribute in ("num_factors", "num_input_gradients")
    )


def products_in_updates(session, fetches, feeds):
    return fused_in_updates(session, fetches, feeds)[0]


class Update:
    """An update of w by op(a·b), given a and b for each learner: feeds [learners, …].

    `form` is the function between the product and the update.
    """

    def __init__(
        self,
        op="ApplyGradientDescent",
        use_resource=True,
        inner=4,
        transpose_a=True,
        transpose_b=False,
        shape=(ROWS, COLUMNS),
        dtype=tf.float32,
        form=lambda product: product,
    ):
        rows, columns = shape
        self.shapes = [
            (inner, rows) if transpose_a else (rows, inner),
            (columns, inner) if transpose_b else (inner, columns),
        ]
        self.dtype = dtype
        self.graph = tf.Graph()
        with self.graph.as_default():
            initial = np.random.default_rng(0).standard_normal(shape)
            self.w = tf1.get_variable(
                "w", initializer=tf.constant(initial, dtype), use_resource=use_resource
            )
            self.factors = [tf1.placeholder(dtype, [None, *s]) for s in self.shapes]
            self.product = tf.matmul(
                *(f[0] for f in self.factors), transpose_a=transpose_a, transpose_b=transpose_b
            )
            self.train, self.slots = of_op(op, use_resource)(self.w, form(self.product), None)
            self.init = tf1.global_variables_initializer()

    def feeds(self, iteration):
        random = np.random.default_rng(iteration + 1)
        return [random.standard_normal((LEARNERS, *s)).astype(np.float32) for s in self.shapes]


def check(update, products, iterations=4, fetch=None, centre="current", close=CLOSE):
    """Trains `update` and compares replicas and z with stock and the written formula."""
    variables = [update.w, *update.slots]
    synchroniser = tensorbow.SMA(ALPHA, centre, MOMENTUM if centre == "lagging" else None)
    with (
        tf1.Session(graph=update.graph) as stock,
        programs.session_of_parts(update.graph, LEARNERS, synchroniser=synchroniser) as session,
    ):
        stock.run(update.init)
        session.run(update.init)
        start = stock.run(variables)
        load = loader(variables, stock)
        state = [[v.copy() for v in start] for _ in range(LEARNERS)]
        z, z_prev = start[0].astype(np.float64), start[0].astype(np.float64)
        for iteration in range(iterations):
            values = update.feeds(iteration)
            fetches = [update.train] if fetch is None else [update.train, fetch]
            feeds = dict(zip(update.factors, values))
            assert products_in_updates(session, fetches, feeds) == products
            z_next = z + MOMENTUM * (z - z_prev)
            for j in range(LEARNERS):
                load(*state[j])
                stock.run(update.train, {f: v[j : j + 1] for f, v in zip(update.factors, values)})
                correction = ALPHA * (state[j][0] - z)
                state[j] = stock.run(variables)
                state[j][0] = (state[j][0] - correction).astype(state[j][0].dtype)
                z_next += correction
            z, z_prev = z_next, z
            if centre == "current":
                z = (state[0][0].astype(np.float64) + state[1][0]) / 2
            for j in range(LEARNERS):
                for variable, value in zip(variables, state[j]):
                    np.testing.assert_allclose(session.learner_value(variable, j), value, **close)
            np.testing.assert_allclose(session.run(update.w), z, **close)
    assert np.any(state[0][0] != state[1][0])


# ------------------------------------------------------------------------ fused products


@pytest.mark.parametrize("op, centre, use_resource", in_turn(APPLY, BOTH))
def test_every_optimiser_takes_a_product(op, centre, use_resource):
    use_resource |= "Keras" in op  # which is of resources only
    check(Update(op, use_resource), products=1, centre=centre)


@pytest.mark.parametrize("transpose_a", [True, False])
@pytest.mark.parametrize("inner", [1, 5, 300])
def test_product_of_any_inner_size(inner, transpose_a):
    close = CLOSE if inner < 100 else CLOSE_SUMS
    check(Update(inner=inner, transpose_a=transpose_a), products=1, iterations=2, close=close)


# A slice has 16,384 elements. Of wide matrices several are computed at once: more than half of
# one, nearly all of one, and more slices than learners, with a rest.
WIDE = [(61, 3340), (21, 9001), (9, 16_384)]


@pytest.mark.parametrize("shape", WIDE)
def test_product_of_many_columns(shape):
    check(Update("ApplyMomentum", shape=shape), products=1, iterations=3)


@pytest.mark.parametrize("transpose_a", [True, False])
@pytest.mark.parametrize("inner", [5, 300])
def test_products_are_as_close_to_float64_as_stocks(inner, transpose_a):
    update = Update(inner=inner, transpose_a=transpose_a)
    a, b = update.feeds(0)
    feeds = dict(zip(update.factors, (a, b)))
    start = np.zeros((ROWS, COLUMNS), np.float32)  # so that w is the product, except for the rate
    exact, errors = [], {"stock": [], "fused": [], "one long sum": []}
    for j in range(LEARNERS):
        left = a[j].T if transpose_a else a[j]
        exact.append(left.astype(np.float64) @ b[j].astype(np.float64))
        long_sum = np.zeros((ROWS, COLUMNS), np.float32)
        for k in range(inner):
            long_sum += np.outer(left[:, k], b[j][k])
        errors["one long sum"].append(long_sum - exact[j])
    with (
        tf1.Session(graph=update.graph) as stock,
        programs.session_of_parts(update.graph, LEARNERS) as session,
    ):
        for s in (stock, session):
            s.run(update.init)
            update.w.load(start, s)
        assert products_in_updates(session, [update.train], feeds) == 1
        for j in range(LEARNERS):
            update.w.load(start, stock)
            stock.run(update.train, {f: v[j : j + 1] for f, v in feeds.items()})
            rate = np.float64(np.float32(0.1))
            for name, w in (
                ("stock", stock.run(update.w)),
                ("fused", session.learner_value(update.w, j)),
            ):
                errors[name].append(w.astype(np.float64) / -rate - exact[j])
    worst = {name: np.abs(e).max() for name, e in errors.items()}
    typical = {name: np.sqrt(np.mean(np.square(e))) for name, e in errors.items()}
    # oneDNN adds up sums of parts, whose errors are smaller than those of one long sum.
    for error in (worst, typical):
        assert error["fused"] <= 2 * max(error["stock"], error["one long sum"]), error


def test_identities_on_the_way_are_seen_through():
    def behind_control(product):
        with tf.control_dependencies([tf1.assert_less(product[0, 0], 100.0)]):
            return tf.identity(product)

    # The assertion takes the product, too.
    check(Update(form=behind_control), products=0, iterations=2)
    # The optimiser's own identities are gone when the graph has been optimised.
    check(Update(form=tf.stop_gradient), products=1, iterations=2)


@KINDS
def test_assignment_takes_a_product(use_resource):
    """Tests programs with their own descent: w ← w − ∂/∂w Σ (b·0 + a·w)²/1000."""
    update = Update(use_resource=use_resource)
    with update.graph.as_default():
        y = tf.matmul(update.factors[0][0], update.w) + 0.0 * update.factors[1][0]
        gradient = tf.gradients(tf.reduce_sum(tf.square(y)) / 1000, update.w)[0]
        update.train = tf1.assign_sub(update.w, gradient)
    check(update, products=1, iterations=2)


class Layer:
    """A layer y = x·w trained by `op`, given x and dy for each learner: feeds [learners, …].

    `form(layer)` may change `delta`, which w is updated by, and `gradient`, that of x.
    """

    def __init__(self, op, use_resource=True, form=None, batch=5, shape=(ROWS, COLUMNS)):
        self.graph = tf.Graph()
        with self.graph.as_default():
            initial = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
            self.w = tf1.get_variable("w", initializer=initial, use_resource=use_resource)
            self.x, self.y = (tf1.placeholder(tf.float32, [None, batch, n]) for n in shape)
            self.dy = tf.sin(self.y[0])
            self.delta = tf.matmul(self.x[0], self.dy, transpose_a=True)
            self.gradient = tf.matmul(self.dy, self.w, transpose_b=True)
            if form is not None:
                form(self)
            self.update, _ = of_op(op, use_resource)(self.w, self.delta, None)
            self.fetches = [self.by_learner(self.gradient), self.update]
            self.init = tf1.global_variables_initializer()
        random = np.random.default_rng(1)
        self.feeds = {
            p: random.standard_normal((LEARNERS, batch, n)).astype(np.float32)
            for p, n in zip((self.x, self.y), shape)
        }

    def by_learner(self, value):
        """Returns [1, …] with a leading dimension that depends on the feeds, which is
        concatenated."""
        return value * tf.ones_like(self.x[:, :1, :1])

    def check(self, input_gradients, iterations=3):
        """Compares the gradient with NumPy's in float64, with the weights before the update."""
        with programs.session_of_parts(self.graph, LEARNERS) as session:
            session.run(self.init)
            for _ in range(iterations):
                before = [session.learner_value(self.w, j) for j in range(LEARNERS)]
                gradients = session.run(self.fetches, self.feeds)[0]
                for j, w in enumerate(before):
                    expected = np.sin(self.feeds[self.y][j].astype(np.float64)) @ w.T
                    np.testing.assert_allclose(gradients[j], expected, rtol=1e-4, atol=1e-3)
                    assert np.any(session.learner_value(self.w, j) != w)
            fused = fused_in_updates(session, self.fetches, self.feeds)
            assert fused[1] == input_gradients


@pytest.mark.parametrize("op, use_resource", in_turn(APPLY, [True, False]))
def test_every_optimiser_gives_the_gradient_of_the_inputs(op, use_resource):
    Layer(op, use_resource or "Keras" in op).check(input_gradients=1)


@pytest.mark.parametrize("batch", [1, 4, 16, 29])
def test_gradient_of_any_number_of_inputs(batch):
    Layer("ApplyGradientDescent", batch=batch).check(input_gradients=1)


def test_rows_that_begin_within_slices():
    Layer("ApplyGradientDescent", shape=(70, 2000)).check(input_gradients=1)


def test_rows_of_which_a_slice_has_few_are_not_computed_in_the_update():
    Layer("ApplyGradientDescent", shape=(61, 3340)).check(input_gradients=0)


def update_waits(layer):
    seen = tf1.get_variable("seen", [], trainable=False, initializer=tf.zeros_initializer())
    with tf.control_dependencies([tf1.assign(seen, tf.reduce_sum(layer.gradient)).op]):
        layer.delta = tf.identity(layer.delta)


def update_uses(layer):
    layer.delta += layer.gradient[0, 0]


def other_factor(layer):
    dy = tf.sin(layer.y[0] + 1e-9 * layer.y[0, 0, 0])
    layer.gradient = tf.matmul(dy, layer.w, transpose_b=True)


def other_weights(layer):
    layer.gradient = tf.matmul(layer.dy, layer.w * 2.0, transpose_b=True) / 2.0


def branches(layer):
    positive = tf.reduce_sum(layer.x) > 1e9
    layer.gradient *= tf.cond(positive, lambda: layer.x[0, 0, 0], lambda: 1.0)


@pytest.mark.parametrize("form", [update_waits, update_uses, other_factor, other_weights, branches])
def test_other_gradients_of_inputs_are_computed_apart(form):
    Layer("ApplyGradientDescent", form=form).check(input_gradients=0)


@KINDS
def test_product_with_the_weights_after_the_update(use_resource):
    layer = Layer("ApplyGradientDescent", use_resource)
    with layer.graph.as_default(), tf.control_dependencies([layer.update]):
        value = layer.w.read_value() if use_resource else tf.identity(layer.w._ref())
        late = tf.matmul(layer.dy, value, transpose_b=True)
        fetches = [layer.by_learner(late), layer.update]
    with programs.session_of_parts(layer.graph, LEARNERS) as session:
        session.run(layer.init)
        run = (fetches, layer.feeds)
        assert fused_in_updates(session, *run) == (1, 0)
        actual = session.run(*run)[0]
        for j in range(LEARNERS):
            w = session.learner_value(layer.w, j).astype(np.float64)
            expected = np.sin(layer.feeds[layer.y][j]) @ w.T
            np.testing.assert_allclose(actual[j], expected, rtol=1e-4, atol=1e-4)


# -------------------------------------------------------------------- not fused

NOT_FUSED = {
    "clipped": dict(form=lambda g: tf.clip_by_value(g, -0.5, 0.5)),
    "norm taken": dict(form=lambda g: g / tf.norm(g)),
    "right factor transposed": dict(transpose_b=True),
    "small": dict(shape=(20, 450)),
    "few columns": dict(shape=(4500, 30)),
    "too many columns": dict(shape=(8, 16_385)),
    "float64": dict(dtype=tf.float64),
}


@pytest.mark.parametrize("why", NOT_FUSED)
def test_other_gradients_are_computed_before(why):
    check(Update(**NOT_FUSED[why]), products=0, iterations=2)


def test_fetched_gradient_is_computed_before_and_right():
    update = Update()
    check(update, products=0, iterations=2, fetch=update.product)


@KINDS
def test_factor_that_is_a_variable_is_read_before_it_is_updated(use_resource):
    """x·v with both trained: the gradient of x is multiplied with the old v."""
    graph = tf.Graph()
    with graph.as_default():
        scale = tf1.placeholder(tf.float32, [None])
        v, x = (
            tf1.get_variable(name, initializer=tf.ones([ROWS, COLUMNS]), use_resource=use_resource)
            for name in ("v", "x")
        )
        loss = tf.reduce_sum(tf.matmul(x, v, transpose_a=True)) * scale[0]
        train = tf1.train.GradientDescentOptimizer(1 / ROWS).minimize(loss)
        init = tf1.global_variables_initializer()
    with programs.session_of_parts(graph, LEARNERS) as session:
        session.run(init)
        assert products_in_updates(session, train, {scale: [1.0, 1.0]}) == 0
        # dL/dv = x·1 and dL/dx = v·1 have COLUMNS in every element.
        expected = np.full((ROWS, COLUMNS), 1 - COLUMNS / ROWS)
        for variable in (v, x):
            np.testing.assert_allclose(session.learner_value(variable, 1), expected, rtol=1e-5)


def test_independent_learners_multiply_as_tensorflow_does():
    update = Update()
    synchroniser = tensorbow.Independent()
    with programs.session_of_parts(update.graph, LEARNERS, synchroniser=synchroniser) as session:
        session.run(update.init)
        feeds = dict(zip(update.factors, update.feeds(0)))
        assert products_in_updates(session, update.train, feeds) == 0


def test_one_learner_multiplies_as_tensorflow_does():
    update = Update()
    with programs.session_of_parts(update.graph, 1) as session:
        session.run(update.init)
        feeds = {f: v[:1] for f, v in zip(update.factors, update.feeds(0))}
        assert products_in_updates(session, update.train, feeds) == 0


# --------------------------------------------------------------------------- whole networks


def perceptron(use_resource=True, momentum=0.0):
    """Makes two dense layers whose weights are both large enough."""
    p = types.SimpleNamespace(graph=tf.Graph())
    with p.graph.as_default():
        p.images = tf1.placeholder(tf.float32, [None, ROWS])
        p.labels = tf1.placeholder(tf.int32, [None])
        layers = models.Layers(3, use_resource, tf.float32)
        hidden = tf.nn.relu(layers.dense(p.images, COLUMNS, "hidden"))
        hidden = tf.nn.relu(layers.dense(hidden, ROWS, "hidden2"))
        logits = layers.dense(hidden, 10, "logits")
        p.loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=p.labels, logits=logits)
        )
        optimiser = tf1.train.GradientDescentOptimizer(0.05)
        if momentum:
            optimiser = tf1.train.MomentumOptimizer(0.05, momentum)
        p.gradients = optimiser.compute_gradients(p.loss)
        p.train_op = optimiser.apply_gradients(p.gradients)
        p.init = tf1.global_variables_initializer()
    return p


def data(rows, seed=0):
    random = np.random.default_rng(seed)
    return (
        random.standard_normal((rows, ROWS)).astype(np.float32),
        random.integers(0, 10, rows).astype(np.int32),
    )


@pytest.mark.parametrize(
    "rows, momentum, use_resource", in_turn([2, 7, 32], [0.0, 0.9], [True, False])
)
def test_twenty_steps_equal_the_model(rows, momentum, use_resource):
    p = perceptron(use_resource, momentum)
    gradients = StockGradients(p)
    with programs.session_of_parts(p.graph, LEARNERS, synchroniser=tensorbow.SMA()) as session:
        session.run(p.init)
        model = SMAModel(session.run(gradients.variables), LEARNERS, 0.05, momentum)
        for step in range(20):
            images, labels = data(rows, step)
            feeds = {p.images: images, p.labels: labels}
            # The images need no gradient.
            assert fused_in_updates(session, p.train_op, feeds) == (2, 1)
            first = (rows + 1) // 2
            shards = [(images[:first], labels[:first]), (images[first:], labels[first:])]
            model.iteration(gradients, shards)
        for variable, z, w in zip(gradients.variables, model.z, zip(*model.w)):
            np.testing.assert_allclose(session.run(variable), z, rtol=1e-4, atol=1e-5)
            for j in range(LEARNERS):
                np.testing.assert_allclose(
                    session.learner_value(variable, j), w[j], rtol=1e-4, atol=1e-5
                )
    gradients.close()


def weights_after(p, steps, fetch=(), rows=9, state=None, begin=0):
    with programs.session_of_parts(p.graph, 3) as session:
        session.run(p.init)
        if state is not None and begin:
            session.load_state(state)
        for step in range(begin, steps):
            images, labels = data(rows, step)
            session.run([p.train_op, *fetch], {p.images: images, p.labels: labels})
        if state is not None and not begin:
            session.save_state(state)
        with p.graph.as_default():
            variables = tf1.trainable_variables()
        return [session.learner_value(v, j) for v in variables for j in range(3)]


def test_same_weights_as_with_the_gradients_fetched():
    p = perceptron()
    gradients = [g for g, _ in p.gradients]
    for fused, not_fused in zip(weights_after(p, 20), weights_after(p, 20, gradients)):
        np.testing.assert_allclose(fused, not_fused, **CLOSE)


def test_two_sessions_compute_the_same_bits():
    p = perceptron(momentum=0.9)
    for first, second in zip(weights_after(p, 10), weights_after(p, 10)):
        np.testing.assert_array_equal(first, second)


def test_saved_session_goes_on_with_the_same_bits(tmp_path):
    p = perceptron(momentum=0.9)
    whole = weights_after(p, 8)
    weights_after(p, 4, state=tmp_path / "state")
    for resumed, expected in zip(
        weights_after(p, 8, state=tmp_path / "state", begin=4), whole, strict=True
    ):
        np.testing.assert_array_equal(resumed, expected)


# ------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    "a, b, message",
    [
        ((2, 4, ROWS), (2, 5, COLUMNS), "Matrix size-incompatible"),
        ((2, 4, ROWS), (2, 4, COLUMNS + 1), "do not have the same shape"),
        ((2, 4, ROWS + 1), (2, 4, COLUMNS), "do not have the same shape"),
    ],
    ids=["inner", "columns", "rows"],
)
def test_wrong_shapes_are_an_error_and_change_nothing(a, b, message):
    graph = tf.Graph()
    with graph.as_default():
        factors = [tf1.placeholder(tf.float32, [None, None, None]) for _ in range(2)]
        w = tf1.get_variable("w", initializer=tf.zeros([ROWS, COLUMNS]))
        product = tf.matmul(factors[0][0], factors[1][0], transpose_a=True)
        train = tf.raw_ops.ResourceApplyGradientDescent(var=w.handle, alpha=0.1, delta=product)
        init = tf1.global_variables_initializer()
    right = dict(zip(factors, [np.ones((2, 4, ROWS)), np.ones((2, 4, COLUMNS))]))
    with programs.session_of_parts(graph, LEARNERS) as session:
        session.run(init)
        assert products_in_updates(session, train, right) == 1
        before = session.run(w)
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            session.run(train, dict(zip(factors, [np.ones(a), np.ones(b)])))
        np.testing.assert_array_equal(session.run(w), before)
        session.run(train, right)


def test_empty_batch_updates_by_nothing():
    graph = tf.Graph()
    with graph.as_default():
        factors = [tf1.placeholder(tf.float32, [None, None, n]) for n in (ROWS, COLUMNS)]
        w = tf1.get_variable("w", initializer=tf.ones([ROWS, COLUMNS]))
        product = tf.matmul(factors[0][0], factors[1][0], transpose_a=True)
        train = tf.raw_ops.ResourceApplyGradientDescent(var=w.handle, alpha=0.1, delta=product)
        init = tf1.global_variables_initializer()
    nothing = dict(zip(factors, [np.ones((2, 0, ROWS)), np.ones((2, 0, COLUMNS))]))
    with programs.session_of_parts(graph, LEARNERS) as session:
        session.run(init)
        assert products_in_updates(session, train, nothing) == 1
        np.testing.assert_array_equal(session.learner_value(w, 1), np.ones((ROWS, COLUMNS)))


# ------------------------------------------------------------------ gradients that are scaled


def of_a_summed_loss(columns, stock, fetch_gradient=False):
    """Returns weights and fetches of three steps of a loss that sums over rows, whose gradients are
    scaled if they are divided; the number of fused products, and whether factors of one are scaled.
    """
    with tf.Graph().as_default() as graph:
        x = tf1.placeholder(tf.float32, [24, 512])
        start = tf.random.stateless_normal([512, columns], [1, 2]) / 23
        w = tf1.get_variable("w", initializer=start)
        out = tf1.get_variable("out", initializer=tf.ones([columns, 4]) / columns)
        loss = tf.reduce_sum(tf.square(tf.tanh(x @ w) @ out - 1)) / 1000
        optimiser = tf1.train.GradientDescentOptimizer(0.05)
        gradients = optimiser.compute_gradients(loss)
        fetches = [optimiser.apply_gradients(gradients), loss]
        fetches += [gradients[0][0]] if fetch_gradient else []
        init = tf1.global_variables_initializer()
    feeds = {x: np.random.default_rng(0).standard_normal((24, 512)).astype(np.float32)}
    divided = lambda: programs.session(graph, LEARNERS, synchroniser=tensorbow.SSGD())  # noqa: E731
    with tf1.Session(graph=graph) if stock else divided() as session:
        session.run(init)
        values = [session.run(fetches, feeds)[1:] for _ in range(3)]
        weights, how = session.run([w, out]), None
        if not stock:
            nodes = executed_nodes(session, fetches, feeds)
            how = (
                sum(n.attr["num_factors"].i == 1 for n in nodes),
                any(n.op == "TensorBowRescale" and "Tanh_grad" in n.input[0] for n in nodes),
            )
        return weights, values, how


@pytest.mark.filterwarnings("ignore:.*sums over the rows")
@pytest.mark.parametrize(
    "columns, fetched, how",
    [(512, False, (1, True)), (512, True, (0, False)), (128, False, (0, False))],
    ids=["large", "fetched", "small"],
)
def test_large_gradient_is_computed_in_its_update_although_it_is_scaled(columns, fetched, how):
    """Its right factor, which has few rows, is scaled instead; but not if the gradient is fetched
    or small."""
    expected, wanted, _ = of_a_summed_loss(columns, True, fetched)
    found, values, ours = of_a_summed_loss(columns, False, fetched)
    assert ours == how
    for value, other in zip(found, expected):
        np.testing.assert_allclose(value, other, **CLOSE)
    for some, others in zip(values, wanted):
        for value, other in zip(some, others):
            np.testing.assert_allclose(value, other, rtol=1e-4, atol=1e-6)
