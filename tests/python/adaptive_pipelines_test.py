"""Adaptive SGD on data pipelines: small elements are combined to a learner's batch."""

import numpy as np
import pytest
import tensorflow as tf

import tensorbow

tf1 = tf.compat.v1


def pipeline_session(dataset, pulled, **arguments):
    """Returns a session, its training operation whose tasks add `pulled(element)` to w, and w."""
    with tf.Graph().as_default() as graph:
        element = tf1.data.make_one_shot_iterator(dataset()).get_next()
        w = tf1.get_variable("w", [], initializer=tf1.zeros_initializer(), use_resource=True)
        loss = -w * pulled(element)
        train = tf1.train.GradientDescentOptimizer(1.0).minimize(loss)
        init = tf1.global_variables_initializer()
    adaptive = tensorbow.AdaptiveSGD(momentum=0.0, mega_batch=10_000, **arguments)
    options = tensorbow.Options(synchroniser=adaptive, learners_per_device=2)
    session = tensorbow.TensorBowSession(graph=graph, options=options)
    session.run(init)
    return session, train, w


def run_dry(session, train):
    for runs in range(100):
        try:
            session.run(train)
        except tf.errors.OutOfRangeError:
            return runs
    raise AssertionError("the data did not end")


@pytest.mark.parametrize(
    "rows, total, batches", [(1, 96, 6), (3, 90, 6), (5, 90, 6), (16, 96, 6), (40, 80, 2)]
)
def test_small_elements_of_pipelines_are_put_together(rows, total, batches):
    """Takes as many whole elements as fit into 16 rows: 16, 15, 15, 16 or 40 rows."""

    def dataset():
        x = np.arange(total, dtype=np.float32)
        return tf.data.Dataset.from_tensor_slices((x, np.stack([x, -x], 1))).batch(rows)

    def pulled(element):
        x, y = element
        whole = tf.reduce_all(tf.equal(y, tf.stack([x, -x], 1)))
        return tf.where(whole, 1.0, float("nan"))

    session, train, w = pipeline_session(dataset, pulled, b_max=16)
    with session:
        assert run_dry(session, train) == batches / 2
        assert session.samples_seen == total
        assert session.learning_tasks == batches
        assert session.run(w) == batches / 2


def test_the_end_of_a_pipeline_makes_smaller_batches():
    session, train, w = pipeline_session(
        lambda: tf.data.Dataset.range(44).batch(4),
        lambda x: tf.reduce_sum(tf.ones_like(x, tf.float32)),
        b_max=16,
    )
    with session:
        # 32 rows and 12, of one learner or both.
        assert run_dry(session, train) == 2
        assert session.samples_seen == 44
        assert session.learning_tasks in (3, 4)


@pytest.mark.parametrize("kind", ["static", "text", "table", "no b_max"])
def test_elements_that_may_not_be_put_together_stay_as_they_are(kind):
    """Elements of a known number of rows; with components of other numbers of rows; without a
    b_max."""

    def dataset():
        x = tf.data.Dataset.from_tensor_slices(np.arange(24, dtype=np.float32))
        batched = x.batch(4, drop_remainder=kind == "static")
        if kind == "table":  # 4 rows, and 3 of another component
            return batched.map(lambda x: (x, tf.range(tf.cast(3 + 0 * x[0], tf.int32))))
        if kind == "text":
            return batched.map(lambda x: (x, tf.strings.as_string(x)))
        return batched

    def pulled(element):
        x = element[0] if isinstance(element, tuple) else element
        return tf.reduce_sum(tf.cast(x >= 0, tf.float32)) / 4

    session, train, w = pipeline_session(dataset, pulled, b_max=None if kind == "no b_max" else 8)
    with session:
        together = kind == "text"  # strings can be concatenated, too
        assert run_dry(session, train) == (2 if together else 3)
        # The last 8 rows may be one learner's or both's.
        assert session.learning_tasks in ((3, 4) if together else (6,))
        assert session.run(w) > 0
