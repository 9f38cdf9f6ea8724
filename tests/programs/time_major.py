"""Sequences with time in front, [time, batch], next to lengths with the batch in front."""

import numpy as np
import tensorflow as tf

from tests.programs._harness import Outcome, Quality
from tests.programs._layers import dense

tf1 = tf.compat.v1

QUALITY = Quality("mean squared error", higher_is_better=False, tolerance=0.02)


def train(sessions, seed, directory):
    random = np.random.RandomState(seed)
    x = tf1.placeholder(tf.float32, [None, None])
    lengths = tf1.placeholder(tf.int32, [None])
    y = tf1.placeholder(tf.float32, [None])
    mask = tf.transpose(tf.sequence_mask(lengths, tf.shape(x)[0], tf.float32))
    hidden = dense(tf.reshape(x, [-1, 1]), 8, "hidden", tf.nn.relu)
    each = tf.reshape(dense(hidden, 1, "out"), tf.shape(x)) * mask
    prediction = tf.reduce_sum(each, 0) / tf.cast(lengths, tf.float32)
    loss = tf.reduce_mean(tf.square(prediction - y))
    train_op = tf1.train.AdamOptimizer(0.01).minimize(loss)

    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        for _ in range(150):
            n = random.randint(1, 8, size=16)
            values = random.rand(n.max(), 16) * (np.arange(n.max())[:, None] < n)
            feed = {x: values, lengths: n, y: np.sqrt(values).sum(0) / n}
            _, last = sess.run([train_op, loss], feed_dict=feed)
    return Outcome(float(last), {})
