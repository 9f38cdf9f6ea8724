"""Whatever people write, learners compute what a stock session does, over hundreds of runs.

`TENSORBOW_FUZZ=10000` draws so many programs at random, within `TENSORBOW_FUZZ_SECONDS`, and
trains each on two and on three learners; without it the same few are drawn every time, for two
or three. `tests/oracle/grammar/campaign.py` counts how thousands went.
"""

import threading

import hypothesis
import numpy as np
import pytest

from tests import fuzz
from tests.oracle.grammar import long_runs, watch, words
from tests.oracle.grammar.program import Program

PROGRAMS = 45
budget = fuzz.Budget()


@fuzz.settings(PROGRAMS)
@hypothesis.given(words.programs())
def test_every_program_is_trained_as_in_a_stock_session(program):
    if budget.is_spent() or words.is_known(program):
        return
    hypothesis.note(f"As a test: long_runs.check({program!r})")
    long_runs.check(program, learners=(2, 3) if fuzz.FUZZ else (2 + program.seed % 2,))


# ------------------------------------------------------------------ tests of the comparison


def test_a_wait_without_end_is_a_failure_that_says_where():
    event = threading.Event()
    with pytest.raises(AssertionError, match=r"(?s)no end in 0 s; it waits here:.*wait"):
        watch.within(0.05, event.wait)
    event.set()


def _trace(weight, loss=1.0):
    weights = {"w": np.array([weight, 1000.0])}
    return long_runs.Trace([{"loss": np.float64(loss)}] * 2, {1: weights})


def test_the_first_difference_is_reported_with_its_run():
    run, said = long_runs.first_difference(_trace(2.0), _trace(2.1), 1e-9)
    assert run == 1
    assert "after run 1 variable 'w'" in said
    run, said = long_runs.first_difference(_trace(2.0, loss=1.1), _trace(2.0), 1e-9)
    assert run == 0
    assert "fetch 'loss'" in said


def test_rounding_is_no_difference():
    assert long_runs.first_difference(_trace(2.0), _trace(2.0 + 1e-10), 1e-9) == (-1, "")


def test_a_difference_is_no_rounding(monkeypatch):
    comparison = long_runs.Comparison(Program(), runs=5)
    off = long_runs.stock_trace(comparison.built, 5)
    off.fetches[3]["loss"] *= 1 + 1e-6
    monkeypatch.setattr(long_runs, "on_learners", lambda *rest: (off, []))
    outcome = comparison.with_learners(2)
    assert "after run 3 fetch 'loss'" in outcome.difference
    assert not outcome.chaotic


@pytest.mark.parametrize("attempt", range(3))
def test_the_same_words_make_the_same_program(attempt):
    random = [np.random.default_rng(attempt) for _ in range(2)]
    first, second = (
        words.compose(lambda names, r=r: names[r.integers(len(names))]) for r in random
    )
    assert first == second
