"""Values that learners compute from the rows of a batch, besides gradients, are stock's.

Running metrics, counters, moving averages, extremes and denominators of masked means, against a
stock session on the same rows.
"""

import warnings

import numpy as np
import pytest
import tensorflow as tf

import tensorbow
from tests.python import divided_programs as programs

tf1 = tf.compat.v1
ROWS, COLUMNS = 32, 20


def train(build, data, session, steps=8):
    """Returns every fetch of every run, and all final variables; the number of learners,
    warnings."""
    random = np.random.RandomState(5)
    with tf.Graph().as_default(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        feeds, fetches = build()
        variables = tf1.global_variables() + tf1.local_variables()
        with session() as sess:
            sess.run([tf1.global_variables_initializer(), tf1.local_variables_initializer()])
            seen = [sess.run(fetches, dict(zip(feeds, data(random)))) for _ in range(steps)]
            values = dict(zip([v.op.name for v in variables], sess.run(variables)))
            took_part = getattr(sess, "learning_tasks", 1) / getattr(sess, "iterations", 1)
    said = [str(w.message) for w in caught if w.category is tensorbow.TensorBowWarning]
    return seen, values, took_part, said


def learners(count, **more):
    options = tensorbow.Options(learners_per_device=count, **more)
    return lambda: tensorbow.TensorBowSession(options=options)


def assert_stocks(build, data, count, fetched=True, steps=8, **more):
    """Trains on `count` learners, all of them, to stock's values."""
    wanted, stock, _, _ = train(build, data, tf1.Session, steps)
    seen, ours, took_part, said = train(build, data, learners(count, **more), steps)
    assert said == [] and took_part == count
    for name, value in stock.items():
        scale = np.abs(value).max() if value.size else 0
        np.testing.assert_allclose(ours[name], value, rtol=3e-4, atol=3e-4 * scale, err_msg=name)
    for ours_now, stocks_now in zip(seen, wanted):
        for a, b in zip(ours_now, stocks_now):
            if fetched and b is not None:
                np.testing.assert_allclose(a, b, rtol=1e-4)


def classifier(extra=lambda x, y, logits: [], loss=None):
    """Returns feeds, and [train, loss, *extra]."""

    def build():
        x, y = tf1.placeholder(tf.float32, [None, COLUMNS]), tf1.placeholder(tf.int32, [None])
        hidden = tf.nn.relu(tf.matmul(x, programs.weights("in", COLUMNS, 64)))
        logits = tf.matmul(hidden, programs.weights("out", 64, 5))
        each = tf1.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
        value = (loss or tf.reduce_mean)(each)
        fetches = extra(x, y, logits)
        return [x, y], [programs.train_op(value), value, *fetches]

    return build


def accuracy(x, y, logits):
    return [tf1.metrics.accuracy(y, tf.argmax(logits, 1))[1]]


def state(dtype, *shape):
    return tf1.get_variable("state", shape, dtype, tf1.zeros_initializer(), trainable=False)


def rows_seen(x, y, logits):
    return [tf1.assign_add(state(tf.int64), tf.shape(x, out_type=tf.int64)[0])]


def rows_seen_by_hand(x, y, logits):
    seen = state(tf.float32)
    return [tf1.assign(seen, seen + tf.cast(tf.shape(x)[0], tf.float32))]


def moving_mean(x, y, logits):
    average = state(tf.float32, COLUMNS)
    return [tf1.assign_sub(average, 0.1 * (average - tf.reduce_mean(x, 0))).op]


def assigned_mean(x, y, logits):
    return [tf1.assign(state(tf.float32, COLUMNS), tf.reduce_mean(x * x, 0)).op]


def classes_seen(x, y, logits):
    return [tf1.assign_add(state(tf.float32, 5), tf.reduce_sum(tf.one_hot(y, 5), 0)).op]


@pytest.mark.parametrize(
    "extra, count",
    programs.in_turn(
        [rows_seen, accuracy, rows_seen_by_hand, moving_mean, classes_seen, assigned_mean], [2, 3]
    ),
)
def test_state_that_is_computed_from_rows_is_stocks(extra, count):
    """32 rows on three learners are shards of 11, 11 and 10."""
    assert_stocks(classifier(extra), programs.plain, count)


def test_state_is_estimated_from_own_rows_where_models_are_averaged():
    """A learner's sums stand for those of all rows: twice their own."""
    build = classifier(classes_seen)
    options = {"synchroniser": tensorbow.SMA()}
    _, values, took_part, said = train(build, programs.plain, learners(2, **options), 4)
    assert took_part == 2 and said == []
    assert values["state"].sum() == pytest.approx(4 * ROWS)


def centres(x, y, logits):
    return [tf1.scatter_sub(state(tf.float32, 5, 5), y, 0.5 * logits).op]


def centre_of_rows(x, y, logits):
    centre = state(tf.float32, 5, 5)
    pulled = tf.gather(centre, y) - logits
    return [tf1.scatter_sub(centre, y, 0.05 * pulled).op]


def largest(x, y, logits):
    seen = state(tf.float32, COLUMNS)
    return [tf1.assign(seen, tf.maximum(seen, tf.reduce_max(x, 0))).op]


def deviation(x, y, logits):
    return [tf1.assign(state(tf.float32, COLUMNS), tf.math.reduce_std(x, 0)).op]


def any_class(x, y, logits):
    return [tf1.assign(state(tf.bool, 5), tf.reduce_any(tf.one_hot(y, 5) > 0, 0)).op]


@pytest.mark.parametrize(
    "extra, loss",
    programs.in_turn(
        [centres, centre_of_rows, largest, deviation, any_class], [tf.reduce_mean, tf.reduce_sum]
    ),
)
def test_state_that_is_no_mean_and_no_sum_is_stocks(extra, loss):
    def slowly(each):
        return loss(each) if loss is tf.reduce_mean else 0.03 * loss(each)

    assert_stocks(classifier(extra, slowly), programs.plain, 2)


def hardest_class(x, y, logits):
    return [tf1.assign(state(tf.int32), y[tf.argmax(tf.reduce_max(logits, 1))]).op]


def test_state_that_mixes_rows_is_stocks():
    assert_stocks(classifier(hardest_class), programs.plain, 3)


def counted_after_the_update():
    feeds, (train_op, loss) = classifier()()
    with tf.control_dependencies([train_op]):
        counted = tf1.assign_add(state(tf.int32), tf.shape(feeds[0])[0])
    return feeds, [counted, loss]


def test_state_that_is_computed_after_an_update_is_stocks():
    assert_stocks(counted_after_the_update, programs.plain, 2)


def masked(divide):
    def build():
        mask = tf1.placeholder(tf.float32, [None])
        inputs, fetches = classifier(loss=lambda each: divide(each, mask))()
        return [*inputs, mask], fetches

    return build


def by_number(each, mask):
    return tf.reduce_sum(each * mask) / tf.reduce_sum(mask)


def by_tf1_losses(each, mask):
    return tf1.losses.compute_weighted_loss(each, mask)


def by_normalised_weights(each, mask):
    return tf.reduce_sum(each * (mask / (tf.reduce_sum(mask) + 1e-8)))


def without_nan(each, mask):
    return tf.math.divide_no_nan(tf.reduce_sum(each * mask), tf.reduce_sum(mask))


def and_regularised(each, mask):
    penalty = tf.add_n([tf.nn.l2_loss(v) for v in tf1.trainable_variables()])
    return by_number(each, mask) + 1e-2 * penalty


DENOMINATORS = [by_number, by_tf1_losses, by_normalised_weights, and_regularised, without_nan]


@pytest.mark.parametrize("divide, count", programs.in_turn(DENOMINATORS, [2, 3]))
def test_means_over_what_is_not_masked_are_stocks(divide, count):
    assert_stocks(masked(divide), programs.masked_data, count)


def test_masks_that_hide_nothing_at_first_hide_what_they_hide_later():
    """The masks of the first runs hide nothing."""
    runs = []

    def data(random):
        runs.append(1)
        x, y, mask = programs.masked_data(random)
        return [x, y, np.ones_like(mask) if len(runs) % 8 in (1, 2, 3) else mask]

    assert_stocks(masked(by_number), data, 2)


def test_a_batch_without_any_row_that_counts():
    def data(random):
        x, y, mask = programs.masked_data(random)
        return [x, y, mask * random.randint(2)]

    assert_stocks(masked(without_nan), data, 2)


def test_a_mean_over_chosen_rows_is_stocks():
    def chosen(each, mask):
        return tf.reduce_mean(tf.boolean_mask(each, mask > 0))

    assert_stocks(masked(chosen), programs.masked_data, 3)


def test_a_loss_of_the_variance_of_the_batch_is_stocks():
    def spread(each):
        return tf.square(tf1.nn.moments(each, [0])[1] - 1) + tf.reduce_mean(each)

    assert_stocks(classifier(loss=spread), programs.plain, 2)
