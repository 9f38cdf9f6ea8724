"""The report of accuracy runs: tables, a plot, the comparison of both sides."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from itertools import starmap
from typing import Any

import numpy as np
from accuracy_runs import LAST, Recipe, Task, grid, medians_of_last
from contenders import EMA_DECAY
from interleave import spread


@dataclasses.dataclass
class Row:
    """A contender's results."""

    recipe: Recipe
    averaged: bool
    rate: float
    tuned: bool = True  # whether tuning chose the rate
    samples: list[float | None] = dataclasses.field(default_factory=list)  # to target, by seed
    curves: list[tuple[list[int], list[float]]] = dataclasses.field(default_factory=list)
    speeds: list[float] = dataclasses.field(default_factory=list)  # samples/s by slice
    # The held-back accuracy of each seed, by rate.
    tried: dict[float, list[float]] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        """The contender's name."""
        return self.recipe.name(self.averaged)

    @property
    def middle(self) -> float | None:
        """The median over the seeds of the samples to the target; None if half did not reach it."""
        values = sorted(float("inf") if s is None else s for s in self.samples)
        middle = float(np.median(values)) if values else float("inf")
        return middle if np.isfinite(middle) else None

    @property
    def seconds(self) -> float | None:
        """The seconds to the target."""
        if self.middle is None or not self.speeds:
            return None
        return self.middle / float(np.median(self.speeds))


def _samples_cell(row: Row, longest: int) -> str:
    reached = [s for s in row.samples if s is not None]
    if not reached:
        return f"> {longest:,} (0 of {len(row.samples)} seeds)"
    cell = f"{row.middle:,.0f}" if row.middle is not None else f"> {longest:,}"
    return f"{cell} ({min(reached):,.0f}–{max(reached):,.0f}; {len(reached)} of {len(row.samples)})"


def _tried_cell(rate: float, ends: Sequence[float]) -> str:
    return f"{rate:g}: {np.mean(ends):.4f}" + (f" ({len(ends)})" if len(ends) > 1 else "")


