"""The contenders for time to accuracy, and their training runs, which are kept in a file."""

from __future__ import annotations

import dataclasses
import inspect
import json
import pathlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from contenders import EMA_DECAY, Contender

LAST = 5  # the number of evaluations whose median counts
KINDS = ("plain", "averaged")  # the weights themselves, and their exponential moving average


def medians_of_last(accuracy: Sequence[float], last: int = LAST) -> list[float]:
    """Returns the median of each evaluation and the `last` - 1 before it; NaN for the first
    ones."""
    return [
        float(np.median(accuracy[k + 1 - last : k + 1])) if k + 1 >= last else float("nan")
        for k in range(len(accuracy))
    ]


def samples_to_target(
    samples: Sequence[int], accuracy: Sequence[float], target: float, last: int = LAST
) -> float | None:
    """Returns the samples at which the median of the last evaluations first reaches the target.

    Interpolates linearly between the evaluation that reaches it and the one before. If the first
    median reaches it, returns its own samples; if none does, None.
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
        """The rows of one run."""
        return self.learners * self.batch

    def name(self, averaged: bool = False) -> str:
        """The name in tables."""
        name = f"batch {self.batch}" + (f", momentum {self.momentum:g}" if self.momentum else "")
        if self.way == "stock":
            name = f"tf.Session, {name}"
        else:
            some = f"{self.learners} learner{'s' if self.learners > 1 else ''}"
            name = f"{self.way}, {some}, {name}"
        return name + (" + average" if averaged else "")

    def contender(self, averaged: bool) -> Contender:
        """Returns the contender for interleave.py."""
        settings: dict[str, Any] = {"momentum": self.momentum, "average": averaged}
        if self.way == "stock":
            return Contender(self.name(averaged), "stock_session", self.rows, settings)
        settings |= {"learners": self.learners, "synchroniser": self.way}
        return Contender(self.name(averaged), "tensorbow_session", self.rows, settings)


@dataclasses.dataclass(frozen=True)
class Lengths:
    """The lengths of runs, in samples: at most `longest`, evaluated every `every` from `first`
    on."""

    longest: int
    every: int
    first: int


@dataclasses.dataclass(frozen=True)
class Setting:
    """How a model is trained, tuned and evaluated.

    Attributes:
      target: accuracy to reach.
      final, tuning: lengths of the runs that count, and of those that choose a rate.
      held_back: training images that tuning is judged on.
      rate: where the search begins: plain gradient descent with 16 rows.
      finely: whether it ends in factors of √2 (else with the best two rates), in the mean
        of some seeds.
    """

    target: float
    final: Lengths
    tuning: Lengths
    held_back: int
    rate: float
    finely: bool = True


_LENET_QUICK = Setting(
    0.99, Lengths(120_000, 4_000, 12_000), Lengths(24_000, 2_000, 16_000), 3_000, rate=0.2
)
_LENET = Setting(
    0.99, Lengths(600_000, 5_000, 5_000), Lengths(180_000, 5_000, 5_000), 5_000, rate=0.2
)
_RESNET_QUICK = Setting(
    0.5,
    Lengths(150_000, 2_500, 5_000),
    Lengths(50_000, 5_000, 30_000),
    1_000,
    rate=0.1,
    finely=False,
)
_RESNET = Setting(
    0.6, Lengths(500_000, 5_000, 5_000), Lengths(200_000, 5_000, 5_000), 1_000, rate=0.1
)
# The settings by model, and by whether it is the quick grid.
SETTINGS = {
    ("lenet", False): _LENET,
    ("lenet", True): _LENET_QUICK,
    ("resnet20", False): _RESNET,
    ("resnet20", True): _RESNET_QUICK,
}


def grid(model: str, quick: bool) -> list[Recipe]:
    """Returns the recipes to compare, most informative first."""
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
        if learners > 1 or way == "SMA"  # with one learner all ways are the same
    ]
    return stock + ours


def missing(way: str, averaged: bool = False) -> str | None:
    """Returns the feature that the installed package lacks for this contender; None if none."""
    if way == "stock":
        return None
    import tensorbow

    made = getattr(tensorbow, way, None)
    if made is None:
        return f"tensorbow.{way}"
    if averaged and "ema_decay" not in inspect.signature(made).parameters:
        return f"ema_decay of tensorbow.{way}"
    return None


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
    """Yields the row indices of run after run, shuffled again for every pass."""
    random = np.random.default_rng(seed)
    left = np.empty(0, np.int64)
    while True:
        while len(left) < rows:
            left = np.concatenate([left, random.permutation(count)])
        yield left[:rows]
        left = left[rows:]


class Task:
    """A model on a data set, divided into rows for training and rows for evaluation."""

    def __init__(self, model: str, data: Any, setting: Setting, tuning: bool) -> None:
        self.model, self.setting, self.tuning = model, setting, tuning
        x, y = data.x_train, data.y_train
        if tuning:  # the same rows for all contenders; never the test set
            order = np.random.default_rng(0).permutation(len(x))
            train, evaluate = order[setting.held_back :], order[: setting.held_back]
            self.train, self.evaluate = (x[train], y[train]), (x[evaluate], y[evaluate])
        else:
            self.train, self.evaluate = (x, y), (data.x_test, data.y_test)
        self.lengths = setting.tuning if tuning else setting.final

    def key(self, recipe: Recipe, rate: float, seed: int) -> dict[str, Any]:
        """Returns the facts on which a run's result depends."""
        return {
            "model": self.model,
            "tuning": self.tuning,
            "rows": [len(self.train[0]), len(self.evaluate[0])],
            "evaluations": [self.lengths.first, self.lengths.every, self.lengths.longest],
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
                pin_threads=False,  # other programs may compute on this machine meanwhile
            )
            session = tensorbow.TensorBowSession(graph=program.graph, options=options)
        curves: dict[str, list[float]] = {kind: [] for kind in kinds}
        samples: list[int] = []
        open_kinds = set(kinds)
        with session, tf1.Session(graph=program.graph, config=config) as evaluation:
            session.run(program.init)
            evaluation.run(program.init)
            average = Average(session.run(weights)) if "averaged" in kinds else None
            seen, following = 0, self.lengths.first
            for index in batches(recipe.rows, len(images), seed):
                if seen >= self.lengths.longest or not open_kinds:
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
                following += self.lengths.every
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
    """Finished runs, kept in a file; trains the missing ones."""

    def __init__(self, path: pathlib.Path, threads: int, deadline: float) -> None:
        self._path, self._threads, self._deadline = path, threads, deadline
        self._done: list[dict[str, Any]] = []
        if path.exists():
            self._done = [json.loads(line) for line in path.read_text().splitlines()]

    def find(self, key: dict[str, Any], kinds: Sequence[str]) -> dict[str, Any] | None:
        """Returns the run's curves if the file has them, even if each kind is from another run."""
        found: dict[str, Any] = {}
        for run in self._done:
            if run["key"] == key:
                curves = run["curves"]
                found = {**curves, **found}
                found["samples"] = max(found["samples"], curves["samples"], key=len)
        return found if set(kinds) <= found.keys() else None

    def latest(self, key: dict[str, Any]) -> dict[str, Any]:
        """Returns the record last appended under this key, or an empty one."""
        return next((run["curves"] for run in reversed(self._done) if run["key"] == key), {})

    def append(self, key: dict[str, Any], curves: dict[str, Any], seconds: float) -> None:
        """Appends a finished run."""
        self._done.append({"key": key, "curves": curves, "seconds": round(seconds, 1)})
        with self._path.open("a") as file:
            file.write(json.dumps(self._done[-1]) + "\n")

    def get(
        self, task: Task, recipe: Recipe, rate: float, seed: int, kinds: Sequence[str] = KINDS
    ) -> dict[str, Any] | None:
        """Returns a run's curves, trained now if necessary; None when there is no time left."""
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
