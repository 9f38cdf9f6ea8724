"""Skip-gram as in the tutorial: embeddings, sparse gradients, nce_loss, fixed batch."""

import numpy as np
import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality

tf1 = tf.compat.v1

QUALITY = Quality("similarity inside groups over outside", higher_is_better=True, tolerance=0.1)


def train(sessions, seed, directory):
    corpus, words = _data.corpus(), 30
    center = tf1.placeholder(tf.int32, [32])
    context = tf1.placeholder(tf.int32, [32, 1])
    embeddings = tf1.get_variable(
        "embeddings", [words, 8], initializer=tf1.random_uniform_initializer(-1, 1)
    )
    embedded = tf1.nn.embedding_lookup(embeddings, center)
    nce_w = tf1.get_variable(
        "nce_w", [words, 8], initializer=tf1.truncated_normal_initializer(stddev=0.3)
    )
    nce_b = tf1.get_variable("nce_b", [words], initializer=tf1.zeros_initializer())
    loss = tf.reduce_mean(
        tf1.nn.nce_loss(nce_w, nce_b, context, embedded, num_sampled=6, num_classes=words)
    )
    train_op = tf1.train.GradientDescentOptimizer(1.0).minimize(loss)
    norm = tf.sqrt(tf.reduce_sum(tf.square(embeddings), 1, keepdims=True))
    similarity = tf.matmul(embeddings / norm, embeddings / norm, transpose_b=True)

    random = np.random.RandomState(seed)
    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        for _ in range(500):
            at = random.randint(1, len(corpus) - 1, size=32)
            near = at + random.choice([-1, 1], size=32)
            feed = {center: corpus[at], context: corpus[near][:, None]}
            _, last = sess.run([train_op, loss], feed_dict=feed)
        matrix = sess.run(similarity)
    groups = np.arange(words) // 5
    same = (groups[:, None] == groups[None]) & ~np.eye(words, dtype=bool)
    margin = matrix[same].mean() - matrix[groups[:, None] != groups[None]].mean()
    return Outcome(float(margin), {"last loss": last, "similarity": matrix})
