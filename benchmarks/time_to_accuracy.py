"""How soon a target accuracy is reached: stock TensorFlow against TensorBow.

    python benchmarks/time_to_accuracy.py --model lenet --data mnist.npz --cache RUNS.jsonl
    python benchmarks/time_to_accuracy.py --model lenet --throughput --cache RUNS.jsonl

Two questions are kept apart. *Statistical efficiency*: how many samples a contender needs,
which no other program on the machine can change. *Hardware efficiency*: how many samples
it trains on in a second, which `--throughput` measures for all of them in turn on an idle
machine. Time to accuracy is the first divided by the second.

Every contender has its own learning rate, found by hill climbing in factors of two (and
then, where that is affordable, of √2 over three seeds) on a part of the training data that is
held back; the test set is used for the final runs only.
Accuracy after an evaluation is the median of the last five (as CROSSBOW, VLDB 2019,
section 5.1, has it). Each finished run is appended to the cache, so that the benchmark can
be interrupted and continued. Writes benchmarks/results/NAME.{json,md}.
"""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
import os
import pathlib
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import starmap
from typing import Any

import numpy as np
from contenders import EMA_DECAY, Contender
from interleave import machine, measure, spread

RESULTS = pathlib.Path(__file__).parent / "results"
LAST = 5  # evaluations whose median counts
KINDS = ("plain", "averaged")  # the weights themselves, their exponential moving average
FINE_SEEDS = 3  # in the last part of tuning
MAX_LOAD = 0.6  # per core, for measuring samples/s


# ------------------------------------------------------------------------- statistics


def medians_of_last(accuracy: Sequence[float], last: int = LAST) -> list[float]:
    """The median of each evaluation and the `last` - 1 before it; NaN before there are any."""
    return [
        float(np.median(accuracy[k + 1 - last : k + 1])) if k + 1 >= last else float("nan")
        for k in range(len(accuracy))
    ]


def samples_to_target(
    samples: Sequence[int], accuracy: Sequence[float], target: float, last: int = LAST
) -> float | None:
    """Samples at which the median of the last evaluations first reaches the target.

    Interpolated linearly between the evaluation that reaches it and the one before; where
    already the first median is there, its own samples. None if it is never reached.
    """
    medians = medians_of_last(accuracy, last)
    for k, reached in enumerate(medians):
        if not reached >= target:
            continue
        if k == 0 or np.isnan(medians[k - 1]):
            return float(samples[k])
        share = (target - medians[k - 1]) / (reached - medians[k - 1])
        return float(samples[k - 1] + share * (samples[k] - samples[k - 1]))
    return None


def score(samples: Sequence[int], accuracy: Sequence[float], target: float) -> tuple[float, float]:
    """What tuning minimises: samples to the target, then the mean error of the last evaluations.

    The mean, not the median: rates lie close together and it is less noisy.
    """
    reached = samples_to_target(samples, accuracy, target)
    return (
        float("inf") if reached is None else reached,
        1.0 - float(np.mean(accuracy[-LAST:])) if len(accuracy) >= LAST else 1.0,
    )


# ------------------------------------------------------------------------- contenders


@dataclasses.dataclass(frozen=True)
class Recipe:
    """A way to train, except for its learning rate.

    Attributes:
      way: "stock", or the name of a synchroniser.
      batch: rows of one learner's batch.
      momentum: of the learners' optimiser; 0 is plain gradient descent.
      learners: 1 for stock.
    """

    way: str
    batch: int
    momentum: float
    learners: int = 1

    @property
    def rows(self) -> int:
        """Rows of one run."""
        return self.learners * self.batch

    def name(self, averaged: bool = False) -> str:
        """As it appears in tables."""
        name = f"batch {self.batch}" + (f", momentum {self.momentum:g}" if self.momentum else "")
        if self.way == "stock":
            name = f"tf.Session, {name}"
        else:
            some = f"{self.learners} learner{'s' if self.learners > 1 else ''}"
            name = f"{self.way}, {some}, {name}"
        return name + (" + average" if averaged else "")

    def contender(self, averaged: bool) -> Contender:
        """The same for interleave.py."""
        settings: dict[str, Any] = {"momentum": self.momentum, "average": averaged}
        if self.way == "stock":
            return Contender(self.name(averaged), "stock_session", self.rows, settings)
        settings |= {"learners": self.learners, "synchroniser": self.way}
        return Contender(self.name(averaged), "tensorbow_session", self.rows, settings)


