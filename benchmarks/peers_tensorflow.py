"""Networks of networks.py under TensorFlow's own replication."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
from fully_connected import RATES, optimiser
from networks import NETWORKS, SEED, batches


def mirrored_network(model: str, rows: int) -> Callable[[int], None]:
    """Trains by `tf.distribute.MirroredStrategy`, a replica on a logical CPU for each core.

    A graph in a stock session, as for the other networks; each replica has its own placeholders,
    fed its share of the rows. The stepper's `value()` is the number of trained parameters.
    """
    import tensorflow as tf

    tf1 = tf.compat.v1
    tf1.disable_eager_execution()
    network, replicas = NETWORKS[model], len(os.sched_getaffinity(0))
    cpu = tf.config.list_physical_devices("CPU")[0]
    logical = [tf.config.LogicalDeviceConfiguration() for _ in range(replicas)]
    tf.config.set_logical_device_configuration(cpu, logical)
    strategy = tf.distribute.MirroredStrategy([f"/cpu:{k}" for k in range(replicas)])

    def train() -> tuple[list[Any], Any]:
        inputs, loss = network.make()
        scaled = loss / replicas  # strategies sum gradients
        return inputs, optimiser(network.optimiser, RATES[network.optimiser]).minimize(scaled)

    with tf.Graph().as_default() as graph, strategy.scope():
        tf1.set_random_seed(SEED)
        inputs, train_op = strategy.run(train)
        run = tf.group(*strategy.experimental_local_results(train_op))
        init = tf1.global_variables_initializer()
        parameters = sum(np.prod(v.shape) for v in tf1.trainable_variables())
    shares = [strategy.experimental_local_results(part) for part in inputs]
    ready = []
    for made in batches(model):
        feeds: dict[Any, np.ndarray] = {}
        for part, values in zip(shares, made, strict=True):
            feeds.update(zip(part, np.split(values, replicas), strict=True))
        ready.append(feeds)
    config = tf1.ConfigProto(device_count={"CPU": replicas}, allow_soft_placement=True)
    session = tf1.Session(graph=graph, config=config)
    session.run(init)
    done = 0

    def step(count: int) -> None:
        nonlocal done
        for _ in range(count):
            session.run(run, ready[done % len(ready)])
            done += 1

    step.value = lambda: float(parameters)  # type: ignore[attr-defined]
    return step
