"""Gradients that a program transforms before its updates are stock's.

Programs clip, normalise or square gradients, write an optimiser by hand, or have rates that follow
the rows. Each is compared with a stock session on the same rows, sometimes an odd number of them.
"""

import functools

import numpy as np
import pytest
import tensorflow as tf

import tensorbow
from tests.python import divided_programs as programs
from tests.python.messages import without_lines
from tests.python.rows_together_test import assert_stocks, learners, train

tf1 = tf.compat.v1
COLUMNS, CLASSES = 6, 3


def rows(random):
    count = 24 if random.random_sample() < 0.7 else 17
    x = random.standard_normal((count, COLUMNS)).astype(np.float32)
    return x, random.randint(0, CLASSES, count), np.float32(0.3)


def program(train_op, loss=tf.reduce_mean, resource=True):
    """Makes feeds of rows, labels and a rate; fetches the result of `train_op(loss, rate)`."""

    def build():
        x = tf1.placeholder(tf.float32, [None, COLUMNS])
        y, rate = tf1.placeholder(tf.int32, [None]), tf1.placeholder(tf.float32, [])
        with tf1.variable_scope("", use_resource=resource):
            hidden = tf.tanh(tf.matmul(x, programs.weights("in", COLUMNS, 8)))
            logits = tf.matmul(hidden, programs.weights("out", 8, CLASSES))
            each = tf1.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
            return [x, y, rate], train_op(loss(each), rate, x)

    return build


def by_optimiser(transform, optimiser=tf1.train.GradientDescentOptimizer):
    def train_op(loss, rate, x):
        made = optimiser(rate)
        gradients, variables = zip(*made.compute_gradients(loss))
        return [made.apply_gradients(zip(transform(gradients), variables))]

    return train_op


def clip_by_global_norm(gradients, most=0.1):
    return tf.clip_by_global_norm(gradients, most)[0]


def clip_each(gradients):
    return [tf.clip_by_value(tf.clip_by_norm(g, 0.2), -0.05, 0.05) for g in gradients]


def unit_length(gradients):
    return [g / (tf.norm(g) + 1e-8) for g in gradients]


@pytest.mark.parametrize(
    "transform, loss, count",
    programs.in_turn(
        [clip_by_global_norm, clip_each, unit_length], [tf.reduce_mean, tf.reduce_sum], [2, 3]
    ),
)
def test_transformed_gradients_are_those_of_all_rows(transform, loss, count):
    if loss is tf.reduce_mean:
        assert_stocks(program(by_optimiser(transform)), rows, count)
        return
    _, stock, _, _ = train(program(by_optimiser(transform), loss), rows, tf1.Session)
    _, ours, took_part, _ = train(program(by_optimiser(transform), loss), rows, learners(count))
    assert took_part == count
    for name, value in stock.items():
        np.testing.assert_allclose(ours[name], value, rtol=3e-4, atol=1e-5, err_msg=name)


def two_normalised_layers(train_op, reduce):
    """Normalises by moments of the rows: gradients of lower layers follow from that of an
    offset."""

    def build():
        x, y = tf1.placeholder(tf.float32, [None, COLUMNS]), tf1.placeholder(tf.int32, [None])
        hidden, width = x, COLUMNS
        for name in ("first", "second"):
            hidden = tf.matmul(hidden, programs.weights(name, width, 8))
            mean, variance = tf1.nn.moments(hidden, [0])
            scale, offset = (programs.weights(f"{name}_{what}", 8) for what in ("scale", "offset"))
            hidden = tf.nn.batch_normalization(hidden, mean, variance, offset, 1 + scale, 1e-3)
            hidden, width = tf.tanh(hidden), 8
        logits = tf.matmul(hidden, programs.weights("out", 8, CLASSES))
        each = tf1.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
        return [x, y], train_op(reduce(each), 0.1 if reduce is tf.reduce_mean else 0.01, x)

    return build


