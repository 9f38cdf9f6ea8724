"""Partitioned variables: a sharded embedding and a sharded layer."""

import numpy as np
import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import accuracy_of, cross_entropy

tf1 = tf.compat.v1

QUALITY = Quality("test accuracy", higher_is_better=True, tolerance=0.05)


def train(sessions, seed, directory):
    random = np.random.RandomState(seed)
    ids_value = random.randint(50, size=(1200, 3))
    labels_value = (np.isin(ids_value, np.arange(0, 50, 3)).sum(1) > 1).astype(np.int32)
    ids = tf1.placeholder(tf.int64, [None, 3])
    y = tf1.placeholder(tf.int32, [None])
    with tf1.variable_scope("net", partitioner=tf1.fixed_size_partitioner(3)):
        table = tf1.get_variable("table", [50, 8])
        embedded = tf1.nn.embedding_lookup(table, ids, partition_strategy="div")
        w = tf1.get_variable("w", [24, 2])
    logits = tf.matmul(tf.reshape(embedded, [-1, 24]), tf.convert_to_tensor(w))
    loss = cross_entropy(logits, y)
    accuracy = accuracy_of(logits, y)
    train_op = tf1.train.AdamOptimizer(0.02).minimize(loss)

    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        for xs, ys in _data.batches(ids_value[:1000], labels_value[:1000], 50, 8, seed):
            _, last = sess.run([train_op, loss], {ids: xs, y: ys})
        final = sess.run(accuracy, {ids: ids_value[1000:], y: labels_value[1000:]})
        parts = len(list(table))
    return Outcome(final, {"last loss": last, "parts": parts})
