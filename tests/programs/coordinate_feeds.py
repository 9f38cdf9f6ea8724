"""Graph convolution whose edges are fed as dense arrays: indices [None, 2], values [None]."""

import numpy as np
import tensorflow as tf

from tests.programs._harness import Outcome, Quality
from tests.programs._layers import dense
from tests.programs.graph_network import NODES, graph

tf1 = tf.compat.v1

QUALITY = Quality("accuracy of unlabelled nodes", higher_is_better=True, tolerance=0.05)


def train(sessions, seed, directory):
    (edges, weights, shape), features_value, labels_value = graph(seed)
    indices = tf1.placeholder(tf.int64, [None, 2])
    values = tf1.placeholder(tf.float32, [None])
    features = tf1.placeholder(tf.float32, [NODES, 6])
    labels = tf1.placeholder(tf.int32, [NODES])
    mask = tf1.placeholder(tf.float32, [NODES])
    adjacency = tf.SparseTensor(indices, values, shape)

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
        indices: edges,
        values: weights,
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
