"""Gradients added up in variables over several runs, applied in one more run."""

import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import accuracy_of, classifier, cross_entropy

tf1 = tf.compat.v1

QUALITY = Quality("test accuracy", higher_is_better=True, tolerance=0.04)


def train(sessions, seed, directory):
    (x_train, y_train), (x_test, y_test) = _data.digits()
    x = tf1.placeholder(tf.float32, [None, 64])
    y = tf1.placeholder(tf.int32, [None])
    logits = classifier(x)
    loss = cross_entropy(logits, y)
    accuracy = accuracy_of(logits, y)
    optimizer = tf1.train.AdamOptimizer(0.01)
    gradients = optimizer.compute_gradients(loss)
    sums = [tf1.Variable(tf.zeros_like(v), trainable=False) for _, v in gradients]
    zero = [s.assign(tf.zeros_like(s)) for s in sums]
    accumulate = [s.assign_add(g / 4) for s, (g, _) in zip(sums, gradients)]
    apply = optimizer.apply_gradients([(s, v) for s, (_, v) in zip(sums, gradients)])

    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        for i, (xs, ys) in enumerate(_data.batches(x_train, y_train, 15, 10, seed)):
            if i % 4 == 0:
                sess.run(zero)
            sess.run(accumulate, {x: xs, y: ys})
            if i % 4 == 3:
                sess.run(apply)
        final, last = sess.run([accuracy, loss], {x: x_test, y: y_test})
    return Outcome(final, {"test loss": last})
