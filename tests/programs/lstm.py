"""LSTM over the rows of an image: while_loop, TensorArray, time-major as dynamic_rnn."""

import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import accuracy_of, cross_entropy, dense

tf1 = tf.compat.v1

QUALITY = Quality("test accuracy", higher_is_better=True, tolerance=0.05)


def lstm(inputs, units):
    """Runs an LSTM cell over [rows, time, columns]; returns the last output."""
    time_major = tf.transpose(inputs, [1, 0, 2])
    steps = int(time_major.shape[0])
    columns = int(time_major.shape[2])
    w = tf1.get_variable("lstm/w", [columns + units, 4 * units])
    b = tf1.get_variable("lstm/b", [4 * units], initializer=tf1.zeros_initializer())
    rows = tf.shape(inputs)[0]
    pieces = tf.TensorArray(tf.float32, steps).unstack(time_major)

    def step(t, c, h):
        gates = tf.matmul(tf.concat([pieces.read(t), h], 1), w) + b
        i, j, f, o = tf.split(gates, 4, 1)
        c = c * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
        return t + 1, c, tf.tanh(c) * tf.sigmoid(o)

    zeros = tf.zeros([rows, units])
    zeros.set_shape([None, units])
    _, _, last = tf1.while_loop(lambda t, c, h: t < steps, step, [0, zeros, zeros])
    return last


def train(sessions, seed, directory):
    (x_train, y_train), (x_test, y_test) = _data.digits()
    x = tf1.placeholder(tf.float32, [None, 8, 8])
    y = tf1.placeholder(tf.int32, [None])
    logits = dense(lstm(x, 24), 10, "logits")
    loss = cross_entropy(logits, y)
    accuracy = accuracy_of(logits, y)
    optimizer = tf1.train.AdamOptimizer(0.01)
    gradients, variables = zip(*optimizer.compute_gradients(loss))
    gradients, norm = tf.clip_by_global_norm(gradients, 5.0)
    train_op = optimizer.apply_gradients(zip(gradients, variables))

    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        for xs, ys in _data.batches(x_train, y_train, 50, 9, seed):
            _, last, n = sess.run([train_op, loss, norm], {x: xs.reshape(-1, 8, 8), y: ys})
        final = sess.run(accuracy, {x: x_test.reshape(-1, 8, 8), y: y_test})
    return Outcome(final, {"last loss": last, "gradient norm": n})
