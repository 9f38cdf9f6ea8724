"""Queue runners: file names, TextLineReader, decode_csv, batch, Coordinator, epochs."""

import numpy as np
import tensorflow as tf

from tests.programs import _data
from tests.programs._harness import Outcome, Quality
from tests.programs._layers import dense, weights

tf1 = tf.compat.v1

QUALITY = Quality("mean squared error", higher_is_better=False, tolerance=0.02)


def train(sessions, seed, directory):
    x, y = _data.linear_rows(400, 3, seed)
    files = []
    for part in range(2):
        files.append(str(directory / f"part{part}.csv"))
        with open(files[-1], "w") as file:
            for row, target in zip(x[part::2], y[part::2]):
                file.write(",".join(f"{v:.6f}" for v in [*row, target]) + "\n")

    names = tf1.train.string_input_producer(files, num_epochs=8, shuffle=False)
    _, line = tf1.TextLineReader().read(names)
    columns = tf1.decode_csv(line, record_defaults=[[0.0]] * 4)
    features, target = tf1.train.batch([tf.stack(columns[:3]), columns[3]], batch_size=20)
    prediction = tf.squeeze(dense(features, 1, "linear"), 1)
    loss = tf.reduce_mean(tf.square(prediction - target))
    step = tf1.train.get_or_create_global_step()
    train_op = tf1.train.GradientDescentOptimizer(0.03).minimize(loss, global_step=step)
    variables = weights()

    sess = sessions.Session()
    sess.run([tf1.global_variables_initializer(), tf1.local_variables_initializer()])
    coord = tf1.train.Coordinator()
    threads = tf1.train.start_queue_runners(sess=sess, coord=coord)
    steps = 0
    try:
        while not coord.should_stop():
            sess.run(train_op)
            steps += 1
    except tf.errors.OutOfRangeError:
        pass
    finally:
        coord.request_stop()
    coord.join(threads)
    w, b = sess.run(variables)
    sess.close()
    error = float(np.mean((x @ w[:, 0] + b - y) ** 2))
    return Outcome(error, {"w": w, "b": b})