def by_hand(loss, rate, x):
    variables = tf1.trainable_variables()
    return [
        tf1.assign_sub(variable, rate * gradient)
        for variable, gradient in zip(variables, tf.gradients(loss, variables))
    ]


def by_squares(loss, rate, x):
    updates, variables = [], tf1.trainable_variables()
    for variable, gradient in zip(variables, tf.gradients(loss, variables)):
        shape, name = variable.shape, f"{variable.op.name}_squares"
        squares = tf1.get_variable(name, shape, tf.float32, tf1.ones_initializer(), trainable=False)
        now = tf1.assign(squares, 0.9 * squares + 0.1 * tf.square(gradient))
        updates.append(tf1.assign_sub(variable, rate * gradient / tf.sqrt(now)))
    return updates


@pytest.mark.parametrize(
    "train_op, reduce, count",
    programs.in_turn(
        [by_optimiser(clip_by_global_norm), by_hand, by_squares],
        [tf.reduce_mean, tf.reduce_sum],
        [2, 3],
    ),
)
def test_an_offset_after_a_normalisation(train_op, reduce, count):
    build = two_normalised_layers(train_op, reduce)
    _, stock, _, _ = train(build, lambda random: rows(random)[:2], tf1.Session)
    _, ours, took_part, _ = train(build, lambda random: rows(random)[:2], learners(count))
    assert took_part == count
    for name, value in stock.items():
        np.testing.assert_allclose(ours[name], value, rtol=3e-4, atol=1e-5, err_msg=name)


def test_clipped_gradients_go_into_any_optimiser():
    for optimiser in (tf1.train.AdamOptimizer, lambda rate: tf1.train.MomentumOptimizer(rate, 0.9)):
        assert_stocks(program(by_optimiser(clip_by_global_norm, optimiser)), rows, 2)


def test_norms_and_clipped_gradients_are_fetched_as_they_are():
    def train_op(loss, rate, x):
        optimiser = tf1.train.GradientDescentOptimizer(rate)
        gradients, variables = zip(*optimiser.compute_gradients(loss))
        clipped, norm = tf.clip_by_global_norm(gradients, 0.1)
        return [optimiser.apply_gradients(zip(clipped, variables)), loss, norm, *clipped]

    assert_stocks(program(train_op), rows, 2)


@pytest.mark.parametrize(
    "clips, loss, count", programs.in_turn([False, True], [tf.reduce_mean, tf.reduce_sum], [2, 3])
)
def test_what_is_computed_from_gradients_and_fetched_is_stocks(clips, loss, count):
    """The optimiser takes them unchanged or not, and they are scaled (sums) or not."""

    def train_op(loss, rate, x):
        optimiser = tf1.train.GradientDescentOptimizer(rate / 8)
        gradients, variables = zip(*optimiser.compute_gradients(loss))
        squares = [tf.reduce_sum(tf.square(g)) for g in gradients]
        norm = tf.linalg.global_norm(gradients)
        largest = tf1.Print(tf.reduce_max(tf.abs(gradients[0])), [])
        applied = clip_by_global_norm(gradients) if clips else gradients
        update = optimiser.apply_gradients(zip(applied, variables))
        return [update, loss, *gradients, *squares, norm, largest]

    wanted, stock, _, _ = train(program(train_op, loss), rows, tf1.Session)
    seen, values, took_part, said = train(program(train_op, loss), rows, learners(count))
    assert (took_part, said) == (count, [])
    for name, value in stock.items():
        np.testing.assert_allclose(values[name], value, rtol=3e-4, atol=1e-5, err_msg=name)
    for found, expected in zip(seen, wanted):
        for a, b in zip(found[1:], expected[1:]):
            np.testing.assert_allclose(a, b, rtol=3e-4, atol=2e-6)


