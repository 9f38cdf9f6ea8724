"""Losses that mix rows: learners exchange the rows and train as stock does.

Every loss and all weights of several runs, with batches of uneven size, against a stock session in
float64.
"""

import warnings

import numpy as np
import pytest
import tensorflow as tf

import tensorbow
from tests.python.divided_programs import in_turn

tf1 = tf.compat.v1
SIZES = (7, 8, 12, 3, 5)


def embed(x, name="embed"):
    """Returns embeddings of 5 numbers."""
    values = np.random.RandomState(len(name)).randn(int(x.shape[1]), 5)
    return tf.tanh(tf.matmul(x, tf1.get_variable(name, dtype=tf.float64, initializer=values)))


def contrastive(x, y):
    logits = tf.matmul(embed(x), tf.nn.l2_normalize(embed(y, "other"), 1), transpose_b=True)
    labels = tf.range(tf.shape(x)[0])
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )


def diagonal(x, y):
    logits = tf.matmul(embed(x), embed(y, "other"), transpose_b=True)
    return -tf.reduce_mean(tf.linalg.diag_part(tf.nn.log_softmax(logits)))


def hardest(x, y):
    errors = tf.reduce_sum(tf.square(embed(x) - y), 1)
    return tf.reduce_mean(tf.nn.top_k(errors, k=3).values)


def below_median(x, y):
    errors = tf.reduce_sum(tf.square(embed(x) - y), 1)
    median = tf.sort(errors)[tf.shape(errors)[0] // 2]
    return tf.reduce_mean(tf.minimum(errors, median))


def ranking(x, y):
    score, target = embed(x)[:, 0], y[:, 0]
    before = tf.cast(target[:, None] > target[None, :], tf.float64)
    apart = tf.nn.softplus(score[None, :] - score[:, None])
    return tf.reduce_sum(before * apart) / (tf.reduce_sum(before) + 1e-9)


def triplet(x, y):
    squared = tf.reduce_sum(tf.square(embed(x)[:, None] - embed(x, "again")[None]), -1)
    same = tf.cast(tf.equal(y[:, :1] > 0, tf.transpose(y[:, :1] > 0)), tf.float64)
    positive = tf.reduce_max(squared * same, 1)
    negative = tf.reduce_min(squared + 1e3 * same, 1)
    return tf.reduce_mean(tf.nn.relu(positive - negative + 0.5))


def next_row(x, y):
    hidden = embed(x)
    return tf.reduce_mean(tf.square(hidden - tf.roll(hidden, 1, 0) - y))


def backwards(x, y):
    return tf.reduce_mean(tf.square(embed(x) - tf.reverse(y, [0])))


def first_row(x, y):
    hidden = embed(x)
    return tf.reduce_mean(tf.square(hidden * hidden[:1] - y))


def stateless_noise(x, y):
    noise = tf.random.stateless_normal(tf.shape(y), [1, 2], dtype=tf.float64)
    return tf.reduce_mean(tf.square(embed(x) + noise - y))


def shared_negatives(x, y):
    table = tf1.get_variable("table", initializer=np.arange(30.0).reshape(6, 5) / 30)
    ids = tf.cast(tf.abs(y[:, 0]) * 2, tf.int32) % 6
    right = tf.reduce_sum(embed(x) * tf.gather(table, ids), 1)
    wrong = tf.matmul(embed(x), tf.gather(table, [1, 4, 4]), transpose_b=True)
    return tf.reduce_mean(wrong) - tf.reduce_mean(right)


def best_row(x, y):
    """Selects one row of all, whose gradient has as many rows."""
    return tf.reduce_mean(tf.square(tf.gather(embed(x), tf.argmax(tf.reduce_sum(y, 1)))))


def rows_by_places(x, y):
    rows = tf.shape(x)[0]
    return tf.reduce_mean(embed(x) * tf.gather(embed(y, "other"), (tf.range(rows) + 2) % rows))


def diagonal_of_rows(x, y):
    return tf.reduce_mean(tf.linalg.diag_part(embed(x)))


def repeated_rows(x, y):
    embedded = embed(x)
    return tf.reduce_mean(tf.square(tf.tile(embedded, [2, 1])[: tf.shape(x)[0]] + embedded))


def places_as_classes(x, y):
    """Computes with the numbers of all rows, beside a learner's own rows."""
    classes = tf.minimum(tf.range(tf.shape(x)[0]), 3)
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=classes, logits=embed(x))
    )


LOSSES = [
    best_row,
    rows_by_places,
    diagonal_of_rows,
    repeated_rows,
    places_as_classes,
    contrastive,
    diagonal,
    hardest,
    below_median,
    ranking,
    triplet,
    next_row,
    backwards,
    first_row,
    stateless_noise,
    shared_negatives,
]


