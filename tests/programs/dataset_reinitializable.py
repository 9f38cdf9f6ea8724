"""Iterator.from_structure switched between training and test data; tf.metrics."""

import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import classifier, cross_entropy, weights

tf1 = tf.compat.v1

QUALITY = Quality("test accuracy", higher_is_better=True, tolerance=0.02)


def train(sessions, seed, directory):
    train_set, test_set = _data.digits()
    training = tf1.data.Dataset.from_tensor_slices(train_set).shuffle(1500, seed=seed).batch(30)
    testing = tf1.data.Dataset.from_tensor_slices(test_set).batch(99)
    iterator = tf1.data.Iterator.from_structure(
        tf1.data.get_output_types(training), tf1.data.get_output_shapes(training)
    )
    to_training = iterator.make_initializer(training)
    to_testing = iterator.make_initializer(testing)
    x, y = iterator.get_next()
    logits = classifier(x)
    loss = cross_entropy(logits, y)
    train_op = tf1.train.AdamOptimizer(8e-3).minimize(loss)
    accuracy, update = tf1.metrics.accuracy(y, tf.argmax(logits, 1))

    def until_the_end(*fetches):
        while True:
            try:
                values = sess.run(fetches)
            except tf.errors.OutOfRangeError:
                return values

    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        for _ in range(14):
            sess.run(to_training)
            until_the_end(train_op, loss)
        sess.run([to_testing, tf1.local_variables_initializer()])
        until_the_end(update)
        final = sess.run(accuracy)
        parameters = sess.run(weights())
    return Outcome(final, {"weights": parameters[2]})
