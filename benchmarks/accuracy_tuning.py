"""Finding a contender's learning rate, on training data that is held back."""

from __future__ import annotations

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

    Climbs until the rates twice and half as large are known to be worse, then those larger
    and smaller by √2 in the mean of some seeds (if there is time for that). Every run gives
    the curves of all kinds, so that each is climbed from the best of what all have tried.
    """
    coarse = _climbs(runs, task, recipe, kinds, dict.fromkeys(kinds, 0), step=2, seeds=1)
    fine = coarse if task.setting.finely else {}
    fine = _climbs(runs, task, recipe, kinds, fine, step=1, seeds=FINE_SEEDS)
    return {kind: rate_at(recipe, task.setting, place) for kind, place in (coarse | fine).items()}


def _climbs(
    runs: Runs,
    task: Task,
    recipe: Recipe,
    kinds: Sequence[str],
    places: dict[str, int],
    step: int,
    seeds: int,
) -> dict[str, int]:
    """From `places`, the best of each kind, both of whose neighbours are worse."""
    target = task.setting.target
    tried: dict[int, dict[str, tuple[float, ...]]] = {}
    best: dict[str, int] = {}
    while best != places:
        best = places
        for place in sorted({p + k * step for p in best.values() for k in (-1, 0, 1)}):
            if place in tried:
                continue
            rate = rate_at(recipe, task.setting, place)
            curves = [runs.get(task, recipe, rate, seed, kinds) for seed in range(seeds)]
            if None in curves:
                return {}
            tried[place] = {
                kind: tuple(np.mean([score(c["samples"], c[kind], target) for c in curves if c], 0))
                for kind in kinds
            }
        places = {kind: min(tried, key=lambda place: tried[place][kind]) for kind in best}
    return best
