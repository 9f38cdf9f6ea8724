"""Steps of gradient descent inside a while_loop, three to a run."""

import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality

tf1 = tf.compat.v1

QUALITY = Quality("mean squared error", higher_is_better=False, tolerance=0.02)


def train(sessions, seed, directory):
    inputs, targets = _data.linear_rows(256, 4, seed)
    x = tf1.placeholder(tf.float32, [None, 4])
    y = tf1.placeholder(tf.float32, [None])
    w = tf1.get_variable("w", [4, 1], initializer=tf1.zeros_initializer(), use_resource=True)
    b = tf1.get_variable("b", [1], initializer=tf1.zeros_initializer(), use_resource=True)

    def error():
        return tf.reduce_mean(tf.square(tf.squeeze(tf.matmul(x, w) + b, 1) - y))

    def body(i):
        gradients = tf1.gradients(error(), [w, b])
        updates = [tf1.assign_sub(v, 0.05 * g) for v, g in zip([w, b], gradients)]
        with tf1.control_dependencies(updates):
            return i + 1

    train_op = tf1.while_loop(lambda i: i < 3, body, [0], parallel_iterations=1)
    loss = error()
    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        for xs, ys in _data.batches(inputs, targets, 32, 10, seed):
            sess.run(train_op, {x: xs, y: ys})
        final, value = sess.run([loss, w], {x: inputs, y: targets})
    return Outcome(final, {"w": value})
