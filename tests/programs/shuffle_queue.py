"""RandomShuffleQueue filled by enqueue_many in every epoch, dequeue_many, size."""

import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import accuracy_of, classifier, cross_entropy, weights

tf1 = tf.compat.v1

QUALITY = Quality("test accuracy", higher_is_better=True, tolerance=0.02)


def train(sessions, seed, directory):
    (x_train, y_train), (x_test, y_test) = _data.digits()
    queue = tf1.RandomShuffleQueue(
        2000, 0, [tf.float32, tf.int32], [[64], []], seed=seed, shared_name="examples"
    )
    x = tf1.placeholder(tf.float32, [None, 64])
    y = tf1.placeholder(tf.int32, [None])
    fill = queue.enqueue_many([x, y])
    images, labels = queue.dequeue_many(25)
    size = queue.size()
    loss = cross_entropy(classifier(images), labels)
    train_op = tf1.train.AdamOptimizer(0.01).minimize(loss)
    accuracy = accuracy_of(classifier(x), y)

    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        for _ in range(12):
            sess.run(fill, {x: x_train, y: y_train})
            while sess.run(size) >= 50:
                _, last = sess.run([train_op, loss])
        left = sess.run(size)
        sess.run(queue.close())
        final, parameters = sess.run([accuracy, weights()], {x: x_test, y: y_test})
    return Outcome(final, {"weights": parameters[0], "elements left": left})
