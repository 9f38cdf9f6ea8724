"""tf.gradients, clip_by_global_norm, apply_gradients with momentum and Nesterov."""

import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import accuracy_of, classifier, cross_entropy, weights

tf1 = tf.compat.v1

QUALITY = Quality("test accuracy", higher_is_better=True, tolerance=0.02)


def train(sessions, seed, directory):
    (x_train, y_train), (x_test, y_test) = _data.digits()
    x = tf1.placeholder(tf.float32, [None, 64])
    y = tf1.placeholder(tf.int32, [None])
    logits = classifier(x)
    loss = cross_entropy(logits, y) + 1e-4 * tf.add_n([tf.nn.l2_loss(v) for v in weights()])
    accuracy = accuracy_of(logits, y)
    parameters = tf1.trainable_variables()
    gradients, norm = tf.clip_by_global_norm(tf1.gradients(loss, parameters), 1.0)
    optimizer = tf1.train.MomentumOptimizer(0.02, 0.9, use_nesterov=True)
    with tf1.control_dependencies([loss]):  # before the update, in stock sessions, too
        train_op = optimizer.apply_gradients(zip(gradients, parameters))

    with sessions.Session() as sess:
        sess.run(tf1.global_variables_initializer())
        for xs, ys in _data.batches(x_train, y_train, 50, 12, seed):
            _, last, n = sess.run([train_op, loss, norm], feed_dict={x: xs, y: ys})
        final = sess.run(accuracy, feed_dict={x: x_test, y: y_test})
    return Outcome(final, {"last loss": last, "norm": n})
