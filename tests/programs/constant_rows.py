"""Recurrent network whose first state, tf.zeros([32, units]), has the rows of a batch built in."""

import numpy as np
import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import accuracy_of, cross_entropy, dense

tf1 = tf.compat.v1

QUALITY = Quality("test accuracy", higher_is_better=True, tolerance=0.03)

BATCH, UNITS = 32, 24


def train(sessions, seed, directory):
    (x_train, y_train), (x_test, y_test) = _data.digits()
    x = tf1.placeholder(tf.float32, [None, 64])
    y = tf1.placeholder(tf.int32, [None])
    state = tf.zeros([BATCH, UNITS])
    for line in tf.unstack(tf.reshape(x, [-1, 8, 8]), axis=1):
        state = dense(tf.concat([line, state], 1), UNITS, "cell", tf.tanh)
    logits = dense(state, 10, "logits")
    loss, accuracy = cross_entropy(logits, y), accuracy_of(logits, y)
    train_op = tf1.train.AdamOptimizer(8e-3).minimize(loss)

    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        losses = []
        for xs, ys in _data.batches(x_train, y_train, BATCH, 5, seed):
            losses.append(sess.run([train_op, loss], feed_dict={x: xs, y: ys})[1])
        parts = [slice(i, i + BATCH) for i in range(0, 288, BATCH)]
        tests = [sess.run(accuracy, {x: x_test[part], y: y_test[part]}) for part in parts]
    return Outcome(float(np.mean(tests)), {"losses": losses})
