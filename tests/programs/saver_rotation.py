"""Saver with max_to_keep, restored into a second session that trains on."""

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
    step = tf1.train.get_or_create_global_step()
    train_op = tf1.train.AdamOptimizer(5e-3).minimize(loss, global_step=step)
    saver = tf1.train.Saver(max_to_keep=2)
    path = str(directory / "model")
    data = _data.batches(x_train, y_train, 50, 12, seed)
    test = {x: x_test, y: y_test}

    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        for _ in range(150):
            xs, ys = next(data)
            _, now = sess.run([train_op, step], {x: xs, y: ys})
            if sess.run(step) % 50 == 0:
                saver.save(sess, path, global_step=step)
        before = sess.run(accuracy, test)
    kept = [p.rsplit("-", 1)[1] for p in saver.last_checkpoints]

    with sessions.Session() as sess:
        saver.restore(sess, tf1.train.latest_checkpoint(str(directory)))
        after = sess.run(accuracy, test)
        for xs, ys in data:
            sess.run(train_op, {x: xs, y: ys})
        final = sess.run(accuracy, test)
    files = sorted(p.name for p in directory.iterdir() if p.suffix == ".index")
    return Outcome(
        final, {"kept": kept, "files": files, "restored": before == after, "before": before}
    )
