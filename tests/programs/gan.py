"""Generative adversarial network: two train ops with var_list, run in turn."""

import numpy as np
import tensorflow as tf

from tests.programs._harness import Outcome, Quality
from tests.programs._layers import dense

tf1 = tf.compat.v1

QUALITY = Quality("distance of mean and deviation", higher_is_better=False, tolerance=0.3)


def train(sessions, seed, directory):
    random = np.random.RandomState(seed)
    real = tf1.placeholder(tf.float32, [None, 1])
    noise = tf1.placeholder(tf.float32, [None, 4])

    def generator(z):
        return dense(dense(z, 16, "generator/hidden", tf.nn.relu), 1, "generator/out")

    def discriminator(v):
        both = tf.concat([v, tf.square(v)], 1)
        return dense(dense(both, 16, "discriminator/hidden", tf.nn.relu), 1, "discriminator/out")

    fake = generator(noise)
    d_real, d_fake = discriminator(real), discriminator(fake)

    def entropy(logits, label):
        labels = tf.fill(tf.shape(logits), label)
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits))

    d_loss = entropy(d_real, 0.9) + entropy(d_fake, 0.0)
    g_loss = entropy(d_fake, 1.0)
    d_vars = [v for v in tf1.trainable_variables() if v.name.startswith("discriminator")]
    g_vars = [v for v in tf1.trainable_variables() if v.name.startswith("generator")]
    d_train = tf1.train.AdamOptimizer(5e-3, beta1=0.5).minimize(d_loss, var_list=d_vars)
    g_train = tf1.train.AdamOptimizer(5e-3, beta1=0.5).minimize(g_loss, var_list=g_vars)

    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        values = []
        for _ in range(600):
            batch = 1.5 + 0.5 * random.randn(64, 1)
            _, d = sess.run([d_train, d_loss], {real: batch, noise: random.randn(64, 4)})
            _, g = sess.run([g_train, g_loss], {noise: random.randn(64, 4)})
        for _ in range(10):
            values.append(sess.run(fake, {noise: random.randn(100, 4)}))
    values = np.concatenate(values)
    distance = abs(values.mean() - 1.5) + abs(values.std() - 0.5)
    return Outcome(float(distance), {"d loss": d, "g loss": g})
