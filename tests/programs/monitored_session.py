"""MonitoredSession with hooks: stop, NaN guard, checkpoints, summaries; resumed once."""

import numpy as np
import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import dense

tf1 = tf.compat.v1

QUALITY = Quality("mean squared error", higher_is_better=False, tolerance=0.02)


class LossRecorder(tf1.train.SessionRunHook):
    def __init__(self, loss):
        self._loss = loss
        self.values = []

    def before_run(self, run_context):
        return tf1.train.SessionRunArgs({"loss": self._loss})

    def after_run(self, run_context, run_values):
        self.values.append(run_values.results["loss"])


def train(sessions, seed, directory):
    x, y = _data.linear_rows(400, 3, seed)
    dataset = tf1.data.Dataset.from_tensor_slices((x, y)).repeat().batch(20)
    features, target = tf1.data.make_one_shot_iterator(dataset).get_next()
    prediction = tf.squeeze(dense(features, 1, "linear"), 1)
    loss = tf.reduce_mean(tf.square(prediction - target))
    step = tf1.train.get_or_create_global_step()
    train_op = tf1.train.AdamOptimizer(0.05).minimize(loss, global_step=step)
    summary = tf1.summary.scalar("loss", loss)
    logs = str(directory)

    recorder = LossRecorder(loss)
    steps = []
    for last_step in (60, 120):  # the second session goes on from the checkpoint
        saver = tf1.train.Saver(max_to_keep=2)
        hooks = [
            tf1.train.StopAtStepHook(last_step=last_step),
            tf1.train.NanTensorHook(loss),
            tf1.train.StepCounterHook(every_n_steps=50, output_dir=logs),
            tf1.train.CheckpointSaverHook(logs, save_steps=40, saver=saver),
            tf1.train.SummarySaverHook(save_steps=20, output_dir=logs, summary_op=summary),
            recorder,
        ]
        creator = sessions.session_creator(tf1.train.Scaffold(saver=saver), logs)
        with tf1.train.MonitoredSession(session_creator=creator, hooks=hooks) as sess:
            while not sess.should_stop():
                _, now = sess.run([train_op, step])
        steps.append(int(now))
        tf1.get_default_graph()._unsafe_unfinalize()
    reader = tf.train.load_checkpoint(tf1.train.latest_checkpoint(logs))
    w, b = reader.get_tensor("linear/w"), reader.get_tensor("linear/b")
    error = float(np.mean((x @ w[:, 0] + b - y) ** 2))
    saved = int(reader.get_tensor("global_step"))
    return Outcome(error, {"steps": steps, "saved": saved, "losses": recorder.values[::20]})