@dataclasses.dataclass(frozen=True)
class Setting:
    """How a model is trained, tuned and evaluated; all lengths in samples."""

    target: float
    longest: int
    evaluate_every: int
    evaluate_from: int
    tune_longest: int
    tune_every: int
    tune_from: int
    held_back: int
    rate: float  # where the search begins: plain gradient descent with 16 rows
    finely: bool = True  # whether it ends in factors of √2


# By model and whether it is the quick grid.
SETTINGS = {
    ("lenet", False): Setting(
        target=0.99,
        longest=600_000,
        evaluate_every=5_000,
        evaluate_from=5_000,
        tune_longest=180_000,
        tune_every=5_000,
        tune_from=5_000,
        held_back=5_000,
        rate=0.2,
    ),
    ("lenet", True): Setting(
        target=0.99,
        longest=120_000,
        evaluate_every=4_000,
        evaluate_from=12_000,
        tune_longest=24_000,
        tune_every=2_000,
        tune_from=16_000,
        held_back=3_000,
        rate=0.2,
    ),
    ("resnet20", False): Setting(
        target=0.6,
        longest=500_000,
        evaluate_every=5_000,
        evaluate_from=5_000,
        tune_longest=200_000,
        tune_every=5_000,
        tune_from=5_000,
        held_back=1_000,
        rate=0.1,
    ),
    ("resnet20", True): Setting(
        target=0.5,
        longest=150_000,
        evaluate_every=2_500,
        evaluate_from=5_000,
        tune_longest=50_000,
        tune_every=5_000,
        tune_from=30_000,
        held_back=1_000,
        rate=0.1,
        finely=False,
    ),
}


def grid(model: str, quick: bool) -> list[Recipe]:
    """What is compared, most informative first."""
    if quick:
        batches = {"lenet": (32, 16, 64), "resnet20": (32, 64, 128)}[model]
        return [
            Recipe("stock", batches[0], 0.9),
            Recipe("SMA", 16, 0.9, 2),
            *(Recipe("stock", batch, 0.9) for batch in batches[1:]),
            Recipe("SMA", 32, 0.9, 2),
            Recipe("SMA", 8, 0.9, 2),
            Recipe("SSGD", 16, 0.9, 2),
            Recipe("SSGD", 32, 0.9, 2),
            Recipe("EASGD", 16, 0.9, 2),
            Recipe("SMA", 16, 0.0, 2),
            *(Recipe("stock", batch, 0.0) for batch in batches),
            Recipe("SMA", 8, 0.9, 4),
            Recipe("SSGD", 8, 0.9, 4),
            Recipe("SMA", 16, 0.9, 4),
        ]
    stock = [Recipe("stock", b, m) for m in (0.9, 0.0) for b in (16, 32, 64, 8, 128)]
    ours = [
        Recipe(way, batch, momentum, learners)
        for learners in (2, 1, 4)
        for batch in (16, 32, 8)
        for momentum in (0.9, 0.0)
        for way in ("SMA", "EASGD", "SSGD")
        if learners > 1 or way == "SMA"  # one learner: they are all the same
    ]
    return stock + ours


def missing(way: str, averaged: bool = False) -> str | None:
    """What the installed package lacks for this contender; None if nothing."""
    if way == "stock":
        return None
    import tensorbow

    made = getattr(tensorbow, way, None)
    if made is None:
        return f"tensorbow.{way}"
    if averaged and "ema_decay" not in inspect.signature(made).parameters:
        return f"ema_decay of tensorbow.{way}"
    return None


# ------------------------------------------------------------------------------- runs


