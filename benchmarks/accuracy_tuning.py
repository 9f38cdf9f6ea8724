"""Finding a contender's learning rate, on training data that is held back."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from accuracy_runs import KINDS, LAST, Recipe, Runs, Setting, Task, samples_to_target

FINE_SEEDS = 3  # in the last part of tuning


def score(samples: Sequence[int], accuracy: Sequence[float], target: float) -> tuple[float, float]:
    """What tuning minimises: samples to the target, then the mean error of the last evaluations.

    The mean, not the median: rates lie close together and it is less noisy.
    """
    reached = samples_to_target(samples, accuracy, target)
    return (
        float("inf") if reached is None else reached,
        1.0 - float(np.mean(accuracy[-LAST:])) if len(accuracy) >= LAST else 1.0,
    )


def rate_at(recipe: Recipe, setting: Setting, place: int) -> float:
    """A learning rate of the search: `place` factors of √2 from where it begins.

    It begins at a rate that grows as 1 − momentum and √rows.
    """
    first = setting.rate * (1 - recipe.momentum) * 2.0 ** (np.log2(recipe.rows / 16) // 2)
    return float(f"{first * 2.0 ** (place / 2):.6g}")


def tune(runs: Runs, task: Task, recipe: Recipe, kinds: Sequence[str] = KINDS) -> dict[str, float]:
    """The best learning rate for each kind of curve; without those there was no time for.

    Climbs until the rates twice and half as large are known to be worse. Then, in the mean
    of some seeds (if there is time for that), those larger and smaller by √2 are climbed or,
    where that takes too long, the two best are compared. Every run gives the curves of all
    kinds, so that each is climbed from the best of what all have tried.
    """
    search = _Search(runs, task, recipe, kinds)
    best = search.climb(dict.fromkeys(kinds, 0), step=2, seeds=1)
    if task.setting.finely:
        best |= search.climb(best, step=1, seeds=FINE_SEEDS)
    else:
        best |= search.compare(2, FINE_SEEDS)
    return {kind: rate_at(recipe, task.setting, place) for kind, place in best.items()}


@dataclasses.dataclass
class _Search:
    """What has been tried for one contender."""

    runs: Runs
    task: Task
    recipe: Recipe
    kinds: Sequence[str]
    # Mean scores by number of seeds, place and kind.
    tried: dict[int, dict[int, dict[str, tuple[float, ...]]]] = dataclasses.field(
        default_factory=lambda: defaultdict(dict)
    )

    def has(self, place: int, seeds: int) -> bool:
        """Tries a place, if it has not been; False if there was no time."""
        if place not in self.tried[seeds]:
            setting = self.task.setting
            rate = rate_at(self.recipe, setting, place)
            curves = [
                self.runs.get(self.task, self.recipe, rate, seed, self.kinds)
                for seed in range(seeds)
            ]
            if None in curves:
                return False
            self.tried[seeds][place] = {
                kind: tuple(
                    np.mean([score(c["samples"], c[kind], setting.target) for c in curves if c], 0)
                )
                for kind in self.kinds
            }
        return True

    def best(self, seeds: int, kind: str, count: int = 1) -> list[int]:
        """The best places with so many seeds, best first."""
        tried = self.tried[seeds]
        return sorted(tried, key=lambda place: tried[place][kind])[:count]

    def climb(self, start: dict[str, int], step: int, seeds: int) -> dict[str, int]:
        """The best place of each kind in `start`, both of whose neighbours are worse."""
        places, best = start, dict[str, int]()
        while best != places:
            best = places
            around = {place + k * step for place in best.values() for k in (-1, 0, 1)}
            if not all([self.has(place, seeds) for place in sorted(around)]):
                return {}
            places = {kind: self.best(seeds, kind)[0] for kind in best}
        return best

    def compare(self, count: int, seeds: int) -> dict[str, int]:
        """The best place of each kind, of the best so many of all kinds with one seed."""
        places = {place for kind in self.kinds for place in self.best(1, kind, count)}
        if not places or not all([self.has(place, seeds) for place in sorted(places)]):
            return {}
        return {kind: self.best(seeds, kind)[0] for kind in self.kinds}
