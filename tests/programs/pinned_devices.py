"""Variables pinned to /cpu:0, layers to /gpu:0, soft placement."""

import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import accuracy_of, cross_entropy

tf1 = tf.compat.v1

QUALITY = Quality("test accuracy", higher_is_better=True, tolerance=0.02)


def train(sessions, seed, directory):
    (x_train, y_train), (x_test, y_test) = _data.digits()
    with tf1.device("/cpu:0"):
        x = tf1.placeholder(tf.float32, [None, 64])
        y = tf1.placeholder(tf.int32, [None])
        w = tf1.get_variable("w", [64, 10])
        b = tf1.get_variable("b", [10], initializer=tf1.zeros_initializer())
    with tf1.device("/device:GPU:0"):
        logits = tf.matmul(x, w) + b
        loss = cross_entropy(logits, y)
    with tf1.device("/cpu:0"):
        train_op = tf1.train.AdamOptimizer(0.02).minimize(loss)
        accuracy = accuracy_of(logits, y)

    config = tf1.ConfigProto(allow_soft_placement=True)
    with sessions.Session(config=config) as sess:
        sess.run(tf1.global_variables_initializer())
        for xs, ys in _data.batches(x_train, y_train, 50, 12, seed):
            _, last = sess.run([train_op, loss], feed_dict={x: xs, y: ys})
        final = sess.run(accuracy, feed_dict={x: x_test, y: y_test})
    return Outcome(final, {"last loss": last})
