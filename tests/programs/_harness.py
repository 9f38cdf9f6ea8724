"""Runs a program on stock sessions and on TensorBow's, and compares."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import importlib.util
import os
import pathlib
import random
import re
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
# Makes stock sessions and learners use the same kernels, on any processor.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

import numpy as np
import tensorflow as tf

import tensorbow
from tests.programs._judgement import Quality
from tests.python.messages import without_lines

tf1 = tf.compat.v1
tf1.disable_eager_execution()

# The first session of a process fixes the number of threads inside stock operations for all of
# them. One thread makes bitwise comparisons independent of the machine. It keeps off the GPU, if a
# process has one (benchmarks/gpu_programs.py).
ONE_THREAD = tf1.ConfigProto(
    intra_op_parallelism_threads=1, inter_op_parallelism_threads=1, device_count={"GPU": 0}
)
tf1.Session(graph=tf.Graph(), config=ONE_THREAD).close()

SEEDS = (1, 2, 3)
_STOCK_RUNS = 4


@dataclasses.dataclass(frozen=True)
class Outcome:
    """The results of a program.

    Attributes:
        quality: the value of its `QUALITY`.
        numbers: everything else that it would print, by name; arrays or scalars.
    """

    quality: float
    numbers: dict[str, Any]


class Sessions:
    """The source of a program's sessions; this one opens stock sessions."""

    def Session(self, graph=None, config=None):  # noqa: N802
        return tf1.Session(graph=graph, config=config)

    def InteractiveSession(self, graph=None, config=None):  # noqa: N802
        return tf1.InteractiveSession(graph=graph, config=config)

    def session_creator(self, scaffold=None, checkpoint_dir=None):
        return tf1.train.ChiefSessionCreator(scaffold, checkpoint_dir=checkpoint_dir)

    def session_manager(self, **arguments):
        return tf1.train.SessionManager(**arguments)


class LearnerSessions(Sessions):
    """Opens TensorBow's sessions, and remembers them."""

    def __init__(self, learners: int) -> None:
        self.options = tensorbow.Options(learners_per_device=learners)
        self.opened: list[Any] = []
        self.devices: list[str] = []

    def _remember(self, session):
        self.opened.append(session)
        self.devices.extend(session.learner_devices)
        return session

    def Session(self, graph=None, config=None):  # noqa: N802
        return self._remember(
            tensorbow.TensorBowSession(graph=graph, config=config, options=self.options)
        )

    def InteractiveSession(self, graph=None, config=None):  # noqa: N802
        return self._remember(
            tensorbow.InteractiveSession(graph=graph, config=config, options=self.options)
        )

    def session_creator(self, scaffold=None, checkpoint_dir=None):
        creator = tensorbow.SessionCreator(
            scaffold, checkpoint_dir=checkpoint_dir, options=self.options
        )
        create = creator.create_session
        creator.create_session = lambda: self._remember(create())
        return creator

    def session_manager(self, **arguments):
        manager = tensorbow.SessionManager(options=self.options, **arguments)
        prepare = manager.prepare_session
        manager.prepare_session = lambda *a, **k: self._remember(prepare(*a, **k))
        return manager


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of a program.

    Attributes:
        outcome: its results.
        learning_tasks: of all its sessions together.
        iterations: of all its sessions together.
        warnings: TensorBow's warnings.
        num_learners: of each of its sessions.
        devices: the devices of its sessions' learners.
    """

    outcome: Outcome
    learning_tasks: int = 0
    iterations: int = 0
    warnings: tuple[str, ...] = ()
    num_learners: int = 1
    devices: tuple[str, ...] = ()

    @property
    def learners(self) -> str:
        """The learners that trained: "2 learners", "1 learner", or both in turn."""
        if self.learning_tasks <= self.iterations:
            return "1 learner"
        if any("one learner only" in text for text in self.warnings):
            return f"{self.num_learners} learners; some runs 1"
        return f"{self.num_learners} learners"


@contextlib.contextmanager
def version_1_behaviour() -> Iterator[None]:
    """Sets reference variables and control flow of 1.x, as after tf.disable_v2_behavior()."""
    flow, resource = tf1.control_flow_v2_enabled(), tf1.resource_variables_enabled()
    tf1.disable_control_flow_v2()
    tf1.disable_resource_variables()
    try:
        yield
    finally:
        if flow:
            tf1.enable_control_flow_v2()
        if resource:
            tf1.enable_resource_variables()


def program(name: str) -> Any:
    """Returns the module of a program."""
    return importlib.import_module(f"tests.programs.{name}")


def missing_packages(name: str) -> list[str]:
    """Returns the packages among a program's `PACKAGES` that are not installed."""
    packages = getattr(program(name), "PACKAGES", ())
    return [package for package in packages if importlib.util.find_spec(package) is None]


