"""One session with every kind of run at once, each from a thread of its own.

TENSORBOW_STRESS_SECONDS makes each case longer, 3 without it, and adds the other numbers of
learners.
"""

import os

import pytest

from tests.python import own_process, stress_program

SECONDS = float(os.environ.get("TENSORBOW_STRESS_SECONDS", "3"))


LEARNERS = {"sma": 4, "sma_lagging": 2, "ssgd": 4, "independent": 2, "adaptive": 2}
OTHERS = {name: 6 - learners for name, learners in LEARNERS.items()}
ALL = "TENSORBOW_STRESS_SECONDS" in os.environ


@pytest.mark.parametrize(
    ("synchroniser", "learners"), [*LEARNERS.items(), *(OTHERS.items() if ALL else ())]
)
def test_all_kinds_of_runs_at_once_go_on_and_end(synchroniser, learners, tmp_path):
    """Uses two cores, so that four learners exceed them. The program ends itself, with its threads'
    stacks, when a thread stops for ever."""
    outcome = own_process.call(
        *(stress_program.execute, synchroniser, learners, SECONDS, str(tmp_path)),
        seconds=SECONDS + stress_program.PATIENCE_SECONDS + 60,
    )
    assert outcome["errors"] == {}
    assert min(outcome["counts"].values()) >= stress_program.LEAST_RUNS, outcome
    assert outcome["finite"]
    if synchroniser == "ssgd":
        assert outcome["equal"]