class Average:
    """The exponential moving average that `ema_decay` keeps: z̄ ← d·z̄ + (1 − d)·z.

    d = min(decay, (1 + t) / (10 + t)) in update t = 0, 1, …, as in
    tf.train.ExponentialMovingAverage. Kept here for all contenders alike, so that one run
    gives the curve of the weights and that of their average; the average changes nothing
    in the training.
    """

    _BLOCK = 1 << 15  # stays in a core's cache

    def __init__(self, values: Sequence[np.ndarray], decay: float = EMA_DECAY) -> None:
        self.values = [np.array(value) for value in values]
        self._decay = decay
        self._updates = 0

    def update(self, values: Sequence[np.ndarray]) -> None:
        """Moves the average towards `values`, new arrays of the same shapes."""
        keep = min(self._decay, (1 + self._updates) / (10 + self._updates))
        self._updates += 1
        for mine, new in zip(self.values, values):
            flat, other = mine.reshape(-1), new.reshape(-1)
            for k in range(0, flat.size, self._BLOCK):
                block = flat[k : k + self._BLOCK]
                block += (1 - keep) * (other[k : k + self._BLOCK] - block)


def batches(rows: int, count: int, seed: int) -> Iterator[np.ndarray]:
    """Indices of the rows of one run after the other, shuffled anew for every pass."""
    random = np.random.default_rng(seed)
    left = np.empty(0, np.int64)
    while True:
        while len(left) < rows:
            left = np.concatenate([left, random.permutation(count)])
        yield left[:rows]
        left = left[rows:]


class Task:
    """A model on a data set, divided into what is trained on and what is evaluated on."""

    def __init__(self, model: str, data: Any, setting: Setting, tuning: bool) -> None:
        self.model, self.setting, self.tuning = model, setting, tuning
        x, y = data.x_train, data.y_train
        if tuning:  # the same rows for everyone; never the test set
            order = np.random.default_rng(0).permutation(len(x))
            train, evaluate = order[setting.held_back :], order[: setting.held_back]
            self.train, self.evaluate = (x[train], y[train]), (x[evaluate], y[evaluate])
            self.longest, self.every = setting.tune_longest, setting.tune_every
            self.first = setting.tune_from
        else:
            self.train, self.evaluate = (x, y), (data.x_test, data.y_test)
            self.longest, self.every = setting.longest, setting.evaluate_every
            self.first = setting.evaluate_from

    def key(self, recipe: Recipe, rate: float, seed: int) -> dict[str, Any]:
        """What a run's result depends on."""
        return {
            "model": self.model,
            "tuning": self.tuning,
            "rows": [len(self.train[0]), len(self.evaluate[0])],
            "evaluations": [self.first, self.every, self.longest],
            "target": self.setting.target,
            **dataclasses.asdict(recipe),
            "rate": rate,
            "seed": seed,
        }

    def run(
        self, recipe: Recipe, rate: float, seed: int, kinds: Sequence[str], threads: int
    ) -> dict[str, Any]:
        """Trains until the curves `kinds` have reached the target, or for the longest.

        Returns:
          samples: of every evaluation; plain, averaged: accuracy, as far as evaluated.
        """
        import tensorflow as tf

        import tensorbow
        from tensorbow import models, training

        tf1 = tf.compat.v1
        rate_feed: Any = None

        def optimiser() -> Any:
            nonlocal rate_feed
            rate_feed = tf1.placeholder_with_default(np.float32(rate), [], name="rate")
            if recipe.momentum:
                return tf1.train.MomentumOptimizer(rate_feed, recipe.momentum)
            return tf1.train.GradientDescentOptimizer(rate_feed)

        images, labels = self.train
        program = models.build(self.model, images.shape[1:], 10, optimiser, seed=seed)
        with program.graph.as_default():
            weights, variables = tf1.trainable_variables(), tf1.global_variables()
        config = tf1.ConfigProto(
            intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads
        )
        session: Any
        if recipe.way == "stock":
            session = tf1.Session(graph=program.graph, config=config)
        else:
            options = tensorbow.Options(
                learners_per_device=recipe.learners,
                synchroniser=getattr(tensorbow, recipe.way)(),
                pin_threads=False,  # others may compute on this machine meanwhile
            )
            session = tensorbow.TensorBowSession(graph=program.graph, options=options)
        curves: dict[str, list[float]] = {kind: [] for kind in kinds}
        samples: list[int] = []
        open_kinds = set(kinds)
        with session, tf1.Session(graph=program.graph, config=config) as evaluation:
            session.run(program.init)
            evaluation.run(program.init)
            average = Average(session.run(weights)) if "averaged" in kinds else None
            seen, following = 0, self.first
            for index in batches(recipe.rows, len(images), seed):
                if seen >= self.longest or not open_kinds:
                    break
                feeds = {program.images: images[index], program.labels: labels[index]}
                _, loss = session.run([program.train_op, program.loss], feeds)
                if not np.isfinite(loss):
                    break
                seen += len(index)
                if average and "averaged" in open_kinds:
                    average.update(session.run(weights))
                if seen < following:
                    continue
                following += self.every
                samples.append(seen)
                central = dict(zip(variables, session.run(variables)))
                for kind in sorted(open_kinds):
                    values = dict(central)
                    if kind == "averaged" and average:
                        values |= zip(weights, average.values)
                    evaluation.run(
                        [v.initializer for v in values],
                        {v.initializer.inputs[1]: value for v, value in values.items()},
                    )
                    curves[kind].append(training.accuracy(evaluation, program, *self.evaluate))
                for kind in list(open_kinds):
                    target = self.setting.target
                    if samples_to_target(samples, curves[kind], target) is not None:
                        open_kinds.remove(kind)
        return {"samples": samples, **curves}