def run(name: str, seed: int, learners: int | None = None) -> Run:
    """Runs a program; on stock sessions if `learners` is None."""
    module = program(name)
    sessions = Sessions() if learners is None else LearnerSessions(learners)
    random.seed(seed)
    np.random.seed(seed)
    with contextlib.ExitStack() as stack:
        directory = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        caught = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        stack.enter_context(version_1_behaviour())
        stack.enter_context(tf.Graph().as_default())
        tf1.set_random_seed(seed)
        outcome = module.train(sessions, seed, directory)
    opened = getattr(sessions, "opened", [])
    # A session still counts after close(); a monitored one hides the session it wraps.
    return Run(
        outcome,
        learning_tasks=sum(s.learning_tasks for s in opened),
        iterations=sum(s.iterations for s in opened),
        warnings=tuple(
            str(w.message) for w in caught if issubclass(w.category, tensorbow.TensorBowWarning)
        ),
        num_learners=learners or 1,
        devices=tuple(getattr(sessions, "devices", ())),
    )


def differences(stock: Outcome, ours: Outcome) -> list[str]:
    """Returns the numbers that differ in any bit."""
    pairs = {"quality": (stock.quality, ours.quality)}
    assert stock.numbers.keys() == ours.numbers.keys()
    pairs |= {name: (stock.numbers[name], ours.numbers[name]) for name in stock.numbers}
    return [
        f"{name}: stock {a!r}, one learner {b!r}"
        for name, (a, b) in pairs.items()
        if not np.array_equal(np.asarray(a), np.asarray(b), equal_nan=False)
    ]


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A program on stock sessions and on TensorBow's, over some seeds.

    Attributes:
        title: the subject of the program.
        quality: the measure of its results.
        stock: its quality on stock sessions, by seed.
        one: with one learner, first seed.
        several: with several learners, by seed.
        differences: numbers of the first seed that one learner does not reproduce.
        numbers: the number of compared numbers.
        learners: the learners that trained with several.
        warnings: the warnings in that case.
    """

    title: str
    quality: Quality
    stock: list[float]
    one: float
    several: list[float]
    differences: list[str]
    numbers: int
    learners: str
    warnings: tuple[str, ...]

    @property
    def noise(self) -> float:
        """The spread of stock's own results over the seeds, at least the tolerance."""
        return self.quality.noise(self.stock)

    @property
    def worse_by(self) -> float:
        """The distance by which the mean of several learners is worse than stock's mean."""
        return self.quality.worse_by(self.stock, self.several)

    @property
    def reason(self) -> str:
        """The reason why several learners do not help, in a few words; empty if they do."""
        reasons = []
        for text in map(without_lines, self.warnings):
            why = re.search(r"without guessing: (.*?)\. Name the feeds", text)
            if why and re.search(r" has \d+ rows, ", why[1]):
                reasons.append("feeds of different numbers of rows")
            elif why:
                reasons.append(re.sub(r"'\w+:0'", "a feed", why[1]))
            elif re.search(r"all \d+ learners compute the same", text):
                reasons.append("a run without feeds, data or random numbers")
            elif why := re.search(r"its rows cannot be divided: (.*)", text):
                reasons.append(re.sub(r" '[^']*'", "", why[1]))
            elif "neither its feeds nor what it takes from a pipeline have rows" in text:
                reasons.append("a run without rows")
            elif "where learners cannot average it" in text:
                reasons.append("a gradient is written where learners cannot average it")
            else:
                reasons.append(text)
        return "; ".join(sorted(set(reasons)))


def compare(name: str, learners: int = 2, seeds: Sequence[int] = SEEDS) -> Comparison:
    """Runs a program over all `seeds` on stock sessions and on `learners` learners, once on one.

    A stock session may read a reference variable before or after its update in the same run, and
    may not repeat itself. One learner differs if it equals stock in none of several runs.
    """
    module = program(name)
    stock = [run(name, seed) for seed in seeds]
    one = run(name, seeds[0], learners=1)
    different = differences(stock[0].outcome, one.outcome)
    for _ in range(_STOCK_RUNS - 1):
        if not different:
            break
        different = differences(run(name, seeds[0]).outcome, one.outcome)
    several = [run(name, seed, learners) for seed in seeds]
    return Comparison(
        title=module.__doc__.strip(),
        quality=module.QUALITY,
        stock=[float(r.outcome.quality) for r in stock],
        one=float(one.outcome.quality),
        several=[float(r.outcome.quality) for r in several],
        differences=different,
        numbers=1 + sum(np.size(value) for value in stock[0].outcome.numbers.values()),
        learners="; ".join(sorted({r.learners for r in several})),
        warnings=tuple(sorted({text for r in several for text in r.warnings})),
    )
