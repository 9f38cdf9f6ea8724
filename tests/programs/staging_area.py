"""StagingArea: the next batch is staged in the run that trains on the staged one."""

import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import accuracy_of, classifier, cross_entropy, weights

tf1 = tf.compat.v1

QUALITY = Quality("test accuracy", higher_is_better=True, tolerance=0.02)


def train(sessions, seed, directory):
    train_set, (x_test, y_test) = _data.digits()
    dataset = tf1.data.Dataset.from_tensor_slices(train_set).shuffle(1500, seed=seed)
    batch = tf1.data.make_one_shot_iterator(dataset.repeat().batch(25)).get_next()
    area = tf.raw_ops.Stage(values=batch, capacity=8, shared_name="area")
    x, y = tf.raw_ops.Unstage(dtypes=[tf.float32, tf.int32], capacity=8, shared_name="area")
    x.set_shape([None, 64])
    y.set_shape([None])
    loss = cross_entropy(classifier(x), y)
    minimise = tf1.train.AdamOptimizer(0.01).minimize(loss)
    with tf1.control_dependencies([minimise]):
        train_op = tf.group(tf.identity(loss))
    accuracy = accuracy_of(classifier(tf.constant(x_test)), tf.constant(y_test))

    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        for _ in range(2):
            sess.run(area)
        for _ in range(400):
            sess.run([train_op, area])
        final, parameters = sess.run([accuracy, weights()])
    return Outcome(final, {"weights": parameters[0]})