class Runs:
    """Finished runs, kept in a file; trains what is not there."""

    def __init__(self, path: pathlib.Path, threads: int, deadline: float) -> None:
        self._path, self._threads, self._deadline = path, threads, deadline
        self._done: list[dict[str, Any]] = []
        if path.exists():
            self._done = [json.loads(line) for line in path.read_text().splitlines()]

    def find(self, key: dict[str, Any], kinds: Sequence[str]) -> dict[str, Any] | None:
        """The run's curves if it was made, be it once for each kind."""
        found: dict[str, Any] = {}
        for run in self._done:
            if run["key"] == key:
                curves = run["curves"]
                found = {**curves, **found}
                found["samples"] = max(found["samples"], curves["samples"], key=len)
        return found if set(kinds) <= found.keys() else None

    def latest(self, key: dict[str, Any]) -> dict[str, Any]:
        """What was last appended under this key; nothing if nothing was."""
        return next((run["curves"] for run in reversed(self._done) if run["key"] == key), {})

    def append(self, key: dict[str, Any], curves: dict[str, Any], seconds: float) -> None:
        """Keeps a finished run."""
        self._done.append({"key": key, "curves": curves, "seconds": round(seconds, 1)})
        with self._path.open("a") as file:
            file.write(json.dumps(self._done[-1]) + "\n")

    def get(
        self, task: Task, recipe: Recipe, rate: float, seed: int, kinds: Sequence[str] = KINDS
    ) -> dict[str, Any] | None:
        """A run's curves, trained now if need be; None when there is no time left."""
        key = task.key(recipe, rate, seed)
        curves = self.find(key, kinds)
        if curves is None and time.monotonic() < self._deadline:
            start = time.monotonic()
            curves = task.run(recipe, rate, seed, kinds, self._threads)
            self.append(key, curves, time.monotonic() - start)
            ends = ", ".join(f"{k} {curves[k][-1]:.4f}" for k in kinds if curves[k])
            print(
                f"{'tuning' if task.tuning else 'final '} {recipe.name()}, rate {rate:g}, "
                f"seed {seed}: {ends or 'diverged'} after {curves['samples'][-1:]} samples, "
                f"{time.monotonic() - start:.0f} s",
                flush=True,
            )
        return curves


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


# ----------------------------------------------------------------------------- report


