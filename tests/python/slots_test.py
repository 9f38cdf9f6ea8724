"""Hand-written updates through slots: the value of a read that waits for a write."""

import numpy as np
import pytest
import tensorflow as tf
from programs import rows, session

tf1 = tf.compat.v1


def program(update):
    """Makes linear regression whose weights and slot are written by `update`."""
    graph = tf.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [None, 2])
        y = tf1.placeholder(tf.float32, [None])
        w = tf1.get_variable("w", initializer=np.float32([0.1, 0.5]), use_resource=True)
        m = tf1.get_variable(
            "m", initializer=np.zeros(2, np.float32), trainable=False, use_resource=True
        )
        loss = tf.reduce_mean((tf.linalg.matvec(x, w) - y) ** 2)
        run = update(w, m, tf.gradients(loss, w)[0])
        init = tf1.global_variables_initializer()
    return graph, x, y, w, m, run, init


def momentum_by_slot(w, m, gradient):
    with tf.control_dependencies([m.assign(0.5 * m.read_value() + gradient, read_value=False)]):
        velocity = m.read_value()
    return w.assign_sub(0.05 * velocity, read_value=False)


def replaced_from_slot(w, m, gradient):
    """Updates as FTRL: the slot accumulates, the weights are computed from it alone."""
    with tf.control_dependencies([m.assign_add(w.read_value() - gradient, read_value=False)]):
        total = m.read_value()
    return w.assign(0.05 * total, read_value=False)


@pytest.mark.parametrize("update", [momentum_by_slot, replaced_from_slot])
def test_an_update_computed_from_a_slot_just_written_is_learning(update):
    graph, x, y, w, _, run, init = program(update)
    inputs, targets = rows(8)
    with session(graph) as s:
        s.run(init)
        for _ in range(3):
            s.run(run, {x: inputs, y: targets})
        assert s.learning_tasks == 6
        assert not np.array_equal(s.learner_value(w, 0), s.learner_value(w, 1))


def test_swapping_weights_with_their_average_is_a_write():
    def swap(w, m, _):
        old, average = w.read_value(), m.read_value()
        with tf.control_dependencies([old, average]):
            return tf.group(w.assign(average), m.assign(old))

    graph, _, _, w, m, run, init = program(swap)
    with session(graph) as s:
        s.run(init)
        s.run(run)
        assert s.learning_tasks == 0
        np.testing.assert_array_equal(s.run(w), [0, 0])
        np.testing.assert_array_equal(s.run(m), np.float32([0.1, 0.5]))
