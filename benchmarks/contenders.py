"""The ways to train that are compared, each with a function that makes a stepper.

A stepper trains on its own copy of the data and is called with a number of steps. It is
what a careful user would write for that way of training. Every contender runs in a
process of its own (see interleave.py), because thread pools are global to a process.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

LEARNING_RATE = 0.01
EMA_DECAY = 0.999
ROWS = 4096
# TensorFlow's switch for oneDNN's kernels, which it leaves off on processors without AVX512_VNNI.
WITH_ONEDNN = {"TF_ENABLE_ONEDNN_OPTS": "1"}

Stepper = Callable[[int], None]


@dataclasses.dataclass(frozen=True)
class Contender:
    """One way to train.

    Attributes:
      name: as it appears in tables.
      make: key of `MAKERS`.
      rows_per_step: rows that one step trains on.
      settings: for the maker.
      device: "cpu", or "gpu" for a process that sees the GPUs.
      python: the interpreter; "" is this one.
      environment: variables of its process besides this one's.
      tree: another working tree, built in place, whose TensorBow and contenders are measured;
        "" is this one.
    """

    name: str
    make: str
    rows_per_step: int
    settings: dict[str, Any] = dataclasses.field(default_factory=dict)
    device: str = "cpu"
    python: str = ""
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    tree: str = ""


def _module(name: str, earlier: str) -> Any:
    """Imports a module of the package; an earlier working tree has it under another name."""
    try:
        return importlib.import_module(f"tensorbow.{name}")
    except ModuleNotFoundError:
        return importlib.import_module(f"tensorbow.{earlier}")


def facts(model: str) -> Any:
    """Returns the facts about a model by its name, a `tensorbow.cli.model_names.Model`."""
    return _module("cli.model_names", "model_names").MODELS[model]


def data(model: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns random rows with learnable labels: throughput does not depend on the content."""
    known = facts(model)
    if known.reads != "image":
        from tensorbow import datasets

        text = datasets.synthetic(model, rows=ROWS)
        return text.x_train, text.y_train
    random = np.random.default_rng(0)
    images = random.random((ROWS, *known.shape), np.float32)
    projection = random.standard_normal((int(np.prod(known.shape)), 10))
    labels = np.argmax((images.reshape(ROWS, -1) - 0.5) @ projection, axis=1)
    return images, labels.astype(np.int32)


def batches_of(model: str, rows: int) -> Callable[[int], tuple[np.ndarray, np.ndarray]]:
    images, labels = data(model)
    count = ROWS // rows

    def batch(step: int) -> tuple[np.ndarray, np.ndarray]:
        begin = step % count * rows
        return images[begin : begin + rows], labels[begin : begin + rows]

    return batch


def _session_stepper(session: Any, program: Any, model: str, rows: int) -> Stepper:
    session.run(program.init)
    batch = batches_of(model, rows)
    done = 0

    def step(count: int) -> None:
        nonlocal done
        for _ in range(count):
            images, labels = batch(done)
            session.run(program.train_op, {program.inputs: images, program.labels: labels})
            done += 1

    return step


def _optimiser(momentum: float) -> Any:
    import tensorflow as tf

    train = tf.compat.v1.train
    if momentum:
        return train.MomentumOptimizer(LEARNING_RATE, momentum)
    return train.GradientDescentOptimizer(LEARNING_RATE)


def _program(model: str, momentum: float = 0.0) -> Any:
    from tensorbow import models

    known = facts(model)
    return models.build(
        model, known.shape, known.classes, optimiser=lambda: _optimiser(momentum), seed=1
    )


def _with_average(program: Any) -> Any:
    """Adds an exponential moving average of the weights to the program, as users write it."""
    import tensorflow as tf

    tf1 = tf.compat.v1
    with program.graph.as_default():
        step = tf1.train.get_or_create_global_step()
        with tf.control_dependencies([program.train_op]):
            count = tf1.assign_add(step, 1)
        with tf.control_dependencies([count]):
            average = tf1.train.ExponentialMovingAverage(EMA_DECAY, step)
            train_op = average.apply(tf1.trainable_variables())
        init = tf1.global_variables_initializer()
    return dataclasses.replace(program, train_op=train_op, init=init)


def stock_session(
    model: str,
    rows: int,
    threads: int = 0,
    momentum: float = 0.0,
    average: bool = False,
    xla: bool = False,
) -> Stepper:
    """Trains in a `tf.compat.v1.Session` with feed dicts; `threads` 0 is TensorFlow's default.

    `average` keeps an exponential moving average of the weights; `xla` lets XLA compile as much as
    possible.
    """
    import tensorflow as tf

    tf.compat.v1.disable_eager_execution()
    program = _program(model, momentum)
    if average:
        program = _with_average(program)
    config = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads
    )
    if xla:
        level = tf.compat.v1.OptimizerOptions.ON_1
        config.graph_options.optimizer_options.global_jit_level = level
    session = tf.compat.v1.Session(graph=program.graph, config=config)
    return _session_stepper(session, program, model, rows)


