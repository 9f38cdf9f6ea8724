"""Text classification: strings fed, vocabulary tables, an inverse table for the answer."""

import numpy as np
import tensorflow as tf

from tests.programs._harness import Outcome, Quality
from tests.programs._layers import cross_entropy, dense

tf1 = tf.compat.v1

QUALITY = Quality("test accuracy", higher_is_better=True, tolerance=0.05)


WORDS = ["good", "fine", "nice", "bad", "poor", "sad", "the", "a", "film", "book"]


def sentences(count, seed):
    random = np.random.RandomState(seed)
    labels = random.randint(2, size=count)
    rows = []
    for label in labels:
        telling = random.choice(WORDS[:3] if label == 1 else WORDS[3:6], 2)
        rows.append(random.permutation([*telling, *random.choice(WORDS[6:] + ["unheard"], 3)]))
    return np.array(rows), np.array(["praise" if label else "blame" for label in labels])


def train(sessions, seed, directory):
    text = tf1.placeholder(tf.string, [None, 5])
    label = tf1.placeholder(tf.string, [None])
    keys = tf.constant(WORDS)
    ids = tf.range(len(WORDS), dtype=tf.int64)
    table = tf1.lookup.StaticVocabularyTable(
        tf1.lookup.KeyValueTensorInitializer(keys, ids), num_oov_buckets=2
    )
    classes = tf1.lookup.StaticHashTable(
        tf1.lookup.KeyValueTensorInitializer(["blame", "praise"], [0, 1], value_dtype=tf.int32), -1
    )
    names = tf1.lookup.StaticHashTable(
        tf1.lookup.KeyValueTensorInitializer(
            [0, 1], ["blame", "praise"], key_dtype=tf.int32, value_dtype=tf.string
        ),
        "?",
    )
    embeddings = tf1.get_variable("embeddings", [len(WORDS) + 2, 4])
    mean = tf.reduce_mean(tf1.nn.embedding_lookup(embeddings, table.lookup(text)), 1)
    logits = dense(mean, 2, "logits")
    loss = cross_entropy(logits, classes.lookup(label))
    answer = names.lookup(tf.argmax(logits, 1, output_type=tf.int32))
    train_op = tf1.train.AdamOptimizer(0.04).minimize(loss)

    texts, labels = sentences(600, seed)
    with sessions.Session() as sess:
        sess.run([tf1.global_variables_initializer(), tf1.tables_initializer()])
        for begin in range(0, 500, 20):
            feed = {text: texts[begin : begin + 20], label: labels[begin : begin + 20]}
            _, last = sess.run([train_op, loss], feed_dict=feed)
        answers = sess.run(answer, feed_dict={text: texts[500:]})
    final = np.mean(answers.astype(str) == labels[500:])
    return Outcome(float(final), {"last loss": last})
