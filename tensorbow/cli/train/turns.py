"""Contenders that train in turns, and the comparison of their speed. No TensorFlow.

The load of a machine changes from one second to the next. Contenders that take turns of a
second meet the same machine, and the median of their turns is a number that comes out again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence

import numpy as np

TURN_SECONDS = 1.0
ENOUGH_SECONDS = 10.0  # of training, for a throughput that means something
LEAST_EPOCHS = 3
_BUSY = 0.1  # of the cores, used by other programs


@dataclasses.dataclass
class Progress:
    """The results of a training run.

    Attributes:
      name: of the contender.
      target: the accuracy asked for.
      samples: training samples seen at the end of each epoch.
      seconds: training time until then; evaluation is not counted.
      accuracy: on the test set at that moment, of the model that would be saved.
      precision: of models with several labels a row, precision@1, @3 and @5 at that moment.
      turns: samples and seconds of each turn.
    """

    name: str
    target: float
    samples: list[int] = dataclasses.field(default_factory=list)
    seconds: list[float] = dataclasses.field(default_factory=list)
    accuracy: list[float] = dataclasses.field(default_factory=list)
    precision: list[list[float]] = dataclasses.field(default_factory=list)
    turns: list[tuple[int, float]] = dataclasses.field(default_factory=list)

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
    def rates(self) -> np.ndarray:
        """Samples per second of every turn, evaluation not counted."""
        return np.array([samples / seconds for samples, seconds in self.turns])

    @property
    def samples_per_second(self) -> float:
        """The median over the turns."""
        return float(np.median(self.rates))

    @property
    def spread(self) -> float:
        """The middle half of the turns: its width, as a share of the median."""
        low, high = np.quantile(self.rates, (0.25, 0.75))
        return float(high - low) / self.samples_per_second

    @property
    def trained_seconds(self) -> float:
        """Over all turns."""
        return sum(seconds for _, seconds in self.turns)


class Contender:
    """Something that trains in turns.

    Args:
      progress: is filled in.
      runs: trains, without end; yields the rows and the seconds of every run. With the last run
        of an epoch it adds to `samples`, `seconds` and `accuracy`.
    """

    def __init__(self, progress: Progress, runs: Iterator[tuple[int, float]]) -> None:
        self.progress = progress
        self._runs = runs

    def turn(self, epochs: int, report: Callable[[Progress, int], None]) -> None:
        """Trains for `TURN_SECONDS`, or until it has trained `epochs`."""
        turns, rows, seconds = self.progress.turns, 0, 0.0
        try:
            while seconds < TURN_SECONDS and len(self.progress.accuracy) < epochs:
                more, taken = next(self._runs)
                rows, seconds = rows + more, seconds + taken
                report(self.progress, more)
        finally:  # an interrupted turn counts, too
            if turns and seconds < TURN_SECONDS / 2:  # the rest of an epoch: no turn of its own
                before = turns.pop()
                rows, seconds = rows + before[0], seconds + before[1]
            if rows:
                turns.append((rows, seconds))


def take_turns(
    contenders: Sequence[Contender],
    epochs: int | None,
    report: Callable[[Progress, int], None] = lambda progress, rows: None,
) -> None:
    """Trains all contenders for as many epochs, in turns.

    Args:
      epochs: as many; None for as many as it takes until each has trained `ENOUGH_SECONDS`.
      report: called after every run with its rows.
    """
    limit = epochs or LEAST_EPOCHS
    while True:
        behind = [c for c in contenders if len(c.progress.accuracy) < limit]
        for contender in behind:
            contender.turn(limit, report)
        if behind:
            continue
        if epochs or all(c.progress.trained_seconds >= ENOUGH_SECONDS for c in contenders):
            return
        limit += 1


@dataclasses.dataclass(frozen=True)
class Ratio:
    """The speed of the second of two contenders, as a multiple of the first's.

    Attributes:
      median: over the pairs of turns.
      low, high: the middle half of the pairs lies between.
      pairs: their number.
    """

    median: float
    low: float
    high: float
    pairs: int


def ratio(first: Progress, second: Progress) -> Ratio:
    """Compares the turns in pairs, each with the one after it."""
    pairs = min(len(first.turns), len(second.turns))
    found = second.rates[:pairs] / first.rates[:pairs]
    low, median, high = np.quantile(found, (0.25, 0.5, 0.75))
    return Ratio(float(median), float(low), float(high), pairs)


def doubts(contenders: Sequence[Progress], others: float, cores: int) -> list[str]:
    """Returns the reasons not to trust a comparison, one sentence each.

    Args:
      others: cores that other programs have used meanwhile, on average.
      cores: of the machine.
    """
    found = []
    shortest = min(contenders, key=lambda progress: progress.trained_seconds)
    if shortest.trained_seconds < ENOUGH_SECONDS:
        found.append(
            f"too short: {shortest.name} trained for {shortest.trained_seconds:.1f} s, and a "
            f"comparison wants {ENOUGH_SECONDS:g} s of each. Leave out --epochs, or give more data"
        )
    if others > _BUSY * cores:
        found.append(
            f"machine busy: other programs used {others:.1f} of {cores} cores meanwhile. Measure "
            "again when it is idle"
        )
    return found
