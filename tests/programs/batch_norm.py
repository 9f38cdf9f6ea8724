"""Batch normalisation with is_training, moving averages by UPDATE_OPS."""

import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import accuracy_of, cross_entropy, dense

tf1 = tf.compat.v1

QUALITY = Quality("test accuracy", higher_is_better=True, tolerance=0.02)


def batch_norm(x, is_training, name):
    units = int(x.shape[-1])
    with tf1.variable_scope(name):
        gamma = tf1.get_variable("gamma", [units], initializer=tf1.ones_initializer())
        beta = tf1.get_variable("beta", [units], initializer=tf1.zeros_initializer())
        moving_mean = tf1.get_variable(
            "moving_mean", [units], initializer=tf1.zeros_initializer(), trainable=False
        )
        moving_variance = tf1.get_variable(
            "moving_variance", [units], initializer=tf1.ones_initializer(), trainable=False
        )
    batch_mean, batch_variance = tf1.nn.moments(x, [0])
    for moving, batch in ((moving_mean, batch_mean), (moving_variance, batch_variance)):
        update = tf1.assign_sub(moving, 0.1 * (moving - batch))
        tf1.add_to_collection(tf1.GraphKeys.UPDATE_OPS, update)
    mean, variance = tf1.cond(
        is_training,
        lambda: (tf.identity(batch_mean), tf.identity(batch_variance)),
        lambda: (tf.identity(moving_mean), tf.identity(moving_variance)),
    )
    return tf.nn.batch_normalization(x, mean, variance, beta, gamma, 1e-3)


def train(sessions, seed, directory):
    (x_train, y_train), (x_test, y_test) = _data.digits()
    x = tf1.placeholder(tf.float32, [None, 64])
    y = tf1.placeholder(tf.int64, [None])
    is_training = tf1.placeholder(tf.bool, [])
    hidden = tf.nn.relu(batch_norm(dense(x, 32, "hidden"), is_training, "norm"))
    labels = tf.cast(y, tf.int32)
    logits = dense(hidden, 10, "logits")
    loss = cross_entropy(logits, labels)
    accuracy = accuracy_of(logits, labels)
    with tf1.control_dependencies(tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)):
        train_op = tf1.train.MomentumOptimizer(0.02, 0.9).minimize(loss)

    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        for xs, ys in _data.batches(x_train, y_train, 50, 12, seed):
            _, last = sess.run([train_op, loss], {x: xs, y: ys, is_training: True})
        final = sess.run(accuracy, {x: x_test, y: y_test, is_training: False})
        mean = sess.run(tf1.get_default_graph().get_tensor_by_name("norm/moving_mean:0"))
    return Outcome(final, {"last loss": last, "moving mean": mean})
