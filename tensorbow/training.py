"""Trains a classifier to a target accuracy, with any session class, and takes the time."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from tensorbow.datasets import Images, Text
from tensorbow.models import Program

_EVALUATION_ROWS = 1000  # at most, and
_EVALUATION_VALUES = 2**22


def evaluation_rows(shape: tuple[int, ...]) -> int:
    """How many rows of this shape are evaluated at once: what a network makes of them takes
    memory."""
    return max(1, min(_EVALUATION_ROWS, _EVALUATION_VALUES // int(np.prod(shape))))


@dataclasses.dataclass
class Progress:
    """What a training run achieved.

    Attributes:
      name: of the contender.
      samples: training samples seen at the end of each epoch.
      seconds: training time until then; evaluation is not counted.
      accuracy: on the test set at that moment, of the model that would be saved.
      target: the accuracy asked for.
    """

    name: str
    target: float
    samples: list[int] = dataclasses.field(default_factory=list)
    seconds: list[float] = dataclasses.field(default_factory=list)
    accuracy: list[float] = dataclasses.field(default_factory=list)

    @property
    def epochs_to_target(self) -> int | None:
        """Epochs until the target accuracy was reached; None if it was not."""
        reached = np.flatnonzero(np.array(self.accuracy) >= self.target)
        return int(reached[0]) + 1 if len(reached) else None

    @property
    def seconds_to_target(self) -> float | None:
        """Training seconds until then."""
        epochs = self.epochs_to_target
        return None if epochs is None else self.seconds[epochs - 1]

    @property
    def samples_per_second(self) -> float:
        """Over the whole training, evaluation not counted."""
        return self.samples[-1] / self.seconds[-1]


def accuracy(session: Any, program: Program, inputs: np.ndarray, labels: np.ndarray) -> float:
    """Fraction of labels that the session's model finds."""
    hits = 0
    count = evaluation_rows(inputs.shape[1:])
    for begin in range(0, len(inputs), count):
        rows = slice(begin, begin + count)
        feeds = {program.inputs: inputs[rows], program.labels: labels[rows]}
        hits += round(float(session.run(program.accuracy, feeds)) * labels[rows].size)
    return hits / labels.size


def train(
    name: str,
    session: Any,
    program: Program,
    data: Images | Text,
    rows_per_run: int,
    epochs: int,
    target: float,
    seed: int,
    feeds_of_epoch: Callable[[int], dict[Any, Any]] | None = None,
    report: Callable[[Progress, int, int], None] | None = None,
) -> Progress:
    """Trains for `epochs` epochs, evaluating after each.

    Args:
      name: of the contender, for the result.
      session: a `tf.compat.v1.Session`, stock or TensorBow's, on the program's graph.
      program: what to run.
      data: rows are shuffled again in every epoch; the last run of an epoch may be short.
      rows_per_run: rows fed to one run.
      epochs: at most so many; training does not stop at the target.
      target: test accuracy, 0 to 1.
      seed: of the shuffling.
      feeds_of_epoch: further feeds by epoch, e.g. the learning rate.
      report: called with (progress so far, runs done in this epoch, runs of an epoch).
    """
    random = np.random.default_rng(seed)
    progress = Progress(name, target)
    session.run(program.init)
    runs = -(-len(data.x_train) // rows_per_run)
    # Compiles both kinds of runs before the clock starts; the weights are set again.
    first = {
        program.inputs: data.x_train[:rows_per_run],
        program.labels: data.y_train[:rows_per_run],
    }
    more = feeds_of_epoch(0) if feeds_of_epoch else {}
    session.run([program.train_op, program.loss], {**first, **more})
    accuracy(session, program, data.x_test, data.y_test)
    session.run(program.init)

    samples, seconds = 0, 0.0
    for epoch in range(epochs):
        order = random.permutation(len(data.x_train))
        more = feeds_of_epoch(epoch) if feeds_of_epoch else {}
        for k in range(runs):
            rows = order[k * rows_per_run : (k + 1) * rows_per_run]
            feeds = {program.inputs: data.x_train[rows], program.labels: data.y_train[rows], **more}
            start = time.perf_counter()
            session.run([program.train_op, program.loss], feeds)
            seconds += time.perf_counter() - start
            samples += len(rows)
            if report:
                report(progress, k + 1, runs)
        progress.samples.append(samples)
        progress.seconds.append(seconds)
        progress.accuracy.append(accuracy(session, program, data.x_test, data.y_test))
    return progress