@dataclasses.dataclass
class Row:
    """A contender's results."""

    recipe: Recipe
    averaged: bool
    rate: float
    tuned: bool = True  # whether the rate is the one that tuning chose
    samples: list[float | None] = dataclasses.field(default_factory=list)  # to target, by seed
    curves: list[tuple[list[int], list[float]]] = dataclasses.field(default_factory=list)
    speeds: list[float] = dataclasses.field(default_factory=list)  # samples/s by slice
    # Held-back accuracy of each seed, by rate.
    tried: dict[float, list[float]] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        """Of the contender."""
        return self.recipe.name(self.averaged)

    @property
    def middle(self) -> float | None:
        """Median over the seeds of the samples to the target; None if half did not reach it."""
        values = sorted(float("inf") if s is None else s for s in self.samples)
        middle = float(np.median(values)) if values else float("inf")
        return middle if np.isfinite(middle) else None

    @property
    def seconds(self) -> float | None:
        """To the target."""
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
    """Markdown, fewest samples first."""
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
    """Median over the seeds of the accuracy against samples, and against seconds if measured."""
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


def train(
    runs: Runs,
    tuning: Task,
    final: Task,
    recipes: Sequence[Recipe],
    kinds: Sequence[str],
    seeds: int,
) -> dict[Recipe, dict[str, float]]:
    """Tunes and trains what is not in `runs` yet; the learning rates of each kind.

    All recipes with the first seed, then all with the second: an early end leaves
    something of each.
    """
    rates: dict[Recipe, dict[str, float]] = {}
    for seed in range(1, seeds + 1):
        for recipe in recipes:
            if recipe not in rates:
                rates[recipe] = tune(runs, tuning, recipe, kinds)
            mine = rates[recipe]
            for rate in sorted(set(mine.values())):
                runs.get(final, recipe, rate, seed, [k for k in mine if mine[k] == rate])
    return rates


def collect(
    runs: Runs, tuning: Task, final: Task, rates: dict[Recipe, dict[str, float]], seeds: int
) -> list[Row]:
    """What there are final runs of: contenders at their tuned rate, and at any other."""
    rows = []
    for recipe, mine in rates.items():
        for kind, tuned in mine.items():
            around = [rate_at(recipe, final.setting, place) for place in range(-18, 19)]
            tried = {}
            for rate in around:
                ends = [
                    1 - score(found["samples"], found[kind], np.inf)[1]
                    for seed in range(FINE_SEEDS)
                    if (found := runs.find(tuning.key(recipe, rate, seed), [kind]))
                ]
                if ends:
                    tried[rate] = ends
            for rate in around:
                row = Row(recipe, kind == "averaged", rate, rate == tuned, tried=tried)
                for seed in range(1, seeds + 1):
                    if found := runs.find(final.key(recipe, rate, seed), [kind]):
                        samples = found["samples"][: len(found[kind])]
                        row.curves.append((samples, [round(a, 5) for a in found[kind]]))
                        row.samples.append(
                            samples_to_target(samples, found[kind], final.setting.target)
                        )
                if row.curves:
                    rows.append(row)
    return rows


