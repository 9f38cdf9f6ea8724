"""InteractiveSession with op.run() and tensor.eval(), as in the beginners' tutorial."""

import numpy as np
import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality

tf1 = tf.compat.v1

QUALITY = Quality("test accuracy", higher_is_better=True, tolerance=0.02)


def train(sessions, seed, directory):
    (x_train, y_train), (x_test, y_test) = _data.digits()
    x = tf1.placeholder(tf.float32, [None, 64])
    y_ = tf1.placeholder(tf.float32, [None, 10])
    w = tf1.Variable(tf.zeros([64, 10]))
    b = tf1.Variable(tf.zeros([10]))
    y = tf.nn.softmax(tf.matmul(x, w) + b)
    cross = tf.reduce_mean(-tf.reduce_sum(y_ * tf1.log(y + 1e-10), axis=[1]))
    train_step = tf1.train.GradientDescentOptimizer(0.5).minimize(cross)
    correct = tf.equal(tf1.argmax(y, 1), tf1.argmax(y_, 1))
    accuracy = tf.reduce_mean(tf.cast(correct, tf.float32))

    sess = sessions.InteractiveSession()
    tf1.global_variables_initializer().run()
    for xs, ys in _data.batches(x_train, np.eye(10)[y_train], 50, 15, seed):
        train_step.run(feed_dict={x: xs, y_: ys})
    final = accuracy.eval(feed_dict={x: x_test, y_: np.eye(10)[y_test]})
    weights = w.eval()
    sess.close()
    return Outcome(final, {"weights": weights})
