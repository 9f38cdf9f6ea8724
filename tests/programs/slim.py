"""TF-Slim: arg_scope, regularisers, dropout, get_total_loss, create_train_op."""

import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import accuracy_of

tf1 = tf.compat.v1

PACKAGES = ("tf_slim",)
QUALITY = Quality("test accuracy", higher_is_better=True, tolerance=0.02)


def train(sessions, seed, directory):
    import tf_slim as slim

    (x_train, y_train), (x_test, y_test) = _data.digits()
    x = tf1.placeholder(tf.float32, [None, 64])
    y = tf1.placeholder(tf.int32, [None])

    # Without slim.batch_norm, which TensorFlow 2.21 has made unusable.
    def network(training):
        regularizer = slim.l2_regularizer(1e-4)
        with (
            tf1.variable_scope("net", reuse=tf1.AUTO_REUSE),
            slim.arg_scope([slim.conv2d, slim.fully_connected], weights_regularizer=regularizer),
            slim.arg_scope([slim.dropout], is_training=training, keep_prob=0.9, seed=seed),
        ):
            net = slim.conv2d(tf.reshape(x, [-1, 8, 8, 1]), 8, [3, 3], scope="conv")
            net = slim.max_pool2d(net, [2, 2], scope="pool")
            net = slim.fully_connected(slim.flatten(net), 32, scope="hidden")
            net = slim.dropout(net, scope="dropout")
            return slim.fully_connected(net, 10, activation_fn=None, scope="logits")

    tf1.losses.sparse_softmax_cross_entropy(labels=y, logits=network(training=True))
    total_loss = tf1.losses.get_total_loss()
    train_op = slim.learning.create_train_op(total_loss, tf1.train.AdamOptimizer(5e-3))
    accuracy = accuracy_of(network(training=False), y)

    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        losses = []
        for xs, ys in _data.batches(x_train, y_train, 50, 5, seed):
            losses.append(sess.run(train_op, feed_dict={x: xs, y: ys}))
        final = sess.run(accuracy, feed_dict={x: x_test, y: y_test})
        step = sess.run(tf1.train.get_global_step())
    return Outcome(final, {"losses": losses, "step": step})
