"""Actors that query the model before they give the learners their data."""

import threading

import numpy as np
import pytest
import tensorflow as tf
from programs import session

tf1 = tf.compat.v1

RUNS = 100
IN_TIME = tf1.RunOptions(timeout_in_ms=60_000)  # instead of waiting for ever


class Program:
    """A program whose w learns the actors' values; they record the model's earlier answers."""

    def __init__(self, elements_of):
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.x = tf1.placeholder(tf.float32, [None])
            self.w = tf1.get_variable("w", initializer=np.float32(0))
            self.answer = self.w * self.x
            asked = tf1.get_variable("asked", initializer=0, trainable=False)
            self.asked = asked
            self.note = tf1.assign_add(asked, 1)
            loss = tf.square(self.w - elements_of(self))
            self.train = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
            self.init = tf1.global_variables_initializer()

    def ask(self, s):
        (answer,) = s.run(self.answer, {self.x: [1]})
        s.run(self.note)
        return answer


@pytest.mark.parametrize("learners", [1, 2, 3])
def test_learners_that_wait_for_an_actor_do_not_keep_it_waiting(learners):
    def elements(p):
        queue = tf1.FIFOQueue(4, [tf.float32], [[]])
        p.send = queue.enqueue(tf.reduce_mean(p.x))
        return queue.dequeue()

    p = Program(elements)
    answers, errors = [], []

    def actor():
        try:
            for _ in range(RUNS * learners):
                answers.append(p.ask(s))
                s.run(p.send, {p.x: [1]})
        except Exception as error:
            errors.append(error)

    with session(p.graph, learners, elements="one_each") as s:
        s.run(p.init)
        thread = threading.Thread(target=actor)
        thread.start()
        try:
            for _ in range(RUNS):
                s.run(p.train, options=IN_TIME)
        except tf.errors.DeadlineExceededError:
            s.close()
            raise
        finally:
            thread.join()
        assert not errors
        assert s.run(p.asked) == RUNS * learners
        assert s.learning_tasks == RUNS * learners
    # The actor saw the model learn: its answer is at most a few runs old.
    assert answers[0] == 0
    assert answers[-1] > 0.9
    assert len(set(answers)) > 20


@pytest.mark.parametrize("learners", [1, 2])
def test_generator_of_a_pipeline_may_ask_the_model(learners):
    answers = []

    def generate():
        for _ in range(RUNS):
            answers.append(p.ask(s))
            yield np.float32(1)

    def elements(p):
        dataset = tf1.data.Dataset.from_generator(generate, tf.float32, [])
        return tf1.data.make_one_shot_iterator(dataset).get_next()

    p = Program(elements)
    with session(p.graph, learners, elements="one_each") as s:
        s.run(p.init)
        with pytest.raises(tf.errors.OutOfRangeError):
            while s.learning_tasks <= RUNS:
                s.run(p.train, options=IN_TIME)
        assert s.learning_tasks == RUNS
        assert s.run(p.asked) == RUNS
    assert answers[-1] > 0.9


@pytest.mark.parametrize("resource", [True, False])
def test_what_is_written_beside_waiting_learners_reaches_them(resource):
    """An actor that assigns the trained variable while learners wait for it."""
    graph = tf.Graph()
    with graph.as_default():
        w = tf1.get_variable("w", initializer=np.float32(0), use_resource=resource)
        queue = tf1.FIFOQueue(4, [tf.float32], [[]])
        send = queue.enqueue_many(np.zeros(2, np.float32))
        loss = 0 * w * queue.dequeue()
        train = tf1.train.GradientDescentOptimizer(0.1).minimize(loss)
        assign = w.assign(5)
        init = tf1.global_variables_initializer()
    with session(graph, elements="one_each") as s:
        s.run(init)
        s.run(send)
        s.run(train)

        def actor():
            s.run(assign)
            s.run(send)

        thread = threading.Thread(target=actor)
        thread.start()
        s.run(train, options=IN_TIME)
        thread.join()
        s.run(send)
        s.run(train)
        assert s.run(w) == 5
        assert [s.learner_value(w, j) for j in range(2)] == [5, 5]
