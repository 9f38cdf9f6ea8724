"""Limits of random tests: `TENSORBOW_FUZZ` examples within `TENSORBOW_FUZZ_SECONDS`."""

from __future__ import annotations

import os
import time

import hypothesis

FUZZ = int(os.environ.get("TENSORBOW_FUZZ", 0))
SECONDS = float(os.environ.get("TENSORBOW_FUZZ_SECONDS", 1800 if FUZZ else 120))


class Budget:
    """The time of one test, counted from its first question."""

    def __init__(self) -> None:
        self._end: float | None = None

    def is_spent(self) -> bool:
        """Returns whether the test's time is over."""
        if self._end is None:
            self._end = time.monotonic() + SECONDS
        return time.monotonic() > self._end


def settings(examples: int) -> hypothesis.settings:
    """Returns settings for `examples`, the same every time, or `TENSORBOW_FUZZ` at random."""
    return hypothesis.settings(
        max_examples=FUZZ or examples,
        derandomize=not FUZZ,
        database=None,
        deadline=None,
        print_blob=False,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