def tensorbow_session(
    model: str,
    rows: int,
    learners: int,
    averaging: bool = True,
    synchroniser: str = "SMA",
    momentum: float = 0.0,
    average: bool = False,
    options: dict[str, Any] | None = None,
) -> Stepper:
    """Trains the same program on `learners` learners, which divide `rows`.

    `synchroniser` is a class of tensorbow; without `averaging` it is `Independent`.
    `average` keeps an exponential moving average of the central model. `options` are more of
    `tensorbow.Options`.
    """
    import tensorflow as tf

    import tensorbow

    tf.compat.v1.disable_eager_execution()
    program = _program(model, momentum)
    make = getattr(tensorbow, synchroniser if averaging else "Independent")
    session = tensorbow.TensorBowSession(
        graph=program.graph,
        options=tensorbow.Options(
            learners_per_device=learners,
            synchroniser=make(ema_decay=EMA_DECAY) if average else make(),
            **(options or {}),
        ),
    )
    return _session_stepper(session, program, model, rows)


def pipeline_session(
    model: str,
    rows: int,
    learners: int = 0,
    elements: str = "divided",
    fixed: bool = False,
    mapped: bool = False,
) -> Stepper:
    """Trains the program of the two sessions above from tf.data instead of feed dicts.

    `learners` 0 is a stock session. One step takes `rows` rows: an element that learners divide, or
    with `elements` "one_each" an element of its share for each. `fixed`: the number of rows of an
    element is built into the graph. `mapped`: the pipeline computes something from each row, on all
    cores.
    """
    import tensorflow as tf

    import tensorbow
    from tensorbow import models

    tf1 = tf.compat.v1
    tf1.disable_eager_execution()
    share = rows if elements == "divided" else rows // max(1, learners)
    with tf.Graph().as_default() as graph:
        dataset = tf1.data.Dataset.from_tensor_slices(data(model)).repeat()
        if mapped:
            dataset = dataset.shuffle(1000, seed=1).map(
                lambda image, label: (2 * image - 1, label), num_parallel_calls=tf.data.AUTOTUNE
            )
        dataset = dataset.batch(share, drop_remainder=fixed).prefetch(2 * max(1, learners))
        images, labels = tf1.data.make_one_shot_iterator(dataset).get_next()
        layers = models.Layers(1, True, tf.float32)
        logits = models.MODELS[model](images, facts(model).classes, layers, training=True)
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        )
        train_op = tf1.train.GradientDescentOptimizer(LEARNING_RATE).minimize(loss)
        init = tf1.global_variables_initializer()
    if learners == 0:
        session = tf1.Session(graph=graph)
    else:
        options = tensorbow.Options(learners_per_device=learners, elements=elements)
        session = tensorbow.TensorBowSession(graph=graph, options=options)
    session.run(init)

    def step(count: int) -> None:
        for _ in range(count):
            session.run(train_op)

    return step


