"""Merged summaries fetched with the train op and written by a FileWriter."""

import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import accuracy_of, classifier, cross_entropy

tf1 = tf.compat.v1

QUALITY = Quality("test accuracy", higher_is_better=True, tolerance=0.02)


def train(sessions, seed, directory):
    (x_train, y_train), (x_test, y_test) = _data.digits()
    x = tf1.placeholder(tf.float32, [None, 64])
    y = tf1.placeholder(tf.int32, [None])
    logits = classifier(x)
    loss = cross_entropy(logits, y)
    accuracy = accuracy_of(logits, y)
    train_op = tf1.train.AdamOptimizer(5e-3).minimize(loss)
    tf1.summary.scalar("loss", loss)
    tf1.summary.histogram("logits", logits)
    tf1.summary.image("digits", tf.reshape(x, [-1, 8, 8, 1]), max_outputs=1)
    merged = tf1.summary.merge_all()

    with sessions.Session() as sess:
        writer = tf1.summary.FileWriter(str(directory), sess.graph)
        sess.run(tf1.global_variables_initializer())
        for i, (xs, ys) in enumerate(_data.batches(x_train, y_train, 50, 18, seed)):
            summary, _ = sess.run([merged, train_op], feed_dict={x: xs, y: ys})
            writer.add_summary(summary, i)
        writer.close()
        final = sess.run(accuracy, feed_dict={x: x_test, y: y_test})
    (file,) = directory.iterdir()
    steps = [e.step for e in tf1.train.summary_iterator(str(file)) if e.HasField("summary")]
    tags = sorted(value.tag for value in tf1.Summary.FromString(summary).value)
    return Outcome(final, {"summaries": len(steps), "last step": steps[-1], "tags": tags})
