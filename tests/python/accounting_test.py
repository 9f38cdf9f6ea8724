"""Every element of an input pipeline is used exactly once, by the learner that asks first."""

import threading

import numpy as np
import pytest
import tensorflow as tf
from programs import session

tf1 = tf.compat.v1

ELEMENTS = 1_000_000
BATCH = 1000


class Account:
    """Counts how often each element was used by learners' tasks."""

    def __init__(self, elements):
        self._uses = np.zeros(elements, np.int32)
        self._lock = threading.Lock()
        self.threads = set()

    def note(self, values):
        with self._lock:
            np.add.at(self._uses, values, 1)
            self.threads.add(threading.get_ident())
        return values

    def assert_each_used(self, times):
        unlike = np.flatnonzero(self._uses != times)
        assert not len(unlike), (len(unlike), unlike[:5], self._uses[unlike[:5]])


def train_on(elements, account):
    """Makes a training step on a batch of element numbers, which learners and proofs record."""
    noted = tf1.py_func(account.note, [elements], tf.int64, stateful=False)
    w = tf1.get_variable("w", initializer=np.float32(0))
    loss = tf.reduce_mean(tf.square(w - tf.cast(noted, tf.float32) / ELEMENTS))
    return tf1.train.GradientDescentOptimizer(1e-3).minimize(loss)


def run_to_the_end(s, train):
    runs = 0
    with pytest.raises(tf.errors.OutOfRangeError):
        while runs <= ELEMENTS:
            s.run(train)
            runs += 1
    return runs


@pytest.mark.parametrize("elements", ["one_each", "divided"])
@pytest.mark.parametrize("learners", [1, 4])
def test_a_million_elements_through_tf_data(learners, elements):
    account = Account(ELEMENTS)
    graph = tf.Graph()
    with graph.as_default():
        dataset = tf1.data.Dataset.range(ELEMENTS).shuffle(10_000, seed=1).batch(BATCH)
        dataset = dataset.map(lambda v: v + 0, num_parallel_calls=2).prefetch(4)
        iterator = tf1.data.make_initializable_iterator(dataset)
        train = train_on(iterator.get_next(), account)
        init = tf1.global_variables_initializer()
    together = learners if elements == "one_each" else 1
    with session(graph, learners, elements=elements, proof="off") as s:
        s.run(init)
        for epoch in (1, 2) if learners > 1 else (1,):
            s.run(iterator.initializer)
            assert run_to_the_end(s, train) == ELEMENTS // BATCH // together
            account.assert_each_used(epoch)
            assert s.samples_seen == epoch * ELEMENTS
            assert s.learning_tasks == epoch * ELEMENTS // BATCH * (learners // together)
    assert len(account.threads) >= learners


def test_a_million_elements_through_a_shuffle_queue():
    """Three threads fill the queue while four learners empty it; the last batch is short."""
    learners, elements = 4, ELEMENTS + 7
    account = Account(elements)
    graph = tf.Graph()
    with graph.as_default():
        source = tf1.data.make_one_shot_iterator(tf1.data.Dataset.range(elements).batch(BATCH))
        queue = tf1.RandomShuffleQueue(20 * BATCH, 5 * BATCH, [tf.int64], [[]], seed=1)
        fill = queue.enqueue_many(source.get_next())
        tf1.train.add_queue_runner(tf1.train.QueueRunner(queue, [fill] * 3))
        train = train_on(queue.dequeue_up_to(BATCH), account)
        size = queue.size()
        init = tf1.global_variables_initializer()
    with session(graph, learners, proof="off") as s:
        s.run(init)
        coordinator = tf1.train.Coordinator()
        with graph.as_default():
            threads = tf1.train.start_queue_runners(s, coordinator)
        run_to_the_end(s, train)
        coordinator.request_stop()
        coordinator.join(threads)
        account.assert_each_used(1)
        assert s.samples_seen == elements
        assert s.run(size) == 0
    assert len(account.threads) >= learners


@pytest.mark.parametrize("shuffled", [False, True])
def test_elements_of_single_steps_and_runs_of_a_queue_runner(shuffled):
    """tf.train.batch and shuffle_batch, a reader in front, several epochs."""
    account = Account(300)
    graph = tf.Graph()
    with graph.as_default():
        number = tf1.train.range_input_producer(300, num_epochs=3, shuffle=shuffled).dequeue()
        number = tf.cast(number, tf.int64)
        if shuffled:
            batch = tf1.train.shuffle_batch(
                [number], 7, 60, 20, num_threads=2, allow_smaller_final_batch=True
            )
        else:
            batch = tf1.train.batch([number], 7, num_threads=2, allow_smaller_final_batch=True)
        train = train_on(batch, account)
        init = [tf1.global_variables_initializer(), tf1.local_variables_initializer()]
    with session(graph, 3, proof="off") as s:
        s.run(init)
        coordinator = tf1.train.Coordinator()
        with graph.as_default():
            threads = tf1.train.start_queue_runners(s, coordinator)
        run_to_the_end(s, train)
        coordinator.request_stop()
        coordinator.join(threads)
        account.assert_each_used(3)
        assert s.samples_seen == 900
