"""Ways to train on several hosts: makers for contenders.py that are one host each."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import Any


def _take_share_of_cores(hosts: int, rank: int) -> None:
    """Gives each host of a cluster on this machine its own cores, as with several machines."""
    cores = sorted(os.sched_getaffinity(0))
    share = cores[rank::hosts] if hosts <= len(cores) else [cores[rank % len(cores)]]
    os.sched_setaffinity(0, share)


def host_session(
    model: str,
    rows: int,
    addresses: Sequence[str],
    rank: int,
    learners: int,
    averaging: bool,
    synchroniser: str = "SMA",
    period: int = 1,
    chunk: int | str | None = None,
) -> Callable[[int], None]:
    """Trains in a TensorBowSession on `learners` learners of one host; `rows` are this host's.

    `period`: iterations from one average of the hosts to the next. `chunk`: see
    `tensorbow.Cluster`. Without `averaging`, hosts are independent.
    """
    _take_share_of_cores(len(addresses), rank)
    from contenders import tensorbow_session

    import tensorbow

    cluster = None
    if averaging:
        cluster = tensorbow.Cluster(
            addresses, rank, hang_limit_seconds=60, sync_period=period, chunk=chunk
        )
    return tensorbow_session(
        model, rows, learners, synchroniser=synchroniser, options={"cluster": cluster}
    )


def host_mirrored(
    model: str, rows: int, addresses: Sequence[str], rank: int
) -> Callable[[int], None]:
    """Trains by `tf.distribute.MultiWorkerMirroredStrategy` around a compiled TensorFlow-2 step."""
    _take_share_of_cores(len(addresses), rank)
    task = {"type": "worker", "index": rank}
    os.environ["TF_CONFIG"] = json.dumps({"cluster": {"worker": list(addresses)}, "task": task})
    import tensorflow as tf
    from contenders import LEARNING_RATE, ROWS, batches_of

    from tensorbow import models

    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    class Layers(models.Layers):
        def _variable(self, name: str, shape: Any, initial: Any, trainable: bool = True) -> Any:
            if name not in self._variables:
                own = {} if trainable else {"aggregation": tf.VariableAggregation.MEAN}
                value = initial(shape, self._dtype)
                made = tf.Variable(value, trainable=trainable, name=name, **own)
                self._variables[name] = made
            return self._variables[name]

    layers = Layers(1, True, tf.float32)
    batch = batches_of(model, rows)
    ready = [tuple(map(tf.constant, batch(k))) for k in range(ROWS // rows)]
    with strategy.scope():
        models.MODELS[model](ready[0][0], 10, layers, training=False)  # makes the variables
        optimiser = tf.compat.v1.train.GradientDescentOptimizer(LEARNING_RATE)

    def train_replica(images: Any, labels: Any) -> None:
        with tf.GradientTape() as tape:
            logits = models.MODELS[model](images, 10, layers, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            # The strategy sums gradients.
            loss = tf.reduce_mean(losses) / strategy.num_replicas_in_sync
        weights = [v for v in layers._variables.values() if v.trainable]
        optimiser.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))

    @tf.function
    def train(images: Any, labels: Any) -> None:
        strategy.run(train_replica, (images, labels))

    done = 0

    def step(count: int) -> None:
        nonlocal done
        for _ in range(count):
            train(*ready[done % len(ready)])
            done += 1

    return step
