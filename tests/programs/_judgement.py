"""The names of the programs and the measures of their results; needs no TensorFlow."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from statistics import fmean

_SUPPORT = {"table", "conftest"}


@dataclasses.dataclass(frozen=True)
class Quality:
    """The number by which a program's result is judged.

    Attributes:
      name: what it is.
      higher_is_better: its direction.
      tolerance: noise that three seeds may fail to show, in the number's own unit.
    """

    name: str
    higher_is_better: bool
    tolerance: float

    def noise(self, stock: Sequence[float]) -> float:
        """Returns the spread of stock's own results over the seeds, at least the tolerance."""
        return max(max(stock) - min(stock), self.tolerance)

    def worse_by(self, stock: Sequence[float], learners: Sequence[float]) -> float:
        """Returns by how much the mean of the learners' results is worse than that of stock's."""
        sign = 1 if self.higher_is_better else -1
        return sign * (fmean(stock) - fmean(learners))


def names() -> list[str]:
    """Returns all programs."""
    files = pathlib.Path(__file__).parent.glob("*.py")
    found = (f.stem for f in files if not f.stem.startswith("_") and not f.stem.endswith("_test"))
    return sorted(name for name in found if name not in _SUPPORT)
