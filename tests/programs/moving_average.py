"""ExponentialMovingAverage of the weights, evaluated by restoring the shadows."""

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
    step = tf1.train.get_or_create_global_step()
    minimise = tf1.train.AdamOptimizer(5e-3).minimize(loss, global_step=step)
    average = tf1.train.ExponentialMovingAverage(0.98, num_updates=step)
    with tf1.control_dependencies([minimise]):
        train_op = average.apply(tf1.trainable_variables())
    saver = tf1.train.Saver()
    shadows = tf1.train.Saver(average.variables_to_restore())
    path = str(directory / "model")

    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        for xs, ys in _data.batches(x_train, y_train, 50, 20, seed):
            sess.run(train_op, {x: xs, y: ys})
        saver.save(sess, path)
        plain = sess.run(accuracy, {x: x_test, y: y_test})
        shadow = sess.run(average.average(tf1.trainable_variables()[0]))
        shadows.restore(sess, path)
        final = sess.run(accuracy, {x: x_test, y: y_test})
    return Outcome(final, {"without average": plain, "shadow": shadow})