def tf_function(model: str, rows: int, xla: bool = False) -> Stepper:
    """Trains by a compiled TensorFlow-2 step, fed from tensors that are ready."""
    import tensorflow as tf

    from tensorbow import models

    class EagerLayers(models.Layers):
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
            logits = models.MODELS[model](images, facts(model).classes, layers, training=True)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            )
        weights = [v for v in layers._variables.values() if v.trainable]
        for weight, gradient in zip(weights, tape.gradient(loss, weights)):
            if isinstance(gradient, tf.IndexedSlices):
                values = LEARNING_RATE * gradient.values
                weight.scatter_sub(tf.IndexedSlices(values, gradient.indices))
            else:
                weight.assign_sub(LEARNING_RATE * gradient)

    batch = batches_of(model, rows)
    ready = [tuple(map(tf.constant, batch(k))) for k in range(ROWS // rows)]
    done = 0

    def step(count: int) -> None:
        nonlocal done
        for _ in range(count):
            train(*ready[done % len(ready)])
            done += 1

    return step


def _keras_network(model: str) -> Any:
    networks = _module("cli.train.keras_networks", "keras.networks")
    return networks.build(model, facts(model).shape, facts(model).classes)


def _compile(network: Any, steps_per_execution: int = 1, optimiser: str = "sgd") -> None:
    import keras

    network.compile(
        keras.optimizers.get({"class_name": optimiser, "config": {"learning_rate": LEARNING_RATE}}),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        steps_per_execution=steps_per_execution,
    )


def keras_fit(model: str, rows: int, steps_per_execution: int = 1) -> Stepper:
    """Trains by `keras.Model.fit` on arrays in memory."""
    network = _keras_network(model)
    _compile(network, steps_per_execution)
    images, labels = data(model)

    def step(count: int) -> None:
        # As few calls as the rows allow, since each fit() sets up its pipeline again.
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


def dense_update(
    model: str, rows: int, parameters: int, learners: int, averaging: bool, momentum: float
) -> Stepper:
    """Trains a session on `learners` learners whose step is only the optimiser's update.

    The `parameters` are in four variables; their gradient lies in variables, too.
    """
    import tensorflow as tf

    import tensorbow

    tf1 = tf.compat.v1
    tf1.disable_eager_execution()
    graph = tf.Graph()
    with graph.as_default():
        pairs = []
        for k in range(4):
            size = parameters // 4 + (parameters % 4 > k)
            zeros = tf1.zeros_initializer()
            gradient = tf1.get_variable(f"gradient{k}", [size], trainable=False, initializer=zeros)
            weight = tf1.get_variable(f"weight{k}", [size], initializer=tf1.ones_initializer())
            pairs.append((gradient.read_value(), weight))
        train_op = _optimiser(momentum).apply_gradients(pairs)
        init = tf1.global_variables_initializer()
    options = tensorbow.Options(
        learners_per_device=learners,
        synchroniser=tensorbow.SMA() if averaging else tensorbow.Independent(),
    )
    session = tensorbow.TensorBowSession(graph=graph, options=options)
    session.run(init)

    def step(count: int) -> None:
        for _ in range(count):
            session.run(train_op)

    return step


BANDWIDTH_BYTES = 3 * 4 * (1 << 23)  # two arrays are read, one is written


def memory_bandwidth(model: str, rows: int) -> Stepper:
    """Computes NumPy's a = b + c, BANDWIDTH_BYTES a step, on one thread for each core.

    The threads' arrays have 32 MiB each in total: three of them do not fit into caches, even if
    written ones count once.
    """
    import concurrent.futures
    import os

    cores = len(os.sched_getaffinity(0))
    size = BANDWIDTH_BYTES // 12 // cores
    arrays = [[np.ones(size, np.float32) for _ in range(3)] for _ in range(cores)]
    pool = concurrent.futures.ThreadPoolExecutor(cores)

    def add(count: int, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> None:
        for _ in range(count):
            np.add(b, c, out=a)

    def step(count: int) -> None:
        for done in [pool.submit(add, count, *mine) for mine in arrays]:
            done.result()

    return step


def keras_epochs(
    model: str,
    rows: int,
    batch_size: int,
    steps_per_execution: int = 1,
    learners: int = 0,
    synchroniser: str = "SMA",
    optimiser: str = "sgd",
) -> Stepper:
    """Trains one epoch of `rows` by `fit` a step, in stock Keras or on learners."""
    import tensorbow

    network = _keras_network(model)
    if learners > 0:
        options = tensorbow.Options(
            learners_per_device=learners, synchroniser=getattr(tensorbow, synchroniser)()
        )
        tensorbow.keras.replicate(network, options)
    _compile(network, steps_per_execution, optimiser)
    images, labels = data(model)
    repeats = -(-rows // ROWS)
    images, labels = (np.concatenate([a] * repeats)[:rows] for a in (images, labels))

    def step(count: int) -> None:
        network.fit(images, labels, batch_size=batch_size, epochs=count, shuffle=False, verbose=0)

    step.network = network  # type: ignore[attr-defined]
    return step


def tensorbow_session_on_keras_graph(
    model: str, rows: int, batch_size: int, learners: int, optimiser: str = "sgd"
) -> Stepper:
    """Trains by `TensorBowSession.run` with feed dicts on the graph of Keras's train_step."""
    fit = keras_epochs(model, 2 * batch_size, batch_size, learners=learners, optimiser=optimiser)
    fit(1)
    replication = fit.network._tensorbow  # type: ignore[attr-defined]
    session, traced = replication.session, replication.program.step
    batch = batches_of(model, batch_size)
    done = 0

    def step(count: int) -> None:
        nonlocal done
        for _ in range(count * rows // batch_size):
            feeds = dict(zip(traced.inputs, batch(done)))
            session.run([traced.train_op, traced.outputs["loss"]], feeds)
            done += 1

    return step


# The module of each function that makes a stepper. An environment without TensorFlow imports only
# its own module.
MAKERS = {
    "sparse_reader": "sparse_contenders",
    "sparse_session": "sparse_contenders",
    "network_session": "networks",
    "mirrored_network": "peers_tensorflow",
    "torch_network": "peers_torch",
    "torch_distributed": "peers_torch",
    "jax_network": "peers_jax",
    "stock_session": "contenders",
    "tensorbow_session": "contenders",
    "pipeline_session": "contenders",
    "tf_function": "contenders",
    "custom_loop": "function",
    "keras_fit": "contenders",
    "keras_epochs": "contenders",
    "dense_update": "contenders",
    "host_mirrored": "host_contenders",
    "host_session": "host_contenders",
    "memory_bandwidth": "contenders",
    "dying_rate": "fully_connected",
    "tensorbow_session_on_keras_graph": "contenders",
}


def maker(name: str) -> Callable[..., Stepper]:
    """Returns the function of that name."""
    found: Callable[..., Stepper] = getattr(importlib.import_module(MAKERS[name]), name)
    return found


def kernel_seconds(model: str, rows: int, steps: int = 30) -> float:
    """Returns the time inside kernels of one learning task on one thread: the floor of any runtime.

    From TensorFlow's own tracing of a one-learner run; the median over `steps`.
    """
    import tensorflow as tf

    import tensorbow

    tf.compat.v1.disable_eager_execution()
    program = _program(model)
    batch = batches_of(model, rows)
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
                {program.inputs: images, program.labels: labels},
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
