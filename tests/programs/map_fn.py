"""map_fn over the rows of a batch and foldl over the layers."""

import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality

tf1 = tf.compat.v1

QUALITY = Quality("mean squared error", higher_is_better=False, tolerance=0.02)


def train(sessions, seed, directory):
    inputs, targets = _data.linear_rows(256, 4, seed)
    x = tf1.placeholder(tf.float32, [None, 4])
    y = tf1.placeholder(tf.float32, [None])
    w = tf1.get_variable("w", [4], initializer=tf1.zeros_initializer())
    b = tf1.get_variable("b", [], initializer=tf1.zeros_initializer())
    prediction = tf1.map_fn(lambda row: tf.reduce_sum(row * w) + b, x)
    squares = tf1.foldl(lambda total, pair: total + tf.square(pair), prediction - y, 0.0)
    loss = squares / tf.cast(tf.shape(x)[0], tf.float32)
    train_op = tf1.train.AdamOptimizer(0.05).minimize(loss)
    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        for xs, ys in _data.batches(inputs, targets, 32, 12, seed):
            _, predicted = sess.run([train_op, prediction], {x: xs, y: ys})
        final, value = sess.run([loss, w], {x: inputs, y: targets})
    return Outcome(final, {"w": value, "last predictions": predicted})
