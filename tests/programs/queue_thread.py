"""A thread of the program feeds a FIFOQueue that the training runs empty."""

import threading

import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import accuracy_of, classifier, cross_entropy, weights

tf1 = tf.compat.v1

QUALITY = Quality("test accuracy", higher_is_better=True, tolerance=0.02)


def train(sessions, seed, directory):
    (x_train, y_train), (x_test, y_test) = _data.digits()
    x = tf1.placeholder(tf.float32, [None, 64])
    y = tf1.placeholder(tf.int32, [None])
    queue = tf1.FIFOQueue(200, [tf.float32, tf.int32], [[64], []])
    enqueue = queue.enqueue_many([x, y])
    close = queue.close()
    images, labels = queue.dequeue_many(25)
    loss = cross_entropy(classifier(images), labels)
    train_op = tf1.train.AdamOptimizer(0.01).minimize(loss)
    accuracy = accuracy_of(classifier(x), y)

    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())

        def feed():
            for xs, ys in _data.batches(x_train, y_train, 50, 10, seed):
                sess.run(enqueue, feed_dict={x: xs, y: ys})
            sess.run(close)

        thread = threading.Thread(target=feed)
        thread.start()
        try:
            while True:
                sess.run(train_op)
        except tf.errors.OutOfRangeError:
            thread.join()
        final, parameters = sess.run([accuracy, weights()], {x: x_test, y: y_test})
    return Outcome(final, {"weights": parameters[0]})
