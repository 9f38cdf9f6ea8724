"""A tower on each of two GPUs, gradients averaged, as in the multi-GPU tutorial."""

import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import accuracy_of, classifier, cross_entropy

tf1 = tf.compat.v1

QUALITY = Quality("test accuracy", higher_is_better=True, tolerance=0.02)


def train(sessions, seed, directory):
    (x_train, y_train), (x_test, y_test) = _data.digits()
    x = tf1.placeholder(tf.float32, [None, 64])
    y = tf1.placeholder(tf.int32, [None])
    half = tf.shape(x)[0] // 2
    optimizer = tf1.train.AdamOptimizer(5e-3)
    tower_gradients = []
    for i, rows in enumerate([slice(None, half), slice(half, None)]):
        with tf1.device(f"/gpu:{i}"), tf1.name_scope(f"tower_{i}"):
            loss = cross_entropy(classifier(x[rows]), y[rows])
            tower_gradients.append(optimizer.compute_gradients(loss))
    with tf1.device("/cpu:0"):
        averaged = [((a + b) / 2, variable) for (a, variable), (b, _) in zip(*tower_gradients)]
        train_op = optimizer.apply_gradients(averaged)
        accuracy = accuracy_of(classifier(x), y)

    config = tf1.ConfigProto(allow_soft_placement=True)
    with sessions.Session(config=config) as sess:
        sess.run(tf1.global_variables_initializer())
        for xs, ys in _data.batches(x_train, y_train, 60, 12, seed):
            _, last = sess.run([train_op, loss], feed_dict={x: xs, y: ys})
        final = sess.run(accuracy, feed_dict={x: x_test, y: y_test})
    return Outcome(final, {"last loss": last})
