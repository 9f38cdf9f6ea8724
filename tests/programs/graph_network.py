"""Graph convolution on a whole graph: sparse adjacency, features and masks fed."""

import numpy as np
import tensorflow as tf

from tests.programs._harness import Outcome, Quality
from tests.programs._layers import dense

tf1 = tf.compat.v1

QUALITY = Quality("accuracy of unlabelled nodes", higher_is_better=True, tolerance=0.05)


NODES = 60


def graph(seed):
    """Returns two communities; a few noisy features show a little of the community."""
    random = np.random.RandomState(seed)
    labels = np.arange(NODES) % 2
    chance = np.where(labels[:, None] == labels[None], 0.15, 0.02)
    adjacency = np.triu(random.rand(NODES, NODES) < chance, 1)
    adjacency = adjacency | adjacency.T | np.eye(NODES, dtype=bool)
    degree = adjacency.sum(1)
    rows, columns = np.nonzero(adjacency)
    values = 1 / np.sqrt(degree[rows] * degree[columns])
    features = random.randn(NODES, 6) + labels[:, None]
    return (np.stack([rows, columns], 1), values, [NODES, NODES]), features, labels


def train(sessions, seed, directory):
    adjacency_value, features_value, labels_value = graph(seed)
    adjacency = tf1.sparse_placeholder(tf.float32)
    features = tf1.placeholder(tf.float32, [None, 6])
    labels = tf1.placeholder(tf.int32, [None])
    mask = tf1.placeholder(tf.float32, [None])

    def layer(x, units, name):
        return tf1.sparse_tensor_dense_matmul(adjacency, dense(x, units, name))

    logits = layer(tf.nn.relu(layer(features, 8, "first")), 2, "second")
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    loss = tf.reduce_sum(losses * mask) / tf.reduce_sum(mask)
    hits = tf.cast(tf.equal(tf.argmax(logits, 1, output_type=tf.int32), labels), tf.float32)
    accuracy = tf.reduce_sum(hits * mask) / tf.reduce_sum(mask)
    train_op = tf1.train.AdamOptimizer(0.02).minimize(loss)

    known = (np.arange(NODES) < 20).astype(np.float32)
    feed = {
        adjacency: tf1.SparseTensorValue(*adjacency_value),
        features: features_value,
        labels: labels_value,
        mask: known,
    }
    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        for _ in range(100):
            _, last = sess.run([train_op, loss], feed_dict=feed)
        feed[mask] = 1 - known
        final = sess.run(accuracy, feed_dict=feed)
    return Outcome(final, {"last loss": last})