def test_explain_tells_what_is_computed_from_averages():
    def train_op(loss, rate, x):
        optimiser = tf1.train.GradientDescentOptimizer(rate)
        gradients, variables = zip(*optimiser.compute_gradients(loss))
        update = optimiser.apply_gradients(zip(gradients, variables))
        return [update, loss, tf.linalg.global_norm(gradients)]

    with tf.Graph().as_default(), learners(2)() as session:
        feeds, fetches = program(train_op)()
        session.run(tf1.global_variables_initializer())
        explanation = session.explain(fetches, dict(zip(feeds, rows(np.random.RandomState(5)))))
    assert list(explanation.fetches.values()) == ["mean over rows", "same on all learners"]
    assert len(explanation.exchanges) == 2  # the gradients
    assert all(name in str(explanation) for name in explanation.exchanges)


def mean_norm(norm):
    return tf1.metrics.mean(norm)[1]


def largest_norm(norm):
    seen = tf1.get_variable("seen", [], initializer=tf1.zeros_initializer(), trainable=False)
    return tf1.assign(seen, tf.maximum(seen, norm)).op


@pytest.mark.parametrize(
    "state, loss, count",
    programs.in_turn([mean_norm, largest_norm], [tf.reduce_mean, tf.reduce_sum], [2, 3]),
)
def test_state_that_follows_from_gradients_is_stocks(state, loss, count):
    def train_op(loss, rate, x):
        optimiser = tf1.train.GradientDescentOptimizer(rate / 8)
        gradients, variables = zip(*optimiser.compute_gradients(loss))
        update = optimiser.apply_gradients(zip(gradients, variables))
        return [update, state(tf.linalg.global_norm(gradients))]

    build = program(train_op, loss)
    wanted, stock, _, _ = train(build, rows, tf1.Session)
    seen, ours, took_part, _ = train(build, rows, learners(count))
    assert took_part == count
    for name, value in stock.items():
        np.testing.assert_allclose(ours[name], value, rtol=3e-4, atol=1e-5, err_msg=name)
    for (_, found), (_, expected) in zip(seen, wanted):
        if expected is not None:
            np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.parametrize("optimiser", [tf1.train.GradientDescentOptimizer, tf1.train.AdamOptimizer])
def test_state_that_follows_from_gradients_of_rows_is_stocks(optimiser):
    """They are some rows of a table."""

    def build():
        x = tf1.placeholder(tf.int32, [None])
        table, w = programs.weights("table", 9, 5), programs.weights("w", 5, 3)
        loss = tf.reduce_mean(tf.square(tf.tanh(tf.nn.embedding_lookup(table, x) @ w)))
        made = optimiser(0.1)
        gradients, variables = zip(*made.compute_gradients(loss))
        update = made.apply_gradients(zip(gradients, variables))
        return [x], [update, mean_norm(tf.linalg.global_norm(gradients))]

    assert_stocks(build, lambda random: [random.randint(0, 9, 24)], 2)


def test_scaled_gradients_are_fetched_as_they_are_under_model_averaging():
    """Also through operations that print them."""

    def train_op(loss, rate, x):
        optimiser = tf1.train.GradientDescentOptimizer(rate / 8)
        gradients, variables = zip(*optimiser.compute_gradients(loss))
        doubled = [tf1.Print(2 * g, []) for g in gradients]
        return [optimiser.apply_gradients(zip(gradients, variables)), *gradients, *doubled]

    build = program(train_op, tf.reduce_sum)
    wanted, _, _, _ = train(build, rows, tf1.Session, steps=1)
    averaging = learners(2, synchroniser=tensorbow.SMA())
    found, _, took_part, _ = train(build, rows, averaging, steps=1)
    assert took_part == 2
    for a, b in zip(found[0][1:], wanted[0][1:]):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def all_at_once(loss, variables):
    """Makes gradients that are complete together: assignments to references do not wait for
    others."""
    return tf.tuple(tf.gradients(loss, variables))


