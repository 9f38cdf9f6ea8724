"""Supervisor: managed_session, a loop on should_stop, its own checkpoints."""

import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import dense

tf1 = tf.compat.v1

QUALITY = Quality("mean squared error", higher_is_better=False, tolerance=0.02)


def train(sessions, seed, directory):
    inputs, targets = _data.linear_rows(256, 4, seed)
    x = tf1.placeholder(tf.float32, [None, 4])
    y = tf1.placeholder(tf.float32, [None])
    prediction = tf.squeeze(dense(x, 1, "linear"), 1)
    loss = tf.reduce_mean(tf.square(prediction - y))
    step = tf1.train.get_or_create_global_step()
    train_op = tf1.train.AdamOptimizer(0.05).minimize(loss, global_step=step)
    variables_ready = tf1.report_uninitialized_variables()

    manager = sessions.session_manager(
        graph=tf1.get_default_graph(), ready_op=variables_ready, local_init_op=tf.no_op()
    )
    supervisor = tf1.train.Supervisor(
        logdir=str(directory), session_manager=manager, summary_op=None, save_model_secs=0
    )
    data = _data.batches(inputs, targets, 32, 1000, seed)
    with supervisor.managed_session() as sess:
        while not supervisor.should_stop():
            xs, ys = next(data)
            _, now = sess.run([train_op, step], {x: xs, y: ys})
            if sess.run(step) >= 120:
                supervisor.saver.save(sess, supervisor.save_path, global_step=step)
                break
        final = sess.run(loss, {x: inputs, y: targets})
    saved = tf1.train.latest_checkpoint(str(directory)).rsplit("-", 1)[1]
    return Outcome(final, {"step": now, "saved at": int(saved)})
