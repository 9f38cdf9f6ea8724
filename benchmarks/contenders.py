"""The ways to train that are compared: each a function that makes a stepper.

A stepper trains on its own copy of the data and is called with a number of steps. It is
what a careful user would write for that way of training. Every contender runs in a
process of its own (see interleave.py), because thread pools are global to a process.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

IMAGE_SHAPES = {
    "logistic": (28, 28, 1),
    "lenet": (28, 28, 1),
    "resnet20": (32, 32, 3),
    "resnet32": (32, 32, 3),
}
LEARNING_RATE = 0.01
ROWS = 4096

Stepper = Callable[[int], None]


@dataclasses.dataclass(frozen=True)
class Contender:
    """One way to train.

    Attributes:
      name: as it appears in tables.
      make: key of `MAKERS`.
      rows_per_step: rows that one step trains on.
      settings: for the maker.
    """

    name: str
    make: str
    rows_per_step: int
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)


def data(model: str) -> tuple[np.ndarray, np.ndarray]:
    """Random images with learnable labels: throughput does not depend on the content."""
    random = np.random.default_rng(0)
    images = random.random((ROWS, *IMAGE_SHAPES[model]), np.float32)
    projection = random.standard_normal((int(np.prod(IMAGE_SHAPES[model])), 10))
    labels = np.argmax((images.reshape(ROWS, -1) - 0.5) @ projection, axis=1)
    return images, labels.astype(np.int32)


def _batches(model: str, rows: int) -> Callable[[int], tuple[np.ndarray, np.ndarray]]:
    images, labels = data(model)
    count = ROWS // rows

    def batch(step: int) -> tuple[np.ndarray, np.ndarray]:
        begin = step % count * rows
        return images[begin : begin + rows], labels[begin : begin + rows]

    return batch


def _session_stepper(session: Any, program: Any, model: str, rows: int) -> Stepper:
    session.run(program.init)
    batch = _batches(model, rows)
    done = 0

    def step(count: int) -> None:
        nonlocal done
        for _ in range(count):
            images, labels = batch(done)
            session.run(program.train_op, {program.images: images, program.labels: labels})
            done += 1

    return step


def stock_session(model: str, rows: int, threads: int = 0) -> Stepper:
    """`tf.compat.v1.Session` with feed dicts; `threads` 0 is TensorFlow's default."""
    import tensorflow as tf

    from tensorbow import models

    tf.compat.v1.disable_eager_execution()
    program = models.build(model, IMAGE_SHAPES[model], seed=1)
    config = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads
    )
    session = tf.compat.v1.Session(graph=program.graph, config=config)
    return _session_stepper(session, program, model, rows)


def tensorbow_session(model: str, rows: int, learners: int, averaging: bool = True) -> Stepper:
    """The same program on `learners` learners; `rows` are divided among them."""
    import tensorflow as tf

    import tensorbow
    from tensorbow import models

    tf.compat.v1.disable_eager_execution()
    program = models.build(model, IMAGE_SHAPES[model], seed=1)
    synchroniser = tensorbow.SMA() if averaging else tensorbow.Independent()
    session = tensorbow.TensorBowSession(
        graph=program.graph,
        options=tensorbow.Options(learners_per_device=learners, synchroniser=synchroniser),
    )
    return _session_stepper(session, program, model, rows)


