"""Trains a Keras classifier to a target accuracy and takes the time, as `tensorbow.training`."""

from __future__ import annotations

import time
from typing import Any

import keras

from tensorbow.datasets import Images, Text
from tensorbow.training import Progress, evaluation_rows


class _Clock(keras.callbacks.Callback):
    """Fills in a `Progress`; evaluation is not counted."""

    def __init__(self, progress: Progress, data: Images | Text, rates: list[float]) -> None:
        super().__init__()
        self._progress = progress
        self._data = data
        self._rates = rates
        self._seconds = 0.0
        self._begun = 0.0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.model.optimizer.learning_rate = self._rates[epoch]
        self._begun = time.perf_counter()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._seconds += time.perf_counter() - self._begun
        _, accuracy = self.model.evaluate(
            self._data.x_test,
            self._data.y_test,
            batch_size=evaluation_rows(self._data.shape),
            verbose=0,
        )
        self._progress.samples.append((epoch + 1) * len(self._data.x_train))
        self._progress.seconds.append(self._seconds)
        self._progress.accuracy.append(accuracy)


def train(
    name: str,
    model: Any,
    optimiser: Any,
    data: Images | Text,
    batch_size: int,
    rates: list[float],
    target: float,
) -> Progress:
    """Compiles and trains a model for as many epochs as there are learning rates.

    Args:
      name: of the contender, for the result.
      model: a Keras model that returns logits; replicated or not.
      optimiser: a `keras.optimizers.Optimizer` with a settable learning rate.
      data: rows are shuffled again in every epoch.
      batch_size: rows of a step.
      rates: the learning rate of every epoch.
      target: test accuracy, 0 to 1; training does not stop there.
    """
    progress = Progress(name, target)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimiser, loss, metrics=["accuracy"])
    optimiser.build(model.trainable_variables)
    variables = [*model.variables, *optimiser.variables]
    initial = [variable.numpy() for variable in variables]
    clock = _Clock(progress, data, rates)
    # Everything is traced before the clock starts; then the values are set again.
    model.fit(data.x_train, data.y_train, batch_size=batch_size, steps_per_epoch=1, verbose=0)
    model.evaluate(data.x_test, data.y_test, batch_size=evaluation_rows(data.shape), verbose=0)
    for variable, value in zip(variables, initial):
        variable.assign(value)
    model.fit(
        data.x_train,
        data.y_train,
        batch_size=batch_size,
        epochs=len(rates),
        verbose=0,
        callbacks=[clock],
    )
    return progress
