"""Bottleneck values computed first, then fed into the middle of the graph."""

import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import accuracy_of, cross_entropy, dense

tf1 = tf.compat.v1

QUALITY = Quality("test accuracy", higher_is_better=True, tolerance=0.02)


def train(sessions, seed, directory):
    (x_train, y_train), (x_test, y_test) = _data.digits()
    x = tf1.placeholder(tf.float32, [None, 64])
    y = tf1.placeholder(tf.int32, [None])
    frozen = tf1.get_variable("frozen", [64, 64], trainable=False)
    bottleneck = tf.nn.relu(tf.matmul(x, frozen))
    logits = dense(bottleneck, 10, "logits")
    loss = cross_entropy(logits, y)
    accuracy = accuracy_of(logits, y)
    train_op = tf1.train.AdamOptimizer(0.01).minimize(loss)

    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        cached = sess.run(bottleneck, {x: x_train})
        for values, ys in _data.batches(cached, y_train, 50, 20, seed):
            _, last = sess.run([train_op, loss], {bottleneck: values, y: ys})
        final = sess.run(accuracy, {x: x_test, y: y_test})
    return Outcome(final, {"last loss": last})
