"""A model saved by stock TensorFlow, imported by import_meta_graph, and trained on."""

import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import accuracy_of, classifier, cross_entropy

tf1 = tf.compat.v1

QUALITY = Quality("test accuracy", higher_is_better=True, tolerance=0.02)


def train(sessions, seed, directory):
    (x_train, y_train), (x_test, y_test) = _data.digits()
    path = str(directory / "model")
    with tf1.Graph().as_default(), tf1.Session() as stock:
        tf1.set_random_seed(seed)
        x = tf1.placeholder(tf.float32, [None, 64], name="x")
        y = tf1.placeholder(tf.int32, [None], name="y")
        logits = classifier(x)
        loss = cross_entropy(logits, y)
        train_op = tf1.train.AdamOptimizer(5e-3).minimize(loss, name="train")
        accuracy = accuracy_of(logits, y)
        for name, tensor in (("train", train_op), ("loss", loss), ("accuracy", accuracy)):
            tf1.add_to_collection(name, tensor)
        stock.run(tf1.global_variables_initializer())
        for xs, ys in _data.batches(x_train, y_train, 50, 1, seed):
            stock.run(train_op, {x: xs, y: ys})
        tf1.train.Saver().save(stock, path)

    saver = tf1.train.import_meta_graph(path + ".meta")
    train_op, loss, accuracy = (
        tf1.get_collection(name)[0] for name in ("train", "loss", "accuracy")
    )
    test = {"x:0": x_test, "y:0": y_test}
    with sessions.Session() as sess:
        saver.restore(sess, path)
        before = sess.run(accuracy, test)
        for xs, ys in _data.batches(x_train, y_train, 50, 12, seed):
            _, last = sess.run([train_op, loss], {"x:0": xs, "y:0": ys})
        final = sess.run(accuracy, test)
    return Outcome(final, {"before": before, "last loss": last})
