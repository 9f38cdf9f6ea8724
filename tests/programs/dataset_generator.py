"""tf.data from a Python generator with padded batches of different lengths."""

import numpy as np
import tensorflow as tf

from tests.programs._harness import Outcome, Quality
from tests.programs._layers import dense, weights

tf1 = tf.compat.v1

QUALITY = Quality("mean squared error", higher_is_better=False, tolerance=0.05)


def train(sessions, seed, directory):
    random = np.random.RandomState(seed)
    sequences = [random.rand(random.randint(1, 9)).astype(np.float32) for _ in range(400)]

    def generate():
        for sequence in sequences:
            yield sequence, sequence.sum()

    dataset = tf1.data.Dataset.from_generator(generate, (tf.float32, tf.float32), ([None], []))
    dataset = dataset.repeat(12).padded_batch(20, ([None], []))
    x, y = tf1.data.make_one_shot_iterator(dataset).get_next()
    hidden = dense(tf.reshape(x, [-1, 1]), 4, "hidden", tf.nn.elu)
    mask = tf.cast(x > 0, tf.float32)
    each = tf.reshape(dense(hidden, 1, "out"), tf.shape(x)) * mask
    loss = tf.reduce_mean(tf.square(tf.reduce_sum(each, 1) - y))
    train_op = tf1.train.AdamOptimizer(0.03).minimize(loss)

    losses = []
    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        try:
            while True:
                losses.append(sess.run([train_op, loss])[1])
        except tf.errors.OutOfRangeError:
            pass
        parameters = sess.run(weights())
    return Outcome(float(np.mean(losses[-10:])), {"weights": parameters[0]})
