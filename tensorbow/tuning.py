"""What is told of finding the number of learners."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Measurement:
    """How fast a program trains with so many learners.

    Attributes:
      learners: on each device.
      threads: of each learner.
      samples_per_second: the median of the windows in which it was measured, counted
        while learning runs were executed; 0 if it was not.
      spread: from the slowest window to the fastest, as a share of the median.
      note: "skipped: " and the reason if it could not be had, "again: " and the reason
        for the first of another round of tuning; else empty.
      chosen: whether it was settled on.
    """

    learners: int
    threads: int
    samples_per_second: float
    spread: float
    note: str
    chosen: bool
