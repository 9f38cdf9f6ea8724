"""Character RNN: fixed [batch, time] placeholders, state fetched and fed back."""

import numpy as np
import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import cross_entropy, dense

tf1 = tf.compat.v1

QUALITY = Quality("loss per character", higher_is_better=False, tolerance=0.1)


BATCH, TIME, UNITS = 8, 10, 24


def train(sessions, seed, directory):
    text, characters = _data.ring_text()
    x = tf1.placeholder(tf.int32, [BATCH, TIME])
    y = tf1.placeholder(tf.int32, [BATCH, TIME])
    state = tf1.placeholder(tf.float32, [BATCH, UNITS])
    w = tf1.get_variable("w", [characters + UNITS, UNITS])
    b = tf1.get_variable("b", [UNITS], initializer=tf1.zeros_initializer())
    h, losses = state, []
    for t in range(TIME):
        h = tf.tanh(tf.matmul(tf.concat([tf.one_hot(x[:, t], characters), h], 1), w) + b)
        losses.append(cross_entropy(dense(h, characters, "logits"), y[:, t]))
    loss = tf.add_n(losses) / TIME
    train_op = tf1.train.AdamOptimizer(0.01).minimize(loss)

    rows = len(text) // BATCH
    streams = text[: rows * BATCH].reshape(BATCH, rows)
    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        for _ in range(2):
            carried, total = np.zeros([BATCH, UNITS]), []
            for begin in range(0, rows - TIME - 1, TIME):
                feed = {
                    x: streams[:, begin : begin + TIME],
                    y: streams[:, begin + 1 : begin + TIME + 1],
                    state: carried,
                }
                _, carried, value = sess.run([train_op, h, loss], feed)
                total.append(value)
    return Outcome(float(np.mean(total)), {"state": carried, "last loss": value})
