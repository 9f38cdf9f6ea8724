"""Linear regression on the sum of squared errors, with a learning rate for the sum."""

import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality

tf1 = tf.compat.v1

QUALITY = Quality("mean squared error", higher_is_better=False, tolerance=0.002)


def train(sessions, seed, directory):
    x_data, y_data = _data.linear_rows(640, 12, seed)
    x = tf1.placeholder(tf.float32, [None, 12])
    y = tf1.placeholder(tf.float32, [None])
    w = tf1.get_variable("w", [12, 1], initializer=tf1.zeros_initializer())
    b = tf1.get_variable("b", [1], initializer=tf1.zeros_initializer())
    squares = tf.square(tf.squeeze(tf.matmul(x, w) + b, 1) - y)
    loss = tf.reduce_sum(squares)
    train_op = tf1.train.GradientDescentOptimizer(5e-4).minimize(loss)

    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        losses = []
        for xs, ys in _data.batches(x_data[:512], y_data[:512], 32, 8, seed):
            losses.append(sess.run([train_op, loss], feed_dict={x: xs, y: ys})[1])
        final = sess.run(squares, feed_dict={x: x_data[512:], y: y_data[512:]}).mean()
        weights = sess.run(w)
    return Outcome(final, {"losses": losses, "w": weights})
