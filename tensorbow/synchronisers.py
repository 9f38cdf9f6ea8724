"""How the learners' replicas are kept together."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Literal


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@dataclasses.dataclass(frozen=True)
class SMA:
    """Synchronous model averaging (CROSSBOW, VLDB 2019, section 3).

    In one iteration every learner j applies its optimiser's update u_j to its replica
    w_j and a correction towards the central model z; then z moves by the corrections::

        c_j = alpha * (w_j - z)            # w_j before the update
        w_j = w_j + u_j - c_j
        z   = z + sum_j c_j + momentum * (z - z_prev)

    Args:
      alpha: strength of the correction, 0 < alpha < 2 / (L + 1) for L learners; None is
        1 / L.
      momentum: momentum of the central model, 0 <= momentum < 1; "auto" is 0 when the
        learners' optimiser has momentum or is adaptive, else 0.9.
      sync_period: learning tasks of each learner between two corrections, >= 1.
      restart: when all replicas are set to z and the central momentum is forgotten
        (optimiser slots are kept): "lr_drop" when the learning rate drops to half or
        less from one iteration to the next, "never", or a callable that is given the
        number of completed iterations before every learning run and returns a bool.

    Raises:
      TypeError, ValueError: for an argument outside of what is said above.
    """

    alpha: float | None = None
    momentum: float | Literal["auto"] = "auto"
    sync_period: int = 1
    restart: Literal["lr_drop", "never"] | Callable[[int], bool] = "lr_drop"

    def __post_init__(self) -> None:
        if self.alpha is not None:
            if not _is_number(self.alpha):
                raise TypeError(f"SMA: alpha must be a number or None, got {self.alpha!r}")
            if not (math.isfinite(self.alpha) and self.alpha > 0):
                raise ValueError(
                    f"SMA: alpha must be greater than 0, got {self.alpha}; leave it out "
                    "for 1 / number of learners"
                )
        if self.momentum != "auto":
            if not _is_number(self.momentum):
                raise TypeError(f'SMA: momentum must be a number or "auto", got {self.momentum!r}')
            if not 0 <= self.momentum < 1:
                raise ValueError(f"SMA: momentum must be in [0, 1), got {self.momentum}")
        if not _is_int(self.sync_period):
            raise TypeError(f"SMA: sync_period must be an int, got {self.sync_period!r}")
        if self.sync_period < 1:
            raise ValueError(f"SMA: sync_period must be at least 1, got {self.sync_period}")
        if isinstance(self.restart, str):
            if self.restart not in ("lr_drop", "never"):
                raise ValueError(
                    f'SMA: restart must be "lr_drop", "never" or a callable, got {self.restart!r}'
                )
        elif not callable(self.restart):
            raise TypeError(
                f'SMA: restart must be "lr_drop", "never" or a callable, got {self.restart!r}'
            )

    def check_learners(self, num_learners: int) -> None:
        """Raises ValueError if this synchroniser is unstable with so many learners."""
        bound = 2 / (num_learners + 1)
        if num_learners > 1 and self.alpha is not None and self.alpha >= bound:
            raise ValueError(
                f"SMA: alpha must be less than 2 / (L + 1) = {bound:.4g} with L = "
                f"{num_learners} learners (the averaging diverges from there on), got "
                f"{self.alpha}; leave it out for 1 / L = {1 / num_learners:.4g}"
            )


@dataclasses.dataclass(frozen=True)
class Independent:
    """No synchronisation: every learner trains on its own.

    For sweeps, ensembles and for measuring what synchronisation costs. Learner 0's
    replica stands for the model wherever the central model is asked for; the others are
    reached with `session.learner_value`.
    """

    def check_learners(self, num_learners: int) -> None:
        """Any number of learners is fine."""


Synchroniser = SMA | Independent
