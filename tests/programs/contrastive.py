"""Contrastive loss over the whole batch: each row against all others as negatives."""

import numpy as np
import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import dense

tf1 = tf.compat.v1

QUALITY = Quality("test images found again", higher_is_better=True, tolerance=0.03)


def train(sessions, seed, directory):
    (x_train, _), (x_test, _) = _data.digits()
    random = np.random.RandomState(seed)
    a = tf1.placeholder(tf.float32, [None, 64])
    b = tf1.placeholder(tf.float32, [None, 64])

    def embedding(images):
        hidden = dense(images, 48, "hidden", tf.nn.relu)
        return tf.nn.l2_normalize(dense(hidden, 16, "embedding"), 1)

    similarity = tf.matmul(embedding(a), embedding(b), transpose_b=True) / 0.1
    partner = tf.range(tf.shape(a)[0])
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=partner, logits=similarity)
    loss = tf.reduce_mean(losses)
    found = tf.equal(tf.argmax(similarity, 1, output_type=tf.int32), partner)
    accuracy = tf.reduce_mean(tf.cast(found, tf.float32))
    train_op = tf1.train.AdamOptimizer(3e-3).minimize(loss)

    def views(images):
        """Returns each image twice, with different pixels missing."""
        return {view: images * (random.rand(*images.shape) < 0.85) for view in (a, b)}

    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        values = []
        for _ in range(150):
            images = x_train[random.permutation(len(x_train))[:40]]
            values.append(sess.run([train_op, loss], feed_dict=views(images))[1])
        final = sess.run(accuracy, feed_dict=views(x_test))
    return Outcome(final, {"losses": values})
