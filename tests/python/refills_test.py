"""Learners that refill the queue that they take from do not wait for each other for ever.

Two elements exist at the start, and four learners take one each in a run that adds as many. The
gradient of the loss w·element is the element, so w shows which were taken.
"""

import numpy as np
import pytest
import tensorflow as tf
from programs import session

import tensorbow

tf1 = tf.compat.v1

RUNS = 25
IN_TIME = tf1.RunOptions(timeout_in_ms=30_000)  # instead of waiting for ever
STORES = ["staging_area", "queue", "map_staging_area"]


def put_and_take(store, element):
    """Returns the op that adds `element`, and an element that is taken."""
    if store == "queue":
        queue = tf1.FIFOQueue(8, [tf.float32], [[]])
        return queue.enqueue(element), queue.dequeue()
    if store == "staging_area":
        put = tf.raw_ops.Stage(values=[element], capacity=8, shared_name="area")
        (taken,) = tf.raw_ops.Unstage(dtypes=[tf.float32], capacity=8, shared_name="area")
        return put, taken
    put = tf.raw_ops.OrderedMapStage(
        key=tf.cast(element, tf.int64),
        indices=[0],
        values=[element],
        dtypes=[tf.float32],
        shared_name="map",
    )
    _, (taken,) = tf.raw_ops.OrderedMapUnstageNoKey(
        indices=[0], dtypes=[tf.float32], shared_name="map"
    )
    return put, taken


class Program:
    def __init__(self, store, refill_after_update=False, optimiser=None):
        self.graph = tf.Graph()
        with self.graph.as_default():
            numbers = tf1.data.make_one_shot_iterator(tf.data.Dataset.range(10_000))
            number = tf.cast(numbers.get_next(), tf.float32)
            number.set_shape([])
            self.w = tf1.get_variable("w", initializer=np.float32(0))
            self.put, self.taken = put_and_take(store, number)
            self.taken.set_shape([])
            optimiser = optimiser or tf1.train.GradientDescentOptimizer(0.01)
            update = optimiser.minimize(self.w * self.taken)
            self.train = tf.group(update, self.put)
            if refill_after_update:
                with tf.control_dependencies([update]):
                    late = tf.raw_ops.Stage(
                        values=[tf.identity(number)], capacity=8, shared_name="area"
                    )
                self.train = tf.group(late)
            self.init = tf1.global_variables_initializer()

    def run(self, s):
        s.run(self.init)
        for _ in range(2):
            s.run(self.put)
        for _ in range(RUNS):
            s.run(self.train, options=IN_TIME)


@pytest.mark.parametrize("store", STORES)
def test_gradients_are_averaged_while_learners_refill_what_they_take_from(store):
    p = Program(store)
    with session(p.graph, 4, elements="one_each", synchroniser=tensorbow.SSGD()) as s:
        p.run(s)
        assert s.learning_tasks == 4 * RUNS
        left = s.run(p.taken) + s.run(p.taken)
        np.testing.assert_allclose(
            s.run(p.w), -0.01 / 4 * (np.arange(4 * RUNS + 2).sum() - left), rtol=1e-5
        )


def test_what_refills_after_an_update_trains_on_one_learner_under_ssgd():
    p = Program("staging_area", refill_after_update=True)
    with session(p.graph, 4, elements="one_each", synchroniser=tensorbow.SSGD()) as s:
        with pytest.warns(tensorbow.TensorBowWarning, match="to a queue after an update"):
            p.run(s)
        np.testing.assert_allclose(s.run(p.w), -0.01 * np.arange(RUNS).sum(), rtol=1e-5)


def test_auto_is_one_learner_where_refills_come_after_an_update():
    p = Program("staging_area", refill_after_update=True)
    with session(p.graph, 4, elements="one_each", synchroniser="auto") as s:
        with pytest.warns(tensorbow.TensorBowWarning, match="to a queue after an update"):
            p.run(s)
        assert s.learning_tasks == RUNS
        np.testing.assert_allclose(s.run(p.w), -0.01 * np.arange(RUNS).sum(), rtol=1e-5)
