"""Metrics of a session and of its learners."""

from __future__ import annotations

import dataclasses
from typing import Any

from tensorbow._runtime.messages import count


@dataclasses.dataclass(frozen=True)
class Quantiles:
    """Median and 95th percentile over the last 256 tasks of a learner, in seconds.

    Attributes:
      median: half of the tasks take less.
      p95: 95 % of the tasks take no more.
    """

    median: float
    p95: float


@dataclasses.dataclass(frozen=True)
class LearnerMetrics:
    """The metrics of one learner.

    Attributes:
      tasks: learning tasks since the number of learners changed last.
      task_seconds: computing, by task; waiting is not counted.
      wait_seconds: waiting for other learners, by task. Waiting at the end of a run counts
        for the last task.
      memory_bytes: of its allocator, in use: its copies of variables, and what is kept
        of tasks. A lone learner on the CPU trains the session's variables, which are not
        counted.
      peak_memory_bytes: the most there were.
      spread: ‖w − z‖ / ‖z‖ over all trained variables, w being its replica and z the
        central model; 0 where all replicas are the same.
    """

    tasks: int
    task_seconds: Quantiles
    wait_seconds: Quantiles
    memory_bytes: int
    peak_memory_bytes: int
    spread: float


@dataclasses.dataclass(frozen=True, repr=False)
class Metrics:
    """The metrics of a session over its last learning runs, at most 256, since the last change of
    the number of learners. Runs that are executed as stock does are not counted.

    Attributes:
      runs: how many these are.
      samples: rows they trained.
      seconds: from the begin of the first to the end of the last.
      seconds_in_runs: of these; the rest is the program's own, between runs.
      synchronisation: share of the learners' time in runs that they wait for each other,
        average and correct, 0 to 1. Corrections inside update operations are not
        counted.
      learners: each of them.
      host_chunk: gradients that travel to the other hosts together; 0 where there are no other
        hosts, or no number is given or searched (`Cluster(chunk=...)`).
    """

    runs: int
    samples: int
    seconds: float
    seconds_in_runs: float
    synchronisation: float
    learners: list[LearnerMetrics]
    host_chunk: int = 0

    @property
    def samples_per_second(self) -> float:
        """Rows trained per second; 0 before the first learning run."""
        return self.samples / self.seconds if self.seconds > 0 else 0.0

    def __repr__(self) -> str:
        return (
            f"<Metrics: {self.samples_per_second:,.0f} samples/s, "
            f"{count(len(self.learners), 'learner')}, {self.synchronisation:.0%} synchronisation, "
            f"last {count(self.runs, 'run')}>"
        )

    def scalars(self) -> dict[str, float]:
        """Returns the numbers worth a curve, by name: a flat dict of floats, as trackers take it.

        Example:
          >>> wandb.log(session.metrics().scalars(), step=session.iterations)
        """
        values = {
            "samples_per_second": self.samples_per_second,
            "share_in_runs": self.seconds_in_runs / self.seconds if self.seconds > 0 else 0.0,
            "synchronisation": self.synchronisation,
            "learners": float(len(self.learners)),
        }
        for j, learner in enumerate(self.learners):
            values |= {
                f"learner_{j}/task_seconds": learner.task_seconds.median,
                f"learner_{j}/wait_seconds": learner.wait_seconds.median,
                f"learner_{j}/memory_bytes": float(learner.memory_bytes),
                f"learner_{j}/spread": learner.spread,
            }
        return values


def from_native(found: dict[str, Any]) -> Metrics:
    """Returns the metrics that the native runtime has measured."""
    learners = [
        LearnerMetrics(
            **learner
            | {name: Quantiles(*learner[name]) for name in ("task_seconds", "wait_seconds")}
        )
        for learner in found["learners"]
    ]
    return Metrics(**found | {"learners": learners})
