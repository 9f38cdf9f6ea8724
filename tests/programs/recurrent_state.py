"""Recurrent state with the batch in front, [None, units], fetched and fed back."""

import numpy as np
import tensorflow as tf

from tests.programs._harness import Outcome, Quality
from tests.programs._layers import dense

tf1 = tf.compat.v1

QUALITY = Quality("mean squared error", higher_is_better=False, tolerance=0.01)


def train(sessions, seed, directory):
    x = tf1.placeholder(tf.float32, [None, 1])
    y = tf1.placeholder(tf.float32, [None, 1])
    state = tf1.placeholder(tf.float32, [None, 8])
    new_state = dense(tf.concat([x, state], 1), 8, "cell", tf.tanh)
    loss = tf.reduce_mean(tf.square(dense(new_state, 1, "out") - y))
    train_op = tf1.train.AdamOptimizer(5e-3).minimize(loss)

    phase = np.linspace(0, 2 * np.pi, 16)[:, None]
    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        carried, losses = np.zeros([16, 8]), []
        for t in range(500):
            now, then = np.sin(0.3 * t + phase), np.sin(0.3 * (t + 1) + phase)
            feed = {x: now, y: then, state: carried}
            _, carried, value = sess.run([train_op, new_state, loss], feed_dict=feed)
            losses.append(value)
    return Outcome(float(np.mean(losses[-20:])), {"state": carried})
