"""Restarts the averaging of a model when its learning rate drops step-wise (ALGORITHMS §1).

Every optimiser has its rate on Keras's side. A rate that a callback sets is seen when it is written
into the session. The rate of a schedule is fetched after every step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

_DROP = 0.5  # to this fraction of the rate or less; a smooth schedule never does that


class RateWatch:
    """Compares every learning rate with the one before it.

    Args:
      restart: called when a rate has dropped.
    """

    def __init__(self, restart: Callable[[], None]) -> None:
        self._restart = restart
        self._scheduled: list[float] = []  # after the last step

    def note_pushed(self, variable: Any, old: float, new: float) -> None:
        """Records that a scalar variable of Keras's has been written into the session."""
        if variable.name.split(":")[0].split("/")[-1] == "learning_rate":
            self._restart_if_dropped(old, new)

    def note_scheduled(self, rates: list[np.ndarray]) -> None:
        """Schedules give these rates after a step; always as many, in the same order."""
        now = [float(rate) for rate in rates]
        for old, new in zip(self._scheduled, now):
            self._restart_if_dropped(old, new)
        self._scheduled = now

    def _restart_if_dropped(self, old: float, new: float) -> None:
        if old > 0 and new <= _DROP * old:
            self._restart()
