"""A training loop for classifiers, with any session class, and its times."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tensorbow.cli.train.turns import Progress
from tensorbow.datasets import Images, Text
from tensorbow.models import Program

_EVALUATION_ROWS = 1000  # at most
_EVALUATION_VALUES = 2**22


def evaluation_rows(shape: tuple[int, ...]) -> int:
    """Returns the number of rows of this shape to evaluate at once: activations take memory."""
    return max(1, min(_EVALUATION_ROWS, _EVALUATION_VALUES // int(np.prod(shape))))


def accuracy(session: Any, program: Program, inputs: np.ndarray, labels: np.ndarray) -> float:
    """Returns the fraction of labels that the session's model finds."""
    hits = 0
    count = evaluation_rows(inputs.shape[1:])
    for begin in range(0, len(inputs), count):
        rows = slice(begin, begin + count)
        feeds = {program.inputs: inputs[rows], program.labels: labels[rows]}
        hits += round(float(session.run(program.accuracy, feeds)) * labels[rows].size)
    return hits / labels.size


def train(
    progress: Progress,
    session: Any,
    program: Program,
    data: Images | Text,
    rows_per_run: int,
    seed: int,
    feeds_of_epoch: Callable[[int], dict[Any, Any]] | None = None,
) -> Iterator[tuple[int, float]]:
    """Trains without end, run by run; evaluates after each epoch.

    Args:
      progress: is filled in at the end of every epoch.
      session: a `tf.compat.v1.Session`, stock or TensorBow's, on the program's graph.
      program: what to run.
      data: rows are shuffled again in every epoch; the last run of an epoch may be short.
      rows_per_run: rows fed to one run.
      seed: of the shuffling.
      feeds_of_epoch: further feeds by epoch, e.g. the learning rate.

    Yields:
      The rows of each run, and its seconds.
    """
    return run_epochs(
        progress,
        session,
        program,
        len(data.x_train),
        lambda rows: {program.inputs: data.x_train[rows], program.labels: data.y_train[rows]},
        lambda: accuracy(session, program, data.x_test, data.y_test),
        rows_per_run,
        seed,
        feeds_of_epoch,
    )


def run_epochs(
    progress: Progress,
    session: Any,
    program: Any,
    num_rows: int,
    feeds: Callable[[np.ndarray], dict[Any, Any]],
    evaluate: Callable[[], float],
    rows_per_run: int,
    seed: int,
    feeds_of_epoch: Callable[[int], dict[Any, Any]] | None = None,
) -> Iterator[tuple[int, float]]:
    """Does what `train` does, for any program with `init`, `train_op` and `loss`.

    Args:
      num_rows: of the training set.
      feeds: returns what to feed for the rows with these numbers.
      evaluate: returns the accuracy as it is.
    """
    random = np.random.default_rng(seed)
    session.run(program.init)
    # Compiles both kinds of runs before the clock starts; the weights are set again.
    more = feeds_of_epoch(0) if feeds_of_epoch else {}
    first = np.arange(min(rows_per_run, num_rows))
    session.run([program.train_op, program.loss], {**feeds(first), **more})
    evaluate()
    progress.precision.clear()
    session.run(program.init)

    samples, seconds = 0, 0.0
    for epoch in itertools.count():
        order = random.permutation(num_rows)
        more = feeds_of_epoch(epoch) if feeds_of_epoch else {}
        for begin in range(0, num_rows, rows_per_run):
            rows = order[begin : begin + rows_per_run]
            fed = {**feeds(rows), **more}
            start = time.perf_counter()
            session.run([program.train_op, program.loss], fed)
            taken = time.perf_counter() - start
            samples, seconds = samples + len(rows), seconds + taken
            if begin + rows_per_run >= num_rows:
                found = evaluate()  # an interrupted evaluation does not count the epoch
                progress.samples.append(samples)
                progress.seconds.append(seconds)
                progress.accuracy.append(found)
            yield len(rows), taken
