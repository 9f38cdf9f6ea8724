"""Several hundred runs of a drawn program, compared between learners and a stock session."""

from __future__ import annotations

import dataclasses
import re
import warnings
from typing import Any

import numpy as np
import tensorflow as tf

import tensorbow
from tests.oracle.grammar.program import Built, Program, Runs
from tests.oracle.grammar.watch import within

tf1 = tf.compat.v1

RUNS = 200
LEARNERS = (2, 3)
LIMIT_S = 90.0  # for one session of a program
EVERY = 20  # runs between comparisons of all variables
FIRST_RUNS = 3  # all variables are compared after each of these

# Relative to the largest element. Weights are float64: only the order of sums differs.
TOLERANCE = 1e-9
# TensorFlow's own metrics and losses, and fused normalisation, compute in float32.
FLOAT32_TOLERANCE = 2e-5
FLOAT32_PROGRAM_TOLERANCE = 1e-3
# The rounding errors by which a disturbed stock session starts.
ROUNDING_ERROR, FLOAT32_ROUNDING = 4e-16, 6e-8
# The largest allowed difference between learners and stock, as a multiple of that of other stock
# sessions.
ROUNDING = 100.0
# Stock sessions that start as the first one did (ops in a race may end it elsewhere), and disturbed
# ones. They are needed only if learners differ.
REPETITIONS, DISTURBANCES = 3, 8


