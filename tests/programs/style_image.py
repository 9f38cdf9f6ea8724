"""No data at all: an image is optimised until its features match, loss in the graph."""

import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality

tf1 = tf.compat.v1

QUALITY = Quality("loss", higher_is_better=False, tolerance=0.01)


def train(sessions, seed, directory):
    (x_train, _), _ = _data.digits()
    features = tf1.get_variable(
        "features", [64, 32], initializer=tf1.random_normal_initializer(), trainable=False
    )
    image = tf1.get_variable("image", [1, 64], initializer=tf1.zeros_initializer())
    wanted = tf.matmul(tf.constant(x_train[seed][None]), features)
    loss = tf.reduce_mean(tf.square(tf.matmul(image, features) - wanted))
    train_op = tf1.train.AdamOptimizer(0.05).minimize(loss)
    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        for _ in range(150):
            sess.run(train_op)
        final, pixels = sess.run([loss, image])
    return Outcome(final, {"image": pixels})