def table(rows: Sequence[Row], longest: int) -> list[str]:
    """Returns the rows as Markdown, fewest samples first."""
    best = min(
        (r.seconds for r in rows if r.recipe.way == "stock" and r.tuned and r.seconds), default=None
    )
    lines = [
        "| | learning rate | samples to target (range; seeds) | samples/s (quartiles) "
        "| seconds to target | ÷ best tf.Session |",
        "|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda r: (r.middle is None, r.middle or 0, r.name)):
        speed = seconds = ratio = "not measured"
        if row.speeds:
            median, low, high = spread(row.speeds)
            speed = f"{median:,.0f} ({low:,.0f}–{high:,.0f})"
            seconds = ratio = "—"
            if row.seconds:
                seconds = f"{row.seconds:.1f}"
                ratio = f"{row.seconds / best:.2f}" if best else "—"
        lines.append(
            f"| {row.name} | {row.rate:g}{'' if row.tuned else ' (not the tuned one)'} "
            f"| {_samples_cell(row, longest)} | {speed} | {seconds} | {ratio} |"
        )
    return lines


def plot(rows: Sequence[Row], path: pathlib.Path) -> None:
    """Plots the median accuracy over the seeds against samples, and against seconds if measured."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(13, 5), sharey=True)
    for row in rows:
        length = min(len(accuracy) for _, accuracy in row.curves)
        samples = np.array(row.curves[0][0][:length])
        medians = [medians_of_last(accuracy)[:length] for _, accuracy in row.curves]
        left.plot(samples, np.median(medians, axis=0), marker=".", label=row.name)
        if row.speeds:
            seconds = samples / np.median(row.speeds)
            right.plot(seconds, np.median(medians, axis=0), marker=".", label=row.name)
    left.set(xlabel="training samples", ylabel=f"test accuracy, median of the last {LAST}")
    right.set(xlabel="seconds")
    left.legend(fontsize="x-small")
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def comparison(rows: Sequence[Row], seeds: int) -> list[str]:
    """Compares the best of both sides, in samples and, if measured, in seconds.

    Considers only contenders at their tuned rate with all seeds: others were lucky or not.
    """
    lines = []
    for averaged in (False, True):
        for what in ("samples", "seconds"):
            best: dict[bool, tuple[float, str]] = {}
            for row in rows:
                value = row.middle if what == "samples" else row.seconds
                complete = row.tuned and len(row.samples) >= seeds
                if row.averaged == averaged and value is not None and complete:
                    stock = row.recipe.way == "stock"
                    best[stock] = min(best.get(stock, (value, row.name)), (value, row.name))
            if len(best) == 2:
                ratio = best[False][0] / best[True][0]
                lines.append(
                    f"- {'With' if averaged else 'Without'} an average, fewest {what}: "
                    f"{best[False][1]} needs {ratio:.2f} times those of {best[True][1]}."
                )
    return lines or [
        f"No contender of each side has finished {seeds} runs: too few for a comparison."
    ]


def not_run(model: str, rows: Sequence[Row]) -> list[str]:
    """Returns the runs of the full grid that `rows` lack, a line for each way."""
    done = {(row.recipe, row.averaged) for row in rows}
    missed: dict[str, list[str]] = {}
    for recipe in grid(model, False):
        left = [averaged for averaged in (False, True) if (recipe, averaged) not in done]
        way, _, which = recipe.name().partition(", batch ")
        if len(left) == 2:
            missed.setdefault(way, []).append(which)
        elif left:
            missed.setdefault(way, []).append(f"{which} {'with' if left[0] else 'without'} average")
    return [f"- {way}: batch {'; '.join(which)}" for way, which in missed.items()]


def document(
    task: Task, rows: Sequence[Row], where: dict[str, Any], absent: set[str], seeds: int
) -> list[str]:
    """Returns the results as Markdown."""
    setting, model, final = task.setting, task.model, task.setting.final
    lines = [
        f"# Time to accuracy: {model} to {setting.target:.0%}",
        "",
        f"{where['cpu']}, {where['cores']} cores, {where['memory_gib']} GiB; TensorFlow "
        f"{where['tensorflow']}, Python {where['python']}; {where['date']}. "
        f"{len(task.train[0]):,} training and {len(task.evaluate[0]):,} test images; {seeds} seeds "
        "unless said otherwise.",
        "",
        f"Test accuracy is the median of the last {LAST} evaluations, made every "
        f"{final.every:,} samples from {final.first:,} on (at most "
        f"{final.longest:,} samples a run), so that no number below "
        f"{final.first + (LAST - 1) * final.every:,} is possible; samples to "
        "target are interpolated, and their median over the seeds is given. Learning rates were "
        "found for each contender by hill climbing in factors of two"
        ", then, where several seeds are given below, "
        f"{'of √2' if setting.finely else 'by comparing the best two'}: "
        f"{setting.tuning.longest:,} samples a run, judged on {setting.held_back:,} held-back "
        "training images. Momentum is the learners' optimiser's (heavy ball); SMA's own is "
        '"auto": 0.9 with plain gradient descent, 0 with momentum in the learners. "+ average" is '
        f"an exponential moving average ({EMA_DECAY}) of the weights (tf.Session) or of the "
        "central model (`ema_decay`), kept by the benchmark with one formula for all. Seconds are "
        "samples divided by samples/s.",
        "",
        *table(rows, final.longest),
        "",
        *comparison(rows, seeds),
    ]
    if not any(row.speeds for row in rows):
        lines += [
            "",
            "Samples/s, and so seconds, were not measured (they need an idle machine): "
            "`--throughput` fills them in.",
        ]
    if absent:
        lines += [
            "",
            f"The installed package lacks {', '.join(sorted(absent))}: no samples/s, or no runs, "
            "of contenders that need it.",
        ]
    lines += [
        "",
        "Mean held-back accuracy at the end of tuning, by learning rate (in brackets the number "
        f"of seeds if there are several; one image is {1 / setting.held_back:.2%}):",
        "",
        *(
            f"- {row.name}: {', '.join(starmap(_tried_cell, row.tried.items()))}"
            for row in rows
            if row.tuned
        ),
    ]
    if missed := not_run(model, rows):
        lines += ["", "Of the full grid these were not run:", "", *missed]
    return lines
