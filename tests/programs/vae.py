"""Variational autoencoder that draws its noise inside the graph."""

import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import dense

tf1 = tf.compat.v1

QUALITY = Quality("loss of test images", higher_is_better=False, tolerance=1.0)


def train(sessions, seed, directory):
    (x_train, y_train), (x_test, _) = _data.digits()
    x = tf1.placeholder(tf.float32, [None, 64])
    hidden = dense(x, 32, "encoder", tf.nn.relu)
    mean, log_variance = dense(hidden, 4, "mean"), dense(hidden, 4, "log_variance")
    z = mean + tf.exp(0.5 * log_variance) * tf1.random_normal(tf.shape(mean))
    decoded = dense(dense(z, 32, "decoder", tf.nn.relu), 64, "image")
    cross = tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=decoded)
    reconstruction = tf.reduce_sum(cross, 1)
    divergence = 0.5 * tf.reduce_sum(tf.square(mean) + tf.exp(log_variance) - log_variance - 1, 1)
    loss = tf.reduce_mean(reconstruction + divergence)
    train_op = tf1.train.AdamOptimizer(5e-3).minimize(loss)

    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        for xs, _ in _data.batches(x_train, y_train, 50, 12, seed):
            _, last = sess.run([train_op, loss], {x: xs})
        final = sess.run(loss, {x: x_test})
        codes = sess.run(mean, {x: x_test[:3]})
    return Outcome(final, {"last loss": last, "codes": codes})