def adam_by_hand(loss, rate, x):
    variables, updates = tf1.trainable_variables(), []
    for gradient, variable in zip(all_at_once(loss, variables), variables):
        m, v = (
            tf1.get_variable(
                f"{variable.op.name}_{slot}",
                variable.shape,
                initializer=tf1.zeros_initializer(),
                trainable=False,
            )
            for slot in "mv"
        )
        m_now = tf1.assign(m, 0.9 * m + 0.1 * gradient)
        v_now = tf1.assign(v, 0.99 * v + 0.01 * tf.square(gradient))
        updates.append(tf1.assign_sub(variable, 0.1 * rate * m_now / (tf.sqrt(v_now**2) + 1)))
    return [tf.group(*(tf.convert_to_tensor(update) for update in updates))]


def descent_by_hand(loss, rate, x):
    variables = tf1.trainable_variables()
    gradients = all_at_once(loss, variables)
    updates = [tf1.assign(v, v - rate * tf.sign(g) * 0.01) for v, g in zip(variables, gradients)]
    return [tf.group(*(tf.convert_to_tensor(update) for update in updates))]


@pytest.mark.parametrize("resource", [True, False])
@pytest.mark.parametrize("by_hand", [adam_by_hand, descent_by_hand])
def test_optimisers_written_by_hand_are_stocks(by_hand, resource):
    assert_stocks(program(by_hand, resource=resource), rows, 2)


def max_norm(loss, rate, x):
    update = tf1.train.GradientDescentOptimizer(rate).minimize(loss)
    weights = tf1.trainable_variables()[0]
    with tf.control_dependencies([update]):
        return [tf1.assign(weights, tf.clip_by_norm(weights, 0.5, axes=[0])).op]


def follows_softly(loss, rate, x):
    variables = tf1.trainable_variables()
    targets = [
        tf1.get_variable(f"target_{v.op.name}", initializer=tf.ones(v.shape)) for v in variables
    ]
    update = tf1.train.AdamOptimizer(0.01).minimize(loss, var_list=variables)
    with tf.control_dependencies([update]):
        follow = [tf1.assign(t, 0.9 * t + 0.1 * v) for t, v in zip(targets, variables)]
    return [tf.group(*(tf.convert_to_tensor(now) for now in follow))]


@pytest.mark.parametrize("train_op", [max_norm, follows_softly])
def test_what_is_written_beside_the_update_is_stocks(train_op):
    assert_stocks(program(train_op), rows, 2)


def rate_by_rows(loss, rate, x):
    rate = 0.01 * tf.cast(tf.shape(x)[0], tf.float32)
    return [tf1.train.MomentumOptimizer(rate, 0.9).minimize(loss)]


def rate_by_trust(loss, rate, x):
    variables = tf1.trainable_variables()
    gradients = tf.gradients(loss, variables)
    updates = [
        tf1.train.MomentumOptimizer(rate * tf.norm(v) / tf.norm(g), 0.9).apply_gradients([(g, v)])
        for g, v in zip(gradients, variables)
    ]
    return [tf.group(*updates)]


def rate_by_the_largest(loss, rate, x):
    return [tf1.train.GradientDescentOptimizer(0.01 * tf.reduce_max(x)).minimize(loss)]


@pytest.mark.parametrize("train_op", [rate_by_rows, rate_by_trust, rate_by_the_largest])
def test_rates_that_follow_the_rows_are_those_of_all(train_op):
    assert_stocks(program(train_op), rows, 2)


def test_a_new_value_that_is_not_made_of_gradients_alone_is_stocks():
    def build():
        x = tf1.placeholder(tf.float32, [None, COLUMNS])
        centres = programs.weights("centres", 4, COLUMNS)
        distances = tf.reduce_sum(tf.square(x[:, None] - centres[None]), -1)
        nearest = tf.one_hot(tf.argmin(distances, 1), 4)
        means = tf.matmul(nearest, x, transpose_a=True) / (
            tf.reduce_sum(nearest, 0)[:, None] + 1e-3
        )
        return [x], [tf1.assign(centres, 0.8 * centres + 0.2 * means).op]

    def points(random):
        return [random.standard_normal((24, COLUMNS)).astype(np.float32)]

    assert_stocks(build, points, 2)


