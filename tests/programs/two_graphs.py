"""Two graphs with a session each, trained in turn; one predicts from the other's output."""

import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import dense

tf1 = tf.compat.v1

QUALITY = Quality("mean squared error", higher_is_better=False, tolerance=0.02)


def regression(columns, seed):
    graph = tf1.Graph()
    with graph.as_default():
        tf1.set_random_seed(seed)
        x = tf1.placeholder(tf.float32, [None, columns], name="x")
        y = tf1.placeholder(tf.float32, [None], name="y")
        prediction = tf.squeeze(dense(x, 1, "linear"), 1, name="prediction")
        loss = tf.reduce_mean(tf.square(prediction - y), name="loss")
        tf1.train.AdamOptimizer(0.05).minimize(loss, name="train")
        tf1.global_variables_initializer()
    return graph


def train(sessions, seed, directory):
    inputs, targets = _data.linear_rows(256, 4, seed)
    first, second = regression(4, seed), regression(1, seed)
    with sessions.Session(graph=first) as a, sessions.Session(graph=second) as b:
        a.run("init")
        b.run("init")
        for xs, ys in _data.batches(inputs, targets, 32, 15, seed):
            a.run("train", {"x:0": xs, "y:0": ys})
            hidden = a.run("prediction:0", {"x:0": xs})
            b.run("train", {"x:0": hidden[:, None], "y:0": ys})
        hidden = a.run("prediction:0", {"x:0": inputs})
        final = b.run("loss:0", {"x:0": hidden[:, None], "y:0": targets})
        weights = [a.run("linear/w:0"), b.run("linear/w:0")]
    return Outcome(final, {"first": weights[0], "second": weights[1]})
