"""The few layers the programs share, written as in 1.x tutorials."""

from __future__ import annotations

import tensorflow as tf

tf1 = tf.compat.v1


def dense(x, units, name, activation=None, use_resource=None):
    with tf1.variable_scope(name, reuse=tf1.AUTO_REUSE):
        w = tf1.get_variable(
            "w",
            [int(x.shape[-1]), units],
            initializer=tf1.glorot_uniform_initializer(),
            use_resource=use_resource,
        )
        b = tf1.get_variable(
            "b", [units], initializer=tf1.zeros_initializer(), use_resource=use_resource
        )
        y = tf1.nn.xw_plus_b(x, w, b)
        return activation(y) if activation else y


def conv(x, filters, size, name):
    with tf1.variable_scope(name, reuse=tf1.AUTO_REUSE):
        w = tf1.get_variable(
            "w",
            [size, size, int(x.shape[-1]), filters],
            initializer=tf1.glorot_uniform_initializer(),
        )
        b = tf1.get_variable("b", [filters], initializer=tf1.zeros_initializer())
        return tf.nn.relu(tf.nn.bias_add(tf1.nn.conv2d(x, w, [1, 1, 1, 1], "SAME"), b))


def cross_entropy(logits, labels):
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )


def accuracy_of(logits, labels):
    hits = tf.equal(tf.argmax(logits, 1, output_type=tf.int32), labels)
    return tf.reduce_mean(tf.cast(hits, tf.float32))


def classifier(x, name="net"):
    """Returns the logits of a small network on digits."""
    with tf1.variable_scope(name, reuse=tf1.AUTO_REUSE):
        return dense(dense(x, 32, "hidden", tf.nn.relu), 10, "logits")


def weights():
    """Returns all trainable variables of the default graph."""
    return tf1.trainable_variables()
