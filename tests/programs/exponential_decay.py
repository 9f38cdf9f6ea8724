"""exponential_decay of the learning rate on global_step, in stairs."""

import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import accuracy_of, classifier, cross_entropy

tf1 = tf.compat.v1

QUALITY = Quality("test accuracy", higher_is_better=True, tolerance=0.02)


def train(sessions, seed, directory):
    (x_train, y_train), (x_test, y_test) = _data.digits()
    x = tf1.placeholder(tf.float32, [None, 64])
    y = tf1.placeholder(tf.int32, [None])
    logits = classifier(x)
    loss = cross_entropy(logits, y)
    accuracy = accuracy_of(logits, y)
    step = tf1.Variable(0, trainable=False, name="global_step")
    rate = tf1.train.exponential_decay(0.1, step, 120, 0.5, staircase=True)
    train_op = tf1.train.MomentumOptimizer(rate, 0.9).minimize(loss, global_step=step)

    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        for xs, ys in _data.batches(x_train, y_train, 50, 12, seed):
            _, last = sess.run([train_op, loss], feed_dict={x: xs, y: ys})
        final, now, steps = sess.run([accuracy, rate, step], {x: x_test, y: y_test})
    return Outcome(final, {"last loss": last, "rate": now, "steps": steps})
