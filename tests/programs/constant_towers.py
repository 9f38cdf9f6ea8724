"""A tower on each of two GPUs that takes its rows by constants: x[i * 30 : (i + 1) * 30]."""

import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import accuracy_of, classifier, cross_entropy

tf1 = tf.compat.v1

QUALITY = Quality("test accuracy", higher_is_better=True, tolerance=0.02)

GPUS, BATCH = 2, 30


def train(sessions, seed, directory):
    (x_train, y_train), (x_test, y_test) = _data.digits()
    x = tf1.placeholder(tf.float32, [None, 64])
    y = tf1.placeholder(tf.int32, [None])
    optimizer = tf1.train.AdamOptimizer(5e-3)
    gradients, losses = [], []
    for i in range(GPUS):
        rows = slice(i * BATCH, (i + 1) * BATCH)
        with tf1.device(f"/gpu:{i}"), tf1.name_scope(f"tower_{i}"):
            losses.append(cross_entropy(classifier(x[rows]), y[rows]))
            gradients.append(optimizer.compute_gradients(losses[-1]))
    with tf1.device("/cpu:0"):
        loss = tf.add_n(losses) / GPUS
        averaged = [((a + b) / GPUS, variable) for (a, variable), (b, _) in zip(*gradients)]
        train_op = optimizer.apply_gradients(averaged)
        accuracy = accuracy_of(classifier(x), y)

    config = tf1.ConfigProto(allow_soft_placement=True)
    with sessions.Session(config=config) as sess:
        sess.run(tf1.global_variables_initializer())
        for xs, ys in _data.batches(x_train, y_train, GPUS * BATCH, 12, seed):
            _, last = sess.run([train_op, loss], feed_dict={x: xs, y: ys})
        final = sess.run(accuracy, feed_dict={x: x_test, y: y_test})
    return Outcome(final, {"last loss": last})
