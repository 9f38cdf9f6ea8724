"""py_func in the input of every step: augmentation in numpy."""

import numpy as np
import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import accuracy_of, classifier, cross_entropy

tf1 = tf.compat.v1

QUALITY = Quality("test accuracy", higher_is_better=True, tolerance=0.02)


def train(sessions, seed, directory):
    (x_train, y_train), (x_test, y_test) = _data.digits()

    def brighter(images):
        return np.clip(images * np.float32(1.2), 0, 1)

    x = tf1.placeholder(tf.float32, [None, 64])
    y = tf1.placeholder(tf.int32, [None])
    augmented = tf1.py_func(brighter, [x], tf.float32)
    augmented.set_shape([None, 64])
    logits = classifier(augmented)
    loss = cross_entropy(logits, y)
    accuracy = accuracy_of(logits, y)
    train_op = tf1.train.AdamOptimizer(5e-3).minimize(loss)

    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        for xs, ys in _data.batches(x_train, y_train, 50, 18, seed):
            _, last = sess.run([train_op, loss], feed_dict={x: xs, y: ys})
        final = sess.run(accuracy, feed_dict={x: x_test, y: y_test})
    return Outcome(final, {"last loss": last})
