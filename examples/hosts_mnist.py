"""LeNet on several hosts, each with its part of the images.

    tensorbow launch --hosts 2 examples/hosts_mnist.py [--data mnist.npz] [--steps N]
    tensorbow launch --hosts 2 --max-restarts 3 examples/hosts_mnist.py --state run/state

The program is that of one host, except for its feeds: TF_CONFIG lists the hosts. On several
machines start it on each, with the same TF_CONFIG but for the task. Without --data it trains on
scikit-learn's handwritten digits, which need no download. With --state it regularly saves the
complete state, and continues from there.
"""

import numpy as np
import tensorflow.compat.v1 as tf
from absl import app, flags

import tensorbow
from tensorbow import datasets, models, training

FLAGS = flags.FLAGS
flags.DEFINE_string("data", None, "an .npz file in the layout of Keras's MNIST")
flags.DEFINE_integer("batch_size", 16, "rows of one learner's batch", lower_bound=1)
flags.DEFINE_integer("steps", 1000, "training steps", lower_bound=1)
flags.DEFINE_string("state", None, "a file to save to every 100 steps, and to go on from")
flags.DEFINE_float("learning_rate", 0.02, "of the momentum optimiser", lower_bound=0)


def main(_: list[str]) -> None:
    tf.disable_eager_execution()
    options = tensorbow.Options()
    hosts, rank = 1, 0
    if isinstance(options.cluster, tensorbow.Cluster):
        hosts, rank = len(options.cluster.hosts), options.cluster.rank
    data = datasets.from_file(FLAGS.data) if FLAGS.data else datasets.digits()
    images, labels = data.x_train[rank::hosts], data.y_train[rank::hosts]
    print(f"LeNet on {data.name}: {len(images)} images of {len(data.x_train)} are this host's")
    program = models.build(
        "lenet",
        data.image_shape,
        data.classes,
        optimiser=lambda: tf.train.MomentumOptimizer(FLAGS.learning_rate, 0.9),
    )
    with tensorbow.TensorBowSession(graph=program.graph, options=options) as session:
        try:
            if not FLAGS.state:
                raise tf.errors.NotFoundError(None, None, "nothing is saved")
            session.load_state(FLAGS.state)
        except tf.errors.NotFoundError:
            session.run(program.init)  # the weights are those of the first host
        for step in range(session.iterations, FLAGS.steps):
            random = np.random.default_rng([rank, step])
            rows = random.integers(len(images), size=session.num_learners * FLAGS.batch_size)
            feeds = {program.images: images[rows], program.labels: labels[rows]}
            session.run(program.train_op, feeds)
            if FLAGS.state and step % 100 == 99:
                session.save_state(FLAGS.state)
        if rank == 0:
            accuracy = training.accuracy(session, program, data.x_test, data.y_test)
            print(f"{hosts} hosts saw {session.samples_seen} samples, accuracy {accuracy:.4f}")


if __name__ == "__main__":
    app.run(main)
