"""Steps of a program on learners beside the same steps of a stock session."""

from __future__ import annotations

import dataclasses

# Differences up to so many times those that rounding makes in stock are rounding.
_MARGIN = 10
# Stock itself strays so far that it tells nothing: random numbers, or chaos.
_ERRATIC = 0.1


@dataclasses.dataclass(frozen=True)
class Difference:
    """The difference of one fetch or variable from stock's.

    Attributes:
      relative: the largest absolute difference of an element, divided by the largest
        absolute value of stock's; infinite if shapes differ or only one is not finite.
      rounding: the same for a second stock session whose variables begin a rounding error
        away from the first one's.
    """

    relative: float
    rounding: float

    @property
    def is_rounding(self) -> bool:
        """True if rounding explains the difference."""
        return self.relative <= _MARGIN * self.rounding


@dataclasses.dataclass(frozen=True)
class Comparison:
    """The outcome of `TensorBowSession.compare_with_stock`; prints readably.

    Attributes:
      learners: the number of learners of the compared session.
      steps: the number of steps.
      why: the reason why one learner executed them; else "".
      fetches: the difference of each fetch, the largest of all steps, by tensor name.
      variables: the difference of each variable after the last step, by name.
    """

    learners: int
    steps: int
    why: str
    fetches: dict[str, Difference]
    variables: dict[str, Difference]

    @property
    def is_erratic(self) -> bool:
        """True if stock strays from itself, so that no comparison is possible."""
        return any(found.rounding > _ERRATIC for found in self._all().values())

    @property
    def is_equal(self) -> bool:
        """True if all differences are rounding, and stock does not stray from itself."""
        return not self.is_erratic and all(found.is_rounding for found in self._all().values())

    def _all(self) -> dict[str, Difference]:
        return {**self.fetches, **self.variables}

    def __str__(self) -> str:
        steps = "1 step" if self.steps == 1 else f"{self.steps} steps"
        executed = f"{self.learners} learners" if not self.why else "one learner"
        verdict = "equal stock's, to rounding"
        if self.is_erratic:
            verdict = "cannot be compared: stock's own differ from run to run (random numbers?)"
        elif not self.is_equal:
            verdict = "differ from stock's. Please report this program"
        lines = [f"Results of {steps} on {executed} {verdict}."]
        if self.why:
            lines.append(f"  {self.why}")
        lines.append("  relative difference (and stock's own, from rounding):")
        for name, found in self._all().items():
            mark = "" if found.is_rounding else "  <--"
            lines.append(f"  {name}: {found.relative:.1e} ({found.rounding:.1e}){mark}")
        return "\n".join(lines)
