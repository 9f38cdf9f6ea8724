"""The search for the number of learners, as it is shown and logged."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from typing import Any

from tensorbow._runtime.messages import count, log

_RUNS_BETWEEN_LOGS = 32


@dataclasses.dataclass(frozen=True, repr=False)
class Measurement:
    """The speed of a program with one layout of its learners.

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

    @property
    def layout(self) -> str:
        """Returns "2 learners of 1 thread"."""
        return f"{count(self.learners, 'learner')} of {count(self.threads, 'thread')}"

    @property
    def outcome(self) -> str:
        """The throughput; the note where it was not measured."""
        if not self.samples_per_second and self.note:
            return self.note
        return f"{self.samples_per_second:,.0f} samples/s"

    def __repr__(self) -> str:
        spread = f" ±{self.spread / 2:.0%}" if self.spread else ""
        chosen = ", chosen" if self.chosen else ""
        return f"<{self.layout}: {self.outcome}{spread}{chosen}>"


def measurements(native: Any) -> list[Measurement]:
    """Returns the measurements of a native session, in order."""
    return [Measurement(*tried) for tried in native.tuning]


class TuningLog:
    """The log "tensorbow" of a session's search for the number of learners."""

    def __init__(self) -> None:
        self._told: list[Measurement] = []
        self._runs_to_log = 1

    def after_run(self, native: Any) -> None:
        """Logs news of the search, now and then, if the log is read.

        Args:
          native: the handle of the native session that has executed a learning run.
        """
        self._runs_to_log -= 1
        if self._runs_to_log > 0:
            return
        self._runs_to_log = _RUNS_BETWEEN_LOGS
        if log.isEnabledFor(logging.INFO) and native.tunes_learners:
            self.tell(measurements(native))

    def tell(self, tuning: Sequence[Measurement]) -> None:
        """Logs what is new: trials at DEBUG, decisions at INFO."""
        for tried in tuning[len(self._told) :]:
            log.debug("tried %s: %s", tried.layout, tried.outcome)
        chosen = next((tried for tried in tuning if tried.chosen), None)
        if chosen is not None and chosen not in self._told:
            others = [tried for tried in tuning if tried is not chosen]
            rival = max(others, key=lambda tried: tried.samples_per_second, default=None)
            against = "" if rival is None else f", against {rival.outcome} with {rival.layout}"
            log.info("chose %s: %s%s", chosen.layout, chosen.outcome, against)
        self._told = list(tuning)
