"""ResNet-20 on CIFAR-10, on several learners, with the usual drops of the learning rate.

    python examples/resnet_cifar10.py [--data cifar10.npz] [--learners N] [--steps N]

Without --data it takes the CIFAR-10 that Keras has cached; it downloads nothing.
"""

import os
import pathlib
from collections.abc import Iterator

import numpy as np
import tensorflow.compat.v1 as tf
from absl import app, flags

import tensorbow
from tensorbow import datasets, models, training

FLAGS = flags.FLAGS
flags.DEFINE_string("data", None, "an .npz file with x_train, y_train, x_test, y_test")
flags.DEFINE_integer("learners", None, "learners; default one per core", lower_bound=1)
flags.DEFINE_integer("batch_size", 32, "rows of one learner's batch", lower_bound=1)
flags.DEFINE_integer("steps", 3000, "training steps", lower_bound=1)
flags.DEFINE_integer("report_every", 100, "steps between two evaluations", lower_bound=1)
flags.DEFINE_float("learning_rate", 0.05, "at the start", lower_bound=0)


def cifar10() -> datasets.Images:
    """Returns the data of --data, or Keras's."""
    if FLAGS.data:
        return datasets.from_file(FLAGS.data)
    cache = pathlib.Path(os.environ.get("KERAS_HOME", "~/.keras")).expanduser() / "datasets"
    if not (cache / "cifar-10-batches-py-target_archive").exists():
        raise SystemExit(
            f"No CIFAR-10: Keras has not cached it in {cache}. Fix: --data FILE.npz (x_train, "
            "y_train, x_test, y_test; images [rows, 32, 32, 3]), or, with a network, once: "
            "python -c 'import keras; keras.datasets.cifar10.load_data()'"
        )
    import keras

    (x_train, y_train), (x_test, y_test) = keras.datasets.cifar10.load_data()
    x_train, x_test = (x.astype(np.float32) / 255 for x in (x_train, x_test))
    y_train, y_test = (y.astype(np.int32).ravel() for y in (y_train, y_test))
    return datasets.Images("CIFAR-10", x_train, y_train, x_test, y_test)


def augmented(images: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Returns images shifted by up to 4 pixels and mirrored at random (He et al., 2015)."""
    count, height, width, _ = images.shape
    padded = np.pad(images, ((0, 0), (4, 4), (4, 4), (0, 0)))
    result = np.empty_like(images)
    for k, (i, j, flip) in enumerate(random.integers((9, 9, 2), size=(count, 3))):
        image = padded[k, i : i + height, j : j + width]
        result[k] = image[:, ::-1] if flip else image
    return result


def batches(data: datasets.Images, rows: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields augmented batches of `rows` rows without end, in a new order every epoch."""
    random = np.random.default_rng(0)
    while True:
        order = random.permutation(len(data.x_train))
        for begin in range(0, len(order), rows):
            chosen = order[begin : begin + rows]
            yield augmented(data.x_train[chosen], random), data.y_train[chosen]


def main(_: list[str]) -> None:
    tf.disable_eager_execution()
    data = cifar10()
    print(f"ResNet-20 on {data.name}: {len(data.x_train)} images for training")

    def optimiser() -> tf.train.Optimizer:
        rate = tf.placeholder(tf.float32, [], name="rate")
        return tf.train.MomentumOptimizer(rate, 0.9)

    program = models.build("resnet20", data.image_shape, data.classes, optimiser, seed=1)
    rate = program.graph.get_tensor_by_name("rate:0")
    options = tensorbow.Options(learners_per_device=FLAGS.learners)
    with tensorbow.TensorBowSession(graph=program.graph, options=options) as session:
        session.run(program.init)
        # The rows of a run are divided evenly among the learners.
        feed = batches(data, session.num_learners * FLAGS.batch_size)
        for step in range(1, FLAGS.steps + 1):
            images, labels = next(feed)
            # Drops by 10 after half of the steps, and again after three quarters. At such a drop
            # SMA sets every learner to the central model.
            drops = (step > FLAGS.steps / 2) + (step > FLAGS.steps * 3 / 4)
            feeds = {
                program.images: images,
                program.labels: labels,
                rate: FLAGS.learning_rate * 0.1**drops,
            }
            _, loss = session.run([program.train_op, program.loss], feed_dict=feeds)
            if step % FLAGS.report_every == 0 or step == FLAGS.steps:
                # Evaluates the central average model.
                accuracy = training.accuracy(session, program, data.x_test, data.y_test)
                print(f"step {step:5d}  loss {loss:.4f}  test accuracy {accuracy:.4f}", flush=True)
        print(f"{session.num_learners} learners saw {session.samples_seen} samples")


if __name__ == "__main__":
    app.run(main)
