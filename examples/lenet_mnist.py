"""LeNet on MNIST, on several learners.

    python examples/lenet_mnist.py [--data mnist.npz] [--learners N] [--steps N]

Without --data it trains on scikit-learn's handwritten digits, which need no download.
"""

from collections.abc import Iterator

import numpy as np
import tensorflow.compat.v1 as tf
from absl import app, flags

import tensorbow
from tensorbow import datasets, models, training

FLAGS = flags.FLAGS
flags.DEFINE_string("data", None, "an .npz file in the layout of Keras's MNIST")
flags.DEFINE_integer("learners", None, "learners; default one per core", lower_bound=1)
flags.DEFINE_integer("batch_size", 16, "rows of one learner's batch", lower_bound=1)
flags.DEFINE_integer("steps", 1000, "training steps", lower_bound=1)
flags.DEFINE_integer("report_every", 200, "steps between two evaluations", lower_bound=1)
flags.DEFINE_float("learning_rate", 0.02, "of the momentum optimiser", lower_bound=0)


def batches(data: datasets.Images, rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields batches of `rows` rows without end, in a new order every epoch."""
    random = np.random.default_rng(0)
    while True:
        order = random.permutation(len(data.x_train))
        for begin in range(0, len(order), rows):
            chosen = order[begin : begin + rows]
            yield data.x_train[chosen], data.y_train[chosen]


def main(_: list[str]) -> None:
    tf.disable_eager_execution()
    data = datasets.from_file(FLAGS.data) if FLAGS.data else datasets.digits()
    print(f"LeNet on {data.name}: {len(data.x_train)} images for training")
    program = models.build(
        "lenet",
        data.image_shape,
        data.classes,
        optimiser=lambda: tf.train.MomentumOptimizer(FLAGS.learning_rate, 0.9),
        seed=1,
    )
    options = tensorbow.Options(learners_per_device=FLAGS.learners)
    with tensorbow.TensorBowSession(graph=program.graph, options=options) as session:
        session.run(program.init)
        # The rows of a run are divided evenly among the learners.
        feed = batches(data, session.num_learners * FLAGS.batch_size)
        for step in range(1, FLAGS.steps + 1):
            images, labels = next(feed)
            _, loss = session.run(
                [program.train_op, program.loss],
                feed_dict={program.images: images, program.labels: labels},
            )
            if step % FLAGS.report_every == 0 or step == FLAGS.steps:
                # Evaluates the central average model.
                accuracy = training.accuracy(session, program, data.x_test, data.y_test)
                print(f"step {step:5d}  loss {loss:.4f}  test accuracy {accuracy:.4f}", flush=True)
        print(f"{session.num_learners} learners saw {session.samples_seen} samples")


if __name__ == "__main__":
    app.run(main)
