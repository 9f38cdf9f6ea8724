"""Adaptive SGD for learners of different speed, and records of its mega-batches."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from tensorbow import _native
from tensorbow._runtime.checks import is_int, is_number
from tensorbow._runtime.messages import suggests_names

MAX_ROWS = 2**53


@suggests_names()
@dataclasses.dataclass(frozen=True)
class AdaptiveSGD:
    """Adaptive SGD for learners of different speed (Ma and Rusu, arXiv 2110.07029).

    Nobody waits for anybody between two merges: a learner that is free takes the next
    rows of the run, as many as its batch has, and makes an update. When a mega-batch has
    been trained on, the replicas w_i are merged, and all learners go on from the outcome:

        p_i = b_i / sum(b)   if all have made as many updates, else u_i / sum(u)
        z   = sum_i p_i * w_i + momentum * (z - z_prev)

    u_i is the number of updates that learner i has made, b_i the rows of its batch. The
    weights p are perturbed if ||w_i|| / (number of weights) is below `threshold` for every
    replica. Then the p of the learner with the most updates is multiplied by
    1 + `perturbation`. The p of the learner with the fewest is multiplied by
    1 - `perturbation`, unless a learner has made no update.

    Then batches follow the speed. The batch of a learner with more updates than the mean
    grows by `beta` rows for each of them, that of one with fewer shrinks, within b_min and
    b_max. Learning rates follow the batches, as b_i / b_max of the optimiser's.

    Feed many batches in one run, best a whole mega-batch: a run ends when all its rows have
    been trained on. Between two merges, reads and `Saver` see the mean of the replicas as
    they are, with weights as above and without momentum. Runs that take their data from the
    graph (queues, tf.data) have one batch for each learner; sizes and rates stay as they
    are then. With a `b_max`, elements of a tf.data pipeline with fewer rows, of a number
    that the graph does not know, are put together to as many. A run that fails takes the
    learners back to the last merge. With scheduling="round_robin" learners take turns, and
    a seeded program computes the same bits every time.

    Learning rates are found in TensorFlow's optimiser ops; a program that updates its
    variables otherwise runs on one learner, with a warning. Not on GPUs.

    On several hosts (`Options(cluster=...)`, with a `b_max`) the learners above are those of
    all of them, and every host trains on its share of a mega-batch by itself. Shares follow
    the hosts' rows per second or, where learners take turns, their learners. Hosts may have
    different numbers of learners. Reads see the last merged model between two merges;
    `session.merge()` merges what is left. See docs/adaptive.md.

    Args:
      mega_batch: rows between two merges, of all hosts; None is 100 * b_max.
      b_min: the least rows of a batch; None is b_max / 8.
      b_max: the most rows of a batch, and those it begins with; None divides the rows of
        the first run evenly among the learners. Several hosts have to be given it.
      beta: rows by which a batch changes for one update more or less than the mean; None is
        b_min / 2. b_min * b_max / mega_batch never overshoots.
      perturbation: 0 <= perturbation < 1, as above; 0 for none.
      threshold: as above.
      momentum: of the merged model, 0 <= momentum < 1.
      scaling: False leaves batches and learning rates as they are.
      normalisation: False merges by equal weights.

    Raises:
      TypeError, ValueError: for an argument outside these ranges.

    Example:
      >>> adaptive = tensorbow.AdaptiveSGD(b_max=64, mega_batch=6400)
      >>> with tensorbow.TensorBowSession(options=tensorbow.Options(synchroniser=adaptive)) as s:
      ...     s.run(tf.compat.v1.global_variables_initializer())
      ...     for features, labels in mega_batches:  # 6,400 rows each
      ...         s.run(train_op, feed_dict={x: features, y: labels})
      ...     print(s.adaptive[-1].sizes)
    """

    mega_batch: int | None = None
    b_min: int | None = None
    b_max: int | None = None
    beta: float | None = None
    perturbation: float = 0.1
    threshold: float = 0.1
    momentum: float = 0.9
    scaling: bool = True
    normalisation: bool = True

    def __post_init__(self) -> None:
        for name in ("mega_batch", "b_min", "b_max"):
            value = getattr(self, name)
            if value is None:
                continue
            if not is_int(value):
                raise TypeError(f"AdaptiveSGD: {name} must be an int or None, got {value!r}")
            if not 1 <= value <= MAX_ROWS:
                raise ValueError(f"AdaptiveSGD: {name} must be from 1 to {MAX_ROWS}, got {value}")
        if self.b_min is not None and self.b_max is not None and self.b_min > self.b_max:
            raise ValueError(
                f"AdaptiveSGD: b_min must be at most b_max, got {self.b_min} and {self.b_max}"
            )
        if self.beta is not None:
            self._check_number("beta", self.beta)
            if self.beta <= 0:
                raise ValueError(
                    f"AdaptiveSGD: beta must be greater than 0, got {self.beta}; "
                    "scaling=False leaves batches as they are"
                )
        for name in ("perturbation", "threshold", "momentum"):
            value = getattr(self, name)
            self._check_number(name, value)
            if value < 0 or (value >= 1 and name != "threshold"):
                wanted = "at least 0" if name == "threshold" else "in [0, 1)"
                raise ValueError(f"AdaptiveSGD: {name} must be {wanted}, got {value}")
        for name in ("scaling", "normalisation"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"AdaptiveSGD: {name} must be a bool, got {getattr(self, name)!r}")

    @staticmethod
    def _check_number(name: str, value: object) -> None:
        if not is_number(value):
            raise TypeError(f"AdaptiveSGD: {name} must be a number, got {value!r}")
        if not math.isfinite(value):
            raise ValueError(f"AdaptiveSGD: {name} must be finite, got {value}")

    def check_learners(self, num_learners: int) -> None:
        """Accepts any number of learners."""

    def native_options(self) -> dict[str, Any]:
        """Returns attributes of `_native.Options`."""
        adaptive = _native.AdaptiveOptions()
        for name, value in vars(self).items():
            setattr(adaptive, name, 0 if value is None else value)
        return dict(algorithm="AdaptiveSGD", momentum=0.0, restart="never", adaptive=adaptive)


@dataclasses.dataclass(frozen=True)
class MegaBatch:
    """The record of a mega-batch; all entries by learner, over all hosts in their order.

    Attributes:
      sizes: rows of a batch.
      rates: what the optimiser's learning rate was multiplied by.
      updates: how many the learner made.
      rows: how many it trained on.
      weights: of its replica in the merge.
    """

    sizes: tuple[int, ...]
    rates: tuple[float, ...]
    updates: tuple[int, ...]
    rows: tuple[int, ...]
    weights: tuple[float, ...]
