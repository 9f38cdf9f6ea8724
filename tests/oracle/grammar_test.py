"""Whatever people write, learners compute what a stock session does, over hundreds of runs.

`TENSORBOW_FUZZ=10000` draws so many programs at random, within `TENSORBOW_FUZZ_SECONDS`;
without it the same few are drawn every time.
"""

import os
import time

import hypothesis
import pytest

from tests.oracle.grammar import long_runs, watch, words

FUZZ = int(os.environ.get("TENSORBOW_FUZZ", 0))
SECONDS = float(os.environ.get("TENSORBOW_FUZZ_SECONDS", 1800 if FUZZ else 120))
PROGRAMS = FUZZ or 60


@pytest.fixture(scope="module")
def end():
    return time.monotonic() + SECONDS


@hypothesis.settings(
    max_examples=PROGRAMS,
    derandomize=not FUZZ,
    database=None,
    deadline=None,
    print_blob=False,
    suppress_health_check=list(hypothesis.HealthCheck),
)
@hypothesis.given(program=words.programs())
def test_every_program_is_trained_as_in_a_stock_session(end, program):
    if time.monotonic() > end or words.is_known(program):
        return
    hypothesis.note(f"As a test: long_runs.check({program!r})")
    long_runs.check(program)


def test_nothing_is_known_to_differ():
    assert not words.KNOWN


# ------------------------------------------------------------------ what compares, itself


def test_a_wait_without_end_is_a_failure_that_says_where():
    event = watch.threading.Event()
    with pytest.raises(AssertionError, match=r"no end in 0 s; it waits here:\n.*wait"):
        watch.within(0.05, event.wait)
    event.set()
