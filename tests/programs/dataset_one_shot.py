"""tf.data with a one-shot iterator: map, batch, prefetch, until OutOfRange."""

import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import accuracy_of, classifier, cross_entropy, weights

tf1 = tf.compat.v1

QUALITY = Quality("test accuracy", higher_is_better=True, tolerance=0.02)


def train(sessions, seed, directory):
    train_set, (x_test, y_test) = _data.digits()
    dataset = tf1.data.Dataset.from_tensor_slices(train_set)
    dataset = dataset.shuffle(1500, seed=seed).repeat(8)
    dataset = dataset.map(lambda x, y: (x * 2 - 1, y), num_parallel_calls=2)
    x, y = tf1.data.make_one_shot_iterator(dataset.batch(25).prefetch(2)).get_next()
    loss = cross_entropy(classifier(x), y)
    train_op = tf1.train.AdamOptimizer(5e-3).minimize(loss)
    accuracy = accuracy_of(classifier(tf.constant(x_test) * 2 - 1), tf.constant(y_test))

    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        try:
            while True:
                sess.run(train_op)
        except tf.errors.OutOfRangeError:
            pass
        final, parameters = sess.run([accuracy, weights()])
    return Outcome(final, {"weights": parameters[0]})
