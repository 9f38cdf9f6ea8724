"""SavedModel of the central model by simple_save, served by stock TensorFlow."""

import numpy as np
import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import classifier, cross_entropy

tf1 = tf.compat.v1

QUALITY = Quality("test accuracy", higher_is_better=True, tolerance=0.02)


def train(sessions, seed, directory):
    (x_train, y_train), (x_test, y_test) = _data.digits()
    x = tf1.placeholder(tf.float32, [None, 64])
    y = tf1.placeholder(tf.int32, [None])
    logits = classifier(x)
    loss = cross_entropy(logits, y)
    train_op = tf1.train.AdamOptimizer(5e-3).minimize(loss)
    export = str(directory / "export")
    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        for xs, ys in _data.batches(x_train, y_train, 50, 18, seed):
            sess.run(train_op, {x: xs, y: ys})
        here = sess.run(logits, {x: x_test})
        tf1.saved_model.simple_save(sess, export, inputs={"x": x}, outputs={"logits": logits})

    with tf1.Session(graph=tf1.Graph()) as server:
        model = tf1.saved_model.load(server, [tf1.saved_model.tag_constants.SERVING], export)
        signature = model.signature_def["serving_default"]
        feed = {signature.inputs["x"].name: x_test}
        served = server.run(signature.outputs["logits"].name, feed)
    final = np.mean(served.argmax(1) == y_test)
    return Outcome(float(final), {"served as trained": np.array_equal(here, served)})