def comparison(rows: Sequence[Row], seeds: int) -> list[str]:
    """The best of both sides, in samples and, where measured, in seconds.

    Only of contenders at their tuned rate with all seeds: others were lucky or not.
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
    """What the full grid has and `rows` have not, a line for each way."""
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
    """The results as Markdown."""
    setting, model = task.setting, task.model
    lines = [
        f"# Time to accuracy: {model} to {setting.target:.0%}",
        "",
        f"{where['cpu']}, {where['cores']} cores, {where['memory_gib']} GiB; TensorFlow "
        f"{where['tensorflow']}, Python {where['python']}; {where['date']}. "
        f"{len(task.train[0]):,} training and {len(task.evaluate[0]):,} test images; {seeds} seeds "
        "unless said otherwise.",
        "",
        f"Test accuracy is the median of the last {LAST} evaluations, made every "
        f"{setting.evaluate_every:,} samples from {setting.evaluate_from:,} on (at most "
        f"{setting.longest:,} samples a run), so that no number below "
        f"{setting.evaluate_from + (LAST - 1) * setting.evaluate_every:,} is possible; samples to "
        "target are interpolated, and their median over the seeds is given. Learning rates were "
        "found for each contender by hill climbing in factors of two"
        f"{', then, where several seeds are given below, of √2' if setting.finely else ''}: "
        f"{setting.tune_longest:,} samples a run, judged on {setting.held_back:,} held-back "
        "training images. Momentum is the learners' optimiser's (heavy ball); SMA's own is "
        '"auto": 0.9 with plain gradient descent, 0 with momentum in the learners. "+ average" is '
        f"an exponential moving average ({EMA_DECAY}) of the weights (tf.Session) or of the "
        "central model (`ema_decay`), kept by the benchmark with one formula for all. Seconds are "
        "samples divided by samples/s.",
        "",
        *table(rows, setting.longest),
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=["lenet", "resnet20"], default="lenet")
    parser.add_argument("--data", type=pathlib.Path, help=".npz in the layout of Keras's MNIST")
    parser.add_argument("--cache", type=pathlib.Path, required=True, help="finished runs (JSONL)")
    parser.add_argument("--quick", action="store_true", help="fewer contenders, shorter runs")
    parser.add_argument("--only", help="contenders whose name contains this")
    parser.add_argument("--contenders", type=int, help="only the first so many of the grid")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=1e9, help="begin no run after so many")
    parser.add_argument("--threads", type=int, default=0, help="of stock sessions while training")
    parser.add_argument(
        "--throughput",
        action="store_true",
        help="train nothing; measure samples/s of what was trained (idle machine)",
    )
    parser.add_argument("--slices", type=int, default=15, help="of each contender's throughput")
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a slice")
    parser.add_argument("--plot", type=pathlib.Path, help="save a plot here (PNG)")
    parser.add_argument("--output", help="name of the result files")
    arguments = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    if arguments.throughput and os.getloadavg()[0] > MAX_LOAD * cores:
        sys.exit(
            f"samples/s need an idle machine: the load average is {os.getloadavg()[0]:.2f}, "
            f"wanted at most {MAX_LOAD * cores:.2f}; try again later"
        )

    import tensorflow as tf

    from tensorbow import datasets

    tf.compat.v1.disable_eager_execution()
    model, setting = arguments.model, SETTINGS[arguments.model, arguments.quick]
    data = datasets.load(arguments.data)
    tuning, final = (Task(model, data, setting, tuned) for tuned in (True, False))
    minutes = 0 if arguments.throughput else arguments.minutes
    runs = Runs(arguments.cache, arguments.threads, time.monotonic() + 60 * minutes)
    compared = grid(model, arguments.quick)
    recipes = [r for r in compared if not missing(r.way)]
    recipes = [r for r in recipes if not arguments.only or arguments.only in r.name()]
    absent = {what for r in compared for a in (False, True) if (what := missing(r.way, a))}

    rates = train(
        runs, tuning, final, recipes[: arguments.contenders], arguments.kinds, arguments.seeds
    )
    rows = collect(runs, tuning, final, rates, arguments.seeds)
    if not rows:
        sys.exit("no run is finished: nothing to report")
    where = machine()
    key = {"throughput": model, "cpu": where["cpu"], "cores": where["cores"]}
    if arguments.throughput:
        able = [r for r in rows if r.tuned and r.middle and not missing(r.recipe.way, r.averaged)]
        contenders = [r.recipe.contender(r.averaged) for r in able]
        runs.append(key, measure(model, contenders, arguments.slices, arguments.seconds), 0)
    speeds = runs.latest(key)
    for row in rows:
        row.speeds = speeds.get(row.name, [])  # whatever the rate

    lines = document(final, rows, where, absent, arguments.seeds)
    print("\n".join(lines))
    RESULTS.mkdir(exist_ok=True)
    name = arguments.output or f"time_to_accuracy_{model}"
    report = {
        "machine": where,
        "model": model,
        "setting": dataclasses.asdict(setting),
        "rows": [dataclasses.asdict(row) for row in rows],
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(report) + "\n")
    (RESULTS / f"{name}.md").write_text("\n".join(lines) + "\n")
    if arguments.plot:
        plot(rows, arguments.plot)


if __name__ == "__main__":
    main()