def weighted(weigh):
    def build():
        x, y = tf1.placeholder(tf.float32, [None, COLUMNS]), tf1.placeholder(tf.float32, [None])
        out = tf.squeeze(tf.matmul(x, programs.weights("out", COLUMNS, 1)), 1)
        value = weigh(tf.square(out - y), x, y)
        return [x, y], [tf1.train.GradientDescentOptimizer(0.05).minimize(value)]

    return build


def labelled(random):
    x = random.standard_normal((24, COLUMNS)).astype(np.float32)
    return x, x.sum(1)


def advantage(each, x, y):
    return tf.reduce_mean(each * (y - tf.reduce_mean(y)) / (tf.math.reduce_std(y) + 1e-6))


def rare(bound):
    def weigh(each, x, y):
        few = tf.cast(x[:, 0] > 1.5, tf.float32)
        return tf.reduce_sum(each * (0.1 + few)) / bound(tf.reduce_sum(few))

    return weigh


def test_deviations_that_are_computed_apart_from_the_mean_are_those_of_all_rows():
    assert_stocks(weighted(advantage), labelled, 3)


def getting_rarer():
    """Returns batches of which half of the rows count at first, and later two, one or none."""
    batches = iter(range(1000))

    def rows_of(random):
        x, y = labelled(random)
        batch = next(batches)
        count = 12 if batch == 0 else batch % 3
        x[:, 0] = 0
        x[np.linspace(0, 23, count, dtype=int), 0] = 2
        return x, y

    return rows_of


def test_totals_held_up_by_a_constant_are_those_of_all_rows():
    """Also if a shard, or a whole batch, has no rows that count."""
    weigh = rare(lambda total: tf.maximum(total, 1.0))
    _, stock, _, _ = train(weighted(weigh), getting_rarer(), tf1.Session, steps=20)
    _, ours, took_part, _ = train(weighted(weigh), getting_rarer(), learners(2), steps=20)
    assert took_part == 2
    np.testing.assert_allclose(ours["out"], stock["out"], rtol=1e-4)


@pytest.mark.parametrize(
    "weigh, count",
    [
        (lambda each, x, y: tf.reduce_logsumexp(each), 2),
        (lambda each, x, y: tf.reduce_mean(each) + 0.5 * tf.math.reduce_variance(each), 3),
    ],
    ids=["logsumexp", "variance"],
)
def test_weights_that_follow_from_all_rows_are_those_of_all(weigh, count):
    assert_stocks(weighted(weigh), labelled, count)


def softmax_of_the_batch(each, x, y):
    return tf.reduce_sum(tf.nn.softmax(0.3 * x[:, 0], axis=0) * each)


def test_a_softmax_over_rows_is_that_of_all_rows():
    assert_stocks(weighted(softmax_of_the_batch), labelled, 2)


def test_a_softmax_over_rows_is_one_learners_where_models_are_averaged():
    build = weighted(softmax_of_the_batch)
    _, stock, _, _ = train(build, labelled, tf1.Session)
    options = {"synchroniser": tensorbow.SMA()}
    _, ours, took_part, said = train(build, labelled, learners(2, **options))
    assert took_part == 1 and len(said) == 1
    assert "Softmax 'Softmax' works along the rows" in without_lines(said[0])
    np.testing.assert_array_equal(ours["out"], stock["out"])