def train(loss_of, session, extra=lambda loss, x: []):
    """Returns the fetches of every run, the final weights, and why one learner trained."""
    random = np.random.RandomState(3)
    with tf.Graph().as_default(), tf1.variable_scope("", reuse=tf1.AUTO_REUSE):
        x = tf1.placeholder(tf.float64, [None, 4])
        y = tf1.placeholder(tf.float64, [None, 5])
        loss = loss_of(x, y)
        step = tf1.train.AdamOptimizer(0.05).minimize(loss)
        fetches = [loss, *extra(loss, x)]
        weights = tf1.trainable_variables()
        with session() as sess:
            sess.run(tf1.global_variables_initializer())
            seen, why = [], None
            for rows in SIZES:
                feed = {x: random.randn(rows, 4), y: random.randn(rows, 5)}
                if isinstance(sess, tensorbow.TensorBowSession):
                    why = sess.explain([step, fetches], feed).why
                seen.append(sess.run([fetches, step], feed)[0])
            return seen, sess.run(weights), why


def on_learners(count):
    options = tensorbow.Options(learners_per_device=count)
    return lambda: tensorbow.TensorBowSession(options=options)


@pytest.mark.parametrize("loss_of, count", in_turn(LOSSES, [2, 3]))
@pytest.mark.filterwarnings("ignore::tensorbow.TensorBowWarning")  # more learners than cores
def test_learners_train_as_stock(loss_of, count):
    wanted, weights, _ = train(loss_of, tf1.Session)
    seen, ours, why = train(loss_of, on_learners(count))
    assert why == ""
    np.testing.assert_allclose(seen, wanted, rtol=1e-12, atol=1e-12)
    for value, stocks in zip(ours, weights):
        np.testing.assert_allclose(value, stocks, rtol=1e-11, atol=1e-12)


def test_a_summary_of_rows_is_that_of_all_rows():
    def summary(loss, x):
        return [
            tf1.summary.merge([tf1.summary.histogram("x", x), tf1.summary.scalar("loss", loss)])
        ]

    def loss_of(x, y):
        return tf.reduce_max(tf.abs(embed(x) - y))

    wanted, _, _ = train(loss_of, tf1.Session, summary)
    seen, _, why = train(loss_of, on_learners(2), summary)
    assert why == ""
    assert [serialised for _, serialised in seen] == [serialised for _, serialised in wanted]


def test_candidates_are_those_of_all_rows():
    def draw(x, y):
        labels = tf.cast(tf.abs(y[:, :1]) * 5, tf.int64) % 20
        return tf.random.log_uniform_candidate_sampler(labels, 1, 4, True, 20, seed=7)

    def loss_of(x, y):
        _, expected, sampled = draw(x, y)
        weight = tf.cast(expected, tf.float64) + tf.cast(tf.reduce_sum(sampled), tf.float64)
        return tf.reduce_mean(weight * tf.square(embed(x)[:, :1] - y[:, :1]))

    wanted, weights, _ = train(loss_of, tf1.Session)
    seen, ours, why = train(loss_of, on_learners(2))
    assert why == ""
    np.testing.assert_allclose(seen, wanted, rtol=1e-6)
    np.testing.assert_allclose(ours[0], weights[0], rtol=1e-6)


def test_one_learner_mixes_rows_before_weights():
    def towers(x, y):
        embed(x)
        half = tf.shape(x)[0] // 2
        halves = [(x[:half], y[:half]), (x[half:], y[half:])]
        return tf.add_n([tf.reduce_mean(tf.square(embed(a) - b)) for a, b in halves])

    wanted, weights, _ = train(towers, tf1.Session)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        seen, ours, why = train(towers, on_learners(2))
    assert "would compute the model from all rows on every learner" in why
    assert any("MatMul" in str(w.message) for w in caught)
    np.testing.assert_array_equal(seen, wanted)
    np.testing.assert_array_equal(ours, weights)


def test_one_learner_writes_slices_in_a_conditional():
    def conditional(session):
        with tf.Graph().as_default():
            ids = tf1.placeholder(tf.int32, [None])
            values = tf1.placeholder(tf.float64, [None])
            flag = tf1.placeholder(tf.bool, [])
            table = tf1.get_variable("table", initializer=np.zeros(4))
            optimizer = tf1.train.GradientDescentOptimizer(1.0)
            pairs = optimizer.compute_gradients(tf.reduce_mean(values * tf.gather(table, ids)))

            def apply():
                with tf.control_dependencies([optimizer.apply_gradients(pairs)]):
                    return tf.constant(True)

            step = tf1.cond(flag, apply, lambda: tf.constant(False))
            with session() as sess:
                sess.run(tf1.global_variables_initializer())
                sess.run(step, {ids: [0, 0, 1, 1, 2, 2, 0, 1], values: np.ones(8), flag: True})
                return sess.run(table)

    wanted = conditional(tf1.Session)
    with pytest.warns(tensorbow.TensorBowWarning, match="slices of rows in a conditional"):
        ours = conditional(on_learners(2))
    np.testing.assert_array_equal(ours, wanted)
