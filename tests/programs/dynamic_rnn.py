"""dynamic_rnn over padded sequences of fed lengths, batch in front."""

import numpy as np
import tensorflow as tf

from tests.programs._harness import Outcome, Quality
from tests.programs._layers import dense

tf1 = tf.compat.v1

QUALITY = Quality("mean squared error", higher_is_better=False, tolerance=0.02)


class Cell:
    """The class that 1.x programs took from rnn_cell, which needs Keras 2."""

    state_size = output_size = 12

    def zero_state(self, rows, dtype):
        return tf.zeros([rows, self.state_size], dtype)

    def __call__(self, inputs, state, scope=None):
        state = dense(tf.concat([inputs, state], 1), self.state_size, "cell", tf.tanh)
        return state, state


def train(sessions, seed, directory):
    random = np.random.RandomState(seed)
    x = tf1.placeholder(tf.float32, [None, 9, 1])
    lengths = tf1.placeholder(tf.int32, [None])
    y = tf1.placeholder(tf.float32, [None])
    rows = tf.shape(x)[0]
    initial = Cell().zero_state(rows, tf.float32)
    _, last = tf1.nn.dynamic_rnn(Cell(), x, sequence_length=lengths, initial_state=initial)
    loss = tf.reduce_mean(tf.square(tf.squeeze(dense(last, 1, "out"), 1) - y))
    train_op = tf1.train.AdamOptimizer(0.01).minimize(loss)

    losses = []
    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        for _ in range(150):
            n = random.randint(3, 10, size=24)
            values = random.rand(24, 9, 1) * (np.arange(9)[None, :, None] < n[:, None, None])
            feed = {x: values, lengths: n, y: values.sum((1, 2)) / n}
            losses.append(sess.run([train_op, loss], feed_dict=feed)[1])
    return Outcome(float(np.mean(losses[-20:])), {"losses": losses[::30]})
