"""Training of Keras classifiers to a target accuracy, with times, as `tensorbow.training`."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np

from tensorbow.cli.train.turns import TURN_SECONDS, Progress
from tensorbow.datasets import Images, Text
from tensorbow.training import evaluation_rows


class _Clock(keras.callbacks.Callback):
    """Takes the time of a call of fit(), from its first batch to its last."""

    seconds = 0.0
    _start = 0.0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._start = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.seconds = time.perf_counter() - self._start


def train(
    progress: Progress,
    model: Any,
    optimiser: Any,
    data: Images | Text,
    batch_size: int,
    rate: Callable[[int], float],
    seed: int,
) -> Iterator[tuple[int, float]]:
    """Compiles and trains a model without end; every call of fit() takes about a turn.

    Args:
      progress: is filled in at the end of every epoch.
      model: a Keras model that returns logits; replicated or not.
      optimiser: a `keras.optimizers.Optimizer` with a settable learning rate.
      data: rows are shuffled again in every epoch.
      batch_size: rows of a step.
      rate: returns the learning rate of an epoch, counted from 0.
      seed: of the shuffling.

    Yields:
      The rows of each call of fit(), and its seconds.
    """
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimiser, loss, metrics=["accuracy"])
    optimiser.build(model.trainable_variables)
    variables = [*model.variables, *optimiser.variables]
    initial = [variable.numpy() for variable in variables]
    random, clock, num_rows = np.random.default_rng(seed), _Clock(), len(data.x_train)

    def fit(rows: np.ndarray) -> float:
        x, y = data.x_train[rows], data.y_train[rows]
        model.fit(x, y, batch_size=batch_size, shuffle=False, verbose=0, callbacks=[clock])
        return clock.seconds

    def evaluate() -> float:
        rows = evaluation_rows(data.shape)
        _, accuracy = model.evaluate(data.x_test, data.y_test, batch_size=rows, verbose=0)
        return float(accuracy)

    # Everything is traced before the clock starts; then the values are set again.
    fit(np.arange(min(num_rows, batch_size)))
    evaluate()
    some = np.arange(min(num_rows, 4 * batch_size))
    a_turn = len(some) / fit(some) * TURN_SECONDS
    for variable, value in zip(variables, initial):
        variable.assign(value)

    samples, seconds = 0, 0.0
    for epoch in itertools.count():
        order = random.permutation(num_rows)
        optimiser.learning_rate = rate(epoch)
        while len(order) > 0:
            count = max(1, round(a_turn / batch_size)) * batch_size
            rows, order = order[:count], order[count:]
            taken = fit(rows)
            samples, seconds = samples + len(rows), seconds + taken
            a_turn = len(rows) / taken * TURN_SECONDS
            if len(order) == 0:
                found = evaluate()  # an interrupted evaluation does not count the epoch
                progress.samples.append(samples)
                progress.seconds.append(seconds)
                progress.accuracy.append(found)
            yield len(rows), taken
