"""Graph convolution with a dense adjacency matrix, [None, None], and all nodes fed."""

import numpy as np
import tensorflow as tf

from tests.programs._harness import Outcome, Quality
from tests.programs._layers import dense

tf1 = tf.compat.v1

QUALITY = Quality("accuracy of unlabelled nodes", higher_is_better=True, tolerance=0.05)


NODES = 60


def train(sessions, seed, directory):
    random = np.random.RandomState(seed)
    classes = np.arange(NODES) % 2
    chance = np.where(classes[:, None] == classes[None], 0.15, 0.02)
    matrix = np.triu(random.rand(NODES, NODES) < chance, 1)
    matrix = (matrix | matrix.T | np.eye(NODES, dtype=bool)).astype(np.float32)
    matrix /= matrix.sum(1, keepdims=True)

    adjacency = tf1.placeholder(tf.float32, [None, None])
    features = tf1.placeholder(tf.float32, [None, 6])
    labels = tf1.placeholder(tf.int32, [None])
    mask = tf1.placeholder(tf.float32, [None])
    hidden = tf.nn.relu(tf.matmul(adjacency, dense(features, 8, "first")))
    logits = tf.matmul(adjacency, dense(hidden, 2, "second"))
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    hits = tf.cast(tf.equal(tf.argmax(logits, 1, output_type=tf.int32), labels), tf.float32)
    loss = tf.reduce_sum(losses * mask) / tf.reduce_sum(mask)
    accuracy = tf.reduce_sum(hits * mask) / tf.reduce_sum(mask)
    train_op = tf1.train.AdamOptimizer(0.02).minimize(loss)

    feed = {
        adjacency: matrix,
        features: random.randn(NODES, 6) + classes[:, None],
        labels: classes,
        mask: (np.arange(NODES) < 20).astype(np.float32),
    }
    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        for _ in range(100):
            _, last = sess.run([train_op, loss], feed_dict=feed)
        feed[mask] = 1 - feed[mask]
        final = sess.run(accuracy, feed_dict=feed)
    return Outcome(final, {"last loss": last})
