"""tf.data over placeholders, initialised again in every epoch; the same iterator tests."""

import numpy as np
import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import accuracy_of, classifier, cross_entropy

tf1 = tf.compat.v1

QUALITY = Quality("test accuracy", higher_is_better=True, tolerance=0.02)


def train(sessions, seed, directory):
    (x_train, y_train), test_set = _data.digits()
    images = tf1.placeholder(tf.float32, [None, 64])
    labels = tf1.placeholder(tf.int32, [None])
    dataset = tf1.data.Dataset.from_tensor_slices((images, labels))
    iterator = tf1.data.make_initializable_iterator(dataset.shuffle(500, seed=seed).batch(32))
    x, y = iterator.get_next()
    logits = classifier(x)
    loss = cross_entropy(logits, y)
    accuracy = accuracy_of(logits, y)
    train_op = tf1.train.AdamOptimizer(8e-3).minimize(loss)

    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        for _ in range(16):
            sess.run(iterator.initializer, {images: x_train, labels: y_train})
            while True:
                try:
                    sess.run([train_op, loss])
                except tf.errors.OutOfRangeError:
                    break
        sess.run(iterator.initializer, dict(zip([images, labels], test_set)))
        hits = []
        while True:
            try:
                hits.append(sess.run(accuracy))
            except tf.errors.OutOfRangeError:
                break
    return Outcome(float(np.mean(hits)), {"accuracies": hits})
