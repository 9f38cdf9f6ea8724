"""Time-major feeds, [time, batch], with as many steps as sequences; targets by sequence."""

import numpy as np
import tensorflow as tf

from tests.programs._harness import Outcome, Quality
from tests.programs._layers import dense

tf1 = tf.compat.v1

QUALITY = Quality("mean squared error", higher_is_better=False, tolerance=0.02)

BATCH = 16


def train(sessions, seed, directory):
    random = np.random.RandomState(seed)
    x = tf1.placeholder(tf.float32, [None, BATCH])
    y = tf1.placeholder(tf.float32, [None])
    hidden = dense(tf.reshape(x, [-1, 1]), 8, "hidden", tf.nn.relu)
    each = tf.reshape(dense(hidden, 1, "out"), tf.shape(x))
    loss = tf.reduce_mean(tf.square(tf.reduce_mean(each, 0) - y))
    train_op = tf1.train.AdamOptimizer(0.01).minimize(loss)

    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        losses = []
        for _ in range(200):
            # Sequences of all lengths up to one, that of a whole batch.
            values = random.rand(BATCH, BATCH) * random.rand(BATCH)
            feed = {x: values, y: np.sqrt(values).mean(0)}
            losses.append(sess.run([train_op, loss], feed_dict=feed)[1])
    return Outcome(float(np.mean(losses[-10:])), {"losses": losses})