def tf_function(model: str, rows: int, xla: bool = False) -> Stepper:
    """A compiled TensorFlow-2 training step, fed from tensors that are ready."""
    import tensorflow as tf

    from tensorbow import models

    class EagerLayers(models._Layers):
        def _variable(self, name, shape, initial, trainable=True):
            if name not in self._variables:
                with tf.init_scope():
                    value = initial(shape, self._dtype)
                    self._variables[name] = tf.Variable(value, trainable=trainable, name=name)
            return self._variables[name]

    layers = EagerLayers(1, True, tf.float32)

    @tf.function(jit_compile=xla)
    def train(images, labels):
        with tf.GradientTape() as tape:
            logits = models.MODELS[model](images, 10, layers, training=True)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            )
        weights = [v for v in layers._variables.values() if v.trainable]
        for weight, gradient in zip(weights, tape.gradient(loss, weights)):
            weight.assign_sub(LEARNING_RATE * gradient)

    batch = _batches(model, rows)
    ready = [tuple(map(tf.constant, batch(k))) for k in range(ROWS // rows)]
    done = 0

    def step(count: int) -> None:
        nonlocal done
        for _ in range(count):
            train(*ready[done % len(ready)])
            done += 1

    return step


def _keras_network(model: str) -> Any:
    from tensorbow.keras import networks

    return networks.build(model, IMAGE_SHAPES[model])


def _compile(network: Any, steps_per_execution: int = 1) -> None:
    import keras

    network.compile(
        keras.optimizers.SGD(LEARNING_RATE),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        steps_per_execution=steps_per_execution,
    )


def keras_fit(model: str, rows: int, steps_per_execution: int = 1) -> Stepper:
    """`keras.Model.fit` on arrays in memory."""
    network = _keras_network(model)
    _compile(network, steps_per_execution)
    images, labels = data(model)

    def step(count: int) -> None:
        # A new fit() sets up its pipeline anew: as few calls as the rows allow.
        while count > 0:
            now = min(count, ROWS // rows)
            network.fit(
                images[: now * rows],
                labels[: now * rows],
                batch_size=rows,
                epochs=1,
                shuffle=False,
                verbose=0,
            )
            count -= now

    return step


def keras_epochs(
    model: str, rows: int, batch_size: int, steps_per_execution: int = 1, learners: int = 0
) -> Stepper:
    """A step is one `fit` for an epoch of `rows`, by stock Keras or by so many learners."""
    import tensorbow

    network = _keras_network(model)
    if learners > 0:
        options = tensorbow.Options(learners_per_device=learners)
        tensorbow.keras.replicate(network, options)
    _compile(network, steps_per_execution)
    images, labels = data(model)
    repeats = -(-rows // ROWS)
    images, labels = (np.concatenate([a] * repeats)[:rows] for a in (images, labels))

    def step(count: int) -> None:
        network.fit(images, labels, batch_size=batch_size, epochs=count, shuffle=False, verbose=0)

    step.network = network  # type: ignore[attr-defined]
    return step


def tensorbow_session_on_keras_graph(
    model: str, rows: int, batch_size: int, learners: int
) -> Stepper:
    """`TensorBowSession.run` with feed dicts on the graph that Keras's train_step became."""
    fit = keras_epochs(model, 2 * learners * batch_size, batch_size, learners=learners)
    fit(1)
    replication = fit.network._tensorbow  # type: ignore[attr-defined]
    session, traced = replication.session, replication._program.step
    fed = learners * batch_size
    batch = _batches(model, fed)
    done = 0

    def step(count: int) -> None:
        nonlocal done
        for _ in range(count * rows // fed):
            feeds = dict(zip(traced.inputs, batch(done)))
            session.run([traced.train_op, traced.outputs["loss"]], feeds)
            done += 1

    return step


MAKERS: dict[str, Callable[..., Stepper]] = {
    "stock_session": stock_session,
    "tensorbow_session": tensorbow_session,
    "tf_function": tf_function,
    "keras_fit": keras_fit,
    "keras_epochs": keras_epochs,
    "tensorbow_session_on_keras_graph": tensorbow_session_on_keras_graph,
}


def kernel_seconds(model: str, rows: int, steps: int = 30) -> float:
    """Time inside kernels of one learning task on one thread: the floor of any runtime.

    From TensorFlow's own tracing of a one-learner run; the median over `steps`.
    """
    import tensorflow as tf

    import tensorbow
    from tensorbow import models

    tf.compat.v1.disable_eager_execution()
    program = models.build(model, IMAGE_SHAPES[model], seed=1)
    batch = _batches(model, rows)
    totals = []
    options = tensorbow.Options(learners_per_device=1)
    trace = tf.compat.v1.RunOptions(trace_level=tf.compat.v1.RunOptions.FULL_TRACE)
    with tensorbow.TensorBowSession(graph=program.graph, options=options) as session:
        session.run(program.init)
        for k in range(steps + 10):
            images, labels = batch(k)
            metadata = tf.compat.v1.RunMetadata()
            session.run(
                program.train_op,
                {program.images: images, program.labels: labels},
                options=trace if k >= 10 else None,
                run_metadata=metadata,
            )
            nanos = sum(
                node.op_end_rel_nanos - node.op_start_rel_nanos
                for device in metadata.step_stats.dev_stats
                for node in device.node_stats
            )
            if k >= 10:
                totals.append(nanos * 1e-9)
    return float(np.median(totals))
