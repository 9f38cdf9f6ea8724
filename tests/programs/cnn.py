"""Convolutional network, dropout by a fed keep_prob, Adam, feed dicts."""

import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import accuracy_of, conv, cross_entropy, dense

tf1 = tf.compat.v1

QUALITY = Quality("test accuracy", higher_is_better=True, tolerance=0.02)


def train(sessions, seed, directory):
    (x_train, y_train), (x_test, y_test) = _data.digits()
    x = tf1.placeholder(tf.float32, [None, 64])
    y = tf1.placeholder(tf.int32, [None])
    keep_prob = tf1.placeholder(tf.float32)
    image = tf.reshape(x, [-1, 8, 8, 1])
    hidden = tf1.nn.max_pool(conv(image, 8, 3, "conv1"), [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    hidden = conv(hidden, 16, 3, "conv2")
    hidden = dense(tf.reshape(hidden, [-1, 4 * 4 * 16]), 32, "full", tf.nn.relu)
    hidden = tf1.nn.dropout(hidden, keep_prob)
    logits = dense(hidden, 10, "logits")
    loss = cross_entropy(logits, y)
    accuracy = accuracy_of(logits, y)
    train_op = tf1.train.AdamOptimizer(3e-3).minimize(loss)

    seen = []
    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        for i, (xs, ys) in enumerate(_data.batches(x_train, y_train, 32, 12, seed)):
            if i % 20 == 0:
                seen.append(sess.run(accuracy, feed_dict={x: xs, y: ys, keep_prob: 1.0}))
            sess.run(train_op, feed_dict={x: xs, y: ys, keep_prob: 0.75})
        test = {x: x_test, y: y_test, keep_prob: 1.0}
        final_loss, final = sess.run([loss, accuracy], feed_dict=test)
    return Outcome(final, {"train accuracies": seen, "test loss": final_loss})
