"""Feedable iterator: training and validation chosen by a fed string handle."""

import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import accuracy_of, classifier, cross_entropy

tf1 = tf.compat.v1

QUALITY = Quality("test accuracy", higher_is_better=True, tolerance=0.02)


def train(sessions, seed, directory):
    train_set, test_set = _data.digits()
    training = tf1.data.Dataset.from_tensor_slices(train_set).shuffle(1500, seed=seed)
    training = training.repeat().batch(30)
    validation = tf1.data.Dataset.from_tensor_slices(test_set).batch(297)
    handle = tf1.placeholder(tf.string, [])
    iterator = tf1.data.Iterator.from_string_handle(
        handle, tf1.data.get_output_types(training), tf1.data.get_output_shapes(training)
    )
    x, y = iterator.get_next()
    logits = classifier(x)
    loss = cross_entropy(logits, y)
    accuracy = accuracy_of(logits, y)
    train_op = tf1.train.AdamOptimizer(5e-3).minimize(loss)
    training_iterator = tf1.data.make_one_shot_iterator(training)
    validation_iterator = tf1.data.make_initializable_iterator(validation)

    seen = []
    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        training_handle = sess.run(training_iterator.string_handle())
        validation_handle = sess.run(validation_iterator.string_handle())
        for _ in range(8):
            for _ in range(60):
                sess.run(train_op, feed_dict={handle: training_handle})
            sess.run(validation_iterator.initializer)
            seen.append(sess.run(accuracy, feed_dict={handle: validation_handle}))
    return Outcome(seen[-1], {"accuracies": seen})