def embedded(train_op, resource):
    """Returns rows of a table, whose gradients are some rows of it."""

    def build():
        ids, y = tf1.placeholder(tf.int32, [None, 2]), tf1.placeholder(tf.int32, [None])
        with tf1.variable_scope("", use_resource=resource):
            words = tf.nn.embedding_lookup(programs.weights("table", 30, 8), ids)
            logits = tf.matmul(tf.reduce_mean(words, 1), programs.weights("out", 8, CLASSES))
            each = tf1.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
            return [ids, y], train_op(tf.reduce_mean(each), 0.3, ids)

    return build


def words_of(random):
    return random.randint(0, 30, (24, 2)), random.randint(0, CLASSES, 24)


def clip_lengths(gradients, most=0.02):
    return [tf.clip_by_norm(gradient, most) for gradient in gradients]


def clip_values(gradients, most=0.01):
    def clip(gradient):
        if not isinstance(gradient, tf.IndexedSlices):
            return tf.clip_by_value(gradient, -most, most)
        values = tf.clip_by_value(gradient.values, -most, most)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)

    return [clip(gradient) for gradient in gradients]


def momentum(rate):
    return tf1.train.MomentumOptimizer(rate, 0.9)


OF_ROWS = [
    tf1.train.GradientDescentOptimizer,
    momentum,
    tf1.train.AdamOptimizer,
    tf1.train.AdagradOptimizer,
]


@pytest.mark.parametrize(
    "transform, optimiser, resource",
    programs.in_turn([clip_by_global_norm, clip_lengths, clip_values], OF_ROWS, [True, False]),
)
def test_gradients_of_rows_that_are_clipped_are_stocks(transform, optimiser, resource):
    """All rows are clipped, before equal ones are added up; also if the first are too small to be
    clipped."""
    for most in (1e3, 0.01):
        transform_now = functools.partial(transform, most=most)
        assert_stocks(embedded(by_optimiser(transform_now, optimiser), resource), words_of, 2)


@pytest.mark.parametrize("optimiser, resource", programs.in_turn(OF_ROWS, [True, False]))
def test_gradients_of_rows_that_are_only_scaled_are_averaged(optimiser, resource):
    def halve(gradients):
        return [tf1.scalar_mul(0.5, gradient) for gradient in gradients]

    assert_stocks(embedded(by_optimiser(halve, optimiser), resource), words_of, 2)


@pytest.fixture(params=["functional", "TensorFlow 1's"])
def control_flow(request):
    """Selects the kind of loops."""
    functional = tf1.control_flow_v2_enabled()
    switches = {True: tf1.enable_control_flow_v2, False: tf1.disable_control_flow_v2}
    switches[request.param == "functional"]()
    yield request.param
    switches[functional]()


@pytest.mark.parametrize(
    "transform, count", [(clip_by_global_norm, 2), (clip_lengths, 3), (clip_values, 3)]
)
def test_gradients_that_leave_a_loop_together_are_those_of_all_rows(transform, count, control_flow):
    """TensorFlow makes them wait for each other, where learners would wait for all of them."""

    def build():
        x, y = tf1.placeholder(tf.float32, [None, COLUMNS]), tf1.placeholder(tf.int32, [None])
        begin = tf.matmul(x, programs.weights("in", COLUMNS, 8))
        again = programs.weights("again", 8, 8)
        _, hidden = tf.while_loop(
            lambda step, _: step < 4,
            lambda step, h: (step + 1, tf.tanh(tf.matmul(h, again) + begin)),
            [0, tf.zeros_like(begin)],
        )
        logits = tf.matmul(hidden, programs.weights("out", 8, CLASSES))
        each = tf1.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
        return [x, y], by_optimiser(transform)(tf.reduce_mean(each), 0.3, x)

    assert_stocks(build, lambda random: rows(random)[:2], count)


def test_clipped_gradients_of_unknown_shape_are_stocks():
    def clip_unknown(gradients):
        first, *others = gradients
        return clip_values([tf1.placeholder_with_default(first, None), *others])

    assert_stocks(program(by_optimiser(clip_unknown)), rows, 2)
