"""Linear classifier on a SparseTensor that is fed row by row, libSVM style."""

import numpy as np
import tensorflow as tf

from tests.programs._harness import Outcome, Quality
from tests.programs._layers import accuracy_of, cross_entropy

tf1 = tf.compat.v1

QUALITY = Quality("test accuracy", higher_is_better=True, tolerance=0.05)


COLUMNS = 40


def rows(count, random):
    """Returns rows of five ones; the label is whether most of them lie in the first half."""
    at = np.stack([np.sort(random.choice(COLUMNS, 5, replace=False)) for _ in range(count)])
    labels = ((at < COLUMNS // 2).sum(1) > 2).astype(np.int32)
    indices = [[row, column] for row in range(count) for column in at[row]]
    return tf1.SparseTensorValue(indices, np.ones(5 * count), [count, COLUMNS]), labels


def train(sessions, seed, directory):
    random = np.random.RandomState(seed)
    x = tf1.sparse_placeholder(tf.float32, [None, COLUMNS])
    y = tf1.placeholder(tf.int32, [None])
    w = tf1.get_variable("w", [COLUMNS, 2])
    b = tf1.get_variable("b", [2], initializer=tf1.zeros_initializer())
    logits = tf1.sparse_tensor_dense_matmul(x, w) + b
    loss = cross_entropy(logits, y)
    accuracy = accuracy_of(logits, y)
    train_op = tf1.train.FtrlOptimizer(0.3).minimize(loss)

    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        for _ in range(60):
            values, labels = rows(32, random)
            _, last = sess.run([train_op, loss], feed_dict={x: values, y: labels})
        values, labels = rows(300, np.random.RandomState(0))
        final = sess.run(accuracy, feed_dict={x: values, y: labels})
    return Outcome(final, {"last loss": last})
