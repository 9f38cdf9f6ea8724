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
      precision: of models with several labels a row, precision@1, @3 and @5 at that moment.
      target: the accuracy asked for.
    """

    name: str
    target: float
    samples: list[int] = dataclasses.field(default_factory=list)
    seconds: list[float] = dataclasses.field(default_factory=list)
    accuracy: list[float] = dataclasses.field(default_factory=list)
    precision: list[list[float]] = dataclasses.field(default_factory=list)

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
    progress = Progress(name, target)
    return run_epochs(
        progress,
        session,
        program,
        len(data.x_train),
        lambda rows: {program.inputs: data.x_train[rows], program.labels: data.y_train[rows]},
        lambda: accuracy(session, program, data.x_test, data.y_test),
        rows_per_run,
        epochs,
        seed,
        feeds_of_epoch,
        report,
    )


def run_epochs(
    progress: Progress,
    session: Any,
    program: Any,
    num_rows: int,
    feeds: Callable[[np.ndarray], dict[Any, Any]],
    evaluate: Callable[[], float],
    rows_per_run: int,
    epochs: int,
    seed: int,
    feeds_of_epoch: Callable[[int], dict[Any, Any]] | None = None,
    report: Callable[[Progress, int, int], None] | None = None,
) -> Progress:
    """What `train` does, of any program with `init`, `train_op` and `loss`.

    Args:
      progress: is filled in and returned.
      num_rows: of the training set.
      feeds: what to feed for the rows with these numbers.
      evaluate: the accuracy as it is.
    """
    random = np.random.default_rng(seed)
    session.run(program.init)
    runs = -(-num_rows // rows_per_run)
    # Compiles both kinds of runs before the clock starts; the weights are set again.
    more = feeds_of_epoch(0) if feeds_of_epoch else {}
    first = np.arange(min(rows_per_run, num_rows))
    session.run([program.train_op, program.loss], {**feeds(first), **more})
    evaluate()
    progress.precision.clear()
    session.run(program.init)

    samples, seconds = 0, 0.0
    for epoch in range(epochs):
        order = random.permutation(num_rows)
        more = feeds_of_epoch(epoch) if feeds_of_epoch else {}
        for k in range(runs):
            rows = order[k * rows_per_run : (k + 1) * rows_per_run]
            fed = {**feeds(rows), **more}
            start = time.perf_counter()
            session.run([program.train_op, program.loss], fed)
            seconds += time.perf_counter() - start
            samples += len(rows)
            if report:
                report(progress, k + 1, runs)
        progress.samples.append(samples)
        progress.seconds.append(seconds)
        progress.accuracy.append(evaluate())
    return progress
