"""Siamese network: the first half of a batch is compared with the second, x[:n//2], x[n//2:]."""

import numpy as np
import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import dense

tf1 = tf.compat.v1

QUALITY = Quality("accuracy of test pairs", higher_is_better=True, tolerance=0.03)

PAIRS = 32


def pairs(x, y, random):
    """Returns PAIRS images and their partners, every other one of the same digit."""
    first, candidates = random.randint(len(x), size=[2, PAIRS])
    same = np.arange(PAIRS) % 2 == 0
    second = [
        next(j for j in np.roll(np.arange(len(x)), -start) if (y[i] == y[j]) == s)
        for i, start, s in zip(first, candidates, same)
    ]
    rows = np.concatenate([first, second])
    return x[rows], y[rows]


def train(sessions, seed, directory):
    (x_train, y_train), (x_test, y_test) = _data.digits()
    x = tf1.placeholder(tf.float32, [None, 64])
    y = tf1.placeholder(tf.int32, [None])
    n = tf.shape(x)[0]
    first, second = x[: n // 2], x[n // 2 :]
    same = tf.equal(y[: n // 2], y[n // 2 :])

    def embedding(images):
        return dense(dense(images, 48, "hidden", tf.nn.relu), 16, "embedding")

    squared = tf.reduce_sum(tf.square(embedding(first) - embedding(second)), 1)
    distance = tf.sqrt(squared + 1e-6)
    apart = tf.square(tf.nn.relu(2.0 - distance))
    loss = tf.reduce_mean(tf.where(same, squared, apart))
    right = tf.equal(distance < 1.0, same)
    accuracy = tf.reduce_mean(tf.cast(right, tf.float32))
    train_op = tf1.train.AdamOptimizer(5e-3).minimize(loss)

    random = np.random.RandomState(seed)
    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        losses = []
        for _ in range(200):
            xs, ys = pairs(x_train, y_train, random)
            losses.append(sess.run([train_op, loss], feed_dict={x: xs, y: ys})[1])
        tests = [pairs(x_test, y_test, random) for _ in range(10)]
        final = np.mean([sess.run(accuracy, {x: xs, y: ys}) for xs, ys in tests])
    return Outcome(float(final), {"losses": losses})
