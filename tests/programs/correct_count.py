"""Counts of correct answers, integers, fetched with the train op and added up."""

import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import classifier, cross_entropy

tf1 = tf.compat.v1

QUALITY = Quality("training accuracy as counted", higher_is_better=True, tolerance=0.02)


def train(sessions, seed, directory):
    (x_train, y_train), (x_test, y_test) = _data.digits()
    x = tf1.placeholder(tf.float32, [None, 64])
    y = tf1.placeholder(tf.int32, [None])
    logits = classifier(x)
    hits = tf.nn.in_top_k(predictions=logits, targets=y, k=1)
    correct = tf.reduce_sum(tf.cast(hits, tf.int32))
    train_op = tf1.train.AdamOptimizer(5e-3).minimize(cross_entropy(logits, y))

    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        by_epoch = []
        for epoch in range(8):
            right = seen = 0
            for xs, ys in _data.batches(x_train, y_train, 50, 1, seed + epoch):
                right += sess.run([correct, train_op], feed_dict={x: xs, y: ys})[0]
                seen += len(xs)
            by_epoch.append(right / seen)
        tested = sess.run(correct, feed_dict={x: x_test, y: y_test})
    return Outcome(by_epoch[-1], {"by epoch": by_epoch, "correct in test": tested})
