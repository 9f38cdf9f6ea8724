"""Learning rate, momentum and weight decay fed as scalars, dropped by hand; lists fed."""

import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import dense

tf1 = tf.compat.v1

QUALITY = Quality("mean squared error", higher_is_better=False, tolerance=0.02)


def train(sessions, seed, directory):
    inputs, targets = _data.linear_rows(256, 4, seed)
    x = tf1.placeholder(tf.float32, [None, 4])
    y = tf1.placeholder(tf.float32, [None])
    rate = tf1.placeholder(tf.float32, [])
    decay = tf1.placeholder_with_default(0.0, [])
    prediction = tf.squeeze(dense(x, 1, "linear"), 1)
    error = tf.reduce_mean(tf.square(prediction - y))
    penalty = tf.add_n([tf.nn.l2_loss(v) for v in tf1.trainable_variables()])
    train_op = tf1.train.MomentumOptimizer(rate, 0.5).minimize(error + decay * penalty)

    lr = 0.1
    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        for epoch, (xs, ys) in enumerate(_data.batches(inputs, targets, 32, 15, seed)):
            feed = {x: xs.tolist(), y: list(ys), rate: lr}
            if epoch < 8:
                feed[decay] = 1e-3
            sess.run(train_op, feed_dict=feed)
            if epoch % 30 == 29:
                lr /= 2
        final = sess.run(error, {x: inputs, y: targets})
        parameters = sess.run(tf1.trainable_variables())
    return Outcome(final, {"weights": parameters[0], "bias": parameters[1]})
