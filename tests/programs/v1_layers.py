"""tf.compat.v1.layers (of tf_keras): conv2d, batch_normalization, dropout, UPDATE_OPS."""

import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import accuracy_of

tf1 = tf.compat.v1

PACKAGES = ("tf_keras",)
QUALITY = Quality("test accuracy", higher_is_better=True, tolerance=0.02)


def train(sessions, seed, directory):
    # This is tf.compat.v1.layers if TF_USE_LEGACY_KERAS=1.
    from tf_keras.api._v1.keras.__internal__.legacy import layers

    (x_train, y_train), (x_test, y_test) = _data.digits()
    x = tf1.placeholder(tf.float32, [None, 64])
    y = tf1.placeholder(tf.int32, [None])
    training = tf1.placeholder(tf.bool, [])
    net = layers.conv2d(tf.reshape(x, [-1, 8, 8, 1]), 8, 3, padding="same", activation=tf.nn.relu)
    net = layers.flatten(layers.max_pooling2d(net, 2, 2))
    net = layers.dense(net, 32, use_bias=False, name="hidden")
    net = tf.nn.relu(layers.batch_normalization(net, momentum=0.9, training=training))
    net = layers.dropout(net, 0.1, training=training, seed=seed)
    logits = layers.dense(net, 10, name="logits")
    loss = tf1.losses.sparse_softmax_cross_entropy(labels=y, logits=logits)
    accuracy = accuracy_of(logits, y)
    with tf1.control_dependencies(tf1.get_collection(tf1.GraphKeys.UPDATE_OPS)):
        train_op = tf1.train.AdamOptimizer(5e-3).minimize(loss)

    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        losses = []
        for xs, ys in _data.batches(x_train, y_train, 50, 5, seed):
            feed = {x: xs, y: ys, training: True}
            losses.append(sess.run([train_op, loss], feed_dict=feed)[1])
        final = sess.run(accuracy, feed_dict={x: x_test, y: y_test, training: False})
    return Outcome(final, {"losses": losses})