@dataclasses.dataclass
class Trace:
    """Results of a session: fetches of every run, variables after some runs."""

    fetches: list[dict[str, np.ndarray]] = dataclasses.field(default_factory=list)
    variables: dict[int, dict[str, np.ndarray]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Outcome:
    """The outcome of a program on some learners.

    Attributes:
      difference: the first value that is not stock's, or "".
      alone: why one learner executed a run, or "".
      chaotic: True if another stock session differs as much, through rounding or a race.
    """

    learners: int
    difference: str = ""
    alone: str = ""
    warnings: list[str] = dataclasses.field(default_factory=list)
    chaotic: bool = False


def _read_after(run: int) -> bool:
    return run < FIRST_RUNS or run % EVERY == EVERY - 1 or run == RUNS - 1


def trace(built: Built, session: Any, runs: int, disturbance: int | None = None) -> Trace:
    """Trains; `disturbance`: the seed of rounding errors by which weights start away."""
    found = Trace()
    session.run(built.init)
    if disturbance is not None:
        _disturb(built, session, disturbance)
    steps = Runs(built, session)
    for run in range(runs):
        try:
            found.fetches.append(steps.run(run))
        except Exception as error:
            raise AssertionError(f"run {run}: {type(error).__name__}: {error}") from error
        if _read_after(run):
            found.variables[run] = session.run(built.variables)
    return found


def _disturb(built: Built, session: Any, seed: int) -> None:
    random = np.random.default_rng(seed)
    rounding = FLOAT32_ROUNDING if built.program.is_float32 else ROUNDING_ERROR
    for variable in built.scope.weights.values():
        value = session.run(variable)
        variable.load(value * (1 + rounding * random.choice([-1, 1], value.shape)), session)


def stock_trace(built: Built, runs: int, disturbance: int | None = None) -> Trace:
    with tf1.Session(graph=built.graph) as session:
        return trace(built, session, runs, disturbance)


def _size(value: np.ndarray) -> float:
    """Returns the largest finite element."""
    return float(np.max(np.abs(value[np.isfinite(value)]), initial=0.0))


def _far(got: Any, wanted: Any, tolerance: float, scale: float) -> str:
    """Returns how a value differs, or nothing."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        return f"is {got.dtype}{got.shape}, stock's is {wanted.dtype}{wanted.shape}"
    if wanted.dtype.kind != "f":
        return (
            "" if (got == wanted).all() else f"is {got.ravel()[:6]}, stock's {wanted.ravel()[:6]}"
        )
    if wanted.dtype == np.float32:
        tolerance = max(tolerance, FLOAT32_TOLERANCE)
    allowed = tolerance * max(_size(wanted), scale, 1e-3)
    if np.allclose(got, wanted, rtol=tolerance, atol=allowed, equal_nan=True):
        return ""
    off = float(np.max(np.abs(got - wanted), initial=0.0))
    return f"is {got.ravel()[:6]}, stock's {wanted.ravel()[:6]} (off by {off:.3g})"


def first_difference(got: Trace, wanted: Trace, tolerance: float) -> tuple[int, str]:
    """Returns the run and the text of the first difference; (-1, "") without one."""
    sizes: dict[str, float] = {}
    for run, fetched in enumerate(wanted.fetches):
        pairs = {f"fetch {n!r}": (v, got.fetches[run].get(n)) for n, v in fetched.items()}
        for name, value in wanted.variables.get(run, {}).items():
            pairs[f"variable {name!r}"] = value, got.variables[run].get(name)
        for name, (expected, value) in pairs.items():
            said = _far(value, expected, tolerance, sizes.get(name, 0.0))
            if said:
                return run, f"after run {run} {name} {said}"
            if np.asarray(expected).dtype.kind == "f":
                # A value that becomes small keeps the rounding of a large one.
                sizes[name] = max(0.9 * sizes.get(name, 0.0), _size(np.asarray(expected)))
    return -1, ""


def _reason(said: list[str]) -> str:
    """Returns why one learner executed a run, without names."""
    for text in said:
        if "one learner" in text:
            return re.sub(r"'[^']*'", "…", text.split(": ", 1)[-1])[:160]
    return ""


def on_learners(built: Built, learners: int, runs: int) -> tuple[Trace, list[str]]:
    """Trains with default options; returns the warnings, too."""
    options = tensorbow.Options(learners_per_device=learners)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with tensorbow.TensorBowSession(graph=built.graph, options=options) as session:
            found = trace(built, session, runs)
    said = [str(w.message) for w in caught if issubclass(w.category, tensorbow.TensorBowWarning)]
    return found, said


class Comparison:
    """A program in a stock session, with which learners are compared."""

    def __init__(self, program: Program, runs: int = RUNS) -> None:
        self.program, self.runs = program, runs
        self.built = Built(program)
        self.stock = within(LIMIT_S, lambda: stock_trace(self.built, runs))
        self.tolerance = FLOAT32_PROGRAM_TOLERANCE if program.is_float32 else TOLERANCE

    def with_learners(self, learners: int) -> Outcome:
        """Trains and compares; raises AssertionError for an error or a hang."""
        found, said = within(LIMIT_S, lambda: on_learners(self.built, learners, self.runs))
        outcome = Outcome(learners, alone=_reason(said), warnings=said)
        run, outcome.difference = first_difference(found, self.stock, self.tolerance)
        if outcome.difference and self._is_rounding(found):
            outcome.difference, outcome.chaotic = "", True
        return outcome

    def _is_rounding(self, found: Trace) -> bool:
        """Returns whether another stock session ends as far from the first one.

        A program may magnify rounding, for example one that compares a mean with a threshold equal
        to it. How far that leads is measured run by run; a race may be lost in any run.
        """
        magnified = np.zeros(self.runs)
        distances = np.array(_distances(found, self.stock))
        for seed in [None] * REPETITIONS + list(range(5, 5 + DISTURBANCES)):
            other = within(LIMIT_S, lambda seed=seed: stock_trace(self.built, self.runs, seed))
            spread = np.maximum.accumulate(_distances(other, self.stock))
            magnified = np.maximum(magnified, spread[-1] if seed is None else spread)
            if ((distances <= self.tolerance) | (distances <= ROUNDING * magnified)).all():
                return True
        return False


def _distances(a: Trace, b: Trace) -> list[float]:
    """Returns, by run, the largest distance of a fetch or variable, relative to its size."""
    return [
        max(
            [_distance(a.fetches[run][n], v) for n, v in b.fetches[run].items()]
            + [_distance(a.variables[run][n], v) for n, v in b.variables.get(run, {}).items()],
            default=0.0,
        )
        for run in range(len(b.fetches))
    ]


def _distance(got: Any, wanted: Any) -> float:
    got, wanted = np.asarray(got), np.asarray(wanted)
    if got.shape != wanted.shape or (np.isfinite(got) != np.isfinite(wanted)).any():
        return np.inf
    finite = np.isfinite(wanted)
    difference = np.abs(got[finite].astype(float) - wanted[finite].astype(float))
    distance = float(np.max(difference, initial=0.0)) / max(_size(wanted), 1e-3)
    is_rounded = wanted.dtype == np.float32 and distance < FLOAT32_TOLERANCE
    return 0.0 if is_rounded else distance


def check(
    program: Program, runs: int = RUNS, learners: tuple[int, ...] = LEARNERS
) -> list[Outcome]:
    """Raises AssertionError if learners differ from stock; returns their outcome."""
    comparison = Comparison(program, runs)
    outcomes = []
    for number in learners:
        try:
            outcome = comparison.with_learners(number)
        except AssertionError as error:
            raise AssertionError(f"{number} learners, {error}") from error
        assert not outcome.difference, f"{number} learners, {outcome.difference}"
        outcomes.append(outcome)
    return outcomes
