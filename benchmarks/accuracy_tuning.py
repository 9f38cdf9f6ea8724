"""The search for a contender's learning rate, on training data that is held back."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from accuracy_runs import KINDS, LAST, Recipe, Runs, Setting, Task, samples_to_target

FINE_SEEDS = 3  # the number of seeds in the last part of tuning
_FAR = 18  # the distance in steps within which earlier tries count


def score(samples: Sequence[int], accuracy: Sequence[float], target: float) -> tuple[float, float]:
    """Returns the minimised score: samples to the target, then the mean error of the last
    evaluations.

    The mean, not the median: rates lie close together and it is less noisy.
    """
    reached = samples_to_target(samples, accuracy, target)
    return (
        float("inf") if reached is None else reached,
        1.0 - float(np.mean(accuracy[-LAST:])) if len(accuracy) >= LAST else 1.0,
    )


def rate_at(recipe: Recipe, setting: Setting, place: int) -> float:
    """Returns a learning rate of the search: `place` factors of √2 from its start.

    The start grows as 1 − momentum and √rows.
    """
    first = setting.rate * (1 - recipe.momentum) * 2.0 ** (np.log2(recipe.rows / 16) // 2)
    return float(f"{first * 2.0 ** (place / 2):.6g}")


def tune(runs: Runs, task: Task, recipe: Recipe, kinds: Sequence[str] = KINDS) -> dict[str, float]:
    """Returns the best learning rate for each kind of curve, as far as time allows.

    Climbs until the rates twice and half as large are known to be worse. Then, if there is time,
    climbs in factors of √2, by the mean of some seeds. If that takes too long, compares the two
    best. A run gives the curves of all kinds, so that tries for one
    kind count for the others.
    """
    best: dict[str, float] = {}
    for kind in (*kinds, *kinds):  # the first kinds have not seen the tries of the last ones
        search = _Search(runs, task, recipe, kind, kinds)
        place = search.climb(0, step=2, seeds=1)
        if place is None:
            continue
        if task.setting.finely:
            finer = search.climb(place, step=1, seeds=FINE_SEEDS)
        else:
            finer = search.compare(2, FINE_SEEDS)
        best[kind] = rate_at(recipe, task.setting, place if finer is None else finer)
    return best


@dataclasses.dataclass
class _Search:
    """The tries for one kind of curve of a contender."""

    runs: Runs
    task: Task
    recipe: Recipe
    kind: str
    kinds: Sequence[str]  # the kinds of curves that a run gives
    # The mean scores by number of seeds and place.
    tried: dict[int, dict[int, tuple[float, ...]]] = dataclasses.field(
        default_factory=lambda: defaultdict(dict)
    )

    def _try(self, place: int, seeds: int, train: bool) -> bool:
        """Returns whether the place has been tried; tries it now if there is time."""
        if place not in self.tried[seeds]:
            rate = rate_at(self.recipe, self.task.setting, place)
            scores = []
            for seed in range(seeds):
                curves = self.runs.find(self.task.key(self.recipe, rate, seed), [self.kind])
                if curves is None and train:
                    curves = self.runs.get(self.task, self.recipe, rate, seed, self.kinds)
                if curves is None:
                    return False
                target = self.task.setting.target
                scores.append(score(curves["samples"], curves[self.kind], target))
            self.tried[seeds][place] = tuple(np.mean(scores, axis=0))
        return True

    def _remember(self, start: int, step: int, seeds: int) -> None:
        """Adds earlier tries on either side of a place."""
        for place in range(start - _FAR * step, start + _FAR * step + 1, step):
            self._try(place, seeds, train=False)

    def _best(self, seeds: int, count: int) -> list[int]:
        """Returns the best places with this number of seeds, best first."""
        tried = self.tried[seeds]
        return sorted(tried, key=lambda place: tried[place])[:count]

    def climb(self, start: int, step: int, seeds: int) -> int | None:
        """Returns the best place, both of whose neighbours are worse; None without time."""
        self._remember(start, step, seeds)
        best, place = None, start
        while best != place:
            best = place
            around = (best - step, best, best + step)
            if not all([self._try(near, seeds, train=True) for near in around]):
                return None
            (place,) = self._best(seeds, 1)
        return best

    def compare(self, count: int, seeds: int) -> int | None:
        """Returns the best of the `count` best with one seed; None if there was no time."""
        places = self._best(1, count)
        self._remember(0, 1, seeds)
        if not all([self._try(place, seeds, train=True) for place in places]):
            return None
        (place,) = self._best(seeds, 1)
        return place
