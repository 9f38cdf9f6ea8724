"""tf.cond on a fed flag and on global_step: noise in training, a part updated every other step."""

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
    training = tf1.placeholder_with_default(False, [])
    noisy = tf1.cond(
        training,
        lambda: x + tf1.random_normal(tf.shape(x), stddev=0.1),
        lambda: tf.identity(x),
    )
    noisy.set_shape([None, 64])
    logits = classifier(noisy)
    loss = cross_entropy(logits, y)
    accuracy = accuracy_of(logits, y)
    step = tf1.train.get_or_create_global_step()
    top = [v for v in tf1.trainable_variables() if "logits" in v.name]
    rest = [v for v in tf1.trainable_variables() if "hidden" in v.name]
    train_top = tf1.train.GradientDescentOptimizer(0.1).minimize(
        loss, global_step=step, var_list=top
    )
    slow = tf1.train.AdamOptimizer(0.01)
    gradients = slow.compute_gradients(loss, var_list=rest)
    train_rest = tf1.cond(
        tf.equal(step % 2, 0),
        lambda: tf.group(slow.apply_gradients(gradients)),
        lambda: tf.no_op(),
    )

    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        for xs, ys in _data.batches(x_train, y_train, 50, 18, seed):
            sess.run(train_rest, {x: xs, y: ys, training: True})
            _, last = sess.run([train_top, loss], {x: xs, y: ys, training: True})
        final, now = sess.run([accuracy, step], {x: x_test, y: y_test})
    return Outcome(final, {"last loss": last, "step": now})
