"""The smallest swap of tf.Session: one program, before and after.

    python examples/swap_session.py [--session stock|tensorbow|both]

Fits y = x·w + b to noisy data by feed dicts, with TensorFlow's own session and with TensorBow's.
Prints the result of each. `train` does not know which of them it was given.
"""

import numpy as np
import tensorflow.compat.v1 as tf
from absl import app, flags

import tensorbow

FLAGS = flags.FLAGS
flags.DEFINE_enum("session", "both", ["stock", "tensorbow", "both"], "which session to use")
flags.DEFINE_integer("steps", 300, "training steps", lower_bound=1)

ROWS = 64  # fed to one step


def build() -> tuple[tf.Tensor, ...]:
    """Builds the program: placeholders, loss, training step."""
    x = tf.placeholder(tf.float32, [None, 3])
    y = tf.placeholder(tf.float32, [None])
    w = tf.get_variable("w", initializer=tf.zeros([3]))
    b = tf.get_variable("b", initializer=0.0)
    loss = tf.reduce_mean(tf.square(tf.linalg.matvec(x, w) + b - y))
    train_op = tf.train.GradientDescentOptimizer(0.02).minimize(loss)
    return x, y, w, b, loss, train_op


def train(name: str, session: tf.Session, program: tuple[tf.Tensor, ...]) -> None:
    """Trains with any session; prints the result."""
    x, y, w, b, loss, train_op = program
    random = np.random.default_rng(0)
    session.run(tf.global_variables_initializer())
    for _ in range(FLAGS.steps):
        xs = random.standard_normal((ROWS, 3))
        ys = xs @ [1, 2, 3] + 4 + 0.1 * random.standard_normal(ROWS)
        _, value = session.run([train_op, loss], feed_dict={x: xs, y: ys})
    w_found, b_found = session.run([w, b])
    print(f"{name:<9}  loss {value:.4f}  w {np.round(w_found, 2)}  b {b_found:.2f}")


def main(_: list[str]) -> None:
    tf.disable_eager_execution()
    program = build()
    if FLAGS.session != "tensorbow":
        with tf.Session() as session:  # before
            train("stock", session, program)
    if FLAGS.session != "stock":
        with tensorbow.TensorBowSession() as session:  # after
            train("tensorbow", session, program)


if __name__ == "__main__":
    app.run(main)
